"""What a tracing system sees of an exchange: one span, and one event per claim.

Names follow OpenTelemetry's conventions for generative AI where there are any, `demur.*` where there are none (a refusal, a
policy's decision). No text, prompt or key is ever an attribute, and no explanation is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.model.claim import ClaimType
from demur.model.exchange import Shape

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

    from demur.gateway.state import ExchangeState
    from demur.model.claim import Claim

__all__ = ["ExchangeTelemetry", "open_telemetry"]

_EVENT = "gen_ai.evaluation.result"
_SCORES = (ClaimType.SCORE_BINARY, ClaimType.SCORE_NORMALIZED, ClaimType.SCORE_PERCENTAGE)
_ERROR_STATUS = 500
_OPERATION = "chat"
_PROVIDERS = {Shape.ANTHROPIC: "anthropic", Shape.AZURE: "azure.ai.openai"}
# Of what clients name: models and sessions.
_MAX_NAME_CHARS = 256
_AttributeValue = str | bool | int | float | tuple[str, ...]


class ExchangeTelemetry:
    """Writes exchanges to a tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def trace_exchange(self, state: ExchangeState, ended_ns: int) -> None:
        """Write the span of an exchange that has ended, as a child of the client's own where it named one."""
        # Imported here, since the extra `otel` may be missing.
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {"traceparent": state.traceparent} if state.traceparent else {}
        span = self._tracer.start_span(
            f"{_OPERATION} {state.principal.model[:_MAX_NAME_CHARS]}",
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=SpanKind.CLIENT,
            attributes=_span_attributes(state),
            start_time=state.began_ns,
        )
        for audit, _ in state.phases:
            for claim in audit.stated:
                # Span events, which every exporter carries; the conventions' own home, the logs API, is not stable yet.
                span.add_event(_EVENT, _evaluation(claim), timestamp=ended_ns)
        if state.fault is not None or (state.status or 0) >= _ERROR_STATUS:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)


def open_telemetry(provider: TracerProvider | None = None) -> ExchangeTelemetry:
    """Return telemetry by a provider; without one, by that which OpenTelemetry's own variables and set-up make global."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as exc:
        raise UsageError("spans need OpenTelemetry", hint="pip install 'demur[otel]'") from exc
    from demur._version import __version__

    return ExchangeTelemetry(trace.get_tracer("demur.gateway", __version__, provider))


def _span_attributes(state: ExchangeState) -> dict[str, _AttributeValue]:
    passport, verdict, decisions = state.passport, state.verdict, state.decisions
    named: dict[str, _AttributeValue | None] = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.provider.name": _PROVIDERS.get(state.route.shape, "openai"),
        "gen_ai.request.model": state.principal.model[:_MAX_NAME_CHARS],
        "gen_ai.conversation.id": state.principal.session[:_MAX_NAME_CHARS],
        "http.response.status_code": state.status,
        "error.type": state.fault,
    }
    if passport is not None:
        named["gen_ai.response.model"] = passport.model_served
        named["gen_ai.response.finish_reasons"] = passport.finish_reasons or None
        named["demur.causes"] = tuple(str(cause) for cause in passport.causes) or None
        named["demur.gaps"] = tuple(f"{gap.phase}:{gap.what}" for gap in passport.gaps) or None
    if verdict is not None:
        named["demur.outcome"] = str(verdict.outcome)
        named["demur.refusal.score"] = verdict.score
        named["demur.refusal.reason"] = verdict.reason and str(verdict.reason)
    if decisions:
        named["demur.decision"] = max(one.effect for one in decisions).word
    for _, record in state.phases:
        named[f"demur.decision.{record.phase}"] = record.decision.effect.word
        named[f"demur.decision.{record.phase}.rules"] = tuple(rule.id for rule in record.decision.rules) or None
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
    # What carries the user's text has its name here and nothing else.
    if claim.sensitive:
        found["demur.claim.sensitive"] = True
    elif claim.type in _SCORES and isinstance(value, bool | int | float):
        found["gen_ai.evaluation.score.value"] = float(value)
    elif isinstance(value, tuple):
        found["gen_ai.evaluation.score.label"] = ",".join(value)
    elif value is not None:
        found["gen_ai.evaluation.score.label"] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
