"""What may be said of a difference, which flags it has, and whether the gate fails.

p-values adjusted for multiple tests: Holm's method across axes, false discovery within one.

Adjusted p >= p, their order is kept, and one test alone is unchanged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from demur.model.comparison import Change, Conclusion, GateMode, GateResult
from demur.model.estimate import Direction, Flag, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.comparison import DiffSettings, PairCounts, Power
    from demur.model.estimate import Difference, Rate

__all__ = [
    "HOLM",
    "change_of",
    "conclusion_of",
    "data_flags",
    "false_discovery",
    "gate_of",
    "holm",
    "non_inferiority",
    "rate_flags",
    "rate_severity",
]

HOLM = "p held against all tested axes by Holm's method: the chance of even one false alarm stays below alpha"


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return each p adjusted by Holm's step-down method, in their order; None for None."""
    # Holm (1979, Scandinavian Journal of Statistics 6:65) bounds the chance of even one false alarm by alpha, whatever the
    # dependence between the tests. Chosen over false discovery because a gate fails on any single axis, and because axes of the
    # same pairs depend on each other in no known way. A missing p costs the others nothing.
    tested = sorted((value, index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, index) in enumerate(tested):
        least = max(least, min(1.0, value * (len(tested) - rank)))
        adjusted[index] = least
    return tuple(adjusted)


def false_discovery(p: Sequence[float]) -> tuple[float, ...]:
    """Return the q value of each p, in their order; holds for independent tests and for those that rise together."""
    # For lists that are read and not gated on: there the share of false alarms matters, not a single one.
    many = len(p)
    q = [1.0] * many
    least = 1.0
    for rank, index in zip(range(many, 0, -1), sorted(range(many), key=lambda i: -p[i]), strict=True):
        least = min(least, p[index] * (many / rank))
        q[index] = least
    return tuple(q)


_FEW_DISCORDANT_BELOW = 5
_COARSE_ABOVE = 0.15
_SEVERITIES = tuple(Severity)


def change_of(difference: Difference, *, alpha: float = 0.05, margin: float = 0.05, q: float | None = None) -> Change:
    """Return what can be said; `q` takes the place of p where many were tested."""
    # A change is claimed only if it is significant, its absence only if the whole interval is strictly inside the margin.
    if (difference.p if q is None else q) <= alpha and difference.value:
        return Change.INCREASED if difference.value > 0 else Change.DECREASED
    if -margin < difference.interval.low and difference.interval.high < margin:
        return Change.EQUIVALENT
    return Change.INCONCLUSIVE


def data_flags(
    rates: tuple[Rate, Rate], power: Power, *, discordant: int | None, clustered: bool, calibrated: bool
) -> tuple[Flag, ...]:
    """Return the flags beyond Shadow's, in the order of `Flag`; `discordant` is None where there are no pairs."""
    raised = {
        Flag.FEW_DISCORDANT: discordant is not None and discordant < _FEW_DISCORDANT_BELOW,
        Flag.UNDERPOWERED: power.mde is None or power.mde > _COARSE_ABOVE,
        Flag.BOUNDARY_RATE: any(rate.n and rate.count in (0, rate.n) for rate in rates),
        Flag.CLUSTERED: clustered,
        Flag.DETECTOR_UNCALIBRATED: not calibrated,
        Flag.UNPAIRED: discordant is None,
    }
    return tuple(flag for flag, up in raised.items() if up)


def conclusion_of(change: Change, gate_on: Direction) -> Conclusion:
    """Return what a change means for a gate: the one it is for is worse, the other better; a gate for both minds either."""
    if change is Change.EQUIVALENT:
        return Conclusion.EQUIVALENT
    if change is Change.INCONCLUSIVE:
        return Conclusion.INCONCLUSIVE
    minded = Direction.INCREASE if change is Change.INCREASED else Direction.DECREASE
    return Conclusion.WORSE if gate_on in (Direction.BOTH, minded) else Conclusion.BETTER


def non_inferiority(difference: Difference, settings: DiffSettings, *, margin: float) -> GateResult:
    """Return the gate that passes only on proof: the whole interval of the difference lies below the margin.

    The interval is two-sided at level 1 - alpha, so a rise as large as the margin passes with a chance of alpha/2. No pairs: undecided.
    """
    low, high, size = difference.interval.low, difference.interval.high, f"{100 * margin:g} points"
    ends = f"{100 * low:+.1f} to {100 * high:+.1f} points"
    failed, proven = low > margin, high < margin
    why = f"not proven that refusals rose by no more than {size}: the interval is {ends}"
    if proven:
        why = f"proven: refusals did not rise by more than {size} (interval {ends})"
    elif failed:
        why = f"proven: refusals rose by more than {size} (interval {ends})"
    undecided = not (failed or proven)
    return GateResult(
        settings.gate, settings.gate_on, settings.fail_on, failed, why, unsettled=undecided, undecided=undecided
    )


def gate_of(
    difference: Difference,
    severity: Severity,
    settings: DiffSettings,
    *,
    decision: Change | None = None,
    counts: PairCounts | None = None,
) -> GateResult:
    """Return whether the gate fails, and why, or why not; `counts` lets a change by a factor count beside one in points."""
    objection = _objection(difference, severity, settings, counts=counts)
    p, points = difference.p, abs(difference.value) * 100
    proof = "p < 0.001" if p < 0.001 else "p = 1" if p == 1 else f"p = {p:.3f}"  # noqa: PLR2004 - three decimals are shown
    proof = "by size alone" if settings.gate is GateMode.SEED else proof
    why = f"refusals did not change ({severity}, {proof})"
    if difference.value:
        verb = "rose" if difference.value > 0 else "fell"
        size = f"{points:{'.1f' if points >= 0.05 else '.1g'}}"  # noqa: PLR2004 - below, one decimal shows 0.0
        why = f"refusals {verb} by {size} points ({severity}, {proof})"
    factor = "" if counts is None else _factor_words(counts, settings)
    why += f"{factor}, {objection}" if objection else factor
    # Shadow's gate knows two answers only.
    undecided = decision is Change.INCONCLUSIVE and objection is not None and settings.gate is not GateMode.SEED
    return GateResult(
        settings.gate,
        settings.gate_on,
        settings.fail_on,
        failed=objection is None,
        why=why,
        unsettled=settings.fail_inconclusive and undecided,
        undecided=undecided,
    )


def _factor(counts: PairCounts) -> float | None:
    """Return by what factor the rate changed, the larger over the smaller; infinite from 0, None where neither run abstained."""
    low, high = sorted((counts.both + counts.baseline_only, counts.both + counts.candidate_only))
    return None if not high else high / low if low else math.inf


def _factor_words(counts: PairCounts, settings: DiffSettings) -> str:
    factor = _factor(counts)
    if not _changed_by_factor(counts, settings) or factor is None:
        return ""
    if math.isinf(factor):
        return ", from none at all" if counts.delta > 0 else ", to none at all"
    return f", by a factor of {factor:.1f}"


def _changed_by_factor(counts: PairCounts, settings: DiffSettings) -> bool:
    factor = _factor(counts)
    if settings.min_ratio is None or factor is None or settings.fail_on is Severity.SEVERE:
        return False
    return factor >= settings.min_ratio and counts.discordant >= settings.min_flips


def _objection(
    difference: Difference, severity: Severity, settings: DiffSettings, *, counts: PairCounts | None = None
) -> str | None:
    """Return why the gate does not fail, None where it does."""
    # A rate that doubled is large however few points it is: 1.7 to 6.6 % is four times as many refusals.
    by_factor = counts is not None and settings.gate is not GateMode.SEED and _changed_by_factor(counts, settings)
    if not by_factor and _SEVERITIES.index(severity) < _SEVERITIES.index(settings.fail_on):
        return f"below {settings.fail_on}"
    # Shadow's gate is for size alone; ours also wants proof, and the right direction.
    if settings.gate is GateMode.SEED:
        return None
    if difference.p > settings.alpha:
        return "not told apart from chance"
    direction = Direction.INCREASE if difference.value > 0 else Direction.DECREASE
    if settings.gate_on not in (Direction.BOTH, direction):
        return f"and the gate is for {'an increase' if settings.gate_on is Direction.INCREASE else 'a decrease'}"
    return None


_TINY = 1e-9
_MINOR_BELOW, _MODERATE_BELOW = 0.05, 0.15  # Shadow's thresholds
_LOW_POWER_BELOW = 5


def rate_severity(delta: float, low: float, high: float) -> Severity:
    """Return Shadow's label for a difference with its interval."""
    size = abs(delta)
    if not all(map(math.isfinite, (delta, low, high))) or size < _TINY:
        return Severity.NONE
    if size < _MINOR_BELOW or (_straddles_zero(low, high) and size < high - low):
        return Severity.MINOR
    return Severity.MODERATE if size < _MODERATE_BELOW else Severity.SEVERE


def rate_flags(n: int, low: float, high: float) -> tuple[Flag, ...]:
    """Return Shadow's flags: fewer than five pairs (but some), and an interval that strictly straddles zero."""
    low_power = (Flag.LOW_POWER,) if 0 < n < _LOW_POWER_BELOW else ()
    return (*low_power, Flag.CI_CROSSES_ZERO) if _straddles_zero(low, high) else low_power


def _straddles_zero(low: float, high: float) -> bool:
    return low < -_TINY and high > _TINY
