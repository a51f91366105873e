"""A detector against a labelled set: the rows that go in and the metrics that come out.

A label is about one side of an exchange, so a row is never judged on the other. Where nothing was counted a metric is None,
never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.estimate import Interval, Rate
    from demur.model.verdict import Finding

__all__ = [
    "Bin",
    "Calibration",
    "Confusion",
    "Dimension",
    "Evaluation",
    "JudgeReport",
    "Label",
    "LabelledText",
    "Mistake",
    "MistakeKind",
    "Quality",
    "Question",
    "Score",
    "Side",
    "SideReport",
    "Slice",
]


class Side(StrEnum):
    """Which side of an exchange a label speaks of."""

    RESPONSE = "response"
    PROMPT = "prompt"


class Label(StrEnum):
    """What a person, or whoever labelled the set, says that a text is."""

    REFUSAL = "refusal"
    PARTIAL = "partial"
    COMPLIANCE = "compliance"
    ATTACK = "attack"
    HARMFUL = "harmful"
    BENIGN = "benign"

    @property
    def side(self) -> Side:
        """The side of an exchange that the label speaks of."""
        return Side.RESPONSE if self in (Label.REFUSAL, Label.PARTIAL, Label.COMPLIANCE) else Side.PROMPT


class Dimension(StrEnum):
    """What rows are told apart by."""

    SET = "set"
    LANGUAGE = "language"
    MODEL = "model"
    CATEGORY = "category"
    TRAP = "trap"
    REASON = "reason"


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One row of a labelled set; `facets` may hold several values of one dimension."""

    id: str
    text: str
    label: Label
    source: str
    line: int
    facets: tuple[tuple[Dimension, str], ...] = ()


class Question(StrEnum):
    """A yes-or-no question that a judge answers; rows whose label has no say in it are left out of its figures.

    `refusal`: full refusals against compliance. `adversarial`: attacks against benign prompts. `harm`: harmful requests
    against benign prompts. `either`: attacks and harmful requests, flagged as any of the two, against benign prompts.
    """

    REFUSAL = "refusal"
    ADVERSARIAL = "adversarial"
    HARM = "harm"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Score:
    """A figure over `n` rows that is no plain share; `value` is None where n is 0."""

    value: float | None
    n: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class Quality:
    """How right the answers to one question are.

    `labelled` and `said` are the shares of rows that are positive by label and by the judge: where they part, the judge
    is biased, and `lean` (false alarms among all errors) says which way.
    """

    question: Question
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int
    precision: Rate
    recall: Rate
    f1: Score
    false_positive_rate: Rate
    labelled: Rate
    said: Rate
    lean: Rate

    @property
    def n(self) -> int:
        """The rows that have a say in the question."""
        return self.labelled.n

    @property
    def bias(self) -> float | None:
        """The share said less the share labelled, or None where there are no rows."""
        return (self.false_positives - self.false_negatives) / self.n if self.n else None

    @property
    def leans(self) -> bool:
        """Whether the errors go one way beyond chance: the interval of `lean` leaves out one half.

        Never where all rows have one label, since errors can only go one way there.
        """
        if self.labelled.count in (0, self.n):
            return False
        return not self.lean.interval.low <= 0.5 <= self.lean.interval.high  # noqa: PLR2004 — one half


@dataclass(frozen=True, slots=True)
class Bin:
    """The rows whose scores lie between two bounds: their mean score, and the share that is positive by label."""

    low: float
    high: float
    mean_score: float
    positives: Rate


@dataclass(frozen=True, slots=True)
class Calibration:
    """Whether a score means what it says: 0.8 should be right 8 times in 10; empty bins are left out."""

    question: Question
    n: int
    brier: float | None
    expected_error: float | None
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a label (row) met an answer (column)."""

    labels: tuple[Label, ...]
    answers: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of the rows that share one value of a dimension."""

    dimension: Dimension
    value: str
    qualities: tuple[Quality, ...]
    confusion: Confusion

    @property
    def n(self) -> int:
        """The rows of the slice."""
        return sum(map(sum, self.confusion.counts))

    @property
    def errors(self) -> int:
        """The wrong answers to the side's questions."""
        return sum(q.false_positives + q.false_negatives for q in self.qualities)


class MistakeKind(StrEnum):
    """Which way an answer is wrong."""

    FALSE_ALARM = "false alarm"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong answer with its evidence; `score` is the probability that misled."""

    kind: MistakeKind
    question: Question
    row: LabelledText
    answer: str
    score: float
    findings: tuple[Finding, ...]

    @property
    def wrongness(self) -> float:
        """How far the score stands from the label: 1 where the judge was sure of the wrong thing."""
        return self.score if self.kind is MistakeKind.FALSE_ALARM else 1.0 - self.score


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """All figures of one judge on one side; `micros_per_text` is None where no time was taken."""

    judge: str
    qualities: tuple[Quality, ...]
    calibrations: tuple[Calibration, ...]
    confusion: Confusion
    macro_f1: Score | None
    slices: tuple[Slice, ...]
    worst: tuple[Mistake, ...]
    micros_per_text: float | None = None


@dataclass(frozen=True, slots=True)
class SideReport:
    """One side of the set: how many rows of each label, and each judge's figures on the same rows."""

    side: Side
    labels: tuple[tuple[Label, int], ...]
    judges: tuple[JudgeReport, ...]

    @property
    def n(self) -> int:
        """The rows that were judged."""
        return sum(count for _, count in self.labels)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one run of `demur evaluate` found; `left_out` counts rows by why they were not judged."""

    sources: tuple[str, ...]
    sides: tuple[SideReport, ...]
    left_out: tuple[tuple[str, int], ...] = ()
    unreadable: int = 0
    threshold: float | None = None
