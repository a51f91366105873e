"""Figures as people read them.

Laws: four characters at most; what is not known is a dash; a value and its interval are rounded alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.model.estimate import Rate
    from demur.model.evaluation import Score

__all__ = ["PERCENT", "UNKNOWN", "bounds", "fraction", "percent", "points", "spread"]

UNKNOWN = "\u2013"
PERCENT = " %"
_TO = "\u2013"
_FINE_BELOW = 0.00995


def fraction(value: float | None) -> str:
    """Return a figure between 0 and 1 with three decimals and no leading zero: `.965`, and `1.00` from .9995 on."""
    if value is None:
        return UNKNOWN
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0") else text[:4]


def percent(value: float | None) -> str:
    """Return a share in percent, finer where it is small: `46.9`, `0.12`, `0`, `100`."""
    if value is None:
        return UNKNOWN
    if value in (0.0, 1.0):
        return f"{100 * value:.0f}"
    return f"{100 * value:.2f}" if value < _FINE_BELOW else f"{100 * value:.1f}"[:4].rstrip(".")


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points, with its sign: `+1.2`, `-56.1`."""
    return UNKNOWN if value is None else f"{100 * value:+.1f}".replace("-0.0", "+0.0")


def bounds(figure: Rate | Score, form: Callable[[float | None], str] = fraction) -> str:
    """Return the interval of a figure as it stands behind it: `(.951` to `.975)`."""
    return f"({form(figure.interval.low)}{_TO}{form(figure.interval.high)})"


def spread(figure: Rate | Score, form: Callable[[float | None], str] = fraction, *, unit: str = "") -> str:
    """Return a figure, its unit where none stands above it, and its interval; a dash alone where nothing is known."""
    if figure.value is None:
        return UNKNOWN
    return f"{form(figure.value)}{unit} {bounds(figure, form)}"
