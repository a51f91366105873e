"""Numbers as people read them.

A share takes four characters at most; what is not known or not finite is a dash; a value and its interval are rounded alike.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.estimate import Interval, Rate
    from demur.model.evaluation import Score

__all__ = [
    "PERCENT",
    "UNKNOWN",
    "bounds",
    "chance",
    "chance_is",
    "decimals",
    "fraction",
    "level",
    "percent",
    "points",
    "points_range",
    "spread",
]

UNKNOWN = "\u2013"
PERCENT = " %"
_TO = "\u2013"
# From here on one decimal would round up to 1.0, so it says as much as two.
_FINE_BELOW = 0.00995
_LEAST_CHANCE = 0.001


def fraction(value: float | None) -> str:
    """Return a figure between 0 and 1 with three decimals and no leading zero: `.965`, and `1.00` from .9995 on."""
    if value is None or not isfinite(value):
        return UNKNOWN
    text = f"{value:.3f}"
    # APA style drops the zero of a number that cannot exceed one; all of them are then four characters wide.
    return text[1:] if text.startswith("0") else text[:4]


def decimals(value: float, places: int = 2) -> str:
    """Return a number of any size: `3.42`, `1,204`; a dash where it is not finite."""
    return f"{value:,.{places}f}" if isfinite(value) else UNKNOWN


def percent(value: float | None) -> str:
    """Return a share in percent, finer where it is small: `46.9`, `0.12`, `0`, `100`."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value in (0.0, 1.0):
        return f"{100 * value:.0f}"
    return f"{100 * value:.2f}" if value < _FINE_BELOW else f"{100 * value:.1f}"[:4].rstrip(".")


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points, with its sign: `+1.2`, `-56.1`."""
    if value is None or not isfinite(value):
        return UNKNOWN
    # Python rounds a small negative number to a negative zero.
    shown = f"{100 * value:+.1f}"
    return "+0.0" if shown == "-0.0" else shown


def points_range(low: float, high: float) -> str:
    """Return two differences in points as an interval: `+0.6 to +14.6`."""
    return f"{points(low)} to {points(high)}"


def chance(p: float) -> str:
    """Return a p or q with three decimals: `0.039`, `<0.001`, `1`; with a fourth where three would say 0.050."""
    if not isfinite(p):
        return UNKNOWN
    if p < _LEAST_CHANCE:
        return f"<{_LEAST_CHANCE:g}"
    # Three decimals would not say on which side of the usual level of 0.05 it is.
    shown = f"{p:.3f}"
    return "1" if shown == "1.000" else f"{p:.4f}" if shown == "0.050" else shown


def chance_is(name: str, p: float) -> str:
    """Return a p or q as it stands in a sentence: `p = 0.039`, `p < 0.001`."""
    shown = chance(p)
    return f"{name} < {shown[1:]}" if shown.startswith("<") else f"{name} = {shown}"


def level(interval: Interval) -> str:
    """Return the level of an interval: `95 %`, `98.33 %`."""
    return f"{100 * interval.level:.4g}{PERCENT}"


def bounds(figure: Rate | Score, form: Callable[[float | None], str] = fraction) -> str:
    """Return the interval of a figure as it stands behind it: `(.951` to `.975)`."""
    return f"({form(figure.interval.low)}{_TO}{form(figure.interval.high)})"


def spread(figure: Rate | Score, form: Callable[[float | None], str] = fraction, *, unit: str = "") -> str:
    """Return a figure, its unit where none stands above it, and its interval; a dash alone where nothing is known."""
    if figure.value is None:
        return UNKNOWN
    return f"{form(figure.value)}{unit} {bounds(figure, form)}"
