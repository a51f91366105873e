"""What happened in a response, and the evidence for it.

Laws: a verdict explains itself (its findings and signals are what made it); `refused` and `filtered` are the
abstentions; a structured signal outranks any text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.text import Span

__all__ = ["Cause", "Finding", "Outcome", "Reason", "Signal", "SignalKind", "Verdict"]


class SignalKind(StrEnum):
    """What kind of thing the provider itself said."""

    REFUSAL_FIELD = "refusal_field"
    """A refusal field or a part of type refusal is filled."""
    REFUSAL_STOP = "refusal_stop"
    """The stop reason says that the model refused."""
    FILTER_STOP = "filter_stop"
    """The stop reason says that a filter cut the answer off."""
    PROMPT_BLOCK = "prompt_block"
    """The prompt was blocked, so there is no answer."""
    FILTER_FLAG = "filter_flag"
    """A filter annotated the exchange; `blocked` says whether it also acted."""
    ERROR = "error"
    """The provider answered with an error that is no filter."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What the provider itself says: the JSON path, the value found there, and its details."""

    kind: SignalKind
    path: str
    value: str
    choice: int | None = None
    category: str | None = None
    severity: str | None = None
    detail: str | None = None
    blocked: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """A detector's hit: which rule, its category and weight, and where it stands in the original text."""

    rule: str
    category: str
    weight: float
    span: Span


class Outcome(StrEnum):
    """What happened in a response."""

    COMPLIED = "complied"
    PARTIAL = "partial"
    REFUSED = "refused"
    FILTERED = "filtered"
    EMPTY = "empty"
    FAILED = "failed"
    UNSURE = "unsure"


_ABSTENTIONS = frozenset({Outcome.REFUSED, Outcome.FILTERED})


class Reason(StrEnum):
    """Why a model declined: it should not, it cannot, or neither is said."""

    SAFETY = "safety"
    CAPABILITY = "capability"
    OTHER = "other"


class Cause(StrEnum):
    """Who or what made the outcome."""

    PROVIDER_FILTER = "provider_filter"
    PROVIDER_REFUSAL = "provider_refusal"
    TEXT = "text"
    PROVIDER_ERROR = "provider_error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened in a response.

    `score` is the probability that the response is a refusal: 1.0 where a signal says so, 0.0 where there is no
    text to judge, the detector's otherwise.
    """

    outcome: Outcome
    score: float
    reason: Reason | None = None
    cause: Cause | None = None
    findings: tuple[Finding, ...] = ()
    signals: tuple[Signal, ...] = ()

    @property
    def abstained(self) -> bool:
        """Whether this is an abstention: refused or filtered."""
        return self.outcome in _ABSTENTIONS
