"""The dashboard's charts as inline SVG.

Laws: no interval is left undrawn, though a band may leave the axis at its top; a bucket without data is a gap in the line, never a zero;
places along time are shares of the width, so that words keep their size on any screen; every chart has a name that says its
figures in a sentence, and its table beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from demur.dashboard.pages.values import Step
from demur.report.html.blocks import scrolled
from demur.report.html.plots import along
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demur.dashboard.pages.values import DecisionBucket, Period, RatePoint, RateSeries
    from demur.model.estimate import Rate

__all__ = ["EFFECT_ORDER", "decision_chart", "interval_words", "ranking", "rate_chart", "share_words", "when"]

EFFECT_ORDER = ("allow", "log", "warn", "redact", "review", "deny")
_HEIGHT = 200
_ABOVE = 8
_WIDTH = 1000
_MOST_LABELS, _FEW_LABELS = 6, 4
_MOST_STEPS = 5
_MOST_DOTS = 80
_THOUSAND, _MILLION = 1_000, 1_000_000
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_THICK_N = 5
_ASIDE = 0.08
"""Of a bucket's width."""
_WIDEST_COLUMN = 0.18
"""Of the chart's width."""
_STEP_WORDS = {Step.HOUR: "by hour", Step.DAY: "by day", Step.MONTH: "by month"}
_COUNTED = {Step.HOUR: "exchanges an hour", Step.DAY: "exchanges a day", Step.MONTH: "exchanges a month"}
_STEADY_N = 20
"""Among many buckets, one of fewer exchanges does not stretch the axis by its interval alone."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """What is measured upwards; `levels` are labels and their share of the height."""

    unit: str
    levels: Sequence[tuple[str, float]]


def share_words(rate: Rate) -> str:
    """Return a rate in percent, a dash where nothing was counted."""
    return percent(rate.value) + (PERCENT if rate.n else "")


def interval_words(rate: Rate) -> str:
    """Return the interval of a rate: `1.2 to 3.4 %`."""
    return f"{percent(rate.interval.low)} to {percent(rate.interval.high)}{PERCENT}" if rate.n else "nothing counted"


def when(at: str) -> str:
    """Return a bucket or a time for people, in UTC: `31 Jan 2026 12:00`, `31 Jan 2026`, `Jan 2026`."""
    year, month, day, clock = at[:4], at[5:7], at[8:10], at[11:16]
    if not month.isdecimal() or not 1 <= int(month) <= len(_MONTHS):
        return at
    name = _MONTHS[int(month) - 1]
    clock = f" {clock}:00" if clock and ":" not in clock else f" {clock}" if clock else ""
    return f"{int(day)} {name} {year}{clock}" if day.isdecimal() else f"{name} {year}"


def rate_chart(series: Sequence[RateSeries], period: Period, *, name: str, of: str = "exchanges") -> str:
    """Return rates over time, a line and a band of its 95 % interval for each model; `of` says what is a hundred percent."""
    top, step = _top_of(series, steady_n=_STEADY_N if len(period.buckets) > _MOST_LABELS else _THICK_N)
    places = [_places(period, number, len(series)) for number in range(len(series))]
    drawn = "".join(_drawn(line, number, places[number], top) for number, line in enumerate(series))
    dots = "".join(_dots(line, number, places[number], top) for number, line in enumerate(series))
    ticks = [n * step for n in range(round(top / step) + 1)]
    inner = f'<svg width="100%" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">{drawn}</svg>'
    hits = "".join(
        _hit(at, number, len(period.buckets), _rates_at(series, at)) for number, at in enumerate(period.buckets)
    )
    told = "; ".join(f"{line.name} {share_words(line.whole)} ({interval_words(line.whole)})" for line in series)
    levels = [(f"{100 * tick:g}{PERCENT}", tick / top) for tick in ticks]
    legend = "".join(_rate_key(line, number) for number, line in enumerate(series))
    axis = _Axis(f"% of {of}", levels)
    plot = _plot(axis, inner + dots + hits, period, told=f"{name} over time, whole period: {told}")
    return f'{plot}<ul class="legend">{legend}</ul>{_rates_table(series, period, name)}'


def _top_of(series: Sequence[RateSeries], *, steady_n: int) -> tuple[float, float]:
    """Return the end of the axis and its step; an interval of fewer exchanges than these does not stretch it."""
    highs = [0.001]
    for rate in (point.rate for line in series for point in line.points):
        highs += [rate.value or 0.0, rate.interval.high if rate.n >= steady_n else 0.0]
    highs += [line.whole.interval.high for line in series if line.whole.n >= steady_n]
    high = max(highs)
    step = next((step for step in _STEPS if high / step <= _MOST_STEPS), _STEPS[-1])
    return min(1.0, step * -(-high // step)), step


def _places(period: Period, number: int, count: int) -> dict[str, float]:
    """Return where along the time a line has its buckets: of few buckets beside the other lines, lest they cover each other."""
    aside = _ASIDE * (number - (count - 1) / 2) if len(period.buckets) <= _MOST_LABELS else 0.0
    return {at: (place + 0.5 + aside) / len(period.buckets) for place, at in enumerate(period.buckets)}


def _y(value: float, top: float) -> float:
    return round(_HEIGHT - (_HEIGHT - _ABOVE) * min(value, top) / top, 2)


def _drawn(line: RateSeries, number: int, places: Mapping[str, float], top: float) -> str:
    parts = []
    for run in _runs(line.points, places):
        marks = [_Mark.of(point.rate, _WIDTH * places[point.at], top) for point in run]
        # A band through a bucket of three would be as high as the chart and say nothing: its interval is a line.
        for thick, part in groupby(marks, key=lambda mark: mark.n >= _THICK_N):
            parts += _intervals(list(part), number, thick=thick)
        if len(marks) > 1:
            parts.append(f'<path class="line s{number}" d="M{" L".join(mark.middle for mark in marks)}"/>')
    return "".join(parts)


class _Mark(NamedTuple):
    """A bucket's rate and the ends of its interval, as places in the plot."""

    n: int
    upper: str
    lower: str
    middle: str

    @classmethod
    def of(cls, rate: Rate, x: float, top: float) -> _Mark:
        ends = (rate.interval.high, rate.interval.low, rate.value or 0.0)
        return cls(rate.n, *(f"{round(x, 2)} {_y(value, top)}" for value in ends))


