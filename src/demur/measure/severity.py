"""How much is a difference of rates? The seed's labels and flags, to the letter.

They describe the size of an effect, not whether it is real: one flip in five pairs is `severe` here, at p = 1.

Laws (`classify_rate` of the seed): below 1e-9 in size none, below 0.05 minor, below 0.15 moderate, else severe; where the
interval strictly straddles zero, anything above minor is capped to minor unless the difference is at least as large
as the interval is wide; what is not finite is none.
"""

from __future__ import annotations

import math

from demur.model.axis import Flag, Severity

__all__ = ["rate_flags", "rate_severity"]

_TINY = 1e-9
_MINOR_BELOW, _MODERATE_BELOW = 0.05, 0.15
_LOW_POWER_BELOW = 5


def rate_severity(delta: float, low: float, high: float) -> Severity:
    """Return the seed's label for a difference with its interval."""
    size = abs(delta)
    if not all(map(math.isfinite, (delta, low, high))) or size < _TINY:
        return Severity.NONE
    if size < _MINOR_BELOW or (_straddles_zero(low, high) and size < high - low):
        return Severity.MINOR
    return Severity.MODERATE if size < _MODERATE_BELOW else Severity.SEVERE


def rate_flags(n: int, low: float, high: float) -> tuple[Flag, ...]:
    """Return the seed's flags: fewer than five pairs (but some), and an interval that strictly straddles zero."""
    low_power = (Flag.LOW_POWER,) if 0 < n < _LOW_POWER_BELOW else ()
    return (*low_power, Flag.CI_CROSSES_ZERO) if _straddles_zero(low, high) else low_power


def _straddles_zero(low: float, high: float) -> bool:
    return low < -_TINY and high > _TINY
