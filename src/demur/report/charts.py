"""The chart kit of reports, the dashboard and evaluations: where every mark of a chart goes.

Python works out places and words, `templates/charts.html` draws them as inline SVG without script or inline style. Every interval is
drawn, every mark has its numbers in words, and places are shares of the width so that text keeps its size on any screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, NamedTuple

from demur.model.claim import Effect
from demur.report.numbers import PERCENT, UNKNOWN, fraction, percent, points, points_range, spread
from demur.report.view import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demur.model.estimate import Rate
    from demur.model.evaluation import Bin
    from demur.report.view import Flips, IntervalPlot, PlotRow

__all__ = [
    "EFFECT_WORDS",
    "DecisionBucket",
    "Period",
    "RatePoint",
    "RateSeries",
    "Scale",
    "Step",
    "decision_chart",
    "flip_segments",
    "interval_chart",
    "interval_words",
    "ranking",
    "rate_chart",
    "reliability_chart",
    "row_words",
    "scale_of",
    "share_words",
    "when",
]

EFFECT_WORDS = tuple(effect.word for effect in Effect)
"""Decisions, the mildest first."""
_SCALE_STEPS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_MAX_SCALE_STEPS = 6
# A narrower part of a bar has no room for its count.
_MIN_LABELLED_SHARE = 0.06
_FLIP_KINDS = (
    ("both", "refused by both"),
    ("lost", "no longer refused"),
    ("gained", "newly refused"),
    ("neither", "answered by both"),
)
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Heights are pixels; widths are in the units of an inner view box that is stretched to the screen.
_HEIGHT, _TOP_MARGIN, _WIDTH = 200, 8, 1000
_MAX_LABELS, _FEW_LABELS = 6, 4
_MAX_RATE_STEPS = 5
_RATE_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25)
# More dots than that would run into each other on a telephone.
_MAX_DOTS = 80
_BAND_N = 5
_STEADY_N = 20
# Shares of a bucket's width: the distance between lines of few buckets, and a column. No column is wider than a share of the chart.
_OFFSET = 0.08
_COLUMN_SHARE, _MAX_COLUMN = 0.76, 0.18
_THOUSAND, _MILLION = 1_000, 1_000_000


def _along(share: float) -> str:
    """Return a place along an axis as a share of its length."""
    return f"{100 * share:.5g}%"


# --- figures with intervals along one axis ---


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from its first tick to its last."""

    ticks: tuple[float, ...]

    def along(self, value: float) -> float:
        """Return the place of a value along the axis, between 0 and 1."""
        low, high = self.ticks[0], self.ticks[-1]
        return min(1.0, max(0.0, (value - low) / (high - low)))


class IntervalRow(NamedTuple):
    """One row of an interval chart; marks that it does not have are None."""

    name: str
    size: str
    value: str
    interval: str
    words: str
    series: str = ""
    bar: tuple[str, str] | None = None
    whisker: tuple[str, str] | None = None
    dot: str | None = None
    reference: str | None = None


class IntervalChart(NamedTuple):
    """Rows above a common axis."""

    unit: str
    axis: str
    ticks: tuple[tuple[str, str, bool], ...]
    """Place, label, and whether it is zero."""
    rows: tuple[IntervalRow, ...]
    signed: bool


def scale_of(plot: IntervalPlot) -> Scale:
    """Return the axis of a plot: round ticks that hold zero, every value and every end of an interval."""
    if plot.unit is Unit.FRACTION:
        return Scale(_QUARTERS)
    # The interval of n = 0 is everything, and would stretch the axis for nothing.
    rows = [row for row in plot.rows if row.n]
    values = [v for r in rows for v in (r.value, r.low, r.high, r.reference) if v is not None and isfinite(v)]
    least = 0.0 if plot.unit is Unit.PERCENT else -1.0
    low, high = max(least, min([0.0, *values])), min(1.0, max([0.0, *values]))
    step = next((s for s in _SCALE_STEPS if (high - low) / s <= _MAX_SCALE_STEPS), _SCALE_STEPS[-1])
    # The thousandth keeps 0.6000000000000001 from asking for one more step.
    first, last = floor(low / step + 1e-3), ceil(high / step - 1e-3)
    return Scale(tuple(round(k * step, 6) for k in range(min(first, 0), max(last, first + 1, 1) + 1)))


