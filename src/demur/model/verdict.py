"""What happened in a response, what a prompt tries, and the evidence for either.

A verdict explains itself: its findings and signals are what made it. `refused` and `filtered` are the abstentions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.exchange import Signal
    from demur.model.text import Span

__all__ = ["Cause", "Finding", "Outcome", "PromptVerdict", "Reason", "Verdict"]


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


@dataclass(frozen=True, slots=True)
class PromptVerdict:
    """What a prompt tries, with the evidence.

    `score` is the calibrated probability of an attack, `harm_score` that of a harmful request. `attacks` names the kinds
    of attack found (`jailbreak`, `injection`, `extraction`), `harm` the categories. `toxic_content` is the seed's
    score: 0.45 for each distinct attack, at most 1. `readings` names the disguises that had to be taken off.
    """

    adversarial: bool
    score: float
    attacks: tuple[str, ...] = ()
    harm: tuple[str, ...] = ()
    harm_score: float = 0.0
    toxic_content: float = 0.0
    findings: tuple[Finding, ...] = ()
    readings: tuple[str, ...] = ()
