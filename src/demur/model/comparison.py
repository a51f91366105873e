"""Two runs of the same questions: their pairs, what an engine counts of them, and what statistics say of the counts.

A `Tally` is all that a comparison needs: counts and a bounded number of examples, independent of the order of rows. A pair
with a missing side is in `Missing`, never in `PairCounts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.model.estimate import Direction, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from demur.model.axes import AxesReport, AxisName
    from demur.model.estimate import Difference, Evidence, Family, Flag, Interval, PooledDifference, Rate
    from demur.model.exchange import Exchange
    from demur.model.labels import LabelCorrection, LabelSample
    from demur.model.run import RunSummary
    from demur.model.sessions import SessionSums
    from demur.model.verdict import Outcome, Verdict

    Places = npt.NDArray[np.int64] | npt.NDArray[np.intp]

__all__ = [
    "AxisSide",
    "Change",
    "ClusterSum",
    "Clustering",
    "ComparedAxes",
    "Comparison",
    "Conclusion",
    "Decision",
    "DiffSettings",
    "Flip",
    "FlipSide",
    "GateMode",
    "GateResult",
    "LabelledPair",
    "Missing",
    "OutcomeGap",
    "OutcomePairs",
    "PairCounts",
    "PairNames",
    "PairedExchange",
    "Pairing",
    "Power",
    "SessionTurns",
    "ShownTexts",
    "SliceComparison",
    "SliceTally",
    "Tally",
]


class Change(StrEnum):
    """What can be said of the difference; `equivalent` where it is shown to lie within the margin."""

    INCREASED = "increased"
    DECREASED = "decreased"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


class Conclusion(StrEnum):
    """What follows from a comparison for whoever gates on it: a change in the direction that the gate is for is `worse`."""

    WORSE = "worse"
    BETTER = "better"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Decision:
    """The one statement that every report prints: the conclusion, the change behind it, and the reason in words."""

    conclusion: Conclusion
    change: Change
    reason: str


class GateMode(StrEnum):
    """Whose rule decides: `demur` asks for size, proof and direction, `shadow` for Shadow's severity alone; `seed` is its old name."""

    DEMUR = "demur"
    SHADOW = "shadow"
    SEED = SHADOW

    @classmethod
    def _missing_(cls, value: object) -> GateMode | None:
        return cls.SHADOW if value == "seed" else None