def row_words(row: PlotRow, unit: Unit) -> tuple[str, str]:
    """Return the value of a row and its interval in brackets, empty where there is none; without their unit."""
    form = {Unit.POINTS: points, Unit.PERCENT: percent, Unit.FRACTION: fraction}[unit]
    if row.low is None or row.high is None:
        return form(row.value), ""
    ends = points_range(row.low, row.high) if unit is Unit.POINTS else f"{form(row.low)} to {form(row.high)}"
    return form(row.value), f"({ends})"


def interval_chart(plot: IntervalPlot, rows: Sequence[PlotRow]) -> IntervalChart:
    """Return some rows of a plot above its axis; the axis is that of all rows."""
    scale = scale_of(plot)
    bounded = " (interval)" if any(row.low is not None for row in rows) else ""
    signed = plot.unit is Unit.POINTS
    labels = (f"{'+' if signed and t > 0 else ''}{t if plot.unit is Unit.FRACTION else 100 * t:g}" for t in scale.ticks)
    ticks = tuple((_along(scale.along(t)), label, t == 0) for t, label in zip(scale.ticks, labels, strict=True))
    drawn = []
    for row in rows:
        value, interval = row_words(row, plot.unit)
        name = row.label or UNKNOWN
        words = " ".join(filter(None, (value, str(plot.unit), interval))) + f", n {row.n:,}"
        in_words = IntervalRow(name, f"{row.n:,}", value, interval, f"{name}: {words}")
        # A value of nothing counted has words and no mark: a mark at zero would claim to know it.
        if row.value is None or not isfinite(row.value) or not row.n:
            drawn.append(in_words)
            continue
        direction = "more" if row.value > 0 else "fewer"
        x, zero = scale.along(row.value), scale.along(0.0)
        has_ends = row.low is not None and row.high is not None and isfinite(row.low) and isfinite(row.high)
        drawn.append(
            in_words._replace(
                series=" second" if row.second else f" {direction}" if row.strong and signed else "",
                bar=None if signed else (_along(zero), _along(x - zero)),
                whisker=(_along(scale.along(row.low or 0.0)), _along(scale.along(row.high or 0.0)))
                if has_ends
                else None,
                dot=_along(x) if signed else None,
                reference=None if row.reference is None else _along(scale.along(row.reference)),
            )
        )
    return IntervalChart(f"{plot.unit}{bounded}", plot.axis, ticks, tuple(drawn), signed)


@dataclass(frozen=True, slots=True)
class Segment:
    """One cell of the paired table as a part of the whole bar; `label_x` is None where a label would not fit."""

    kind: str
    name: str
    count: int
    share: str
    x: str
    width: str
    label_x: str | None


def flip_segments(flips: Flips) -> tuple[Segment, ...]:
    """Return the four cells as parts of one bar; nothing where there are no pairs."""
    if not flips.total:
        return ()
    segments, start = [], 0.0
    counts = (flips.both, flips.baseline_only, flips.candidate_only, flips.neither)
    for (kind, name), count in zip(_FLIP_KINDS, counts, strict=True):
        share = count / flips.total
        label = _along(start + share / 2) if share >= _MIN_LABELLED_SHARE else None
        segments.append(Segment(kind, name, count, percent(share), _along(start), _along(share), label))
        start += share
    return tuple(segments)


class ReliabilityMark(NamedTuple):
    """A bin of scores: its place, the ends of its interval, a radius that grows with n, and its numbers in words."""

    x: float
    y: float
    low: float
    high: float
    radius: str
    words: str


