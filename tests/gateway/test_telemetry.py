"""Spans and events, as OpenTelemetry's own SDK exports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.gateway.gatewaying import ATTACK, CHAT, HARMLESS, chat, gateway, provider
from tests.gateway.states import passport_of, phase_of, state_of
from tests.http.serving import serving

from demur.gateway.settings import MetricsPart
from demur.gateway.state import Principal
from demur.gateway.telemetry import open_telemetry
from demur.model.claim import Audit, Claim, ClaimType, ClaimValue, Decision, Effect, EnforcementGap, FiredRule, Phase
from demur.model.passport import DeclineCause, PhaseRecord
from demur.model.verdict import Outcome, Reason, Verdict

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def exporting() -> tuple[TracerProvider, InMemorySpanExporter]:
    tracers, exporter = TracerProvider(), InMemorySpanExporter()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    return tracers, exporter


def exported(*claims: Claim, phases: list[tuple[Audit, PhaseRecord]] | None = None, **fields: Any) -> ReadableSpan:
    tracers, exporter = exporting()
    state = state_of(phases=phases or [phase_of(Phase.REQUEST, None, *claims)], **fields)
    open_telemetry(tracers).trace_exchange(state, 5_000)
    (span,) = exporter.get_finished_spans()
    tracers.shutdown()
    return span


def claim(kind: ClaimType, value: ClaimValue, *, sensitive: bool = False) -> Claim:
    return Claim("safety.x", kind, value, Phase.REQUEST, "safety", sensitive=sensitive)


def test_an_exchange_is_one_span_with_the_names_of_the_conventions() -> None:
    """Everything that is known stands under the conventions' names, decisions and refusals under ours."""
    rule = FiredRule("no-attacks", Effect.DENY, "text of the author")
    span = exported(
        phases=[
            phase_of(Phase.REQUEST, Decision(Effect.DENY, (rule,))),
            phase_of(Phase.RESPONSE, Decision(Effect.LOG)),
        ],
        principal=Principal("s1", "gpt-x"),
        began_ns=1_000,
        status=200,
        verdict=Verdict(Outcome.REFUSED, 0.75, Reason.SAFETY),
        passport=passport_of(
            model_served="gpt-x-1",
            finish_reasons=("stop",),
            causes=(DeclineCause.GATEWAY_BLOCK,),
            gaps=(EnforcementGap(Phase.RESPONSE, "unscanned"),),
        ),
    )
    assert (span.name, span.kind, span.start_time, span.end_time) == ("chat gpt-x", SpanKind.CLIENT, 1_000, 5_000)
    assert span.status.status_code is StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.conversation.id": "s1",
        "http.response.status_code": 200,
        "demur.outcome": "refused",
        "demur.refusal.score": 0.75,
        "demur.refusal.reason": "safety",
        "demur.causes": ("gateway_block",),
        "demur.gaps": ("response:unscanned",),
        "demur.decision": "deny",
        "demur.decision.request": "deny",
        "demur.decision.request.rules": ("no-attacks",),
        "demur.decision.response": "log",
    }


def test_each_claim_is_an_evaluation() -> None:
    """A score is a value, everything else a label, in the order in which they were stated."""
    kinds = [
        claim(ClaimType.SCORE_NORMALIZED, 0.5),
        claim(ClaimType.SCORE_BINARY, 1),
        claim(ClaimType.BOOLEAN, value=False),
        claim(ClaimType.CATEGORY, "fraud"),
        claim(ClaimType.CATEGORY_LIST, ("a", "b")),
        claim(ClaimType.CATEGORY, None),
    ]
    span = exported(*kinds)
    assert {event.name for event in span.events} == {"gen_ai.evaluation.result"}
    found = [dict(event.attributes or {}) for event in span.events]
    assert [one.get("gen_ai.evaluation.score.value") for one in found] == [0.5, 1.0, None, None, None, None]
    assert [one.get("gen_ai.evaluation.score.label") for one in found] == [None, None, "false", "fraud", "a,b", None]
    assert found[0]["gen_ai.evaluation.name"] == "safety.x"
    assert found[0]["demur.claim.auditor"] == "safety"


def test_a_sensitive_claim_has_its_name_alone() -> None:
    """What carries the user's text never leaves by this door."""
    words = "my secret prompt"
    span = exported(claim(ClaimType.CATEGORY, words, sensitive=True))
    assert words not in span.to_json()
    assert "safety.x" in span.to_json()


def test_the_client_s_own_trace_goes_on() -> None:
    """A span is the child of the one that the client names, and of none where what it names is none."""
    span = exported(traceparent=PARENT)
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == PARENT[3:-3]
    assert exported(traceparent="garbage").parent is None


def test_what_failed_is_an_error() -> None:
    """A provider's failure is an error of its kind."""
    span = exported(fault="timeout")
    assert span.status.status_code is exported(status=503).status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "timeout"


def test_what_clients_name_is_cut_to_a_length() -> None:
    """A model or session of any length does not make a span of any length."""
    span = exported(principal=Principal("s" * 10_000, "m" * 10_000))
    assert len(span.to_json()) < 3_000


@pytest.mark.heavy
def test_an_exchange_is_a_span_with_its_claims(tmp_path: Path) -> None:
    """A tracing system sees one span an exchange, under the client's own, with decisions and claims and without a text."""
    tracers, exporter = exporting()
    trace.set_tracer_provider(tracers)
    metrics = MetricsPart(folder=str(tmp_path / "figures"), otel=True)
    with serving(provider()) as url, gateway(tmp_path, url, metrics=metrics) as running:
        running.knock(CHAT, chat(HARMLESS), traceparent=PARENT)
        running.knock(CHAT, chat(ATTACK))
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert format(first.context.trace_id, "032x") == PARENT.split("-")[1]
    assert first.attributes is not None
    assert second.attributes is not None
    assert (first.attributes["gen_ai.request.model"], second.attributes["demur.decision"]) == ("gpt-x", "deny")
    names = {event.attributes["gen_ai.evaluation.name"] for event in first.events if event.attributes}
    assert {"adversarial_score", "model_refused"} <= names
    assert HARMLESS not in json.dumps([json.loads(span.to_json()) for span in (first, second)])
