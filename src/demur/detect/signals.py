"""What the provider's own signals say about a choice, before any text is read.

A filter outranks a refusal, a refusal an error, an error the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import OpaquePart, RefusalPart, SignalKind, ToolCallPart
from demur.model.verdict import Cause, Outcome, Reason, Verdict

if TYPE_CHECKING:
    from demur.model.exchange import Choice, Response, Signal

__all__ = ["refusal_text", "signals_of", "verdict_by_signals"]

_FILTERS = frozenset({SignalKind.FILTER_STOP, SignalKind.PROMPT_BLOCK, SignalKind.FILTER_FLAG})
_REFUSALS = frozenset({SignalKind.REFUSAL_FIELD, SignalKind.REFUSAL_STOP})


def signals_of(response: Response, choice: Choice | None) -> tuple[Signal, ...]:
    """Return the signals about one choice: its own, and those about the whole response."""
    index = None if choice is None else choice.index
    return tuple([s for s in response.signals if s.choice is None or s.choice == index])


def verdict_by_signals(response: Response, choice: Choice | None) -> Verdict | None:
    """Return the verdict where the structure alone decides, None where the text must be read."""
    signals = signals_of(response, choice)
    # An annotation that did not block is evidence, never an outcome.
    blocking = {s.kind for s in signals if s.blocked}
    if not blocking.isdisjoint(_FILTERS):
        return Verdict(Outcome.FILTERED, 1.0, Reason.SAFETY, Cause.PROVIDER_FILTER, signals=signals)
    if not blocking.isdisjoint(_REFUSALS):
        return Verdict(Outcome.REFUSED, 1.0, Reason.SAFETY, Cause.PROVIDER_REFUSAL, signals=signals)
    if response.error is not None or (blocking and SignalKind.ERROR in blocking):
        return Verdict(Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR, signals=signals)
    if choice is not None and choice.text.strip():
        return None
    return _without_text(response, choice, signals)


def _without_text(response: Response, choice: Choice | None, signals: tuple[Signal, ...]) -> Verdict:
    """Return the verdict on a response that has no text."""
    # A tool call or a picture is what was asked for, even without words.
    if choice is not None and any(isinstance(p, ToolCallPart | OpaquePart) for p in choice.parts):
        return Verdict(Outcome.COMPLIED, 0.0, signals=signals)
    if not response.complete:
        return Verdict(Outcome.FAILED, 0.0, None, Cause.PROVIDER_ERROR, signals=signals)
    return Verdict(Outcome.EMPTY, 0.0, signals=signals)


def refusal_text(choice: Choice) -> str:
    """Return what a provider's refusal field says, one part per line."""
    return "\n".join([p.text for p in choice.parts if isinstance(p, RefusalPart)])