def _intervals(marks: Sequence[_Mark], number: int, *, thick: bool) -> list[str]:
    if not thick or len(marks) == 1:
        return [f'<path class="alone s{number}" d="M{mark.upper} L{mark.lower}"/>' for mark in marks]
    around = [mark.upper for mark in marks] + [mark.lower for mark in reversed(marks)]
    return [f'<path class="band s{number}" d="M{" L".join(around)} Z"/>']


def _runs(points: Sequence[RatePoint], places: Mapping[str, float]) -> Iterator[list[RatePoint]]:
    """Yield stretches of neighbouring buckets that hold something."""
    by_time = {point.at: point for point in points if point.rate.n}
    run: list[RatePoint] = []
    for at in places:
        if at in by_time:
            run.append(by_time[at])
        elif run:
            yield run
            run = []
    if run:
        yield run


def _dots(line: RateSeries, number: int, places: Mapping[str, float], top: float) -> str:
    if len(places) > _MOST_DOTS:
        return ""
    return "".join(
        f'<circle class="s{number}" cx="{along(places[point.at])}" cy="{_y(point.rate.value or 0.0, top)}" r="2.6"/>'
        for point in line.points
        if point.rate.n and point.at in places
    )


def _rates_at(series: Sequence[RateSeries], at: str) -> str:
    lines = [when(at)]
    for line in series:
        rate = next((point.rate for point in line.points if point.at == at), None)
        said = f"{share_words(rate)} ({interval_words(rate)}), n {rate.n:,}" if rate and rate.n else "–"
        lines.append(f"{line.name}: {said}")
    return "\n".join(lines)


