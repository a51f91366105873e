"""What a plan says: the questions that were asked, what each needs, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Assumption", "Need", "Plan", "PlanBasis", "PlanPoint", "Question"]


class Question(StrEnum):
    """What people want to know, each with a size of its own."""

    DETECT = "detect"
    PROVE = "prove_no_increase"
    ESTIMATE = "estimate"
    CORRECT = "correct"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One number that a plan rests on, and where it comes from; `value` is None where nothing is known of it."""

    name: str
    value: float | None
    source: str


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The numbers that a plan rests on.

    `rate` of the baseline's responses are refusals, `churn` of the pairs flip without a change, sessions have `turns` pairs each, whose
    changes have the intraclass correlation `icc`; `errors` of the pairs' changes are misread by the detector.
    """

    rate: float | None = None
    churn: float | None = None
    turns: float = 1.0
    icc: float = 0.0
    errors: float | None = None
    alpha: float = 0.05
    power: float = 0.8
    assumptions: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """What a number of pairs (responses, labelled pairs) gives: the power, or the half-width of the interval."""

    count: int
    sessions: int | None
    value: float


@dataclass(frozen=True, slots=True)
class Need:
    """How many pairs a question of this size needs (responses for a rate, labelled pairs for a correction); None where no number would do.

    `curve` is what half as many, as many, and twice as many give.
    """

    question: Question
    size: float
    count: int | None
    sessions: int | None
    curve: tuple[PlanPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What each question needs.

    `pairs` are those that the user has or can pay for; `detectable` is the smallest rise that they show with the wanted power, and
    `provable` the smallest margin within which they prove that refusals did not rise. None where they show nothing.
    """

    basis: PlanBasis
    needs: tuple[Need, ...]
    pairs: int | None = None
    sessions: int | None = None
    min_sessions: int = 5
    detectable: float | None = None
    provable: float | None = None