def reliability_chart(bins: Sequence[Bin]) -> tuple[ReliabilityMark, ...]:
    """Return mean scores against the share that is positive by label, as shares of the square's side."""
    largest = max((held.positives.n for held in bins), default=1)
    return tuple(
        ReliabilityMark(
            held.mean_score,
            held.positives.value or 0.0,
            held.positives.interval.low,
            held.positives.interval.high,
            # The area, not the radius, stands for the number of rows.
            f"{3 + 5 * (held.positives.n / largest) ** 0.5:.1f}",
            f"{held.positives.n} rows, mean score {fraction(held.mean_score)}, positive {spread(held.positives)}",
        )
        for held in bins
    )


def ranking(rows: Sequence[tuple[str, int]]) -> tuple[tuple[str, int, str], ...]:
    """Return names and counts with the length of their bars, in the order given."""
    largest = max((n for _, n in rows), default=1)
    return tuple((name, n, _along(n / largest)) for name, n in rows)


# --- rates and decisions over time ---


class Step(StrEnum):
    """How long a bucket of a chart is; a bucket is named by the beginning of its RFC 3339 time."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    @property
    def chars(self) -> int:
        """The length of a bucket's name."""
        return {Step.HOUR: 13, Step.DAY: 10, Step.MONTH: 7}[self]