class Pairing(StrEnum):
    """What two rows have in common that are the same question; `none` where the runs ask different ones."""

    ID = "id"
    PROMPT = "prompt"
    FIELD = "field"
    POSITION = "position"
    NONE = "none"


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
class PairCounts:
    """The paired two-by-two table: abstained in both runs, in one alone, in neither."""

    both: int
    baseline_only: int
    candidate_only: int
    neither: int

    @property
    def n(self) -> int:
        """Pairs."""
        return self.both + self.baseline_only + self.candidate_only + self.neither

    @property
    def discordant(self) -> int:
        """Pairs that flipped, either way."""
        return self.baseline_only + self.candidate_only

    @property
    def delta(self) -> float:
        """Candidate rate less baseline rate; 0 where there are no pairs."""
        return (self.candidate_only - self.baseline_only) / self.n if self.n else 0.0

    @property
    def kept(self) -> float | None:
        """The share of the baseline's abstentions that the candidate abstained from too; None where there were none."""
        before = self.both + self.baseline_only
        return self.both / before if before else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa between the runs: agreement beyond chance; None where both runs say the same of every pair."""
        if not self.n:
            return None
        before, after = (self.both + self.baseline_only) / self.n, (self.both + self.candidate_only) / self.n
        by_chance = before * after + (1 - before) * (1 - after)
        agreed = (self.both + self.neither) / self.n
        return (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else None


@dataclass(frozen=True, slots=True)
class ClusterSum:
    """`count` clusters of `pairs` pairs each, in which candidate-only less baseline-only abstentions are `net`.

    `before` is how often the baseline abstained in each; None where only differences are counted.
    """

    net: int
    pairs: int
    count: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class OutcomePairs:
    """How many pairs with a row in both runs have an outcome that is not judged, as a paired two-by-two table of it."""

    outcome: Outcome
    counts: PairCounts


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows that made no complete pair, by why: no counterpart in the other run, or a side that is not judged.

    `baseline_known_abstained` and so on count, among incomplete pairs whose one side is known, what that side was. `matched` pairs have a
    row in both runs (`both_unjudged` of them no verdict at all), `smaller` is how many rows the smaller run has. `unmatched_*` are abstained and judged rows without a counterpart.
    """

    baseline_unmatched: int = 0
    candidate_unmatched: int = 0
    baseline_failed: int = 0
    candidate_failed: int = 0
    both_failed: int = 0
    baseline_known_abstained: int = 0
    baseline_known_answered: int = 0
    candidate_known_abstained: int = 0
    candidate_known_answered: int = 0
    nothing_known: int = 0
    both_unjudged: int = 0
    matched: int = 0
    smaller: int = 0
    unmatched_baseline: tuple[int, int] = (0, 0)
    unmatched_candidate: tuple[int, int] = (0, 0)
    gaps: tuple[OutcomePairs, ...] = ()

    @property
    def unmatched_by_extremes(self) -> tuple[PairCounts, PairCounts]:
        """The rows without a counterpart, had every missing response been a refusal of the candidate's, and of the baseline's."""
        before, after = self.unmatched_baseline, self.unmatched_candidate
        more = (before[1] - before[0]) + after[0]
        fewer = before[0] + (after[1] - after[0])
        return (
            PairCounts(before[0], 0, more, after[1] - after[0]),
            PairCounts(after[0], fewer, 0, before[1] - before[0]),
        )

    @property
    def pairs_by_extremes(self) -> tuple[PairCounts, PairCounts]:
        """The matched pairs that lack a verdict, had every missing one been a refusal of the candidate's, and of the baseline's."""
        baseline_abstained = self.baseline_known_abstained - self.unmatched_baseline[0]
        baseline_answered = self.baseline_known_answered - (self.unmatched_baseline[1] - self.unmatched_baseline[0])
        candidate_abstained = self.candidate_known_abstained - self.unmatched_candidate[0]
        candidate_answered = self.candidate_known_answered - (self.unmatched_candidate[1] - self.unmatched_candidate[0])
        more = baseline_answered + candidate_abstained + self.both_unjudged
        fewer = baseline_abstained + candidate_answered + self.both_unjudged
        return (
            PairCounts(baseline_abstained, 0, more, candidate_answered),
            PairCounts(candidate_abstained, fewer, 0, baseline_answered),
        )

    @property
    def total(self) -> int:
        """Incomplete pairs."""
        return (
            self.baseline_known_abstained
            + self.baseline_known_answered
            + self.candidate_known_abstained
            + self.candidate_known_answered
            + self.nothing_known
        )


