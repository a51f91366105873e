"""Intervals for shares, F1 and macro-F1, in closed form.

0 <= low <= high <= 1 and the value is between; at k = 0 the low end is exactly 0, at k = n the high end exactly 1, and the
other end stays away from them.

The score interval and test for two independent shares: do two sets of different questions differ in their refusals? Both count rows, or
the sessions that rows come in.

Notation: x of n on each side, d = share of the first less share of the second. Swapping the sides mirrors the interval and
keeps p; an empty side tells nothing ([-1, 1], p = 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from demur.measure.clusters import min_clusters
from demur.measure.paired import agreeing_interval
from demur.measure.special import boundary, incomplete_beta, normal_critical, normal_two_sided, student_critical
from demur.model.estimate import Difference, Interval, Rate
from demur.model.evaluation import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.sessions import SessionSums

__all__ = [
    "clustered_rate",
    "f1_score",
    "macro_f1",
    "unpaired_bounds",
    "unpaired_difference",
    "unpaired_sessions",
    "wilson",
    "wilson_bounds",
]


def wilson(count: int, n: int, *, level: float = 0.95) -> Rate:
    """Return `count` of `n` with Wilson's score interval (Wilson 1927).

    Assumes independent rows. n = 0: [0, 1]; k = 0: low is 0; k = n: high is 1.
    """
    low, high = wilson_bounds(count / n if n else 0.0, n, level=level)
    return Rate(count, n, Interval(low, high, "wilson", level))


def clustered_rate(sums: SessionSums, *, level: float = 0.95) -> Rate:
    """Return the rate of rows that come in sessions: Wilson's interval at the rows that they are worth, with t(G - 1) for z.

    The design effect is that of the variance between sessions (Rao and Scott 1992, Biometrics 48:577). Where each row stands alone this
    is Wilson's own. n = 0, and one session: [0, 1]; k = 0: low is 0; k = n: high is 1, and each session counts as one row.
    """
    if not sums.is_grouped:
        return wilson(sums.abstained, sums.rows, level=level)
    low, high = 0.0, 1.0
    if sums.sessions > 1:
        share, critical = sums.abstained / sums.rows, student_critical(1 - level, sums.sessions - 1)
        low, high = _score_bounds(share, sums.rows / sums.design_effect, critical)
    return Rate(sums.abstained, sums.rows, Interval(low, high, "wilson, design effect", level))


def f1_score(true_positives: int, false_positives: int, *, false_negatives: int, level: float = 0.95) -> Score:
    """Return F1 with its interval.

    Assumes independent rows. TP = 0: low is 0; no errors: high is 1. No positive by label: there is nothing to find, so the
    value is None, n is 0 and the interval [0, 1]; the false-positive rate describes such a set.
    """
    # F1 = 2J / (1 + J) rises with J = TP / (TP + FP + FN), a share of the rows that are positive by label or by the judge, so
    # Wilson's interval for J maps to one for F1. The number of those rows is taken as given.
    to_find = true_positives + false_negatives
    n = to_find + false_positives if to_find else 0
    share = wilson(true_positives, n, level=level)
    low, high = (2 * end / (1 + end) for end in (share.interval.low, share.interval.high))
    value = 2 * true_positives / (n + true_positives) if n else None
    return Score(value, n, Interval(low, high, "wilson of the Jaccard share", level))


def macro_f1(counts: Sequence[Sequence[int]], *, level: float = 0.95) -> Score:
    """Return the mean F1 of the classes of a confusion table with its interval.

    Row i is the label of class i, column i the prediction of the same class; further columns are predictions of no class. A
    class that no label names is left out of the mean. No rows: value None, interval [0, 1].
    """
    sizes = [sum(row) for row in counts]
    total = sum(sizes)
    classes = [k for k, size in enumerate(sizes) if size]
    if not classes:
        return Score(None, 0, Interval(0.0, 1.0, "delta", level))
    spread = {k: sizes[k] + sum(row[k] for row in counts) for k in classes}
    scores = {k: 2 * counts[k][k] / spread[k] for k in classes}
    value = sum(scores.values()) / len(classes)
    # The gradient of the mean of the scores in each cell of the table.
    first = second = 0.0
    for i, row in enumerate(counts):
        for j, cell in enumerate(row):
            slopes = ((2 * (i == j == k) - scores[k] * ((i == k) + (j == k))) / spread[k] for k in scores)
            slope = sum(slopes) / len(scores)
            first += cell * slope
            second += cell * slope * slope
    variance = max(0.0, second - first * first / total)
    # The delta method for a multinomial table (Takahashi et al. 2022) gives a variance, and with it an effective n; the interval
    # is Wilson's at that n, so that it never leaves [0, 1]. Without variance (all right or all wrong) the smallest class counts.
    effective = value * (1 - value) / variance if variance > 0 else min(sizes[k] for k in classes)
    low, high = wilson_bounds(value, effective, level=level)
    return Score(value, total, Interval(low, high, "delta", level))


def wilson_bounds(share: float, n: float, *, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share at a number of rows that may be a fraction, as an effective n is."""
    # No rows, nothing known.
    return _score_bounds(share, n, NormalDist().inv_cdf((1 + level) / 2)) if n > 0 else (0.0, 1.0)


