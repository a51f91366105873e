"""What does a tracing system see of an exchange? One span, and one event a claim.

Laws: names follow OpenTelemetry's conventions for generative AI where there are any, `demur.*` where there are none (a
refusal, a policy's decision); no text, prompt or key is ever an attribute: a claim that is marked sensitive has its name
and nothing else, and no explanation is written. Nothing here is needed to serve: without the extra `otel` it cannot be
turned on, and an exporter that fails is the SDK's own affair.

Events are span events, which every exporter carries; the conventions' own home for them, the logs API, is not stable yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.model.claim import ClaimType, Effect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Tracer, TracerProvider

    from demur.model.claim import Claim, Decision, Phase
    from demur.model.passport import DeclineCause, EnforcementGap
    from demur.model.verdict import Verdict

__all__ = ["ExchangeTelemetry", "ObservedExchange", "open_telemetry"]

_EVENT = "gen_ai.evaluation.result"
_SCORES = (ClaimType.SCORE_BINARY, ClaimType.SCORE_NORMALIZED, ClaimType.SCORE_PERCENTAGE)
_ERROR_STATUS = 500
_LONGEST = 256
"""Of what clients name: models and sessions."""
_AttributeValue = str | bool | int | float | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """What is told of one exchange; times are nanoseconds since 1970, `traceparent` is the client's header."""

    provider: str
    model_asked: str
    began_ns: int
    ended_ns: int
    operation: str = "chat"
    model_served: str | None = None
    session: str | None = None
    status: int | None = None
    finish_reasons: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    decisions: Mapping[Phase, Decision] = field(default_factory=dict)
    verdict: Verdict | None = None
    causes: tuple[DeclineCause, ...] = ()
    gaps: tuple[EnforcementGap, ...] = ()
    fault: str | None = None
    traceparent: str | None = None


class ExchangeTelemetry:
    """Tells a tracer of exchanges."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def tell(self, seen: ObservedExchange) -> None:
        """Write the span of an exchange that has ended, as a child of the client's own where it named one."""
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {"traceparent": seen.traceparent} if seen.traceparent else {}
        span = self._tracer.start_span(
            f"{seen.operation} {seen.model_asked[:_LONGEST]}",
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.CLIENT,
            attributes=_span_attributes(seen),
            start_time=seen.began_ns,
        )
        for claim in seen.claims:
            span.add_event(_EVENT, _evaluation(claim), timestamp=seen.ended_ns)
        if seen.fault is not None or (seen.status or 0) >= _ERROR_STATUS:
            span.set_status(Status(StatusCode.ERROR))
        span.end(seen.ended_ns)


def open_telemetry(provider: TracerProvider | None = None) -> ExchangeTelemetry:
    """Return a teller; without a provider, the one that OpenTelemetry's own variables and set-up make global."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as exc:
        raise UsageError("spans need OpenTelemetry", hint="pip install 'demur[otel]'") from exc
    from demur._version import __version__

    return ExchangeTelemetry(trace.get_tracer("demur.gateway", __version__, provider))


def _span_attributes(seen: ObservedExchange) -> dict[str, _AttributeValue]:
    named: dict[str, _AttributeValue | None] = {
        "gen_ai.operation.name": seen.operation,
        "gen_ai.provider.name": seen.provider,
        "gen_ai.request.model": seen.model_asked[:_LONGEST],
        "gen_ai.response.model": seen.model_served,
        "gen_ai.response.finish_reasons": seen.finish_reasons or None,
        "gen_ai.conversation.id": seen.session and seen.session[:_LONGEST],
        "http.response.status_code": seen.status,
        "error.type": seen.fault,
        "demur.causes": tuple(str(cause) for cause in seen.causes) or None,
        "demur.gaps": tuple(f"{gap.phase}:{gap.what}" for gap in seen.gaps) or None,
    }
    if seen.verdict is not None:
        named["demur.outcome"] = str(seen.verdict.outcome)
        named["demur.refusal.score"] = seen.verdict.score
        named["demur.refusal.reason"] = seen.verdict.reason and str(seen.verdict.reason)
    if seen.decisions:
        named["demur.decision"] = max((one.effect for one in seen.decisions.values()), default=Effect.ALLOW).word
    for phase, decision in seen.decisions.items():
        named[f"demur.decision.{phase}"] = decision.effect.word
        named[f"demur.decision.{phase}.rules"] = tuple(rule.id for rule in decision.rules) or None
    return {name: value for name, value in named.items() if value is not None}


def _evaluation(claim: Claim) -> dict[str, _AttributeValue]:
    """Return a claim as the conventions have an evaluation: a score is a value, anything else a label."""
    found: dict[str, _AttributeValue] = {
        "gen_ai.evaluation.name": claim.name,
        "demur.claim.auditor": claim.auditor,
        "demur.claim.phase": str(claim.phase),
        "demur.claim.type": str(claim.type),
    }
    value = claim.value
    if claim.sensitive:
        found["demur.claim.sensitive"] = True
    elif claim.type in _SCORES and isinstance(value, bool | int | float):
        found["gen_ai.evaluation.score.value"] = float(value)
    elif isinstance(value, tuple):
        found["gen_ai.evaluation.score.label"] = ",".join(value)
    elif value is not None:
        found["gen_ai.evaluation.score.label"] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