@dataclass(frozen=True, slots=True)
class FlipSide:
    """One side of a flipped pair: the text as shown (None where it is not kept), its verdict, and where it stands."""

    text: str | None
    verdict: Verdict
    source: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Flip:
    """A pair whose abstention changed, both sides beside each other; an increase where the candidate abstained."""

    key: str
    prompt: str | None
    direction: Direction
    baseline: FlipSide
    candidate: FlipSide
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """What people said of a pair, and what the detector said: candidate less baseline abstention, each from -1 to 1.

    `weight` is one over the probability with which the pair was drawn.
    """

    human: float
    detector: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class SliceTally:
    """The pairs whose `field` has `value`."""

    field: str
    value: str
    counts: PairCounts
    clusters: tuple[ClusterSum, ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """All that an engine counts for a comparison.

    `repeats` are pairs beyond the first of a key, `prompts_changed` pairs of one id that ask different prompts. `clusters` is empty where every pair stands alone. Where `pairing` is `none`, `counts` is empty and the two rates are those of
    the runs (`unpaired_*`: abstained, judged). `counted` are the outcomes that count as abstentions, `values_left_out` how many
    further values a field has that were too many to slice by.
    """

    baseline: RunSummary
    candidate: RunSummary
    pairing: Pairing
    counts: PairCounts
    missing: Missing = Missing()
    clusters: tuple[ClusterSum, ...] = ()
    cluster_field: str | None = None
    repeats: int = 0
    prompts_changed: int = 0
    slices: tuple[SliceTally, ...] = ()
    flips: tuple[Flip, ...] = ()
    unpaired_baseline: tuple[int, int] = (0, 0)
    unpaired_candidate: tuple[int, int] = (0, 0)
    unpaired_sums: tuple[SessionSums, SessionSums] | None = None
    """What the rows of runs that are not paired add up to by what `cluster_field` says; None where each row stands alone."""
    labels: LabelSample | None = None
    counted: tuple[str, ...] = ("refused", "filtered")
    values_left_out: tuple[tuple[str, int], ...] = ()
    evidence: Evidence | None = None
    """What the pairs say one after another, where that was asked for."""

    @property
    def labelled(self) -> tuple[LabelledPair, ...]:
        """What people and the detector say of each labelled pair."""
        if self.labels is None:
            return ()
        cells = [cell.verdicts[1] - cell.verdicts[0] for cell in self.labels.cells]
        return tuple(
            LabelledPair(unit.said[1] - unit.said[0], cells[unit.cell], unit.weight) for unit in self.labels.labelled
        )


@dataclass(frozen=True, slots=True)
class DiffSettings:
    """What the user asks of a comparison."""

    fail_on: Severity = Severity.MODERATE
    gate_on: Direction = Direction.INCREASE
    gate: GateMode = GateMode.DEMUR
    seed: int | None = None
    alpha: float = 0.05
    margin: float = 0.05
    fail_inconclusive: bool = False
    min_paired: float = 0.8
    """The share of the smaller run's rows that must have a counterpart before anything is concluded."""
    limits: tuple[tuple[Outcome, float], ...] = ()
    """The largest share of rows, in either run, that may end in an outcome that is not judged."""
    min_ratio: float | None = 2.0
    """A proven change by this factor fails the gate too, however few points it is; None: only points count."""
    min_flips: int = 10
    """How many pairs must have flipped before a factor counts."""
    prove_no_increase: float | None = None
    """The gate passes only where the whole interval lies below this: non-inferiority."""
    family: Family | None = None
    """The candidates that this one is adjusted for, where several are compared with one baseline."""
    sequential: bool = False
    """Whether interval and p-value hold however often one looks, so that a run may stop early."""
    pool_slices: bool = False
    """Whether slices are shown by partial pooling as well."""


@dataclass(frozen=True, slots=True)
class Power:
    """The smallest difference that this n shows four times in five (None: none would), and the n that would settle it.

    `n_to_settle` is the pairs needed to see a difference as large as the margin at this share of flips.
    """

    mde: float | None
    n_to_settle: int | None


@dataclass(frozen=True, slots=True)
class Clustering:
    """How far rows of a cluster move together: clusters, the design effect, and the pairs that the data are worth."""

    field: str
    count: int
    design_effect: float
    effective_n: float


@dataclass(frozen=True, slots=True)
class SliceComparison:
    """One slice, with its false-discovery q among all slices compared."""

    field: str
    value: str
    counts: PairCounts
    baseline: Rate
    candidate: Rate
    difference: Difference
    q: float
    decision: Change
    pooled: PooledDifference | None = None


@dataclass(frozen=True, slots=True)
class OutcomeGap:
    """How often responses of each run ended in an outcome that is not judged: an axis beside refusals.

    Paired rates are of the pairs with a row in both runs; `difference` is None where the runs are not paired.
    """

    outcome: Outcome
    baseline: Rate
    candidate: Rate
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether the gate fails, and the sentence that says why.

    `undecided` where the data support neither a pass nor a failure; `unsettled` where that stops the gate (exit code 3).
    """

    mode: GateMode
    direction: Direction
    fail_on: Severity
    failed: bool
    why: str
    unsettled: bool = False
    undecided: bool = False

    @property
    def word(self) -> str:
        """`FAIL`, `UNDECIDED` or `PASS`; a pass is never said where there is not enough data for one."""
        return "FAIL" if self.failed else "UNDECIDED" if self.undecided or self.unsettled else "PASS"


@dataclass(frozen=True, slots=True)
class ComparedAxes:
    """Further axes of the same runs.

    `pairs` have a row in both runs, `read` of them were read for the axes: fewer where whole sessions were drawn. Safety itself is always
    that of all pairs. `gated` are the axes that may fail the gate, `gates` what it says of each of their results, by name.
    """

    report: AxesReport
    pairs: int
    read: int
    gated: tuple[AxisName, ...] = ()
    gates: tuple[tuple[str, GateResult], ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether the axes stand on a sample of the pairs."""
        return self.read < self.pairs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared: what was counted, what it says, and whether the gate fails.

    `flips_to_undo` is how many flips, had the detector misread them, would leave a proven change unproven; None where nothing
    is proven, or where pairs come in clusters. `axes` are the further ones that were asked for; the gate is then that of all
    that may fail it.
    """

    tally: Tally
    settings: DiffSettings
    baseline: Rate
    candidate: Rate
    difference: Difference
    seed_interval: Interval
    severity: Severity
    flags: tuple[Flag, ...]
    decision: Decision
    power: Power
    clustering: Clustering | None
    missing_bounds: tuple[float, float] | None
    slices: tuple[SliceComparison, ...]
    correction: LabelCorrection | None
    gate: GateResult
    gaps: tuple[OutcomeGap, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why nothing is concluded although there are numbers: too few pairs, or responses without a verdict that could change it."""
    flips_to_undo: int | None = None
    axes: ComparedAxes | None = None

    @property
    def labels_decide(self) -> bool:
        """Whether the difference is that of people's labels; Shadow's gate knows its detector alone."""
        return (
            self.correction is not None and self.correction.lacking is None and self.settings.gate is not GateMode.SEED
        )

    def to_arrow(self) -> pa.Table:
        """Return one row for the whole and one a slice: counts, rates, difference, interval, p, q and decision."""
        # Imported here: only callers who ask for a table need Arrow, and the command line shall start quickly.
        import pyarrow as pa

        whole = {
            "field": None,
            "value": None,
            **_pair_figures(self.tally.counts, self.baseline, self.candidate, difference=self.difference),
            "q": None,
            "decision": str(self.decision.change),
        }
        rows = [whole] + [
            {
                "field": s.field,
                "value": s.value,
                **_pair_figures(s.counts, s.baseline, s.candidate, difference=s.difference),
                "q": s.q,
                "decision": str(s.decision),
            }
            for s in self.slices
        ]
        return pa.Table.from_pylist(rows, schema=_arrow_schema())


def _pair_figures(
    counts: PairCounts, baseline: Rate, candidate: Rate, *, difference: Difference
) -> dict[str, float | int | None]:
    return {
        "n": difference.n,
        "both": counts.both,
        "baseline_only": counts.baseline_only,
        "candidate_only": counts.candidate_only,
        "neither": counts.neither,
        "baseline_rate": baseline.value,
        "candidate_rate": candidate.value,
        "difference": difference.value,
        "low": difference.interval.low,
        "high": difference.interval.high,
        "p": difference.p,
    }


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    words = [(name, pa.string()) for name in ("field", "value")]
    counts = [(name, pa.int64()) for name in ("n", "both", "baseline_only", "candidate_only", "neither")]
    figures = ("baseline_rate", "candidate_rate", "difference", "low", "high", "p", "q")
    return pa.schema([*words, *counts, *((name, pa.float64()) for name in figures), ("decision", pa.string())])
