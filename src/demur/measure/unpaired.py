"""The score interval and test for two independent shares: do two sets of different questions differ in their refusals?

Notation: x of n on each side, d = share of the first less share of the second. Swapping the sides mirrors the interval and
keeps p; an empty side tells nothing ([-1, 1], p = 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from demur.measure.special import boundary, normal_critical, normal_two_sided
from demur.model.estimate import Difference, Interval

__all__ = ["unpaired_bounds", "unpaired_difference"]


@dataclass(frozen=True, slots=True)
class _Sides:
    x1: int
    n1: int
    x2: int
    n2: int

    @property
    def delta(self) -> float:
        return self.x1 / self.n1 - self.x2 / self.n2

    @property
    def swapped(self) -> _Sides:
        return _Sides(self.x2, self.n2, self.x1, self.n1)


def unpaired_difference(first: tuple[int, int], second: tuple[int, int], *, alpha: float = 0.05) -> Difference:
    """Return first less second, each (abstained, judged), over all rows of both.

    Miettinen and Nurminen's score interval (1985, Statistics in Medicine 4:213), and the score test of no difference with the
    same N/(N - 1). Assumes independent rows. Nothing on a side: 0 in [-1, 1] at p = 1; none, or all, abstained on both sides: p = 1.
    """
    sides = _Sides(*first, *second)
    n = sides.n1 + sides.n2
    if not (sides.n1 and sides.n2):
        return Difference(0.0, Interval(-1.0, 1.0, "miettinen-nurminen", 1 - alpha), 1.0, n)
    critical = normal_critical(alpha)
    high, low = _score_upper(sides, critical), -_score_upper(sides.swapped, critical)
    variance = _constrained_variance(sides, 0.0)
    p = normal_two_sided(sides.delta / math.sqrt(variance)) if variance > 0 else 1.0
    return Difference(sides.delta, Interval(low, high, "miettinen-nurminen", 1 - alpha), p, n)


def unpaired_bounds(
    first: tuple[int, int], second: tuple[int, int], *, first_failed: int, second_failed: int
) -> tuple[float, float] | None:
    """Return first less second if every failed row had been the worst, and the best; None where none failed."""
    if not first_failed + second_failed:
        return None
    (x1, n1), (x2, n2) = first, second
    one, two = n1 + first_failed, n2 + second_failed
    return x1 / one - (x2 + second_failed) / two, (x1 + first_failed) / one - x2 / two


def _score_upper(sides: _Sides, critical: float) -> float:
    """Return the largest difference that the score test does not reject."""
    delta = sides.delta
    if delta >= 1:
        return 1.0
    return boundary(lambda d: d - delta <= critical * math.sqrt(_constrained_variance(sides, d)), delta, 1.0)


def _constrained_variance(sides: _Sides, d: float) -> float:
    """Return the variance of the observed difference where the true one is d and the shares fit best."""
    n = sides.n1 + sides.n2
    # The second share that fits best where the first is d more: the root of a cubic, by the cosine formula.
    x = sides.x1 + sides.x2
    square = ((sides.n1 + 2 * sides.n2) * d - n - x) / (3 * n)
    linear = ((sides.n2 * d - n - 2 * sides.x2) * d + x) / (3 * n)
    constant = sides.x2 * d * (1 - d) / n
    spread = math.sqrt(max(0.0, square * square - linear))
    turn = square**3 - 1.5 * linear * square + constant / 2
    # At a triple root the angle is arbitrary, and rounding may carry a cosine past 1.
    cosine = min(1.0, abs(turn) / spread**3) if spread > 0 else 1.0
    angle = (math.pi + math.acos(cosine)) / 3
    share = math.copysign(2 * spread, turn) * math.cos(angle) - square
    second = min(1.0, 1 - d, max(0.0, -d, share))
    first = min(1.0, max(0.0, second + d))
    return (first * (1 - first) / sides.n1 + second * (1 - second) / sides.n2) * n / (n - 1)
