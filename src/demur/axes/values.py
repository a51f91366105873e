"""Whether responses got longer, slower or more expensive: the shift of a median over pairs.

The interval is the percentile bootstrap of median(candidate) - median(baseline) over whole clusters of pairs, the test is the
sign test on pairs: were as many higher as lower? Swapping the runs mirrors the difference and keeps p; the same seed gives
the same bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from demur.errors import UsageError
from demur.measure.clusters import sign_flip_midp
from demur.model.comparison import ClusterSum
from demur.model.estimate import Interval, Severity

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    _Floats = npt.NDArray[np.float64]
    _Ints = npt.NDArray[np.int64]

__all__ = ["MedianShift", "cluster_sums", "median_shift", "value_severity"]

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
