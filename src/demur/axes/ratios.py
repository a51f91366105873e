"""How many times the baseline a candidate's values are, over pairs: the median, the total and the tail.

Each function tests one null, "the ratio is θ", and its interval holds every θ that the test does not reject: the interval leaves 1 out
exactly where p <= alpha. Values are at least 0; a request without a response took infinitely long. From 0 to something is a ratio of
infinity, from something to 0 is 0, from 0 to 0 is 1. Pairs of a cluster move together and clusters are independent: `where` numbers them.
Swapping the runs inverts the ratio. With fewer clusters than a test at alpha needs, the interval is all of [0, ∞].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from demur.errors import UsageError
from demur.measure.clusters import min_clusters, sign_flip_midp
from demur.model.comparison import ClusterSum
from demur.model.estimate import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

__all__ = ["TAIL", "PairedRatio", "median_ratio", "pair_ratios", "tail_ratio", "total_ratio"]

TAIL = 0.95
_ENUMERATED = 12
"""Clusters up to which every one of the 2^G ways to flip their signs is tried."""
_FLIPS = 9_999
# Flipping blocks of independent clusters together is a valid test too, and costs no more for a million of them.
_BLOCKS = 512
_FLIPS_AT_ONCE = 2_000
_HALVINGS = 40
_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """A ratio of candidate to baseline over `n` pairs in so many clusters, with the interval that inverts the test of p.

    `interval` is None where its ends are the same: pairs that all moved alike have no spread to tell an interval from.
    """

    value: float
    interval: Interval | None
    p: float
    n: int
    clusters: int


def pair_ratios(before: Floats, after: Floats) -> Floats:
    """Return candidate over baseline, pair by pair; 1 where both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = after / before
    return np.where((before == 0) & (after == 0), 1.0, found)


