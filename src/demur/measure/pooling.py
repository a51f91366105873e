"""Slices by partial pooling: each difference drawn towards what all slices of its field have in common, the more the less it rests on.

A normal model: slice differences scatter about a common mean by an unknown spread, of which nothing is known but that it is at most 1 (Rubin
1981, J. Educ. Stat. 6:377; Gelman 2006, Bayesian Analysis 1:515). The spread is averaged over, since one estimate of it is often 0, and
intervals then too short. For reading, never for a gate: the estimates are better on average over slices, and a slice that really is unlike
the others is drawn too far. Nothing is drawn at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from demur.measure.clusters import cluster_effect
from demur.measure.special import normal_critical
from demur.model.estimate import Interval, PooledDifference

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from demur.model.comparison import SliceTally

    _Floats = npt.NDArray[np.float64]

__all__ = ["MIN_SLICES", "partial_pooling", "pooled_differences"]

MIN_SLICES = 3
"""Fewer slices say nothing of how far slices differ, and are not pooled."""
_STEPS = (np.arange(600) + 0.5) / 600
# Spreads from 0 to 1, finest near 0, where large slices need it; each stands for as much as its step is wide.
_SPREADS, _WIDTHS = _STEPS**3, 3 * _STEPS**2


def pooled_differences(slices: Sequence[SliceTally], *, alpha: float = 0.05) -> tuple[PooledDifference | None, ...]:
    """Return the pooled difference of each slice of one field, in their order; None for each where fewer than three have pairs.

    Assumes that slices do not share pairs. A slice without pairs is left out and has None; without any flips all estimates are 0, with the
    width that half a flip each way gives.
    """
    known = [i for i, one in enumerate(slices) if one.counts.n]
    if len(known) < MIN_SLICES:
        return (None,) * len(slices)
    values = np.array([slices[i].counts.delta for i in known])
    means, variances, towards = partial_pooling(values, np.array([_variance(slices[i]) for i in known]))
    reach = normal_critical(alpha) * np.sqrt(variances)
    pooled = {
        i: PooledDifference(
            mean, Interval(max(-1.0, mean - half), min(1.0, mean + half), "partial pooling", 1 - alpha), share
        )
        for i, mean, half, share in zip(known, means.tolist(), reach.tolist(), towards.tolist(), strict=True)
    }
    return tuple(pooled.get(i) for i in range(len(slices)))


def partial_pooling(values: _Floats, variances: _Floats) -> tuple[_Floats, _Floats, _Floats]:
    """Return the mean and the variance of each value after pooling, and how far it was drawn to the common mean (0 to 1).

    Three values or more, each with a variance above 0; values and their spread lie between -1 and 1.
    """
    total = _SPREADS[:, None] ** 2 + variances
    weights = 1 / total
    of_mean = 1 / weights.sum(axis=1)
    mean = (weights @ values) * of_mean
    # The chance of each spread given the values, with the common mean integrated out.
    logs = 0.5 * np.log(of_mean) - 0.5 * (np.log(total) + (values - mean[:, None]) ** 2 * weights).sum(axis=1)
    chances = _WIDTHS * np.exp(logs - logs.max())
    chances /= chances.sum()
    share = variances * weights
    centres = (1 - share) * values + share * mean[:, None]
    within = (1 - share) * variances + share**2 * of_mean[:, None]
    means = chances @ centres
    return means, chances @ (within + (centres - means) ** 2), chances @ share


def _variance(one: SliceTally) -> float:
    """Return the variance of a slice's difference, with half a flip added each way so that it is never 0, times its design effect."""
    counts = one.counts
    b, c, n = counts.baseline_only + 0.5, counts.candidate_only + 0.5, counts.n + 1
    effect = cluster_effect(counts, one.clusters).design_effect if one.clusters else 1.0
    return effect * (b + c - (c - b) ** 2 / n) / n**2
