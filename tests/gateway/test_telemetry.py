"""Spans and events, as OpenTelemetry's own SDK exports them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.gateway.states import passport_of, phase_of, state_of

from demur.gateway.state import Principal
from demur.gateway.telemetry import open_telemetry
from demur.model.claim import Audit, Claim, ClaimType, ClaimValue, Decision, Effect, EnforcementGap, FiredRule, Phase
from demur.model.passport import DeclineCause, PhaseRecord
from demur.model.verdict import Outcome, Reason, Verdict


def exported(*claims: Claim, phases: list[tuple[Audit, PhaseRecord]] | None = None, **fields: Any) -> ReadableSpan:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    state = state_of(phases=phases or [phase_of(Phase.REQUEST, None, *claims)], **fields)
    open_telemetry(provider).trace_exchange(state, 5_000)
    (span,) = exporter.get_finished_spans()
    provider.shutdown()
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
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = exported(traceparent=parent)
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == parent[3:-3]
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
