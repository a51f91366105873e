"""Did the same questions get more refusals? The interval and the test for a paired difference of rates.

Notation: n pairs, b abstained in the baseline alone, c in the candidate alone, Δ = (c - b)/n. Pairs are taken as independent; where
they come in groups see `clusters`.

Swapping the runs mirrors the interval and keeps p; only b, c and n matter, and nothing is drawn at random. What n pairs can show is in `plan`.

Shadow's percentile bootstrap of a paired difference of rates, with and without random numbers.

Both intervals are (0, 0) where b + c = 0, and (Δ, Δ) where every pair moved one way; they differ by a lattice step 1/n or two.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.special import boundary, half_binomial, normal_critical
from demur.model.estimate import Difference, Interval

if TYPE_CHECKING:
    from demur.model.comparison import Missing, PairCounts

__all__ = [
    "agreeing_interval",
    "flips_to_undo",
    "mcnemar_midp",
    "paired_bounds",
    "paired_difference",
    "percentile_interval",
    "resampled_interval",
    "tango_interval",
]

_TAILS = (0.025, 0.975)
_RESAMPLES = 1000
_SPREADS = 12  # standard deviations on either side that the transform covers: beyond is less than 1e-30


def percentile_interval(b: int, c: int, n: int) -> tuple[float, float]:
    """Return the 95 % percentile interval of (c - b)/n in the limit of endless resampling; (0, 0) for n = 0."""
    if n == 0 or b + c == 0:
        return 0.0, 0.0
    # A resample draws, for each pair, +1 with probability c/n, -1 with b/n, else 0. So its sum depends on (b, c, n) alone, and
    # the distribution in the limit of endless resampling is the inverse Fourier transform of φ(t)ⁿ.
    up, down = c / n, b / n
    spread = math.sqrt(max(n * (up + down - (up - down) ** 2), 0.0))
    reach = min(n, math.ceil(_SPREADS * spread) + _SPREADS)
    size, centre = 2 * reach + 1, c - b
    angles = 2 * np.pi * np.arange(size) / size
    powers = (1 - up - down + up * np.exp(1j * angles) + down * np.exp(-1j * angles)) ** n
    # Shifted so that index `reach` is the mean; a sum beyond the window would wrap round, and has no weight.
    chances = np.fft.fft(powers * np.exp(-1j * angles * (centre - reach))).real / size
    total = np.cumsum(np.maximum(chances, 0.0))
    at = np.searchsorted(total / total[-1], _TAILS)
    low, high = (max(-n, min(n, int(index) - reach + centre)) for index in at)
    return low / n, high / n


def resampled_interval(b: int, c: int, n: int, *, seed: int) -> tuple[float, float]:
    """Return the 95 % percentile interval of a thousand seeded resamples; (0, 0) for n = 0."""
    if n == 0:
        return 0.0, 0.0
    draws = np.random.default_rng(seed).multinomial(n, [c / n, b / n, max(0.0, 1 - (b + c) / n)], size=_RESAMPLES)
    low, high = np.quantile((draws[:, 0] - draws[:, 1]) / n, _TAILS)
    return float(low), float(high)


def paired_difference(counts: PairCounts, *, alpha: float = 0.05) -> Difference:
    """Return Δ with Tango's interval and McNemar's mid-p, which agree about 0; no pairs: 0 in [-1, 1] at p = 1."""
    b, c = counts.baseline_only, counts.candidate_only
    p = mcnemar_midp(b, c)
    interval = tango_interval(b, c, counts.n, critical=normal_critical(alpha))
    low, high = agreeing_interval(interval, p=p, alpha=alpha, delta=counts.delta)
    return Difference(counts.delta, Interval(low, high, "tango", 1 - alpha), p, counts.n)


def agreeing_interval(interval: tuple[float, float], *, p: float, alpha: float, delta: float) -> tuple[float, float]:
    """Return the interval as the inversion of one test: the exact one at 0, the score test elsewhere.

    0 is in it exactly where p > alpha, so that an interval never excludes what the p-value beside it allows, or the other way round. Where
    they disagree (in a few small tables) the interval reaches to 0, or ends just short of it on the side of the estimate.
    """
    low, high = interval
    if p > alpha:
        return min(low, 0.0), max(high, 0.0)
    tiny = math.ulp(0.0)
    return (max(low, tiny), high) if delta > 0 else (low, min(high, -tiny))


def tango_interval(b: float, c: float, n: float, *, critical: float) -> tuple[float, float]:
    """Return Tango's score interval for Δ (Tango 1998, Statistics in Medicine 17:891).

    It holds each d that the score test does not reject at `critical`. Counts may be fractions, as after division by a design
    effect. n = 0: [-1, 1]; b = c = 0: symmetric about 0 and not empty; Δ = -1: low is -1; Δ = 1: high is 1.
    """
    if n <= 0:
        return -1.0, 1.0
    delta = (c - b) / n
    high = _tango_upper(b, c, n, critical=critical) if delta < 1 else 1.0
    low = -_tango_upper(c, b, n, critical=critical) if delta > -1 else -1.0
    return low, high


def mcnemar_midp(b: int, c: int) -> float:
    """Return McNemar's two-sided mid-p: twice the tail of Bin(b + c, 1/2) beyond min(b, c), and its own chance once.

    Conditions on the pairs that flipped (Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91). No flips,
    or as many one way as the other: 1.
    """
    if b == c:
        return 1.0
    below, at = half_binomial(min(b, c), b + c)
    return min(1.0, 2 * below + at)


def paired_bounds(counts: PairCounts, missing: Missing) -> tuple[float, float] | None:
    """Return Δ if every missing response had been the worst, and the best, for the candidate; None where none is missing."""
    if not missing.total:
        return None
    n = counts.n + missing.total
    net = counts.candidate_only - counts.baseline_only
    fewer = missing.baseline_known_abstained + missing.candidate_known_answered + missing.nothing_known
    more = missing.baseline_known_answered + missing.candidate_known_abstained + missing.nothing_known
    return (net - fewer) / n, (net + more) / n


def _tango_upper(b: float, c: float, n: float, *, critical: float) -> float:
    """Return the largest d in [Δ, 1] that the score test does not reject, for Δ < 1."""

    def kept(d: float) -> bool:
        # The variance of one pair's difference where its mean is fixed at d and the rest fits best. For d < 0 the sides are
        # swapped: then the root's argument is a sum of positive terms, and the form chosen for q loses no digits.
        lost, gained, size = (c, b, -d) if d < 0 else (b, c, d)
        linear = (2 * n - gained + lost) * size - lost - gained
        constant = 2 * lost * size * (1 - size)
        root = math.sqrt(linear * linear + 4 * n * constant)
        q = constant / (linear + root) if linear > 0 else (root - linear) / (4 * n)
        variance = max(0.0, 2 * q + size * (1 - size))
        return n * d - (c - b) <= critical * math.sqrt(n * variance)

    return boundary(kept, (c - b) / n, 1.0)


def flips_to_undo(counts: PairCounts, *, alpha: float) -> int | None:
    """Return how many flips of the larger direction, had they not happened, would give p > alpha; None at p > alpha.

    n = 0 or no flips: None.
    """
    fewer, more = sorted((counts.baseline_only, counts.candidate_only))
    if mcnemar_midp(fewer, more) > alpha:
        return None
    # p falls as the larger count grows, so the last count that leaves it above alpha is found by bisection.
    low, high = fewer, more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if mcnemar_midp(fewer, middle) > alpha else (low, middle)
    return more - low
