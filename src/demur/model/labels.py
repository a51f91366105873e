"""What people say of a sample of responses, and what that makes of rates and differences.

A unit is what was drawn: a pair of two runs, whose label has two sides, or a row of one run. Units of a cell have the same verdicts of
the detector and were drawn with about the same probability; how many units a cell has is counted, never estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.estimate import Difference, Interval

__all__ = [
    "PAIR_SIDES",
    "ROW_SIDES",
    "CorrectedRate",
    "DrawnResponse",
    "GivenLabel",
    "LabelCell",
    "LabelCorrection",
    "LabelSample",
    "LabelledUnit",
    "RateCorrection",
    "Side",
]


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """What one person says of one response: the word, and 1 for an abstention, 0 for none, None where nothing was decided."""

    id: str
    side: str
    annotator: str
    word: str
    value: float | None
    probability: float | None
    source: str
    line: int | None


@dataclass(frozen=True, slots=True)
class LabelCell:
    """`units` units of a stratum, with what the detector says of each side: 1 where it abstained, else 0."""

    stratum: str
    verdicts: tuple[int, ...]
    units: int


@dataclass(frozen=True, slots=True)
class LabelledUnit:
    """What people say of each side of a unit: 1 for an abstention, 0 for none, between them where annotators differ.

    `cell` is the number of its cell, `weight` one over the probability with which it was drawn.
    """

    cell: int
    said: tuple[float, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class LabelSample:
    """The labelled units among all units of some runs.

    `drawn` says that we drew them, with known probabilities; otherwise the user vouches that they are a random sample. `undecided` units
    have a label that says neither yes nor no and are left out. `kappa` is the agreement of annotators where several labelled the same.
    """

    cells: tuple[LabelCell, ...]
    labelled: tuple[LabelledUnit, ...]
    drawn: bool = True
    annotators: tuple[str, ...] = ()
    kappa: float | None = None
    undecided: int = 0

    @property
    def units(self) -> int:
        """All units, labelled or not."""
        return sum(cell.units for cell in self.cells)


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A rate over `n` rows that people's labels of some of them give, with its interval."""

    value: float
    interval: Interval
    n: int


@dataclass(frozen=True, slots=True)
class LabelCorrection:
    """The difference, and the rates of both runs, that people's labels give, and how it came about.

    `detector` is the difference without the labels, `expected` what all pairs would count up to by the labels: abstained in both runs, in
    the baseline alone, in the candidate alone, in neither.

    `flips` labelled pairs are flips to the detector or to people: `confirmed` to both, `found` to people alone. `lacking` says what is
    missing before the labels can decide, None where they can. `more` is about how many further labels would settle the result; None where
    it is settled, or where labels of all pairs would not do it.
    """

    difference: Difference
    baseline: CorrectedRate
    candidate: CorrectedRate
    labelled: int
    flips: int
    confirmed: int
    found: int
    expected: tuple[int, int, int, int]
    sample: LabelSample
    lacking: str | None = None
    more: int | None = None
    detector: Difference | None = None


@dataclass(frozen=True, slots=True)
class RateCorrection:
    """The rate of some runs that people's labels give; of the labelled refusals people `confirmed` some, and `found` others."""

    rate: CorrectedRate
    labelled: int
    refusals: int
    confirmed: int
    found: int
    sample: LabelSample
    lacking: str | None = None


class Side(StrEnum):
    """Which response of a unit a label is of; a unit of one run has only a `response`."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class DrawnResponse:
    """One response to label: its unit and side, how it was drawn, where it stands, and the texts that are shown."""

    id: str
    side: Side
    probability: float
    stratum: str
    source: str
    line: int | None
    prompt: str | None
    response: str

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from the other responses of the draw."""
        return self.id, self.side


PAIR_SIDES: tuple[Side, ...] = (Side.BASELINE, Side.CANDIDATE)
ROW_SIDES: tuple[Side, ...] = (Side.RESPONSE,)
