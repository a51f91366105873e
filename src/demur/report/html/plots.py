"""Plots of a view as inline SVG.

Laws: no script, no style of its own beyond class names, so that the page's colours hold in light, dark and print; every mark has a
title that says its numbers; every word is escaped; no interval is left undrawn; places along an axis are shares of its
length, so that words keep their size on a screen of any width; ticks are round and carry their unit.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from demur.report.markup import escaped
from demur.report.numbers import UNKNOWN, percent, points, points_range
from demur.report.scale import scale_of
from demur.report.view import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.report.scale import Scale
    from demur.report.view import Flips, IntervalPlot, PlotRow

__all__ = ["along", "flips_bar", "interval_plot"]

_ROW = 24
_MIDDLE = _ROW // 2
_LEAST_LABELLED = 0.06
_FLIP_KINDS = (
    ("both", "refused by both"),
    ("lost", "no longer refused"),
    ("gained", "newly refused"),
    ("neither", "answered by both"),
)


def along(share: float) -> str:
    """Return a place along an axis as a share of its length."""
    return f"{100 * share:.5g}%"


def interval_plot(plot: IntervalPlot, rows: Sequence[PlotRow]) -> str:
    """Return some rows of a plot above its axis; the axis is that of all rows."""
    scale = scale_of(plot)
    drawn = "".join(_plot_row(row, plot.unit, scale) for row in rows)
    bounded = " (interval)" if any(row.low is not None for row in rows) else ""
    # A whole row of heads, empty ones too: the grid would fill a gap with the next row's cell.
    named = ("name", ""), ("size", "n"), ("value", f"{plot.unit}{bounded}"), ("track", "")
    head = "".join(f'<span class="{kind} head">{text}</span>' for kind, text in named)
    return f'<div class="bars spaced">{head}{drawn}{_axis_of(plot, scale)}</div>'


def _plot_row(row: PlotRow, unit: Unit, scale: Scale) -> str:
    name, told = escaped(row.label) or UNKNOWN, _figure_words(row, unit)
    ends = f" <small>{_interval_words(row, unit)}</small>" if row.low is not None else ""
    value = f'<span class="value"><b>{_value_words(row, unit)}</b>{ends}</span>'
    label = f'<span class="name" title="{name}">{name}</span><span class="size">{row.n:,}</span>'
    track = "".join(_track(row, unit, scale))
    return f'{label}{value}<svg class="track" height="{_ROW}" role="img" aria-label="{name}: {told}"><title>{name}: {told}</title>{track}</svg>'


def _value_words(row: PlotRow, unit: Unit) -> str:
    return points(row.value) if unit is Unit.POINTS else percent(row.value)


def _interval_words(row: PlotRow, unit: Unit) -> str:
    if row.low is None or row.high is None:
        return ""
    if unit is Unit.POINTS:
        return f"({points_range(row.low, row.high)})"
    return f"({percent(row.low)} to {percent(row.high)})"


def _figure_words(row: PlotRow, unit: Unit) -> str:
    """Return the numbers of a row with their unit, as its title says them."""
    return f"{_value_words(row, unit)} {unit} {_interval_words(row, unit)}".rstrip() + f", n {row.n:,}"


def _track(row: PlotRow, unit: Unit, scale: Scale) -> Iterator[str]:
    for tick in scale.ticks:
        x, kind = along(scale.along(tick)), "zero" if tick == 0 else "grid"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="0" y2="{_ROW}"/>'
    if row.value is None or not isfinite(row.value) or not row.n:
        return
    way = " more" if row.value > 0 else " fewer"
    series = " second" if row.second else way if row.strong and unit is Unit.POINTS else ""
    x, zero = along(scale.along(row.value)), scale.along(0.0)
    if unit is Unit.PERCENT:
        width = along(scale.along(row.value) - zero)
        yield f'<rect class="bar{series}" x="{along(zero)}" y="4" width="{width}" height="{_ROW - 8}"/>'
    if row.low is not None and row.high is not None and isfinite(row.low) and isfinite(row.high):
        yield from _whisker(along(scale.along(row.low)), along(scale.along(row.high)), series)
    if unit is Unit.POINTS:
        yield f'<circle class="dot{series}" cx="{x}" cy="{_MIDDLE}" r="5"/>'


def _whisker(low: str, high: str, series: str) -> Iterator[str]:
    yield f'<line class="whisker{series}" x1="{low}" x2="{high}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>'
    for x in (low, high):
        yield f'<line class="whisker{series}" x1="{x}" x2="{x}" y1="{_MIDDLE - 4}" y2="{_MIDDLE + 4}"/>'


def _axis_of(plot: IntervalPlot, scale: Scale) -> str:
    def tick(value: float) -> str:
        sign = "+" if plot.unit is Unit.POINTS and value > 0 else ""
        return f'<text x="{along(scale.along(value))}" y="14" text-anchor="middle">{sign}{100 * value:g}</text>'

    ticks = "".join(map(tick, scale.ticks))
    name = f'<text x="50%" y="32" text-anchor="middle">{escaped(plot.axis)}</text>'
    height = 38
    if plot.unit is Unit.POINTS:
        height = 54
        name += (
            '<text x="0%" y="49">← fewer refusals</text><text x="100%" y="49" text-anchor="end">more refusals →</text>'
        )
    return f'<svg class="axis" height="{height}" aria-hidden="true">{ticks}{name}</svg>'


def flips_bar(flips: Flips) -> str:
    """Return the four cells as one bar of the whole, and the key to it; nothing where there are no pairs."""
    if not flips.total:
        return ""
    counts = (flips.both, flips.baseline_only, flips.candidate_only, flips.neither)
    told = ", ".join(f"{count:,} {name}" for (_, name), count in zip(_FLIP_KINDS, counts, strict=True))
    parts, keys, start = [], [], 0.0
    for (kind, name), count in zip(_FLIP_KINDS, counts, strict=True):
        share = count / flips.total
        parts.append(_segment(kind, f"{name}: {count:,} ({percent(share)} %)", start, share, count=count))
        keys.append(f'<li><i class="key {kind}"></i>{name} <b>{count:,}</b> <small>{percent(share)} %</small></li>')
        start += share
    bar = f'<svg class="whole" height="34" role="img" aria-label="{told}">{"".join(parts)}</svg>'
    return f'{bar}<ul class="keys">{"".join(keys)}</ul>'


def _segment(kind: str, told: str, start: float, share: float, *, count: int) -> str:
    if not count:
        return ""
    label = ""
    if share >= _LEAST_LABELLED:
        label = f'<text x="{along(start + share / 2)}" y="22" text-anchor="middle">{count:,}</text>'
    rect = f'<rect class="cell {kind}" x="{along(start)}" y="0" width="{along(share)}" height="34"/>'
    return f"<g><title>{told}</title>{rect}{label}</g>"
