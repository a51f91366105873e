"""Further axes of a comparison: what a refusal rate cannot see, each as one value of the same type.

Laws: an axis that was not measured is an `AbsentAxis` with its reason, never an `AxisResult` with made-up figures; `p` is None where no
honest null exists (that some pairs changed is no surprise), and then a threshold decides; evidence is bounded, and names its pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.model.comparison import Direction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from demur.model.axis import Flag, Severity
    from demur.model.estimate import Interval
    from demur.model.exchange import Exchange
    from demur.model.verdict import Outcome

    Places = npt.NDArray[np.int64] | npt.NDArray[np.intp]

__all__ = [
    "AbsentAxis",
    "AxesReport",
    "AxisDetail",
    "AxisEvidence",
    "AxisFlag",
    "AxisName",
    "AxisResult",
    "AxisSide",
    "AxisUnit",
    "PairNames",
    "PairedExchange",
    "SessionTurns",
    "ShownTexts",
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
    """The baseline is 0, so a relative size cannot be told."""
    POSITION_BIAS = "position_bias"
    """The judge changed its mind when the two answers changed places."""


@dataclass(frozen=True, slots=True)
class PairedExchange:
    """The same question in both runs; latency and cost where they are known, `session` where pairs belong together."""

    key: str
    session: str | None
    baseline: Exchange
    candidate: Exchange
    baseline_latency_ms: float | None = None
    candidate_latency_ms: float | None = None
    baseline_cost: float | None = None
    candidate_cost: float | None = None

    @property
    def cluster(self) -> str:
        """What the pair moves together with: its session, or the other samples of its question."""
        return f"key:{self.key}" if self.session is None else f"session:{self.session}"


@dataclass(frozen=True, slots=True)
class AxisSide:
    """One side of a pair: what was said, what it took, and the verdict where it is known already."""

    exchange: Exchange
    latency_ms: float | None = None
    cost: float | None = None
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class ShownTexts:
    """What a judge is shown of one side: the request and the answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class SessionTurns:
    """The session that the row of each side is a turn of (-1: none), and its place in the order of that run (-1: no such row).

    Both runs number a session alike. A row that the other run has no counterpart of is a turn of its own run alone.
    """

    sessions: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    rows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

    @property
    def lone(self) -> npt.NDArray[np.bool_]:
        """Which rows have no counterpart."""
        missing: npt.NDArray[np.bool_] = (self.rows[0] < 0) | (self.rows[1] < 0)
        return missing


@dataclass(frozen=True, slots=True)
class PairNames:
    """What pairs are called, column by column: key, number of the session (-1: none), and of what each moves together with.

    `clustered_by` names the field that the last are of, empty where a caller made the pairs. `turns` says whose turns the rows of each run
    are, where that is not told by the pairs: rows without a counterpart then stand behind the pairs.
    """

    keys: Sequence[str]
    session: npt.NDArray[np.int64]
    cluster: npt.NDArray[np.int64]
    clustered_by: str = ""
    turns: SessionTurns | None = None

    def only(self, places: Places, keys: Sequence[str] | None = None) -> PairNames:
        """Return the names at some places, under other keys where they are given."""
        called = [self.keys[i] for i in places.tolist()] if keys is None else keys
        return PairNames(called, self.session[places], self.cluster[places], self.clustered_by)


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

    `baseline` and `candidate` are None where only a change is measured. `tested` says what p is the p of; `p_adjusted` is p held against
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
