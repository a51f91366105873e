"""Whether the manner of the responses drifted: twelve features of each, and one test of all of them together.

The test is Hotelling's T² for pairs: is the mean of the differences d (candidate less baseline) 0 in all dimensions? Swapping
the runs keeps T² and p. `shift` = T²/n runs from 0 to 1. No pairs, or none that moved: shift 0, p = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.results import cluster_details, shown_evidence
from demur.axes.steps import DIMENSIONS
from demur.measure.decision import rate_severity
from demur.measure.special import student_critical
from demur.model.axes import AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.estimate import Flag, Interval

if TYPE_CHECKING:
    import numpy.typing as npt

    from demur.axes.pairs import AxisPairs

    _Floats = npt.NDArray[np.float64]

__all__ = ["DimensionShift", "FingerprintShift", "fingerprint_result", "fingerprint_shift"]

_FLIPS = 1999
_SIGNS_AT_ONCE = 2_000_000
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class DimensionShift:
    """One feature: its means, the mean difference with its interval, p, and p held against the other features (max T).

    `effect` runs from -1 to 1, where every pair moved by the same; its square is the feature's own T²/n. `n` pairs have it on both sides.
    """

    name: str
    n: int
    baseline: float
    candidate: float
    interval: Interval
    effect: float
    p: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class FingerprintShift:
    """Hotelling's T² about 0 over `n` pairs in `count` clusters, its share of the largest possible, p, and each feature."""

    t_squared: float
    shift: float
    p: float
    n: int
    count: int
    dimensions: tuple[DimensionShift, ...]


def fingerprint_shift(
    baseline: npt.ArrayLike,
    candidate: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    alpha: float = 0.05,
) -> FingerprintShift:
    """Return whether two tables of features differ: rows are pairs, `clusters` has an index per pair, from 0 on.

    A value that either side lacks (nan) counts as a difference of 0.
    """
    before, after = (np.asarray(x, dtype=np.float64).reshape(-1, len(DIMENSIONS)) for x in (baseline, candidate))
    known = ~(np.isnan(before) | np.isnan(after))
    # A difference of 0 says nothing in either direction.
    moved = np.where(known, after - before, 0.0)
    where = np.arange(len(moved)) if clusters is None else np.asarray(clusters, dtype=np.int64)
    sums: _Floats = (
        np.stack([np.bincount(where, weights=column) for column in moved.T], axis=1).astype(np.float64)
        if len(moved)
        else moved
    )
    # Scatter about 0, not about the mean as in the textbook form: for the same test it is an increasing function of the
    # usual T², and it stays well defined where every pair moves alike.
    scale = np.sqrt((sums**2).sum(axis=0))
    units = sums / np.where(scale > 0, scale, 1.0)
    # Correlations are shrunk towards 0 by D/(D + n), which changes the power and never the level.
    many = units.shape[1]
    weight = many / (many + max(1, len(units)))
    value, vector = np.linalg.eigh((1 - weight) * (units.T @ units) + weight * np.eye(many))
    root: _Floats = vector / np.sqrt(value)
    white = units @ root
    total, single = _flip_tests(units, white, seed=seed)
    t_squared = float((white.sum(axis=0) ** 2).sum())
    dimensions = tuple(
        DimensionShift(
            name,
            int(known[:, j].sum()),
            _mean(before[known[:, j], j]),
            _mean(after[known[:, j], j]),
            _mean_interval(sums[:, j], np.bincount(where, weights=known[:, j]).astype(np.float64), alpha),
            float(units[:, j].sum()) / math.sqrt(max(1, len(units))),
            float(single[0][j]),
            float(single[1][j]),
        )
        for j, name in enumerate(DIMENSIONS)
    )
    # T²/n less what chance alone gives, as R² is adjusted for its predictors; 0 where nothing is left.
    moving = int((sums != 0).any(axis=0).sum())
    chance = moving / max(len(sums), moving + 1)
    share = min(1.0, t_squared / max(1, len(sums)))
    adjusted = max(0.0, (share - chance) / (1 - chance))
    return FingerprintShift(t_squared, adjusted, total, len(moved), len(sums), dimensions)


