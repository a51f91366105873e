"""Spans and events, as OpenTelemetry's own SDK exports them."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from demur.gateway.telemetry import ObservedExchange, open_telemetry
from demur.model.claim import Claim, ClaimType, ClaimValue, Decision, Effect, FiredRule, Phase
from demur.model.passport import DeclineCause, EnforcementGap
from demur.model.verdict import Outcome, Reason, Verdict


def exported(seen: ObservedExchange) -> ReadableSpan:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    open_telemetry(provider).tell(seen)
    (span,) = exporter.get_finished_spans()
    provider.shutdown()
    return span


def claim(kind: ClaimType, value: ClaimValue, *, sensitive: bool = False) -> Claim:
    return Claim("safety.x", kind, value, Phase.REQUEST, "safety", sensitive=sensitive)


def test_an_exchange_is_one_span_with_the_names_of_the_conventions() -> None:
    """Everything that is known stands under the conventions' names, decisions and refusals under ours."""
    rule = FiredRule("no-attacks", Effect.DENY, "text of the author")
    span = exported(
        ObservedExchange(
            "openai",
            "gpt-x",
            1_000,
            5_000,
            model_served="gpt-x-1",
            session="s1",
            status=200,
            finish_reasons=("stop",),
            decisions={Phase.REQUEST: Decision(Effect.DENY, (rule,)), Phase.RESPONSE: Decision(Effect.LOG)},
            verdict=Verdict(Outcome.REFUSED, 0.75, Reason.SAFETY),
            causes=(DeclineCause.GATEWAY_BLOCK,),
            gaps=(EnforcementGap(Phase.RESPONSE, "unscanned"),),
        )
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
    span = exported(ObservedExchange("openai", "m", 1, 2, claims=tuple(kinds)))
    assert {event.name for event in span.events} == {"gen_ai.evaluation.result"}
    found = [dict(event.attributes or {}) for event in span.events]
    assert [one.get("gen_ai.evaluation.score.value") for one in found] == [0.5, 1.0, None, None, None, None]
    assert [one.get("gen_ai.evaluation.score.label") for one in found] == [None, None, "false", "fraud", "a,b", None]
    assert found[0]["gen_ai.evaluation.name"] == "safety.x"
    assert found[0]["demur.claim.auditor"] == "safety"


def test_a_sensitive_claim_has_its_name_alone() -> None:
    """What carries the user's text never leaves by this door."""
    words = "my secret prompt"
    span = exported(ObservedExchange("openai", "m", 1, 2, claims=(claim(ClaimType.CATEGORY, words, sensitive=True),)))
    assert words not in span.to_json()
    assert "safety.x" in span.to_json()


def test_the_client_s_own_trace_goes_on() -> None:
    """A span is the child of the one that the client names, and of none where what it names is none."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = exported(ObservedExchange("openai", "m", 1, 2, traceparent=parent))
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" == parent[3:-3]
    assert exported(ObservedExchange("openai", "m", 1, 2, traceparent="garbage")).parent is None


def test_what_failed_is_an_error() -> None:
    """A provider's failure is an error of its kind."""
    for seen in (
        ObservedExchange("openai", "m", 1, 2, fault="timeout"),
        ObservedExchange("openai", "m", 1, 2, status=503),
    ):
        assert exported(seen).status.status_code is StatusCode.ERROR
    assert (exported(ObservedExchange("openai", "m", 1, 2, fault="timeout")).attributes or {})[
        "error.type"
    ] == "timeout"


def test_what_clients_name_is_cut_to_a_length() -> None:
    """A model or session of any length does not make a span of any length."""
    span = exported(ObservedExchange("openai", "m" * 10_000, 1, 2, session="s" * 10_000))
    assert len(span.to_json()) < 3_000
