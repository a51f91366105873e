"""From measurements over pairs to the one value by which every axis is reported.

Rates use the same paired statistics as refusals and Shadow's absolute thresholds; values use its relative ones.

Whether responses got longer, slower or more expensive: the shift of a median over pairs.

The interval is the percentile bootstrap of median(candidate) - median(baseline) over whole clusters of pairs, the test is the
sign test on pairs: were as many higher as lower? Swapping the runs mirrors the difference and keeps p; the same seed gives
the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from demur.errors import UsageError
from demur.measure.clusters import cluster_effect, clustered_difference, sign_flip_midp
from demur.measure.decision import rate_flags, rate_severity
from demur.measure.paired import paired_bounds, paired_difference, percentile_interval
from demur.model.axes import AxisDetail, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ClusterSum, Missing, PairCounts
from demur.model.estimate import Direction, Flag, Interval, Severity

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    _Floats = npt.NDArray[np.float64]
    _Ints = npt.NDArray[np.int64]
    from collections.abc import Callable

    import numpy.typing as npt

    from demur.axes.measures import Floats, Ints
    from demur.model.comparison import PairNames

    Flags = npt.NDArray[np.bool_]

__all__ = [
    "MedianShift",
    "RateRows",
    "ValueRows",
    "cluster_details",
    "cluster_sums",
    "counts_of",
    "median_shift",
    "rate_result",
    "row_design_effect",
    "shown_evidence",
    "value_result",
    "value_severity",
]

_TINY = 1e-9
_MINOR_BELOW, _MODERATE_BELOW = 0.10, 0.30  # Shadow's relative thresholds
_RESAMPLES = 1000
_SPREADS = 8  # standard deviations of the median's rank that are followed value by value: beyond is less than 1e-14
_CELLS_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class MedianShift:
    """The medians of both sides, candidate less baseline with its interval, and the p of "as many higher as lower"."""

    baseline: float
    candidate: float
    interval: Interval
    p: float
    n: int
    higher: int
    lower: int

    @property
    def difference(self) -> float:
        """Candidate median less baseline median."""
        return self.candidate - self.baseline


def median_shift(
    baseline: npt.ArrayLike,
    candidate: npt.ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    alpha: float = 0.05,
) -> MedianShift:
    """Return how the median moved; `clusters` names what each pair moves together with.

    n = 0 is an error; one cluster alone has the interval (Δ, Δ) of its only resample, so a caller must look at n. Where no pair
    moved p is 1.
    """
    before, after = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if not len(before) or before.shape != after.shape or not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise UsageError("no medians without pairs of finite values", hint="leave out pairs that lack a side")
    known = {name: i for i, name in enumerate(dict.fromkeys(clusters or ()))}
    where = np.arange(len(before)) if clusters is None else np.array([known[name] for name in clusters], dtype=np.int64)
    # The sign test asks about the middle of the pairs' differences and assumes nothing about either distribution; with
    # clusters the signs of whole clusters are flipped.
    signs = np.sign(after - before).astype(np.int64)
    draws = _resampled_shifts(before, after, where, seed=seed)
    low, high = np.quantile(draws, (alpha / 2, 1 - alpha / 2))
    return MedianShift(
        float(np.median(before)),
        float(np.median(after)),
        Interval(float(low), float(high), "percentile bootstrap of medians", 1 - alpha),
        sign_flip_midp(cluster_sums(signs, where)),
        len(before),
        int((signs > 0).sum()),
        int((signs < 0).sum()),
    )


def value_severity(delta: float, baseline: float, low: float, high: float) -> Severity:
    """Return Shadow's label for a shift relative to its baseline.

    Below 1e-9 none; below 10 % minor, below 30 % moderate, else severe; an interval that strictly straddles zero caps it to minor, and so
    does a baseline of 0, where a relative size cannot be told; what is not finite is none.
    """
    if not all(map(math.isfinite, (delta, baseline, low, high))) or abs(delta) < _TINY:
        return Severity.NONE
    if abs(baseline) < _TINY or (low < -_TINY and high > _TINY) or abs(delta / baseline) < _MINOR_BELOW:
        return Severity.MINOR
    return Severity.MODERATE if abs(delta / baseline) < _MODERATE_BELOW else Severity.SEVERE


def cluster_sums(signs: npt.ArrayLike, where: npt.ArrayLike) -> tuple[ClusterSum, ...]:
    """Return the histogram of clusters by their net sign and size, from a sign and a cluster index per pair."""
    index = np.asarray(where, dtype=np.int64)
    net = np.bincount(index, weights=np.asarray(signs, dtype=np.float64)).astype(np.int64)
    kinds, counts = np.unique(np.stack([net, np.bincount(index)], axis=1), axis=0, return_counts=True)
    rows = zip(kinds.tolist(), counts.tolist(), strict=True)
    return tuple(ClusterSum(net, pairs, count) for (net, pairs), count in rows)


@dataclass(frozen=True, slots=True)
class _Side:
    """The pairs near the middle of one side, in the order of its values, and how many of each kind lie below them."""

    values: _Floats
    kind: _Ints
    below: _Ints


def _resampled_shifts(before: _Floats, after: _Floats, where: _Ints, *, seed: int) -> _Floats:
    """Return the shift of the median in each resample of whole clusters."""
    # A resample's median is within a few times sqrt(Σ M²)/2 ranks of the middle, so only pairs there are followed one by one.
    # Of the rest of a cluster only the number below matters; clusters that are alike in that are drawn together, as one cell
    # of the multinomial.
    size = np.bincount(where)
    reach = math.ceil(_SPREADS * math.sqrt(float((size.astype(np.float64) ** 2).sum())) / 2) + 1
    ranks = np.empty((2, len(before)), dtype=np.int64)
    for rank, values in zip(ranks, (before, after), strict=True):
        rank[np.argsort(values, kind="stable")] = np.arange(len(values))
    kept = (np.abs(2 * ranks - len(before)) <= 2 * reach).any(axis=0)
    under = ~kept & (ranks * 2 < len(before))
    below = [np.bincount(where, weights=row, minlength=len(size)).astype(np.int64) for row in under]
    # A cluster with a pair that is followed is a kind of its own.
    own = np.where(np.bincount(where, weights=kept) > 0, np.arange(len(size)) + 1, 0)
    rows = np.stack([size, *below, own], axis=1)
    _, first, kinds, count = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True)
    kind = kinds.reshape(-1)
    at = np.flatnonzero(kept)
    sides = []
    for values, lower in zip((before, after), below, strict=True):
        order = at[np.argsort(values[at], kind="stable")]
        sides.append(_Side(values[order], kind[where[order]], lower[first]))
    rng = np.random.default_rng(seed)
    many = max(1, _CELLS_AT_ONCE // (len(count) + len(at)))
    return np.concatenate(
        [
            _shifts(
                rng.multinomial(len(size), count / len(size), size=min(many, _RESAMPLES - done)), sides, size[first]
            )
            for done in range(0, _RESAMPLES, many)
        ]
    )


def _shifts(drawn: _Ints, sides: list[_Side], size: _Ints) -> _Floats:
    total = drawn @ size
    medians = []
    for side in sides:
        reached = (drawn @ side.below)[:, None] + np.cumsum(drawn[:, side.kind], axis=1)
        lower, upper = (
            np.minimum((reached <= rank[:, None]).sum(axis=1), len(side.values) - 1)
            for rank in ((total - 1) // 2, total // 2)
        )
        medians.append((side.values[lower] + side.values[upper]) / 2)
    shift: _Floats = medians[1] - medians[0]
    return shift


_FEW_DISCORDANT_BELOW = 5
_NO_MISSING = Missing()


@dataclass(frozen=True, slots=True)
class RateRows:
    """The pairs of a rate: whether it was so on each side; `sentence` describes one, by its index."""

    names: PairNames
    baseline: Flags
    candidate: Flags
    sentence: Callable[[int], str] = field(default=lambda _: "")

    @property
    def moved(self) -> Ints:
        """Candidate less baseline, pair by pair."""
        return self.candidate.astype(np.int64) - self.baseline.astype(np.int64)


@dataclass(frozen=True, slots=True)
class ValueRows:
    """The pairs of a value that both sides have."""

    names: PairNames
    baseline: Floats
    candidate: Floats


def counts_of(rows: RateRows) -> PairCounts:
    """Return the two-by-two table of some rows."""
    b, c = rows.baseline, rows.candidate
    return PairCounts(*(int(cell.sum()) for cell in (b & c, b & ~c, ~b & c, ~b & ~c)))


def rate_result(  # noqa: PLR0913 - all but the rows are keywords with defaults
    axis: AxisName,
    name: str,
    rows: RateRows,
    *,
    worse: Direction = Direction.INCREASE,
    missing: Missing = _NO_MISSING,
    lost: int = 0,
    alpha: float = 0.05,
    show: int = 20,
) -> AxisResult:
    """Return the axis of a share: McNemar's mid-p and Tango's interval, clustered where pairs come in clusters.

    `missing` are pairs of which one side may be known, for the worst case; `lost` are any others that could not be measured.
    """
    counts = counts_of(rows)
    sums = _row_clusters(rows)
    difference = clustered_difference(counts, sums, alpha=alpha)[0] if sums else paired_difference(counts, alpha=alpha)
    low, high = percentile_interval(counts.baseline_only, counts.candidate_only, counts.n)
    n = max(1, counts.n)
    raised: dict[Flag | AxisFlag, bool] = {
        Flag.FEW_DISCORDANT: counts.discordant < _FEW_DISCORDANT_BELOW,
        Flag.CLUSTERED: bool(sums),
        AxisFlag.MISSING: bool(missing.total + lost),
    }
    note = "had every missing verdict been so"
    ends = zip(("difference at best", "difference at worst"), paired_bounds(counts, missing) or (), strict=False)
    bounds = [AxisDetail(label, end, note) for label, end in ends]
    first, keys = worse is not Direction.DECREASE, rows.names.keys
    flipped = np.flatnonzero(rows.baseline != rows.candidate).tolist()
    # The worse direction first, then by name; sentences are made only for what is shown.
    chosen = nsmallest(max(0, show), flipped, key=lambda i: (bool(rows.candidate[i]) is not first, keys[i], i))
    flip_evidence = shown_evidence([(keys[i], rows.sentence(i)) for i in chosen], show)
    return AxisResult(
        axis,
        name,
        AxisUnit.SHARE,
        (counts.both + counts.baseline_only) / n,
        (counts.both + counts.candidate_only) / n,
        difference.value,
        difference.interval,
        difference.p,
        rate_severity(difference.value, low, high),
        counts.n,
        tested="as many pairs changed one way as the other",
        worse=worse,
        missing=missing.total + lost,
        flags=(*rate_flags(counts.n, low, high), *(flag for flag, up in raised.items() if up)),
        evidence=flip_evidence,
        details=(*bounds, *cluster_details(rows.names)),
    )


def value_result(
    axis: AxisName,
    unit: AxisUnit,
    rows: ValueRows,
    *,
    lost: int = 0,
    seed: int = 0,
    alpha: float = 0.05,
    show: int = 20,
) -> AxisResult:
    """Return the axis of a value's median; there must be at least one row."""
    clusters = rows.names.cluster.tolist()
    shift = median_shift(rows.baseline, rows.candidate, clusters=clusters, seed=seed, alpha=alpha)
    low, high = shift.interval.low, shift.interval.high
    raised: dict[Flag | AxisFlag, bool] = {
        Flag.CLUSTERED: len(set(clusters)) < len(clusters),
        AxisFlag.ZERO_BASELINE: shift.baseline == 0,
        AxisFlag.MISSING: lost > 0,
    }
    # The pairs that moved as the median did (or most pairs, where it stayed), the largest moves first.
    fell = (shift.difference or shift.higher - shift.lower) < 0
    keys, before, after = rows.names.keys, rows.baseline, rows.candidate
    moved = before - after if fell else after - before
    chosen = nsmallest(max(0, show), np.flatnonzero(moved > 0).tolist(), key=lambda i: (-moved[i], keys[i], i))
    value_evidence = shown_evidence([(keys[i], f"{before[i]:,.6g} → {after[i]:,.6g} {unit}") for i in chosen], show)
    return AxisResult(
        axis,
        str(axis),
        unit,
        shift.baseline,
        shift.candidate,
        shift.difference,
        shift.interval,
        shift.p,
        value_severity(shift.difference, shift.baseline, low, high),
        shift.n,
        tested="as many pairs are higher as lower",
        worse=Direction.INCREASE,
        missing=lost,
        flags=(*rate_flags(shift.n, low, high), *(flag for flag, up in raised.items() if up)),
        evidence=value_evidence,
        details=(
            AxisDetail("pairs higher", float(shift.higher)),
            AxisDetail("pairs lower", float(shift.lower)),
            AxisDetail("relative", shift.difference / shift.baseline if shift.baseline else None, "of the baseline"),
            *cluster_details(rows.names),
        ),
    )


def cluster_details(names: PairNames) -> tuple[AxisDetail, ...]:
    """Return how many clusters the pairs come in, and by what; nothing where each pair is alone."""
    count = len(np.unique(names.cluster))
    if count == len(names.cluster):
        return ()
    note = f"pairs of one {names.clustered_by or 'session or question'} count together"
    return (AxisDetail("clusters", float(count), note),)


def shown_evidence(found: Sequence[tuple[str, str]], show: int) -> tuple[AxisEvidence, ...]:
    """Return the first of some pairs and their sentences as evidence."""
    return tuple(AxisEvidence(key, sentence) for key, sentence in found[: max(0, show)])


def row_design_effect(rows: RateRows) -> float:
    """Return the design effect: how many clustered pairs are worth one independent pair; 1 where each is alone."""
    sums = _row_clusters(rows)
    return cluster_effect(counts_of(rows), sums).design_effect if sums else 1.0


def _row_clusters(rows: RateRows) -> tuple[ClusterSum, ...]:
    """Return the histogram of clusters, empty where every pair is alone."""
    known, where = np.unique(rows.names.cluster, return_inverse=True)
    return () if len(known) == len(rows.baseline) else cluster_sums(rows.moved, where.reshape(-1))
