"""What happened in a response, what a prompt tries, and the evidence for either, down to the characters the user wrote.

A verdict explains itself: its findings and signals are what made it. `refused` and `filtered` are the abstentions. A `Span` always
counts code points of the *original* text; `NormalText.span` maps any stretch of the normalised text to the smallest original
stretch that produced it, and the map is monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.exchange import Signal

__all__ = [
    "NOT_JUDGED",
    "Cause",
    "Finding",
    "NormalText",
    "Outcome",
    "PromptVerdict",
    "Reading",
    "Reason",
    "Span",
    "Verdict",
]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of the original text, in code points."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the stretch itself."""
        return text[self.start : self.end]


class NormalText(msgspec.Struct, frozen=True):
    """A normalised text with the original offsets of each of its characters.

    `starts[i]` and `ends[i]` bound the original characters behind `text[i]`. Both are None where the two texts have
    the same length and every character stands where it stood (the fast path for ASCII).
    """

    original: str
    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None

    def span(self, start: int, end: int) -> Span:
        """Return the original stretch behind `text[start:end]`; an empty stretch maps to an empty one."""
        if self.starts is None or self.ends is None:
            return Span(start, end)
        # An empty stretch has no characters behind it; it maps to the place before the next one.
        if start >= end:
            at = int(self.starts[start]) if start < len(self.starts) else len(self.original)
            return Span(at, at)
        return Span(int(self.starts[start]), int(self.ends[end - 1]))


@dataclass(frozen=True, slots=True)
class Reading:
    """Another way to read a text that may have been disguised.

    `method` names the disguise that was taken off (`leet`, `spacing`, `base64`, `rot13`, `escapes`, or several joined
    by `+`). The `NormalText` inside maps back to the text that the user wrote, as coarsely as the disguise demands:
    every character of a decoded base64 run maps to the whole run.
    """

    method: str
    normal: NormalText


@dataclass(frozen=True, slots=True)
class Finding:
    """A detector's hit: which rule, its category and weight, and where it stands in the original text."""

    rule: str
    category: str
    weight: float
    span: Span


class Outcome(StrEnum):
    """What happened in a response; `unread` where something is there that we could not read, or not judge in its language."""

    COMPLIED = "complied"
    PARTIAL = "partial"
    REFUSED = "refused"
    FILTERED = "filtered"
    EMPTY = "empty"
    FAILED = "failed"
    UNREAD = "unread"
    UNSURE = "unsure"


NOT_JUDGED = (Outcome.EMPTY, Outcome.FAILED, Outcome.UNREAD)
"""Outcomes that say nothing about the model's will: they are counted by themselves and are in no rate's denominator."""
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
    PERSON = "person"
    """Somebody read the response and labelled it."""
    # Why a response is `unread`:
    UNKNOWN_PART = "unknown_part"
    """Its content is of a kind that no reader here knows."""
    NOT_TEXT = "not_text"
    """There is an object or a number where its text was expected."""
    NOT_STORED = "not_stored"
    """The log says that there was a response, but not what it said."""
    LANGUAGE = "language"
    """It is in a language that the detector does not cover."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened in a response.

    `score` is the probability that the response is a refusal: 1.0 where a signal says so, 0.0 where there is no
    text to judge, the detector's otherwise. `detail` names what could not be read, where the outcome is `unread`.
    """

    outcome: Outcome
    score: float
    reason: Reason | None = None
    cause: Cause | None = None
    findings: tuple[Finding, ...] = ()
    signals: tuple[Signal, ...] = ()
    detail: str | None = None

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
