"""Further axes of a comparison: what a refusal rate cannot see, each as one value of the same type, and a judge's rubric.

An axis that was not measured is an `AbsentAxis` with its reason, never an `AxisResult` with made-up numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.model.estimate import Direction

if TYPE_CHECKING:
    from demur.model.estimate import Flag, Interval, Severity

__all__ = [
    "AbsentAxis",
    "AxesReport",
    "AxisDetail",
    "AxisEvidence",
    "AxisFlag",
    "AxisName",
    "AxisResult",
    "AxisUnit",
    "JudgeAsk",
    "JudgeReply",
    "JudgeUsage",
    "Rubric",
    "RubricLabel",
    "RubricMode",
]


class AxisName(StrEnum):
    """The axes that can be asked for, in the order in which they are reported."""

    SAFETY = "safety"
    TRAJECTORY = "trajectory"
    JUDGE = "judge"
    RULES = "rules"
    FINGERPRINT = "fingerprint"
    LENGTH = "length"
    LATENCY = "latency"
    COST = "cost"


class AxisUnit(StrEnum):
    """What the figures of an axis count."""

    SHARE = "share"
    TOKENS = "tokens"
    CHARACTERS = "characters"
    MILLISECONDS = "ms"
    COST = "cost"
    SHIFT = "shift"
    """From 0, pairs move in no common direction, to 1, every pair moves alike."""
    MEAN = "mean"


class AxisFlag(StrEnum):
    """What to bear in mind about an axis, beyond the flags of a rate."""

    MISSING = "missing"
    """Some pairs could not be measured."""
    NO_TEST = "no_test"
    """There is no null to test: the threshold decides."""
    ZERO_BASELINE = "zero_baseline"
    """Some pairs rise from 0, which counts as more than any other rise."""
    SIDES_DISAGREE = "sides_disagree"
    """The figures of the two runs, each by itself, move against the pairs."""
    NO_FLOOR = "no_floor"
    """It is not known what changes between two runs of the same agent."""
    POSITION_BIAS = "position_bias"
    """The judge changed its mind when the two answers changed places."""


@dataclass(frozen=True, slots=True)
class AxisEvidence:
    """A pair (or session) by its name, and the sentence that says what happened in it."""

    key: str
    sentence: str


@dataclass(frozen=True, slots=True)
class AxisDetail:
    """A figure beside the headline, as in `mean distance` 0.21."""

    label: str
    value: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class AxisResult:
    """One axis over `n` pairs: both sides, candidate less baseline, interval, p, and how much that is.

    Where `relative` is set, difference and interval are relative to the baseline: 0.4 is 1.4 times as much. `undecidable` says why the
    axis can neither fail nor pass a gate, and is empty where it can.

    `baseline` and `candidate` are None where only a change is measured. `tested` names the null hypothesis of p; `p_adjusted` is p held against
    all axes of the report (Holm). `parts` are the same kind of value for a tool or a dimension, their `p_adjusted` held against each
    other. `worse` is the direction that a gate minds. `missing` pairs could not be measured.
    """

    axis: AxisName
    name: str
    unit: AxisUnit
    baseline: float | None
    candidate: float | None
    difference: float
    interval: Interval | None
    p: float | None
    severity: Severity
    n: int
    tested: str = ""
    p_adjusted: float | None = None
    worse: Direction = Direction.BOTH
    missing: int = 0
    flags: tuple[Flag | AxisFlag, ...] = ()
    evidence: tuple[AxisEvidence, ...] = ()
    details: tuple[AxisDetail, ...] = ()
    parts: tuple[AxisResult, ...] = ()
    relative: bool = False
    undecidable: str = ""


@dataclass(frozen=True, slots=True)
class AbsentAxis:
    """An axis that was asked for and could not be measured, and why."""

    axis: AxisName
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class AxesReport:
    """All axes that were asked for: measured, or absent with the reason; `multiplicity` says how p was adjusted."""

    results: tuple[AxisResult, ...]
    absent: tuple[AbsentAxis, ...] = ()
    multiplicity: str = ""


class RubricMode(StrEnum):
    """Whether each answer is judged alone, or the two against each other."""

    SINGLE = "single"
    PAIRWISE = "pairwise"


@dataclass(frozen=True, slots=True)
class RubricLabel:
    """A label that the judge may give, its meaning, and its score from 0 (worst) to 1.

    `bad` labels of a single rubric are counted, each as a rate of its own.
    """

    name: str
    score: float
    meaning: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Rubric:
    """A policy, and the labels by which an answer is held against it.

    A pairwise rubric has the labels `first_worse`, `same` and `second_worse`.
    """

    name: str
    domain: str
    policy: str
    labels: tuple[RubricLabel, ...]
    mode: RubricMode = RubricMode.SINGLE


@dataclass(frozen=True, slots=True)
class JudgeAsk:
    """One question to a judge: what it is told, what it is shown, and the labels it may answer with."""

    system: str
    user: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What came back: the text, or why there is none; the calls it took and the tokens they cost."""

    text: str | None
    why: str = ""
    cached: bool = False
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class JudgeUsage:
    """What judging took: questions, HTTP calls, answers from the cache, questions left without a verdict, tokens, cost."""

    asked: int = 0
    calls: int = 0
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
