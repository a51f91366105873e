"""From rates over pairs to the one value by which every axis is reported.

Rates use the same paired statistics as refusals, and Shadow's absolute thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.clusters import cluster_effect, clustered_difference, min_clusters
from demur.measure.decision import rate_flags, rate_severity
from demur.measure.paired import paired_bounds, paired_difference, percentile_interval
from demur.model.axes import AxisDetail, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ClusterSum, Missing, PairCounts
from demur.model.estimate import Direction, Flag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from demur.axes.measures import Ints
    from demur.model.comparison import PairNames

    Flags = npt.NDArray[np.bool_]

__all__ = [
    "RateRows",
    "cluster_details",
    "cluster_sums",
    "counts_of",
    "rate_result",
    "row_design_effect",
    "shown_evidence",
    "too_few_words",
]


def cluster_sums(signs: npt.ArrayLike, where: npt.ArrayLike) -> tuple[ClusterSum, ...]:
    """Return the histogram of clusters by their net sign and size, from a sign and a cluster index per pair."""
    index = np.asarray(where, dtype=np.int64)
    net = np.bincount(index, weights=np.asarray(signs, dtype=np.float64)).astype(np.int64)
    kinds, counts = np.unique(np.stack([net, np.bincount(index)], axis=1), axis=0, return_counts=True)
    rows = zip(kinds.tolist(), counts.tolist(), strict=True)
    return tuple(ClusterSum(net, pairs, count) for (net, pairs), count in rows)


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
        undecidable=too_few_words(rows.names, alpha),
    )


def cluster_details(names: PairNames) -> tuple[AxisDetail, ...]:
    """Return how many clusters the pairs come in, and by what; nothing where each pair is alone."""
    count = len(np.unique(names.cluster))
    if count == len(names.cluster):
        return ()
    note = f"pairs of one {names.clustered_by or 'session or question'} count together"
    return (AxisDetail("clusters", float(count), note),)


def too_few_words(names: PairNames, alpha: float) -> str:
    """Return that the pairs come in too few clusters to reject anything at alpha; empty where they do not."""
    count = len(np.unique(names.cluster))
    if count >= min_clusters(alpha):
        return ""
    alone = count == len(names.cluster)
    what = "pair" if alone else "session" if names.clustered_by in ("", "session") else f"group by {names.clustered_by}"
    many = what if count == 1 else f"{what}s" if " " not in what else what.replace("group", "groups", 1)
    return f"{count} {many} cannot support a test at {alpha * 100:g} %"


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
