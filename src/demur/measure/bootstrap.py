"""Shadow's percentile bootstrap of a paired difference of rates, with and without random numbers.

Both intervals are (0, 0) where b + c = 0, and (Δ, Δ) where every pair moved one way; they differ by a lattice step 1/n or two.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["percentile_interval", "resampled_interval"]

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