def _score_bounds(share: float, n: float, z: float) -> tuple[float, float]:
    centre = share + z * z / (2 * n)
    reach = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # Exact at the ends, where rounding would leave 1e-17.
    low = 0.0 if share <= 0 else max(0.0, (centre - reach) / scale)
    high = 1.0 if share >= 1 else min(1.0, (centre + reach) / scale)
    return low, high


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


def unpaired_sessions(first: SessionSums, second: SessionSums, *, alpha: float = 0.05) -> Difference:
    """Return first less second where rows come in sessions.

    The score test and the interval that inverts it, with the variance of sessions: both sides share one intra-session correlation
    (Donner 1989, Biometrics 45:605), which is estimated about the shares of the hypothesis that is tested, as a score test does. Estimated
    about each side's own share it rejects one time in ten at 5 % refusals. Critical values are those of t at Satterthwaite's degrees of
    freedom. Assumes independent sessions. Where each row stands alone this is `unpaired_difference`.

    Nothing on a side, and one session: [-1, 1] at p = 1. None, or all, abstained on both sides: p = 1, and each session counts as one row.
    Fewer sessions on a side than can support a test: p = 1, and the interval, that of t, is widened to hold 0.
    """
    if not (first.is_grouped or second.is_grouped):
        return unpaired_difference((first.abstained, first.rows), (second.abstained, second.rows), alpha=alpha)
    n, name = first.rows + second.rows, "score, design effect"
    fewest = min(side.sessions for side in (first, second))
    if fewest < 2:  # noqa: PLR2004 - a spread needs two
        value = first.abstained / first.rows - second.abstained / second.rows if first.rows and second.rows else 0.0
        return Difference(value, Interval(-1.0, 1.0, name, 1 - alpha), 1.0, n)
    sides = _SessionSides(first, second)
    df = sides.degrees_of_freedom
    critical, variance = student_critical(alpha, df), sides.variance(0.0)
    low, high = -_sessions_upper(_SessionSides(second, first), critical), _sessions_upper(sides, critical)
    p = 1.0
    few = min(side.sessions for side in (first, second) if side.is_grouped)
    if variance > 0 and few >= min_clusters(alpha):
        p = incomplete_beta(df / (df + sides.delta**2 / variance), df / 2, 0.5)
    low, high = agreeing_interval((low, high), p=p, alpha=alpha, delta=sides.delta)
    return Difference(sides.delta, Interval(low, high, name, 1 - alpha), p, n)