def _hit(at: str, number: int, count: int, said: str) -> str:
    """Return the column of a bucket that says its figures when it is pointed at."""
    return (
        f'<rect class="hit" x="{along(number / count)}" y="0" width="{along(1 / count)}" height="{_HEIGHT}" data-at="{escaped(at)}">'
        f"<title>{escaped(said)}</title></rect>"
    )


def _plot(axis: _Axis, inside: str, period: Period, *, told: str, labels: int = _MOST_LABELS) -> str:
    """Return a plot between its two axes, what they measure above it, and at most so many labels of the time."""
    ys = [(word, round(_HEIGHT - (_HEIGHT - _ABOVE) * share, 2)) for word, share in axis.levels]
    grid = "".join(
        f'<line class="{"zero" if n == 0 else "grid"}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        for n, (_, y) in enumerate(ys)
    )
    left = "".join(f'<text x="38" y="{y + 4}" text-anchor="end">{word}</text>' for word, y in ys)
    return (
        f'<div class="chart"><p class="axes"><span>{escaped(axis.unit)}</span><span>{_STEP_WORDS[period.step]}, UTC</span></p>'
        f'<svg height="{_HEIGHT}" aria-hidden="true">{left}</svg>'
        f'<svg height="{_HEIGHT}" role="img" aria-label="{escaped(told)}">{grid}{inside}</svg>{_time_axis(period, labels)}</div>'
    )