@dataclass(frozen=True, slots=True)
class Period:
    """From the first bucket to the last, both included; `asked` is the range the reader chose (`7d`, or empty)."""

    buckets: tuple[str, ...]
    step: Step
    asked: str = ""

    @property
    def since(self) -> str:
        """The first bucket."""
        return self.buckets[0] if self.buckets else ""

    @property
    def until(self) -> str:
        """The last bucket."""
        return self.buckets[-1] if self.buckets else ""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The rate of one bucket."""

    at: str
    rate: Rate


@dataclass(frozen=True, slots=True)
class RateSeries:
    """The rate of one model over time, and over the whole period."""

    name: str
    whole: Rate
    points: tuple[RatePoint, ...]


@dataclass(frozen=True, slots=True)
class DecisionBucket:
    """How many exchanges of a bucket got which decision, by the strongest effect of their phases."""

    at: str
    counts: Mapping[str, int]


class HoverArea(NamedTuple):
    """The column of a bucket that shows its numbers when it is pointed at."""

    at: str
    x: str
    width: str
    words: str


class TimeChart(NamedTuple):
    """Everything a chart over time shows; what it does not have is empty."""

    unit: str
    step: str
    words: str
    levels: list[tuple[str, float]]
    """Labels of the upright axis with their places, zero first."""
    ticks: list[tuple[str, str]]
    hover: list[HoverArea]
    legend: list[tuple[str, str, str, str]]
    """Class of the key, name, number, and what is said about it."""
    caption: str
    heads: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]
    """The same numbers as a table: time, and a value with its note for each head."""
    paths: Sequence[tuple[str, str]] = ()
    dots: Sequence[tuple[str, str, float]] = ()
    columns: Sequence[tuple[str, str, str, str, str]] = ()


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


def rate_chart(series: Sequence[RateSeries], period: Period, *, name: str, of: str = "exchanges") -> TimeChart:
    """Return rates over time, a line and a band of its 95 % interval for each model; `of` says what is a hundred percent."""
    count = len(period.buckets)
    # Among many buckets a small one must not stretch the axis by its interval alone.
    top, step = _rate_axis(series, steady_n=_STEADY_N if count > _MAX_LABELS else _BAND_N)
    paths: list[tuple[str, str]] = []
    dots: list[tuple[str, str, float]] = []
    for number, line in enumerate(series):
        # Lines of few buckets are moved apart, because their dots and intervals would cover each other.
        offset = _OFFSET * (number - (len(series) - 1) / 2) if count <= _MAX_LABELS else 0.0
        places = {at: (place + 0.5 + offset) / count for place, at in enumerate(period.buckets)}
        paths += _line_paths(line, number, places, top)
        if count <= _MAX_DOTS:
            dots += [
                (f"s{number}", _along(places[point.at]), _y(point.rate.value or 0.0, top))
                for point in line.points
                if point.rate.n and point.at in places
            ]
    rates = [{point.at: point.rate for point in line.points if point.rate.n} for line in series]
    # Whoever cannot see the chart, or points at it, gets the same numbers in words.
    hover = []
    for at in period.buckets:
        lines = [when(at)]
        for line, known in zip(series, rates, strict=True):
            rate = known.get(at)
            words = f"{share_words(rate)} ({interval_words(rate)}), n {rate.n:,}" if rate else UNKNOWN
            lines.append(f"{line.name}: {words}")
        hover.append("\n".join(lines))
    whole = "; ".join(f"{line.name} {share_words(line.whole)} ({interval_words(line.whole)})" for line in series)
    levels = [n * step for n in range(round(top / step) + 1)]
    listed = {point.at for line in series for point in line.points}
    return TimeChart(
        f"% of {of}",
        f"by {period.step}",
        f"{name} over time, whole period: {whole}",
        [(f"{100 * level:g}{PERCENT}", _y(level, top)) for level in levels],
        _time_ticks(period, _MAX_LABELS),
        _hover_areas(period.buckets, hover),
        [
            (f"s{number}", line.name, share_words(line.whole), f"({interval_words(line.whole)}), n {line.whole.n:,}")
            for number, line in enumerate(series)
        ],
        f"{name}, %, with its 95 % interval (Wilson) and n",
        [line.name for line in series],
        [
            (
                when(at),
                [
                    (percent(known[at].value), f"{interval_words(known[at])}, n {known[at].n:,}")
                    if at in known
                    else (UNKNOWN, "")
                    for known in rates
                ],
            )
            for at in period.buckets
            if at in listed
        ],
        paths=paths,
        dots=dots,
    )


def _rate_axis(series: Sequence[RateSeries], *, steady_n: int) -> tuple[float, float]:
    """Return the end of the axis and its step; an interval of fewer exchanges than `steady_n` does not stretch it."""
    # Rates that are all zero need an axis too.
    highs = [0.001]
    for rate in (point.rate for line in series for point in line.points):
        highs += [rate.value or 0.0, rate.interval.high if rate.n >= steady_n else 0.0]
    highs += [line.whole.interval.high for line in series if line.whole.n >= steady_n]
    high = max(highs)
    step = next((step for step in _RATE_STEPS if high / step <= _MAX_RATE_STEPS), _RATE_STEPS[-1])
    return min(1.0, step * -(-high // step)), step


def _y(value: float, top: float) -> float:
    return round(_HEIGHT - (_HEIGHT - _TOP_MARGIN) * min(value, top) / top, 2)


class _Mark(NamedTuple):
    """The rate of a bucket and the ends of its interval, as places in the plot."""

    n: int
    upper: str
    lower: str
    middle: str


def _line_paths(line: RateSeries, number: int, places: Mapping[str, float], top: float) -> Iterator[tuple[str, str]]:
    """Yield a line with its intervals; a bucket without data is a gap in it, never a zero."""
    known = {point.at: point.rate for point in line.points if point.rate.n}
    for is_known, stretch in groupby(places, key=known.__contains__):
        if not is_known:
            continue
        marks = []
        for at in stretch:
            rate, x = known[at], round(_WIDTH * places[at], 2)
            ends = (rate.interval.high, rate.interval.low, rate.value or 0.0)
            marks.append(_Mark(rate.n, *(f"{x} {_y(value, top)}" for value in ends)))
        # A band through a bucket of three would be as high as the chart and say nothing: its interval is a line.
        for thick, part in groupby(marks, key=lambda mark: mark.n >= _BAND_N):
            run = list(part)
            if thick and len(run) > 1:
                outline = [mark.upper for mark in run] + [mark.lower for mark in reversed(run)]
                yield f"band s{number}", f"M{' L'.join(outline)} Z"
            else:
                yield from ((f"alone s{number}", f"M{mark.upper} L{mark.lower}") for mark in run)
        if len(marks) > 1:
            yield f"line s{number}", f"M{' L'.join(mark.middle for mark in marks)}"


def _hover_areas(buckets: Sequence[str], words: Sequence[str]) -> list[HoverArea]:
    width = _along(1 / len(buckets)) if buckets else ""
    named = enumerate(zip(buckets, words, strict=True))
    return [HoverArea(at, _along(number / len(buckets)), width, said) for number, (at, said) in named]


def _time_ticks(period: Period, limit: int) -> list[tuple[str, str]]:
    """Return at most so many labels of the time."""
    count, step = len(period.buckets), period.step
    every = -(-count // limit)
    ticks, last = [], ""
    for number in range(every // 2 if count > limit else 0, count, every):
        at = period.buckets[number]
        if step is Step.MONTH:
            label = when(at)
        # An hour names its day only where the label before is of another.
        elif step is Step.HOUR and last[:10] == at[:10]:
            label = f"{at[11:13]}:00"
        else:
            clock = f" {at[11:13]}:00" if step is Step.HOUR and at[11:13] != "00" else ""
            label = f"{int(at[8:10])} {_MONTHS[int(at[5:7]) - 1]}{clock}"
        ticks.append((_along((number + 0.5) / count), label))
        last = at
    return ticks


def decision_chart(buckets: Sequence[DecisionBucket], period: Period) -> TimeChart:
    """Return how many exchanges got which decision, stacked by bucket, the strongest at the bottom."""
    largest = max((sum(bucket.counts.values()) for bucket in buckets), default=0) or 1
    # Round counts: 1, 2 or 5 times a power of ten.
    sizes = (s * 10**power for power in range(12) for s in (1, 2, 5))
    step = next(size for size in sizes if largest <= _MAX_RATE_STEPS * size)
    top, count = step * -(-largest // step), len(buckets)
    width = min(_COLUMN_SHARE / max(1, count), _MAX_COLUMN)
    columns, hover = [], []
    for number, bucket in enumerate(buckets):
        y, said = float(_HEIGHT), []
        for word in reversed(EFFECT_WORDS):
            if n := bucket.counts.get(word, 0):
                height = (_HEIGHT - _TOP_MARGIN) * n / top
                y -= height
                x = _along((number + 0.5) / count - width / 2)
                columns.append((f"e-{word}", x, f"{y:.2f}", _along(width), f"{height:.2f}"))
                said.append(f"{word}: {n:,}")
        hover.append("\n".join([when(bucket.at), *(said or ["no exchange"])]))
    totals = {word: sum(bucket.counts.get(word, 0) for bucket in buckets) for word in EFFECT_WORDS}
    known = {word: n for word, n in totals.items() if n}
    levels = []
    for n in range(top // step + 1):
        level = n * step
        # Long counts would take the width from the chart.
        label = (
            f"{level / _MILLION:g}M"
            if level >= _MILLION
            else f"{level / _THOUSAND:g}k"
            if level >= _THOUSAND
            else str(level)
        )
        levels.append((label, _y(level / top, 1.0)))
    return TimeChart(
        f"exchanges {'an' if period.step is Step.HOUR else 'a'} {period.step}",
        f"by {period.step}",
        "decisions over time, whole period: " + ", ".join(f"{word} {n:,}" for word, n in known.items()),
        levels,
        _time_ticks(period, _FEW_LABELS),
        _hover_areas([bucket.at for bucket in buckets], hover),
        [(f"e-{word}", word, f"{n:,}", "") for word, n in known.items()],
        "Exchanges by decision",
        list(known),
        [
            (when(bucket.at), [(f"{bucket.counts.get(word, 0):,}", "") for word in known])
            for bucket in buckets
            if any(bucket.counts.values())
        ],
        columns=columns,
    )
