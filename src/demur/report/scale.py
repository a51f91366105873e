"""Along which axis do figures stand?

Laws: the axis holds zero and every value and end of an interval, those of n = 0 aside, which say nothing; its ends and ticks are round numbers, between three and eleven of
them; shares stay within 0 and 1, differences within -1 and 1; what is not finite is not drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING

from demur.report.view import Unit

if TYPE_CHECKING:
    from demur.report.view import IntervalPlot

__all__ = ["Scale", "scale_of"]

_STEPS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MOST_STEPS = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from its first tick to its last."""

    ticks: tuple[float, ...]

    def along(self, value: float) -> float:
        """Return where a value stands, between 0 and 1."""
        low, high = self.ticks[0], self.ticks[-1]
        return min(1.0, max(0.0, (value - low) / (high - low)))


def scale_of(plot: IntervalPlot) -> Scale:
    """Return the axis of a plot."""
    rows = [row for row in plot.rows if row.n]
    values = [v for row in rows for v in (row.value, row.low, row.high) if v is not None and isfinite(v)]
    least = 0.0 if plot.unit is Unit.PERCENT else -1.0
    low, high = max(least, min([0.0, *values])), min(1.0, max([0.0, *values]))
    step = next((s for s in _STEPS if (high - low) / s <= _MOST_STEPS), _STEPS[-1])
    # The thousandth keeps 0.6000000000000001 from asking for one more step.
    first, last = floor(low / step + 1e-3), ceil(high / step - 1e-3)
    return Scale(tuple(round(k * step, 6) for k in range(min(first, 0), max(last, first + 1, 1) + 1)))