def unpaired_bounds(
    first: tuple[int, int], second: tuple[int, int], *, first_failed: int, second_failed: int
) -> tuple[float, float] | None:
    """Return first less second if every failed row had been the worst, and the best; None where none failed."""
    if not first_failed + second_failed:
        return None
    (x1, n1), (x2, n2) = first, second
    one, two = n1 + first_failed, n2 + second_failed
    return x1 / one - (x2 + second_failed) / two, (x1 + first_failed) / one - x2 / two


@dataclass(frozen=True, slots=True)
class _SessionSides:
    first: SessionSums
    second: SessionSums

    @property
    def delta(self) -> float:
        return self.first.abstained / self.first.rows - self.second.abstained / self.second.rows

    @property
    def degrees_of_freedom(self) -> int:
        """Satterthwaite's, of the variance without a difference; at least those of the side with fewer sessions."""
        effects = self._effects(0.0)
        parts = [effect / side.rows for effect, side in zip(effects, (self.first, self.second), strict=True)]
        terms = (part**2 / (side.sessions - 1) for part, side in zip(parts, (self.first, self.second), strict=True))
        return max(1, math.floor(sum(parts) ** 2 / sum(terms) + 1e-9))

    def variance(self, d: float) -> float:
        """Return the variance of the observed difference where the true one is d."""
        shares, effects = self._shares(d), self._effects(d)
        found = zip(shares, effects, (self.first, self.second), strict=True)
        return sum(share * (1 - share) * effect / side.rows for share, effect, side in found)

    def _shares(self, d: float) -> tuple[float, float]:
        return _constrained_shares(
            _Sides(self.first.abstained, self.first.rows, self.second.abstained, self.second.rows), d
        )

    def _effects(self, d: float) -> tuple[float, float]:
        """Return the design effect of each side, 1 + r (ΣM²/n - 1), at the shares that fit a difference of d best."""
        sides = (self.first, self.second)
        rows, abstained = (sum(getattr(side, name) for side in sides) for name in ("rows", "abstained"))
        sessions = sum(side.sessions for side in sides)
        # Nothing shows how far rows move together, so all of them do.
        correlation = 1.0
        if 0 < abstained < rows:
            apart = single = room = 0.0
            for side, share in zip(sides, self._shares(d), strict=True):
                spread = share * (1 - share)
                apart += side.squares - 2 * share * side.products + share * share * side.sizes
                single += side.rows * spread
                room += (side.sizes - side.rows) * spread
            apart *= sessions / (sessions - 1)
            correlation = min(1.0, max(0.0, (apart - single) / room)) if room > 0 else 0.0
        first, second = (1 + correlation * (side.sizes / side.rows - 1) for side in sides)
        return first, second


def _sessions_upper(sides: _SessionSides, critical: float) -> float:
    """Return the largest difference that the score test of sessions does not reject."""
    delta = sides.delta
    if delta >= 1:
        return 1.0
    return boundary(lambda d: d - delta <= critical * math.sqrt(sides.variance(d)), delta, 1.0)


def _score_upper(sides: _Sides, critical: float) -> float:
    """Return the largest difference that the score test does not reject."""
    delta = sides.delta
    if delta >= 1:
        return 1.0
    return boundary(lambda d: d - delta <= critical * math.sqrt(_constrained_variance(sides, d)), delta, 1.0)


def _constrained_variance(sides: _Sides, d: float) -> float:
    """Return the variance of the observed difference where the true one is d and the shares fit best."""
    n = sides.n1 + sides.n2
    first, second = _constrained_shares(sides, d)
    return (first * (1 - first) / sides.n1 + second * (1 - second) / sides.n2) * n / (n - 1)


def _constrained_shares(sides: _Sides, d: float) -> tuple[float, float]:
    """Return the shares that fit best where the first is d more than the second."""
    n = sides.n1 + sides.n2
    # The second share is the root of a cubic, by the cosine formula.
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
    return min(1.0, max(0.0, second + d)), second
