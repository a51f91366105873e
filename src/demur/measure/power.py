"""The smallest change that a comparison could have detected, and how many pairs would settle it."""

from __future__ import annotations

import math
from statistics import NormalDist

from demur.measure.special import boundary, normal_critical
from demur.model.comparison import Power

__all__ = ["detectable_difference", "pairs_needed", "power_of", "smoothed_share"]

POWER = 0.8  # the customary power: a real difference is missed once in five times


def power_of(n: float, share: float, *, margin: float, alpha: float = 0.05, design_effect: float = 1.0) -> Power:
    """Return what n independent pairs see at a share of flips, and the (dependent) pairs that would see the margin.

    A margin of 0 is settled by no number of pairs.
    """
    enough = None
    if margin > 0:
        enough = math.ceil(pairs_needed(margin, share, alpha=alpha) * design_effect)
    return Power(detectable_difference(n, share, alpha=alpha), enough)


def smoothed_share(discordant: int, n: int) -> float:
    """Return the share of pairs that flip, (b + c + 1)/(n + 2), which is never 0 or 1 (Laplace's rule of succession)."""
    return (discordant + 1) / (n + 2)


def pairs_needed(delta: float, share: float, *, alpha: float = 0.05) -> float:
    """Return the pairs, not rounded, that detect a difference of 0 < delta <= 1 with 80 % power."""
    # A difference of δ needs at least δ of the pairs to flip. Without a change the variance is ψ/n, with ψ the share of pairs that
    # flip, and under a difference δ it is (ψ - δ²)/n (Connor 1987, Biometrics 43:207).
    flips = max(share, delta)
    spread = normal_critical(alpha) * math.sqrt(flips) + NormalDist().inv_cdf(POWER) * math.sqrt(flips - delta**2)
    return (spread / delta) ** 2


def detectable_difference(n: float, share: float, *, alpha: float = 0.05) -> float | None:
    """Return the minimum detectable difference of n pairs (80 % power); None where even 1 would not be detected."""
    if n < pairs_needed(1.0, share, alpha=alpha):
        return None
    return boundary(lambda delta: n >= pairs_needed(delta, share, alpha=alpha), 1.0, 0.0)
