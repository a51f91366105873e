"""The difference corrected for the detector's own errors by pairs that people labelled.

The labelled pairs must be a random draw from the pairs compared. The estimate is then unbiased however wrong the detector
is, and the better it is, the narrower the interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.special import normal_critical, normal_two_sided
from demur.model.comparison import LabelCorrection
from demur.model.estimate import Difference, Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.comparison import LabelledPair, PairCounts

__all__ = ["MIN_LABELLED", "corrected_difference"]

MIN_LABELLED = 100  # fewer labelled pairs leave the normal interval of a rare difference unsound


def corrected_difference(
    counts: PairCounts, labelled: Sequence[LabelledPair], *, alpha: float = 0.05, design_effect: float = 1.0
) -> LabelCorrection | None:
    """Return the difference by PPI++ (Angelopoulos, Duchi and Zrnic 2023); None below a hundred labels.

    est = λ·mean(f of the rest) + mean(y - λf), with y the people's labels, f the detector's, and the λ in [0, 1] of least
    variance. The variance is multiplied by the design effect. Where all pairs are labelled the detector does not count; where
    the labels leave no variance at all p is 1 for a difference of 0, else 0.
    """
    many = len(labelled)
    if many < MIN_LABELLED:
        return None
    gained = counts.candidate_only - sum(pair.detector > 0 for pair in labelled)
    lost = counts.baseline_only - sum(pair.detector < 0 for pair in labelled)
    rest = counts.n - many
    if min(gained, lost, rest, rest - gained - lost) < 0:
        raise UsageError("the labelled pairs are not among the pairs compared", hint="label pairs of these two runs")
    detected, people = (sum(p.detector for p in labelled), sum(p.human for p in labelled))
    mean, variance = _moments(detected, sum(abs(p.detector) for p in labelled), many)
    weight = 0.0
    # A detector that never varies tells nothing about people's labels.
    if rest and variance > 0:
        # λ = cov(y, f) / ((1 + labelled/rest) var f)
        shared = sum(p.human * p.detector for p in labelled) / many - mean * people / many
        weight = min(1.0, max(0.0, shared / ((1 + many / rest) * variance)))
    errors = [pair.human - weight * pair.detector for pair in labelled]
    mean, variance = _moments(gained - lost, gained + lost, rest)
    centre = math.fsum(errors) / many
    value = weight * mean + centre
    spread = math.fsum((error - centre) ** 2 for error in errors) / many / many + (
        weight**2 * variance / rest if rest else 0.0
    )
    error = math.sqrt(spread * design_effect)
    reach = normal_critical(alpha) * error
    p = normal_two_sided(value / error) if error > 0 else float(value == 0)
    interval = Interval(max(-1.0, value - reach), min(1.0, value + reach), "ppi++", 1 - alpha)
    return LabelCorrection(Difference(value, interval, p, counts.n), weight, many)


def _moments(total: int, squares: int, n: int) -> tuple[float, float]:
    mean = total / n if n else 0.0
    return mean, (squares / n - mean * mean if n else 0.0)
