"""Rates and differences by people's labels of a sample, with the detector's verdicts on everything else.

The estimate is unbiased however wrong the detector is; the better it is, the narrower the interval. Assumed: within a cell the labelled
units are a random draw, each with the probability that its weight states.

Estimate: prediction-powered inference (PPI++, Angelopoulos, Duchi and Zrnic 2023) stratified by what the detector says (Fisch et al.
2024). Where its verdict is the same throughout a cell, the tuned weight λ cancels, and what is left is the post-stratified mean
Σ W m: W the share of a cell among all units, m the mean label in it, weighted by one over the probability (Hájek 1971).

Interval: each cell has its score interval (Tango 1998 for differences, Wilson 1927 for rates), which is never of zero width, and the
distances from the estimate to their ends are added as squares (MOVER, Zou and Donner 2008), W² and the share without a label (1 - f)
beside them. A last term has the same interval for all n units, had all been labelled. So the interval is that of the plain
score test where everything is labelled, and where no flip is among the labels it is as wide as they allow. p inverts the same interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

from demur.measure.paired import tango_interval
from demur.measure.rates import wilson_bounds
from demur.measure.special import boundary, normal_critical, normal_two_sided
from demur.model.estimate import Difference, Interval
from demur.model.labels import CorrectedRate, LabelCorrection, RateCorrection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from demur.model.labels import GivenLabel, LabelCell, LabelledUnit, LabelSample

__all__ = ["MIN_LABELLED", "MIN_LABELLED_FLIPS", "agreement", "corrected_difference", "corrected_rate", "kappa_of"]

MIN_LABELLED = 50
"""Labelled units below which nothing is decided: the score interval alone is then wider than 7 points either way."""
MIN_LABELLED_FLIPS = 10
"""Labelled flips below which nothing is decided, unless the detector's flips are fewer and all labelled: a share of wrong ones is unknown."""
_MAX_UNDECIDED = 0.1
# A cell with fewer labels is read together with another: its own interval would say next to nothing.
_FEW_IN_CELL = 5
_MAX_CRITICAL = 40.0  # beyond, the two-sided p of a normal is 0 to a float
_METHOD = "stratified score"


@dataclass(frozen=True, slots=True)
class _Group:
    """Units that are estimated together: how many, how many have a label, what their labels are worth, and how often each was said."""

    units: int
    labelled: int
    effective: float
    down: float
    up: float

    @property
    def mean(self) -> float:
        return self.up - self.down


def corrected_difference(
    sample: LabelSample, *, alpha: float = 0.05, margin: float = 0.05, design_effect: float = 1.0
) -> LabelCorrection:
    """Return the difference of pairs, candidate less baseline, that people's labels give.

    The variance of both parts is multiplied by the design effect of sessions. No labels: 0 in [-1, 1] at p = 1. No flip among the labels:
    0, with Tango's interval for that many pairs, at p = 1. Every pair labelled: Tango's interval and the score test.
    """
    groups = _groups(sample, _net_of_cell, _net_of_unit)
    difference = _difference(groups, alpha, design_effect)
    counted = [(_net_of_cell(sample.cells[unit.cell]), _net_of_unit(unit)) for unit in sample.labelled]
    flips = sum(bool(detected or said) for detected, said in counted)
    correction = LabelCorrection(
        difference,
        _side(sample, 0, alpha=alpha, design_effect=design_effect),
        _side(sample, 1, alpha=alpha, design_effect=design_effect),
        labelled=len(counted),
        flips=flips,
        confirmed=sum(detected * said > 0 for detected, said in counted),
        found=sum(not detected and said != 0 for detected, said in counted),
        expected=_expected(sample),
        sample=sample,
        lacking=_lacking(sample, flips, sum(cell.units for cell in sample.cells if _net_of_cell(cell))),
    )
    return replace(correction, more=_more_labels(groups, difference, margin=margin, design_effect=design_effect))


def corrected_rate(sample: LabelSample, *, alpha: float = 0.05, design_effect: float = 1.0) -> RateCorrection:
    """Return the abstention rate of rows that people's labels give; no labels: the interval is [0, 1]."""
    counted = [(sample.cells[unit.cell].verdicts[0], unit.said[0]) for unit in sample.labelled]
    refusals = sum(bool(detected or said) for detected, said in counted)
    return RateCorrection(
        _side(sample, 0, alpha=alpha, design_effect=design_effect),
        len(counted),
        refusals,
        confirmed=sum(bool(detected and said) for detected, said in counted),
        found=sum(not detected and said > 0 for detected, said in counted),
        sample=sample,
        lacking=_lacking(sample, refusals, sum(cell.units for cell in sample.cells if cell.verdicts[0]), "refusals"),
    )