def _time_axis(period: Period, most: int) -> str:
    count = len(period.buckets)
    every = -(-count // most)
    numbers = range(every // 2 if count > most else 0, count, every)
    labels, last = "", ""
    for number in numbers:
        at = period.buckets[number]
        labels += f'<text x="{along((number + 0.5) / count)}" y="16" text-anchor="middle">{_tick_words(at, period.step, last)}</text>'
        last = at
    return f'<svg class="below" height="24" aria-hidden="true">{labels}</svg>'


def _tick_words(at: str, step: Step, last: str) -> str:
    """Return what an axis says of a bucket; an hour names its day where the label before is of another."""
    if step is Step.MONTH:
        return when(at)
    if step is Step.HOUR and last[:10] == at[:10]:
        return f"{at[11:13]}:00"
    return f"{int(at[8:10])} {_MONTHS[int(at[5:7]) - 1]}" + (
        f" {at[11:13]}:00" if step is Step.HOUR and at[11:13] != "00" else ""
    )


def _rate_key(line: RateSeries, number: int) -> str:
    mark = f'<svg aria-hidden="true"><line class="line s{number}" x1="0" x2="26" y1="5" y2="5"/></svg>'
    figures = f"<b>{share_words(line.whole)}</b> <small>({interval_words(line.whole)}), n {line.whole.n:,}</small>"
    return f"<li>{mark}{escaped(line.name)} {figures}</li>"


def _rates_table(series: Sequence[RateSeries], period: Period, name: str) -> str:
    known = [{point.at: point.rate for point in line.points} for line in series]
    head = "".join(f'<th scope="col">{escaped(line.name)}</th>' for line in series)
    rows = "".join(
        f'<tr><th scope="row">{when(at)}</th>' + "".join(_rate_cell(rates.get(at)) for rates in known) + "</tr>"
        for at in period.buckets
        if any(at in rates for rates in known)
    )
    unit = "%, with its 95 % interval (Wilson) and n"
    table = (
        f"<table><caption>{escaped(name)}, {unit}</caption>"
        f'<thead><tr><th scope="col">UTC</th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )
    return f"<details><summary>As a table</summary>{scrolled(f'{name}, table', table)}</details>"


def _rate_cell(rate: Rate | None) -> str:
    if rate is None or not rate.n:
        return "<td>–</td>"
    return f"<td>{percent(rate.value)}<small>{interval_words(rate)}, n {rate.n:,}</small></td>"


def decision_chart(buckets: Sequence[DecisionBucket], period: Period) -> str:
    """Return how many exchanges were decided how, stacked by bucket, the strongest at the bottom."""
    most = max((sum(bucket.counts.values()) for bucket in buckets), default=0) or 1
    top, step = _count_axis(most)
    count = len(buckets)
    columns = "".join(_column(bucket, number, count, top) for number, bucket in enumerate(buckets))
    hits = "".join(_hit(bucket.at, number, count, _counts_at(bucket)) for number, bucket in enumerate(buckets))
    totals = {word: sum(bucket.counts.get(word, 0) for bucket in buckets) for word in EFFECT_ORDER}
    known = {word: n for word, n in totals.items() if n}
    told = "decisions over time, whole period: " + ", ".join(f"{word} {n:,}" for word, n in known.items())
    levels = [(_short(n * step), n * step / top) for n in range(top // step + 1)]
    legend = "".join(
        f'<li><svg aria-hidden="true"><rect class="e-{word}" width="26" height="10" rx="2"/></svg>{word} <b>{n:,}</b></li>'
        for word, n in known.items()
    )
    plot = _plot(_Axis(_COUNTED[period.step], levels), columns + hits, period, told=told, labels=_FEW_LABELS)
    return f'{plot}<ul class="legend">{legend}</ul>{_decisions_table(buckets, list(known))}'


def _count_axis(most: int) -> tuple[int, int]:
    """Return the end of an axis of counts and its step, both round."""
    step = next(s * 10**power for power in range(12) for s in (1, 2, 5) if most <= _MOST_STEPS * s * 10**power)
    return step * -(-most // step), step


def _short(n: int) -> str:
    return f"{n / _MILLION:g}M" if n >= _MILLION else f"{n / _THOUSAND:g}k" if n >= _THOUSAND else str(n)


def _column(bucket: DecisionBucket, number: int, count: int, top: int) -> str:
    parts, y = [], float(_HEIGHT)
    for word in reversed(EFFECT_ORDER):
        n = bucket.counts.get(word, 0)
        if n:
            height = (_HEIGHT - _ABOVE) * n / top
            y -= height
            width = min(0.76 / count, _WIDEST_COLUMN)
            x = along((number + 0.5) / count - width / 2)
            parts.append(f'<rect class="e-{word}" x="{x}" y="{y:.2f}" width="{along(width)}" height="{height:.2f}"/>')
    return "".join(parts)


def _counts_at(bucket: DecisionBucket) -> str:
    rows = [f"{word}: {bucket.counts[word]:,}" for word in reversed(EFFECT_ORDER) if bucket.counts.get(word)]
    return "\n".join([when(bucket.at), *(rows or ["no exchange"])])


def _decisions_table(buckets: Sequence[DecisionBucket], known: Sequence[str]) -> str:
    head = "".join(f'<th scope="col">{word}</th>' for word in known)
    rows = "".join(
        f'<tr><th scope="row">{when(bucket.at)}</th>'
        + "".join(f"<td>{bucket.counts.get(word, 0):,}</td>" for word in known)
        + "</tr>"
        for bucket in buckets
        if any(bucket.counts.values())
    )
    table = f'<table><caption>Exchanges by decision</caption><thead><tr><th scope="col">UTC</th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f"<details><summary>As a table</summary>{scrolled('Decisions, table', table)}</details>"


def ranking(rows: Sequence[tuple[str, int]], *, whole: int = 0) -> str:
    """Return counts as bars, the largest first as given; with `whole`, their share of it too."""
    most = max((n for _, n in rows), default=1)
    parts = []
    for name, n in rows:
        share = f" ({percent(n / whole)}{PERCENT})" if whole else ""
        bar = f'<svg aria-hidden="true"><rect width="{along(n / most)}" height="14" rx="2"/></svg>'
        parts.append(f'<dt>{escaped(name)}</dt><dd>{bar}</dd><dd class="num">{n:,}{share}</dd>')
    return f'<dl class="rank">{"".join(parts)}</dl>'