def _flip_tests(units: _Floats, white: _Floats, *, seed: int) -> tuple[float, tuple[_Floats, _Floats]]:
    """Return p of all features together, p of each, and p of each against the largest of all (Westfall and Young 1993)."""
    # Where both runs respond alike, the sign of a whole pair or cluster is as likely one way as the other, and the scatter is
    # the same after every flip, so the level holds for any n and any distribution of the features.
    each, whole = np.abs(units.sum(axis=0)), float((white.sum(axis=0) ** 2).sum())
    # The data as they are count as one of the flips, so that no p is 0 and the level is kept (Phipson and Smyth 2010).
    above, beyond, beyond_all = 1, np.ones(len(each)), np.ones(len(each))
    if whole <= _CLOSE:
        return 1.0, (np.ones(len(each)), np.ones(len(each)))
    rng = np.random.default_rng(seed)
    both = np.concatenate([units, white], axis=1)
    rows = max(1, _SIGNS_AT_ONCE // len(units))
    for done in range(0, _FLIPS, rows):
        cells = (min(rows, _FLIPS - done), len(units))
        bits = np.frombuffer(rng.bytes(-(-cells[0] * cells[1] // 8)), dtype=np.uint8)
        kept = np.unpackbits(bits, count=cells[0] * cells[1]).reshape(cells).astype(np.float64)
        # Signs are ±1: twice those that stay, less all.
        flipped = 2 * (kept @ both) - both.sum(axis=0)
        alone = np.abs(flipped[:, : len(each)])
        above += int(((flipped[:, len(each) :] ** 2).sum(axis=1) >= whole * (1 - _CLOSE)).sum())
        beyond += (alone >= each * (1 - _CLOSE)).sum(axis=0)
        beyond_all += (alone.max(axis=1)[:, None] >= each * (1 - _CLOSE)).sum(axis=0)
    return above / (_FLIPS + 1), (beyond / (_FLIPS + 1), beyond_all / (_FLIPS + 1))


def _mean(values: _Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _mean_interval(sums: _Floats, known: _Floats, alpha: float) -> Interval:
    """Return Student's interval of the mean difference between clusters, of which `known` pairs each have the feature."""
    many, total = int((known > 0).sum()), float(known.sum())
    # One cluster alone says nothing about the spread.
    if many < 2:  # noqa: PLR2004 - a spread needs two
        return Interval(-math.inf, math.inf, "student", 1 - alpha)
    mean = float(sums.sum()) / total
    # The mean is a ratio where clusters differ in size, so what scatters is each sum about the mean times its size.
    scatter = math.sqrt(float(((sums - mean * known) ** 2).sum()) * many / (many - 1))
    reach = student_critical(alpha, many - 1) * scatter / total
    return Interval(mean - reach, mean + reach, "student", 1 - alpha)


_FEW_CLUSTERS_BELOW = 5


def fingerprint_result(pairs: AxisPairs, *, seed: int, alpha: float, show: int) -> AxisResult:
    """Return how far the features of both sides are apart, by the signs of whole pairs or clusters."""
    where = np.unique(pairs.names.cluster, return_inverse=True)[1].reshape(-1)
    shift = fingerprint_shift(pairs.baseline.features, pairs.candidate.features, where, seed=seed, alpha=alpha)
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if shift.count < _FEW_CLUSTERS_BELOW else ()),
        *((Flag.CLUSTERED,) if shift.count < shift.n else ()),
        *((AxisFlag.MISSING,) if pairs.failed else ()),
    )
    # Only features that are proven to have moved are shown, the surest first: the others move by chance.
    moved = [one for one in shift.dimensions if one.p_adjusted <= alpha]
    found: list[tuple[str, str]] = []
    for one in sorted(moved, key=lambda one: (one.p_adjusted, -abs(one.effect), one.name)):
        j, keys = DIMENSIONS.index(one.name), pairs.names.keys
        before, after = pairs.baseline.features[:, j], pairs.candidate.features[:, j]
        rows = np.flatnonzero(after > before if one.candidate > one.baseline else after < before).tolist()
        size = np.abs(after - before)
        chosen = nsmallest(max(0, show - len(found)), rows, key=lambda i: (-size[i], keys[i], i))
        found += [(keys[i], f"`{one.name}` {before[i]:.3g} → {after[i]:.3g}") for i in chosen]
    return AxisResult(
        AxisName.FINGERPRINT,
        str(AxisName.FINGERPRINT),
        AxisUnit.SHIFT,
        None,
        None,
        shift.shift,
        None,
        shift.p,
        rate_severity(shift.shift, shift.shift, shift.shift),
        shift.n,
        tested="all twelve features have the same distribution in both runs (Hotelling's T², signs of pairs flipped)",
        missing=pairs.failed,
        flags=flags,
        evidence=shown_evidence(found, show),
        details=(AxisDetail("T squared", shift.t_squared), *cluster_details(pairs.names)),
        parts=_dimension_parts(shift),
    )


def _dimension_parts(shift: FingerprintShift) -> tuple[AxisResult, ...]:
    return tuple(
        AxisResult(
            AxisName.FINGERPRINT,
            f"fingerprint/{one.name}",
            AxisUnit.MEAN,
            one.baseline,
            one.candidate,
            one.candidate - one.baseline,
            one.interval,
            one.p,
            rate_severity(one.effect**2, one.effect**2, one.effect**2),
            one.n,
            tested="the mean is the same in both runs",
            p_adjusted=one.p_adjusted,
            missing=shift.n - one.n,
            flags=(AxisFlag.MISSING,) if one.n < shift.n else (),
        )
        for one in shift.dimensions
        if one.n
    )