def agreement(labels: Iterable[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two annotators (Cohen 1960), from their words for the same items.

    None where there are no items, or where both say one word of all of them: nothing beyond chance can be seen then.
    """
    pairs = list(labels)
    if not pairs:
        return None
    n, words = len(pairs), {word for pair in pairs for word in pair}
    same = sum(first == second for first, second in pairs) / n
    shares = [[sum(pair[i] == word for pair in pairs) / n for word in words] for i in (0, 1)]
    chance = math.fsum(a * b for a, b in zip(*shares, strict=True))
    return None if chance >= 1 else (same - chance) / (1 - chance)


def _expected(sample: LabelSample) -> tuple[int, int, int, int]:
    """Return what all pairs would count up to by the labels: abstained in both runs, in one alone, in neither."""
    n = sample.units

    def total(part: Callable[[float, float], float]) -> int:
        groups = _groups(sample, _net_of_cell, lambda unit: part(unit.said[0], unit.said[1]))
        return round(math.fsum(group.units * group.mean for group in groups))

    lost, gained = total(lambda b, c: max(0.0, b - c)), total(lambda b, c: max(0.0, c - b))
    both = min(n - lost - gained, total(min))
    return both, lost, gained, n - both - lost - gained


def _net_of_cell(cell: LabelCell) -> float:
    return cell.verdicts[1] - cell.verdicts[0]


def _net_of_unit(unit: LabelledUnit) -> float:
    return unit.said[1] - unit.said[0]


def _side(sample: LabelSample, side: int, *, alpha: float, design_effect: float) -> CorrectedRate:
    groups = _groups(sample, lambda cell: cell.verdicts[side], lambda unit: unit.said[side])
    value, low, high = _interval(groups, _wilson, critical=normal_critical(alpha), design_effect=design_effect)
    interval = Interval(max(0.0, low), min(1.0, high), _METHOD, 1 - alpha)
    return CorrectedRate(min(1.0, max(0.0, value)), interval, sample.units)


def _groups(
    sample: LabelSample, verdict: Callable[[LabelCell], float], said: Callable[[LabelledUnit], float]
) -> list[_Group]:
    """Return the cells as groups of one stratum and verdict; those with too few labels are joined with their largest neighbour.

    Which are joined depends on how many units and labels there are, never on what people said.
    """
    members: dict[tuple[str, float], list[int]] = defaultdict(list)
    for number, cell in enumerate(sample.cells):
        # Labels that we did not draw have one probability, so that strata would only divide them.
        members[cell.stratum if sample.drawn else "", verdict(cell)].append(number)
    by_cell: dict[int, list[LabelledUnit]] = defaultdict(list)
    for unit in sample.labelled:
        by_cell[unit.cell].append(unit)
    units = {key: sum(sample.cells[i].units for i in found) for key, found in members.items()}
    labels = {key: [unit for i in found for unit in by_cell[i]] for key, found in members.items()}

    def joins(key: tuple[str, float]) -> tuple[str, float] | None:
        others = [other for other in units if other != key and units[other]]
        alike = [other for other in others if other[1] == key[1]] or others
        return max(alike, key=lambda other: (units[other], other), default=None)

    for key in sorted(units, key=lambda key: (units[key], key)):
        into = joins(key) if len(labels[key]) < min(_FEW_IN_CELL, units[key]) else None
        if into is not None:
            units[into] += units.pop(key)
            labels[into] = labels[into] + labels.pop(key)
    return [_group(units[key], labels[key], said) for key in units if units[key]]


def _group(units: int, labels: Sequence[LabelledUnit], said: Callable[[LabelledUnit], float]) -> _Group:
    if not labels:
        return _Group(units, 0, 0.0, 0.0, 0.0)
    total = math.fsum(unit.weight for unit in labels)
    up, down = (math.fsum(unit.weight * max(0.0, sign * said(unit)) for unit in labels) / total for sign in (1.0, -1.0))
    # Kish (1965): what unequal weights leave of n labels; equal ones leave all.
    effective = total * total / math.fsum(unit.weight**2 for unit in labels)
    return _Group(units, len(labels), effective, down, up)


def _tango(down: float, up: float, n: float, critical: float) -> tuple[float, float]:
    return tango_interval(down * n, up * n, n, critical=critical)


def _wilson(_down: float, up: float, n: float, critical: float) -> tuple[float, float]:
    return wilson_bounds(up, n, level=2 * NormalDist().cdf(critical) - 1)


def _interval(
    groups: Sequence[_Group],
    bounds: Callable[[float, float, float, float], tuple[float, float]],
    *,
    critical: float,
    design_effect: float,
) -> tuple[float, float, float]:
    """Return the estimate and both ends; an end beyond what is possible is the caller's to cut."""
    n = sum(group.units for group in groups)
    if not n:
        return 0.0, *bounds(0.0, 0.0, 0.0, critical)
    shares = [group.units / n for group in groups]
    value = math.fsum(share * group.mean for share, group in zip(shares, groups, strict=True))
    below = above = 0.0
    for share, group in zip(shares, groups, strict=True):
        low, high = bounds(group.down, group.up, group.effective / design_effect, critical)
        open_share = share * share * (1 - group.labelled / group.units)
        below += open_share * (group.mean - low) ** 2
        above += open_share * (high - group.mean) ** 2
    down, up = (math.fsum(s * getattr(g, way) for s, g in zip(shares, groups, strict=True)) for way in ("down", "up"))
    low, high = bounds(down, up, n / design_effect, critical)
    return value, value - math.sqrt(below + (value - low) ** 2), value + math.sqrt(above + (high - value) ** 2)


def _difference(groups: Sequence[_Group], alpha: float, design_effect: float) -> Difference:
    def ends(critical: float) -> tuple[float, float, float]:
        return _interval(groups, _tango, critical=critical, design_effect=design_effect)

    value, low, high = ends(normal_critical(alpha))
    p = 1.0
    if value:
        # The intervals are nested in their critical value: the largest that keeps 0 outside gives p.
        towards_zero = 1 if value > 0 else 2
        p = normal_two_sided(boundary(lambda z: ends(z)[towards_zero] * value > 0, 0.0, _MAX_CRITICAL))
    interval = Interval(max(-1.0, low), min(1.0, high), _METHOD, 1 - alpha)
    return Difference(value, interval, p, sum(group.units for group in groups))


def _lacking(sample: LabelSample, flips: int, detected: int, word: str = "flips") -> str | None:
    """Return what is missing before labels can decide, counted in what matters: flips, not pairs."""
    labelled = len(sample.labelled)
    if labelled < min(MIN_LABELLED, sample.units):
        return f"{labelled:,} labels are fewer than the {min(MIN_LABELLED, sample.units)} that can decide"
    needed = min(MIN_LABELLED_FLIPS, detected)
    if flips < needed:
        return f"{flips:,} of the labels are {word}, fewer than the {needed} that can decide"
    if sample.undecided > _MAX_UNDECIDED * (labelled + sample.undecided):
        return f"{sample.undecided:,} of {labelled + sample.undecided:,} labels say `other`, more than {100 * _MAX_UNDECIDED:g} %"
    return None


def _more_labels(
    groups: Sequence[_Group], difference: Difference, *, margin: float, design_effect: float
) -> int | None:
    """Return how many further labels of the same kind would settle the result, if their shares stay as they are."""
    alpha = 1 - difference.interval.level
    labelled = sum(group.labelled for group in groups)

    def grown(factor: float) -> list[_Group]:
        sizes = [min(float(group.units), factor * group.labelled) for group in groups]
        return [
            replace(
                group, labelled=min(group.units, math.floor(size)), effective=group.effective * size / group.labelled
            )
            if group.labelled
            else group
            for group, size in zip(groups, sizes, strict=True)
        ]

    def open_still(factor: float) -> bool:
        _, low, high = _interval(grown(factor), _tango, critical=normal_critical(alpha), design_effect=design_effect)
        return low <= 0 <= high and not (-margin < low and high < margin)

    most = max((group.units / group.labelled for group in groups if group.labelled), default=1.0)
    if not labelled or not open_still(1.0) or open_still(most):
        return None
    factor = boundary(open_still, 1.0, most)
    return max(1, sum(group.labelled for group in grown(factor)) - labelled + 1)


def kappa_of(labels: Iterable[GivenLabel]) -> float | None:
    """Return the mean kappa of all pairs of annotators over the responses that both labelled; None where there are none."""
    words: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for label in labels:
        words[label.id, label.side][label.annotator] = label.word
    names = sorted({name for said in words.values() for name in said})
    found = [
        agreement((said[one], said[other]) for said in words.values() if one in said and other in said)
        for one, other in combinations(names, 2)
    ]
    known = [kappa for kappa in found if kappa is not None]
    return math.fsum(known) / len(known) if known else None
