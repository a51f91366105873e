"""Plots of an evaluation as inline SVG.

Laws: no script, no style of its own beyond class names, so that the page's colours hold in light, dark and print; every
mark has a title that says its numbers; every word is escaped; no interval is left undrawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.report.markup import escaped
from demur.report.numbers import fraction, percent, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.evaluation import Bin, Score

__all__ = ["Bar", "bars", "reliability"]

_SIDE = 240
_EDGE = 36
_LABEL = 190
_PLOT = 360
_FIGURE = 130
_ROW = 22


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a name, the figure with its interval, and the labelled share to compare it with, where there is one."""

    name: str
    figure: Rate | Score
    beside: float | None = None


def reliability(bins: Sequence[Bin], title: str) -> str:
    """Return the reliability diagram: mean score against the share that is positive by label, on the diagonal if right."""
    size = _SIDE + _EDGE + 12
    return "".join(
        [
            f'<svg class="reliability" viewBox="0 0 {size} {size}" width="{size}" height="{size}" role="img">',
            f"<title>{escaped(title)}</title>",
            *_square(),
            *(_point(b, max(c.positives.n for c in bins)) for b in bins),
            "</svg>",
        ]
    )


def _square() -> Iterator[str]:
    yield f'<rect class="frame" x="{_EDGE}" y="6" width="{_SIDE}" height="{_SIDE}"/>'
    yield f'<line class="ideal" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>'
    for tick in (0.0, 0.5, 1.0):
        yield f'<text x="{_x(tick)}" y="{_SIDE + 20}" text-anchor="middle">{tick:g}</text>'
        yield f'<text x="{_EDGE - 5}" y="{_y(tick) + 4}" text-anchor="end">{tick:g}</text>'
    yield f'<text x="{_x(0.5)}" y="{_SIDE + 36}" text-anchor="middle">mean score</text>'
    middle = _y(0.5)
    yield f'<text x="11" y="{middle}" text-anchor="middle" transform="rotate(-90 11 {middle})">positive by label</text>'


def _point(held: Bin, largest: int) -> str:
    x, share = _x(held.mean_score), held.positives
    radius = 3 + 6 * (share.n / largest) ** 0.5
    ends = f'y1="{_y(share.interval.low)}" y2="{_y(share.interval.high)}"'
    told = f"{share.n} rows, mean score {fraction(held.mean_score)}, positive {spread(share)}"
    return (
        f'<g><title>{told}</title><line class="whisker" x1="{x}" x2="{x}" {ends}/>'
        f'<circle class="dot" cx="{x}" cy="{_y(share.value or 0.0)}" r="{radius:.1f}"/></g>'
    )


def _x(share: float) -> float:
    return round(_EDGE + share * _SIDE, 1)


def _y(share: float) -> float:
    return round(6 + (1 - share) * _SIDE, 1)


def bars(rows: Sequence[Bar], title: str, *, in_percent: bool = False) -> str:
    """Return horizontal bars with interval whiskers; percentages are scaled to the largest upper end."""
    known = [row for row in rows if row.figure.value is not None]
    top = max((max(row.figure.interval.high, row.beside or 0.0) for row in known), default=1.0) if in_percent else 1.0
    width, height = _LABEL + _PLOT + _FIGURE, _ROW * len(known) + 8
    form = percent if in_percent else fraction
    drawn = (_bar(row, 4 + _ROW * at, top=top, form=form) for at, row in enumerate(known))
    head = f'<svg class="bars" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    return head + f"<title>{escaped(title)}</title>" + "".join(drawn) + "</svg>" if known else ""


def _bar(row: Bar, y: int, *, top: float, form: Callable[[float | None], str]) -> str:
    def at(share: float) -> float:
        return round(_LABEL + share / top * _PLOT, 1)

    figure, middle = row.figure, y + _ROW / 2
    low, high = at(figure.interval.low), at(figure.interval.high)
    told = spread(figure, form)
    length = round(at(figure.value or 0.0) - _LABEL, 1)
    parts = [
        f"<g><title>{escaped(row.name)}: {told}, n {figure.n}</title>",
        f'<text x="{_LABEL - 6}" y="{middle + 4}" text-anchor="end">{escaped(_shortened(row.name))}</text>',
        f'<rect class="bar" x="{_LABEL}" y="{y + 4}" width="{length}" height="{_ROW - 8}"/>',
        f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>',
    ]
    if row.beside is not None:
        x = at(row.beside)
        parts.append(f'<line class="label" x1="{x}" x2="{x}" y1="{y + 1}" y2="{y + _ROW - 1}"/>')
    parts.append(f'<text x="{_LABEL + _PLOT + 8}" y="{middle + 4}">{told}</text></g>')
    return "".join(parts)


def _shortened(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
