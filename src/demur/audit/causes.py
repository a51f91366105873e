"""Whose no was it? The causes for which an answer was withheld, each by itself, in the words of the record.

Laws: the gateway's block is one cause beside the provider's or the model's own, never in its place; an answer without any text is
`empty`, which is nobody's no; an answer that came has no cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.passport import DeclineCause
from demur.model.verdict import Cause, Outcome

if TYPE_CHECKING:
    from demur.model.verdict import Verdict

__all__ = ["causes_of"]

_CAUSES = {
    Cause.PROVIDER_FILTER: DeclineCause.PROVIDER_FILTER,
    Cause.PROVIDER_REFUSAL: DeclineCause.PROVIDER_REFUSAL,
    Cause.TEXT: DeclineCause.TEXT_REFUSAL,
    Cause.PROVIDER_ERROR: DeclineCause.PROVIDER_ERROR,
}
_DECLINED = (Outcome.REFUSED, Outcome.FILTERED, Outcome.PARTIAL, Outcome.FAILED)


def causes_of(verdict: Verdict | None, *, blocked: bool) -> tuple[DeclineCause, ...]:
    """Return who or what kept the answer from the client, each cause by itself."""
    causes = [DeclineCause.GATEWAY_BLOCK] if blocked else []
    if verdict is not None and verdict.outcome is Outcome.EMPTY:
        causes.append(DeclineCause.EMPTY)
    elif verdict is not None and verdict.outcome in _DECLINED and verdict.cause is not None:
        causes.append(_CAUSES[verdict.cause])
    return tuple(causes)