def median_ratio(before: Floats, after: Floats, where: Ints, *, alpha: float = 0.05) -> PairedRatio:
    """Return the median of the pairs' ratios with the interval and p of the sign test, its signs flipped by whole clusters.

    The test of θ counts pairs above θ against all others, or below θ against all others: a pair that is equal to θ speaks against
    a change, so that the test is one of the median also where many pairs are equal. Nothing is assumed about the ratios; p is the mid-p
    (Fisher 1935), exact by convolution. n = 0 is an error; where no pair moved, p is 1.
    """
    ratios = _checked(before, after, where)

    def p_of(changed: npt.NDArray[np.bool_]) -> float:
        return _one_way(np.where(changed, 1, -1), where)

    def rejects_below(at: float) -> bool:
        return p_of(ratios > at) <= alpha

    def rejects_above(at: float) -> bool:
        return p_of(ratios < at) <= alpha

    known = np.unique(ratios)
    # p of "above θ" only falls as θ does: the first value that is not rejected is found by halving.
    low = _first_kept(known, rejects_below) if p_of(ratios >= known[0]) <= alpha else 0.0
    high = _first_kept(known[::-1], rejects_above) if p_of(ratios <= known[-1]) <= alpha else math.inf
    p = min(1.0, p_of(ratios > 1), p_of(ratios < 1))
    middle = np.sort(ratios)[[(len(ratios) - 1) // 2, len(ratios) // 2]].tolist()
    value = middle[0] if middle[0] == middle[1] else _geometric(*middle)
    return _result(value, (low, high), p, before, where, method="sign test, inverted", alpha=alpha)


def total_ratio(before: Floats, after: Floats, where: Ints, *, seed: int = 0, alpha: float = 0.05) -> PairedRatio:
    """Return the ratio of the totals (and so of the means) with the interval and p of flipping signs of whole clusters.

    The test of θ flips the sign of Σ(candidate - θ baseline) of each cluster; θ is not rejected where it lies among the ratios of the
    totals of random subsets of clusters (Hartigan 1969, typical values). Assumes that the runs are exchangeable within a cluster where
    nothing changed; away from 1 the interval is approximate. Up to 12 clusters all flips are tried, beyond that 9,999 drawn by the
    seed. n = 0 is an error; where all values are 0, the ratio and p are 1. All values must be finite.
    """
    _checked(before, after, where)
    sums: Floats = np.stack([np.bincount(where, weights=side) for side in (after, before)], axis=1).astype(np.float64)
    if len(sums) > _BLOCKS:
        block = np.arange(len(sums)) % _BLOCKS
        sums = np.stack([np.bincount(block, weights=side) for side in sums.T], axis=1).astype(np.float64)
    above, below = _subset_totals(sums, seed=seed).T
    ratios = pair_ratios(below, above)
    # A subset without any value is no evidence against any ratio.
    nothing = (above == 0) & (below == 0)
    lows, highs = np.sort(np.where(nothing, 0.0, ratios)), np.sort(np.where(nothing, np.inf, ratios))[::-1]
    tried = len(ratios) + 1
    few = min(int((lows <= 1).sum()), int((highs >= 1).sum()))
    p = min(1.0, (2 * few + 1) / tried)
    # The least number of subsets beyond θ at which its p is above alpha.
    kept = math.floor((alpha * tried - 1) / 2) + 1
    ends = (float(lows[kept - 1]), float(highs[kept - 1])) if kept >= 1 else (0.0, math.inf)
    whole = pair_ratios(before.sum(keepdims=True), after.sum(keepdims=True))
    method = "sign flips of totals, inverted"
    return _result(float(whole[0]), ends, p, before, where, method=method, alpha=alpha)


def tail_ratio(before: Floats, after: Floats, where: Ints, *, alpha: float = 0.05) -> PairedRatio | None:
    """Return the ratio of the 95th percentiles, with the interval and p of a paired test; None where both are infinite.

    The test of θ divides the candidate by θ, takes the largest 5 % of both runs together, and asks whether as many of them are of one
    run as of the other: signs of whole clusters are flipped, mid-p. Exact where the runs are exchangeable within a pair once
    divided; the interval is found by halving. n = 0 is an error; where all values are equal, p is 1.
    """
    _checked(before, after, where)
    ends = [float(np.quantile(side, TAIL, method="inverted_cdf")) for side in (before, after)]
    if not math.isfinite(ends[0]) and not math.isfinite(ends[1]):
        return None
    value = float(pair_ratios(np.array(ends[:1]), np.array(ends[1:]))[0])
    place = math.ceil(TAIL * 2 * len(before)) - 1

    def nets(at: float) -> Ints:
        scaled = after / at
        least = np.partition(np.concatenate([before, scaled]), place)[place]
        signs: Ints = (scaled >= least).astype(np.int64) - (before >= least).astype(np.int64)
        return signs

    def rejects_below(at: float) -> bool:
        return _one_way(nets(at), where) <= alpha

    def rejects_above(at: float) -> bool:
        return _one_way(-nets(at), where) <= alpha

    here = nets(1.0)
    rises, falls = _one_way(here, where), _one_way(-here, where)
    # Where very many values are equal the counts can differ although the percentiles do not: then nothing is claimed.
    p = 1.0 if min(rises, falls) <= alpha and (value <= 1 if rises < falls else value >= 1) else min(rises, falls)
    low = _edge(rejects_below, value, below=True, past_one=p <= alpha and rises < falls)
    high = _edge(rejects_above, value, below=False, past_one=p <= alpha and falls < rises)
    return _result(value, (low, high), p, before, where, method="exceedances, inverted", alpha=alpha)


def _checked(before: Floats, after: Floats, where: Ints) -> Floats:
    ratios = pair_ratios(before, after) if before.shape == after.shape == where.shape else np.array([np.nan])
    if not len(ratios) or np.isnan(ratios).any() or (before < 0).any() or (after < 0).any():
        raise UsageError("no ratios without pairs of values from 0 on", hint="leave out pairs that lack a side")
    return ratios


def _result(
    value: float, ends: tuple[float, float], p: float, before: Floats, where: Ints, *, method: str, alpha: float
) -> PairedRatio:
    clusters = len(np.unique(where))
    low, high = ends if clusters >= min_clusters(alpha) else (0.0, math.inf)
    low, high = min(low, value), max(high, value)
    alike = low == high or math.isclose(low, high, rel_tol=1e-9)
    return PairedRatio(value, None if alike else Interval(low, high, method, 1 - alpha), p, len(before), clusters)


def _one_way(signs: Ints, where: Ints) -> float:
    """Return the two-sided sign-flip mid-p where the signs sum to more than 0, else 1."""
    # Only the nets matter to the test, so clusters of one net are one kind, however large each is.
    nets, counts = np.unique(np.bincount(where, weights=signs).astype(np.int64), return_counts=True)
    if int(nets @ counts) <= 0:
        return 1.0
    kinds = zip(nets.tolist(), counts.tolist(), strict=True)
    return sign_flip_midp([ClusterSum(net, max(1, abs(net)), count) for net, count in kinds])


def _first_kept(known: Floats, rejects: Callable[[float], bool]) -> float:
    """Return the first of some values, in their order, that is not rejected; the last one never is."""
    low, high = 0, len(known) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rejects(float(known[middle])) else (low, middle)
    return float(known[low])


def _edge(rejects: Callable[[float], bool], value: float, *, below: bool, past_one: bool) -> float:
    """Return the last ratio that is not rejected on one side of the value; `past_one` where 1 is rejected on that side."""
    step = 0.5 if below else 2.0
    inside, outside = min(max(value, 2.0**-_DOUBLINGS), 2.0**_DOUBLINGS), 1.0
    if not past_one:
        inside = min(inside, 1.0) if below else max(inside, 1.0)
        outside = inside
        for _ in range(_DOUBLINGS):
            outside *= step
            if rejects(outside):
                break
        else:
            return 0.0 if below else math.inf
    elif rejects(inside):
        # Nothing finite is left: the percentile itself is 0 or infinite.
        return value
    for _ in range(_HALVINGS):
        middle = math.sqrt(inside * outside)
        inside, outside = (inside, middle) if rejects(middle) else (middle, outside)
    return inside


def _subset_totals(sums: Floats, *, seed: int) -> Floats:
    """Return the totals of both sides over subsets of clusters: all but the empty one, or as many as are drawn."""
    many = len(sums)
    if many <= _ENUMERATED:
        subsets = (np.arange(1, 1 << many)[:, None] >> np.arange(many)) & 1
        return subsets.astype(np.float64) @ sums
    rng = np.random.default_rng(seed)
    pieces = [min(_FLIPS_AT_ONCE, _FLIPS - done) for done in range(0, _FLIPS, _FLIPS_AT_ONCE)]
    return np.concatenate(
        [rng.integers(0, 2, (piece, many), dtype=np.int8).astype(np.float64) @ sums for piece in pieces]
    )


def _geometric(first: float, second: float) -> float:
    """Return the geometric mean, which swapping the runs inverts; 1 between 0 and infinity."""
    if first == 0 or math.isinf(second):
        return 1.0 if first == 0 and math.isinf(second) else math.inf if math.isinf(second) else 0.0
    return math.sqrt(first) * math.sqrt(second)
