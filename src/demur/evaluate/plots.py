"""Plots of an evaluation as inline SVG.

Laws: no script, no style of its own beyond class names, so that the page's colours hold in light, dark and print; every
mark has a title that says its numbers; every word is escaped; no interval is left undrawn; places along an axis are
shares of its length, so that words keep their size on a screen of any width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.report.html.plots import along
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, bounds, fraction, percent, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.evaluation import Bin, Score

__all__ = ["Bar", "bars", "reliability"]

_SIDE = 240
_LEFT = 52
_ABOVE = 10
_BELOW = 44
_ROW = 22
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_TOPS = (0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a name, the figure with its interval, and the labelled share to compare it with, where there is one."""

    name: str
    figure: Rate | Score
    beside: float | None = None


def reliability(bins: Sequence[Bin], title: str) -> str:
    """Return the reliability diagram: mean score against the share that is positive by label, on the diagonal if right."""
    width, height = _LEFT + _SIDE + 14, _ABOVE + _SIDE + _BELOW
    return "".join(
        [
            f'<svg class="reliability" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{escaped(title)}</title>",
            *_square(),
            *(_point(b, max(c.positives.n for c in bins)) for b in bins),
            "</svg>",
        ]
    )


def _square() -> Iterator[str]:
    for tick in _QUARTERS:
        x, y = _x(tick), _y(tick)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{_y(0)}" y2="{_y(1)}"/>'
        yield f'<line class="grid" x1="{_x(0)}" x2="{_x(1)}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{x}" y="{_y(0) + 17}" text-anchor="middle">{tick:g}</text>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>'
    yield f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>'
    yield f'<text x="{_x(0.5)}" y="{_y(0) + 36}" text-anchor="middle">mean score</text>'
    turned = f'transform="rotate(-90 13 {_y(0.5)})"'
    yield f'<text x="13" y="{_y(0.5)}" text-anchor="middle" {turned}>share positive by label</text>'


def _point(held: Bin, largest: int) -> str:
    x, share = _x(held.mean_score), held.positives
    radius = 3 + 5 * (share.n / largest) ** 0.5
    ends = f'y1="{_y(share.interval.low)}" y2="{_y(share.interval.high)}"'
    told = f"{share.n} rows, mean score {fraction(held.mean_score)}, positive {spread(share)}"
    return (
        f'<g><title>{told}</title><line class="whisker" x1="{x}" x2="{x}" {ends}/>'
        f'<circle class="dot" cx="{x}" cy="{_y(share.value or 0.0)}" r="{radius:.1f}"/></g>'
    )


def _x(share: float) -> float:
    return round(_LEFT + share * _SIDE, 1)


def _y(share: float) -> float:
    return round(_ABOVE + (1 - share) * _SIDE, 1)


def bars(rows: Sequence[Bar], axis: str, *, in_percent: bool = False) -> str:
    """Return horizontal bars with interval whiskers above a named axis, or nothing where no figure is known.

    Percentages are scaled to the first round number that holds every upper end; fractions always to 1.
    """
    known = [row for row in rows if row.figure.value is not None]
    if not known:
        return ""
    most = max(max(row.figure.interval.high, row.beside or 0.0) for row in known)
    top = next((top for top in _TOPS if top >= most), 1.0) if in_percent else 1.0
    drawn = (_bar(row, top, in_percent=in_percent) for row in known)
    return f'<div class="bars">{"".join(drawn)}{_axis(axis, top, in_percent=in_percent)}</div>'


def _bar(row: Bar, top: float, *, in_percent: bool) -> str:
    form, unit = (percent, PERCENT) if in_percent else (fraction, "")
    figure, middle, name = row.figure, _ROW / 2, escaped(row.name)
    low, high = along(figure.interval.low / top), along(figure.interval.high / top)
    parts = [
        f'<span class="name" title="{name}">{name}</span>',
        f'<span class="value">{form(figure.value)}{unit} <small>{bounds(figure, form)}</small></span>',
        f'<svg class="track" height="{_ROW}" role="img">',
        *(f'<line class="grid" x1="{along(at)}" x2="{along(at)}" y1="0" y2="{_ROW}"/>' for at in _QUARTERS),
        f"<g><title>{name}: {spread(figure, form, unit=unit)}, n {figure.n:,}</title>",
        f'<rect class="bar" x="0%" y="4" width="{along((figure.value or 0.0) / top)}" height="{_ROW - 8}"/>',
        f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle:g}" y2="{middle:g}"/>',
    ]
    if row.beside is not None:
        x = along(row.beside / top)
        parts.append(f'<line class="label" x1="{x}" x2="{x}" y1="1" y2="{_ROW - 1}"/>')
    return "".join([*parts, "</g></svg>"])


def _axis(name: str, top: float, *, in_percent: bool) -> str:
    def tick(at: float) -> str:
        shown = f"{100 * at * top:g}" if in_percent else f"{at:g}"
        return f'<text x="{along(at)}" y="13" text-anchor="middle">{shown}</text>'

    ticks = "".join(map(tick, _QUARTERS[::2]))
    return f'<svg class="axis" height="34" aria-hidden="true">{ticks}<text x="50%" y="30" text-anchor="middle">{escaped(name)}</text></svg>'
