"""The few special functions that the tests and intervals here need.

They agree with scipy to 1e-8 of the value for parameters up to 1e7; what is smaller than a float can hold is 0.
"""

# Written out because the libraries that have them cost more to install and import than all the rest of the package.
from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "boundary",
    "half_binomial",
    "incomplete_beta",
    "log_beta",
    "normal_critical",
    "normal_two_sided",
    "student_critical",
]

_STIRLING_FROM = 10.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALVINGS = 80  # from an interval of width 2 to far below what a float can tell apart at 1
_SERIES_FROM = 1000  # degrees of freedom beyond which five terms in 1/df give Student's quantile to 1e-14
_MAX_FRACTIONS = 1_000_000
_CLOSE = 3e-16


def boundary(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return where `holds`, true at `low`, turns false on the way to `high`; `low` may be the larger of the two."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2


def log_beta(a: float, b: float) -> float:
    """Return log B(a, b) for a, b > 0."""
    small, large = min(a, b), max(a, b)
    total = a + b
    if large < _STIRLING_FROM:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(total)
    # The leading terms of the gamma functions are cancelled by hand: their plain difference would lose eight digits at 1e7.
    correction = _stirling_rest(large) - _stirling_rest(total)
    tail = math.log1p(-small / total)
    if small < _STIRLING_FROM:
        return math.lgamma(small) + correction + small - small * math.log(total) + (large - 0.5) * tail
    correction += _stirling_rest(small) + 0.5 * math.log(2 * math.pi / large)
    return correction + (small - 0.5) * math.log(small / total) + large * tail


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's continued fraction; 0 at x <= 0, 1 at x >= 1."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges fast only on this side of the mean.
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta(a, b)) / a
    return front * _beta_fraction(x, a, b) if front else 0.0


def half_binomial(k: int, n: int) -> tuple[float, float]:
    """Return (P(X < k), P(X = k)) for X ~ Bin(n, 1/2); meant for the lower half, k <= n/2, where nothing cancels."""
    at = math.exp(-math.log(n + 1) - log_beta(k + 1, n - k + 1) - n * math.log(2))
    return (incomplete_beta(0.5, n - k + 1, k) if k else 0.0), at


def normal_critical(alpha: float) -> float:
    """Return the z that a standard normal passes, in either direction, with probability alpha."""
    return NormalDist().inv_cdf(1 - alpha / 2)


def normal_two_sided(z: float) -> float:
    """Return the probability that a standard normal is at least as far from 0 as z."""
    return math.erfc(abs(z) / math.sqrt(2))


# Slices of one size, and simulations, ask for the same value over and over.
@lru_cache(maxsize=1024)
def student_critical(alpha: float, df: int) -> float:
    """Return the t that Student's distribution with df >= 1 passes, in either direction, with probability alpha."""
    if df >= _SERIES_FROM:
        z = normal_critical(alpha)
        s = z * z
        # Expansion of the quantile in powers of 1/df.
        terms = (
            z,
            z * (s + 1) / 4,
            z * ((5 * s + 16) * s + 3) / 96,
            z * (((3 * s + 19) * s + 17) * s - 15) / 384,
            z * ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / 92160,
        )
        return math.fsum(term / df**i for i, term in enumerate(terms))
    # t = sqrt(df (1/x - 1)), and x, unlike t, is bounded.
    share = boundary(lambda x: incomplete_beta(x, df / 2, 0.5) <= alpha, 0.0, 1.0)
    return math.sqrt(df * (1 - share) / share)


def _stirling_rest(x: float) -> float:
    """Return log Γ(x) less the leading terms of Stirling's formula, for x >= 10."""
    return math.fsum(term / x ** (2 * i + 1) for i, term in enumerate(_STIRLING))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of I_x(a, b) by the modified Lentz method; about sqrt(max(a, b)) steps."""
    d = 1 / (1 - (a + b) * x / (a + 1))
    c, value = 1.0, d
    for m in range(1, _MAX_FRACTIONS):
        twice = a + 2 * m
        even = m * (b - m) * x / ((twice - 1) * twice)
        d, c = 1 / (1 + even * d), 1 + even / c
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / (twice * (twice + 1))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        value *= d * c
        if abs(d * c - 1) < _CLOSE:
            break
    return value
