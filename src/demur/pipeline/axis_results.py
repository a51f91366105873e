"""From measurements over pairs to the one value that every axis is reported as.

Laws: rates go through the same paired statistics as refusals do, clusters included, and take the seed's absolute thresholds; values take
its relative ones; evidence is at most as much as asked for, the worse direction first, then by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.measure.bootstrap import percentile_interval
from demur.measure.clusters import cluster_effect, clustered_difference
from demur.measure.paired import paired_bounds, paired_difference
from demur.measure.severity import rate_flags, rate_severity
from demur.measure.value_axis import cluster_sums, median_shift, value_severity
from demur.model.axes import AxisDetail, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.axis import Flag
from demur.model.comparison import Direction, Missing, PairCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.comparison import ClusterSum
    from demur.model.estimate import Difference

__all__ = ["RateRow", "ValueRow", "counts_of", "rate_result", "row_design_effect", "shown_evidence", "value_result"]

_FEW_DISCORDANT_BELOW = 5
_NO_MISSING = Missing()


@dataclass(frozen=True, slots=True)
class RateRow:
    """One pair of a rate: whether the thing was so on each side, and what is to be said of it."""

    key: str
    cluster: str
    baseline: bool
    candidate: bool
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One pair of a value that both sides have."""

    key: str
    cluster: str
    baseline: float
    candidate: float


def counts_of(rows: Sequence[RateRow]) -> PairCounts:
    """Return the two-by-two table of some rows."""
    sides = [(row.baseline, row.candidate) for row in rows]
    return PairCounts(*(sides.count(cell) for cell in ((True, True), (True, False), (False, True), (False, False))))


def rate_result(  # noqa: PLR0913 - all but the rows are keywords with defaults
    axis: AxisName,
    name: str,
    rows: Sequence[RateRow],
    *,
    worse: Direction = Direction.INCREASE,
    missing: Missing = _NO_MISSING,
    lost: int = 0,
    alpha: float = 0.05,
    show: int = 20,
) -> AxisResult:
    """Return the axis of a share: McNemar's mid-p and Tango's interval, by clusters where pairs come so.

    `missing` are pairs of which one side may be known, for the worst case; `lost` are any others that could not be measured.
    """
    counts = counts_of(rows)
    difference, clustered = _rate_difference(rows, counts, alpha)
    low, high = percentile_interval(counts.baseline_only, counts.candidate_only, counts.n)
    n = max(1, counts.n)
    raised: dict[Flag | AxisFlag, bool] = {
        Flag.FEW_DISCORDANT: counts.discordant < _FEW_DISCORDANT_BELOW,
        Flag.CLUSTERED: clustered,
        AxisFlag.MISSING: bool(missing.total + lost),
    }
    bounds = paired_bounds(counts, missing)
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
        evidence=_flip_evidence(rows, worse, show),
        details=() if bounds is None else _bound_details(bounds),
    )


def value_result(
    axis: AxisName,
    unit: AxisUnit,
    rows: Sequence[ValueRow],
    *,
    lost: int = 0,
    seed: int = 0,
    alpha: float = 0.05,
    show: int = 20,
) -> AxisResult:
    """Return the axis of a value's median; there must be at least one row."""
    clusters = [row.cluster for row in rows]
    shift = median_shift(
        [row.baseline for row in rows], [row.candidate for row in rows], clusters=clusters, seed=seed, alpha=alpha
    )
    low, high = shift.interval.low, shift.interval.high
    raised: dict[Flag | AxisFlag, bool] = {
        Flag.CLUSTERED: len(set(clusters)) < len(rows),
        AxisFlag.ZERO_BASELINE: shift.baseline == 0,
        AxisFlag.MISSING: lost > 0,
    }
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
        evidence=_value_evidence(rows, unit, show),
        details=(
            AxisDetail("pairs higher", float(shift.higher)),
            AxisDetail("pairs lower", float(shift.lower)),
            AxisDetail("relative", shift.difference / shift.baseline if shift.baseline else None, "of the baseline"),
        ),
    )


def shown_evidence(found: Sequence[tuple[str, str]], show: int) -> tuple[AxisEvidence, ...]:
    """Return the first of some pairs and their sentences as evidence."""
    return tuple(AxisEvidence(key, sentence) for key, sentence in found[: max(0, show)])


def row_design_effect(rows: Sequence[RateRow]) -> float:
    """Return how many pairs it takes to be worth one, by how far those of a cluster move together; 1 where each is alone."""
    sums = _row_clusters(rows)
    return cluster_effect(counts_of(rows), sums).design_effect if sums else 1.0


def _rate_difference(rows: Sequence[RateRow], counts: PairCounts, alpha: float) -> tuple[Difference, bool]:
    sums = _row_clusters(rows)
    if not sums:
        return paired_difference(counts, alpha=alpha), False
    return clustered_difference(counts, sums, alpha=alpha)[0], True


def _row_clusters(rows: Sequence[RateRow]) -> tuple[ClusterSum, ...]:
    """Return the histogram of clusters, empty where every pair is alone."""
    known = {name: i for i, name in enumerate(dict.fromkeys(row.cluster for row in rows))}
    if len(known) == len(rows):
        return ()
    return cluster_sums([row.candidate - row.baseline for row in rows], [known[row.cluster] for row in rows])


def _flip_evidence(rows: Sequence[RateRow], worse: Direction, show: int) -> tuple[AxisEvidence, ...]:
    first = worse is not Direction.DECREASE
    flipped = [row for row in rows if row.baseline != row.candidate]
    flipped.sort(key=lambda row: (row.candidate is not first, row.key))
    return shown_evidence([(row.key, row.sentence) for row in flipped], show)


def _value_evidence(rows: Sequence[ValueRow], unit: AxisUnit, show: int) -> tuple[AxisEvidence, ...]:
    risen = [row for row in rows if row.candidate > row.baseline]
    risen.sort(key=lambda row: (row.baseline - row.candidate, row.key))
    return shown_evidence([(r.key, f"{r.baseline:,.6g} → {r.candidate:,.6g} {unit}") for r in risen], show)


def _bound_details(bounds: tuple[float, float]) -> tuple[AxisDetail, ...]:
    note = "had every missing verdict been so"
    return AxisDetail("difference at best", bounds[0], note), AxisDetail("difference at worst", bounds[1], note)
