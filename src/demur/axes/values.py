"""Whether responses got longer, slower or more expensive: ratios over pairs, in Shadow's relative sizes.

A typical pair is told by the median ratio. Some changes spare the typical pair: so every value has its mean (and total) as well, latency its
95th percentile and the share of requests that no response came for. Each is a result of its own with its own test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.ratios import median_ratio, pair_ratios, tail_ratio, total_ratio
from demur.axes.results import RateRows, cluster_details, rate_result, shown_evidence, too_few_words
from demur.measure.decision import rate_flags
from demur.model.axes import AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.estimate import Direction, Flag, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.axes.measures import Floats
    from demur.axes.pairs import TimedRows
    from demur.axes.ratios import PairedRatio
    from demur.model.axes import AxisEvidence
    from demur.model.comparison import PairNames
    from demur.model.estimate import Interval

__all__ = ["TAIL_FROM", "ValueRows", "ratio_severity", "unanswered_result", "value_results"]

TAIL_FROM = 100
"""Pairs below which the slowest 5 % are fewer than five of each run, and no percentile is told."""
_TINY = 1e-9
_MINOR_BELOW, _MODERATE_BELOW = 0.10, 0.30  # Shadow's relative thresholds


@dataclass(frozen=True, slots=True)
class ValueRows:
    """The pairs of a value that both sides have, infinite at most on one of them; `lost` pairs lack it."""

    names: PairNames
    baseline: Floats
    candidate: Floats
    lost: int = 0


def ratio_severity(ratio: float, interval: Interval | None) -> Severity:
    """Return Shadow's label for a ratio of candidate to baseline.

    1 is none; within 10 % of it is minor, within 30 % moderate, else severe, infinity included; an interval that holds 1 caps it to
    minor, and that is the interval of the test.
    """
    size = abs(ratio - 1)
    if math.isnan(ratio) or size < _TINY:
        return Severity.NONE
    if (interval is not None and interval.low <= 1 <= interval.high) or size < _MINOR_BELOW - _TINY:
        return Severity.MINOR
    return Severity.MODERATE if size < _MODERATE_BELOW - _TINY else Severity.SEVERE


def value_results(
    axis: AxisName, unit: AxisUnit, rows: ValueRows, *, seed: int = 0, alpha: float = 0.05, show: int = 20
) -> Iterator[AxisResult]:
    """Yield the ratio of a typical pair, and what an axis has beside it; there must be at least one row."""
    _, where = np.unique(rows.names.cluster, return_inverse=True)
    index, before, after = where.reshape(-1).astype(np.int64), rows.baseline, rows.candidate
    found = median_ratio(before, after, index, alpha=alpha)
    sides = float(np.median(before)), float(np.median(after))
    typical = _ratio_result(axis, str(axis), unit, rows, found, sides=sides, alpha=alpha)
    higher, lower = int((after > before).sum()), int((after < before).sum())
    counts = AxisDetail("pairs higher", float(higher)), AxisDetail("pairs lower", float(lower))
    yield replace(
        typical,
        tested="the median of candidate over baseline, pair by pair, is 1",
        details=(*counts, *typical.details),
        evidence=_moves(rows, unit, show=show, fell=(found.value - 1 or higher - lower) < 0),
    )
    yield from _mean_result(axis, unit, rows, seed=seed, alpha=alpha)
    if axis is AxisName.LATENCY and len(before) >= TAIL_FROM:
        tail = tail_ratio(before, after, index, alpha=alpha)
        if tail is not None:
            ends = [float(np.quantile(side, 0.95, method="inverted_cdf")) for side in (before, after)]
            slow = _ratio_result(axis, f"{axis}/p95", unit, rows, tail, sides=(ends[0], ends[1]), alpha=alpha)
            yield replace(slow, tested="as many of the slowest 5 % of both runs are of one run as of the other")


def _mean_result(axis: AxisName, unit: AxisUnit, rows: ValueRows, *, seed: int, alpha: float) -> Iterator[AxisResult]:
    """Yield the ratio of the means, of pairs that both sides answered."""
    # One request without a response would make the mean of all of them infinite; their share is a result of its own.
    finite = np.flatnonzero(np.isfinite(rows.baseline) & np.isfinite(rows.candidate))
    if not len(finite):
        return
    lost = rows.lost + len(rows.baseline) - len(finite)
    kept = ValueRows(rows.names.only(finite), rows.baseline[finite], rows.candidate[finite], lost)
    _, where = np.unique(kept.names.cluster, return_inverse=True)
    index = where.reshape(-1).astype(np.int64)
    found = total_ratio(kept.baseline, kept.candidate, index, seed=seed, alpha=alpha)
    whole = math.fsum(kept.baseline), math.fsum(kept.candidate)
    sides = whole[0] / len(finite), whole[1] / len(finite)
    mean = _ratio_result(axis, f"{axis}/mean", unit, kept, found, sides=sides, alpha=alpha)
    totals = AxisDetail("total, baseline", whole[0]), AxisDetail("total, candidate", whole[1])
    yield replace(mean, tested="the mean, and so the total, is the same", details=(*totals, *mean.details))


def unanswered_result(rows: TimedRows, *, alpha: float = 0.05, show: int = 20) -> AxisResult | None:
    """Return the share of requests that timed out, or failed after a known time; None where none did."""
    kept = np.flatnonzero(rows.answered_or_not)
    before, after = np.isinf(rows.baseline[kept]), np.isinf(rows.candidate[kept])
    if not (before.any() or after.any()):
        return None
    names = rows.names.only(kept)

    def sentence(at: int) -> str:
        return "no response in the candidate" if after[at] else "no response in the baseline"

    name = f"{AxisName.LATENCY}/unanswered"
    lost = len(rows.answered_or_not) - len(kept)
    return rate_result(
        AxisName.LATENCY, name, RateRows(names, before, after, sentence), lost=lost, alpha=alpha, show=show
    )


def _ratio_result(
    axis: AxisName,
    name: str,
    unit: AxisUnit,
    rows: ValueRows,
    found: PairedRatio,
    *,
    sides: tuple[float, float],
    alpha: float,
) -> AxisResult:
    interval = (
        None
        if found.interval is None
        else replace(found.interval, low=found.interval.low - 1, high=found.interval.high - 1)
    )
    moved = found.value - 1
    ends = (moved, moved) if interval is None else (interval.low, interval.high)
    raised: dict[Flag | AxisFlag, bool] = {
        Flag.CLUSTERED: found.clusters < found.n,
        AxisFlag.ZERO_BASELINE: bool(((rows.baseline == 0) & (rows.candidate > 0)).any()),
        AxisFlag.SIDES_DISAGREE: bool(found.p <= alpha and moved * (sides[1] - sides[0]) < 0),
        AxisFlag.MISSING: rows.lost > 0,
    }
    alike = "none: the pairs that decide moved alike" if interval is None else ""
    return AxisResult(
        axis,
        name,
        unit,
        *sides,
        moved,
        interval,
        found.p,
        ratio_severity(found.value, found.interval),
        found.n,
        worse=Direction.INCREASE,
        missing=rows.lost,
        flags=(*rate_flags(found.n, *ends), *(flag for flag, up in raised.items() if up)),
        details=(*((AxisDetail("interval", None, alike),) if alike else ()), *cluster_details(rows.names)),
        relative=True,
        undecidable=too_few_words(rows.names, alpha),
    )


def _moves(rows: ValueRows, unit: AxisUnit, *, show: int, fell: bool) -> tuple[AxisEvidence, ...]:
    """Return the pairs that moved as the median did (or most pairs, where it stayed), the largest ratios first."""
    keys, before, after = rows.names.keys, rows.baseline, rows.candidate
    ratios = pair_ratios(after, before) if fell else pair_ratios(before, after)
    size = np.abs(np.nan_to_num(after - before, posinf=np.inf, neginf=-np.inf))
    at = np.flatnonzero(ratios > 1).tolist()
    chosen = nsmallest(max(0, show), at, key=lambda i: (-ratios[i], -size[i], keys[i], i))

    def told(value: float) -> str:
        return "no response" if math.isinf(value) else f"{value:,.6g}"

    return shown_evidence([(keys[i], f"{told(before[i])} → {told(after[i])} {unit}") for i in chosen], show)
