"""Charts: axes are round and hold everything on them, intervals are drawn, and every number is said in words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demur.measure.rates import wilson
from demur.model.evaluation import Bin
from demur.report import charts
from demur.report.charts import DecisionBucket, Period, RatePoint, RateSeries, Step, decision_chart, rate_chart
from demur.report.view import IntervalPlot, PlotRow, Unit

HOURS = Period(tuple(f"2026-01-31T{hour:02}" for hour in range(24)), Step.HOUR, "24h")
HOUR = Period(HOURS.buckets[:1], Step.HOUR, "7d")
DAYS = Period(("2026-01-29", "2026-01-30", "2026-01-31"), Step.DAY, "7d")
COUNTS = ((1, 20), (2, 30), (0, 10))


def plot(unit: Unit, *ends: tuple[float, float], n: int = 9) -> IntervalPlot:
    return IntervalPlot("t", unit, tuple(PlotRow("r", (low + high) / 2, low, high, n) for low, high in ends), "axis")


def series(name: str, counts: tuple[tuple[int, int], ...], period: Period = DAYS) -> RateSeries:
    points = tuple(RatePoint(at, wilson(k, n)) for at, (k, n) in zip(period.buckets, counts, strict=True))
    return RateSeries(name, wilson(sum(k for k, _ in counts), sum(n for _, n in counts)), points)


def kinds(chart: charts.TimeChart) -> list[str]:
    return [kind for kind, _ in chart.paths]


def test_round_ends() -> None:
    """Shares start at zero, differences hold it, fractions go to one, and all end at a round number."""
    assert charts.scale_of(plot(Unit.PERCENT, (0.027, 0.206))).ticks == (0, 0.05, 0.1, 0.15, 0.2, 0.25)
    assert charts.scale_of(plot(Unit.POINTS, (-0.04, 0.11))).ticks == (-0.05, 0, 0.05, 0.1, 0.15)
    assert charts.scale_of(plot(Unit.PERCENT, (0.0, 1.0))).ticks == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert charts.scale_of(plot(Unit.POINTS, (-1.0, 1.0))).ticks == (-1, -0.5, 0, 0.5, 1)
    assert charts.scale_of(plot(Unit.FRACTION, (0.1, 0.2))).ticks == (0, 0.25, 0.5, 0.75, 1)


def test_a_reference_is_on_the_axis() -> None:
    """The share that a bar should reach is drawn, and the axis holds it."""
    row = PlotRow("r", 0.1, 0.05, 0.2, 9, reference=0.55)
    drawn = charts.interval_chart(IntervalPlot("t", Unit.PERCENT, (row,), "axis"), (row,))
    assert (drawn.ticks[-1][1], drawn.rows[0].reference) == ("60", "91.667%")


def test_nothing_known_has_an_axis_too() -> None:
    """No rows, rows without answers and numbers that are not finite leave a small axis from zero."""
    nan = float("nan")
    for empty in (plot(Unit.PERCENT), plot(Unit.POINTS, (-1.0, 1.0), n=0), plot(Unit.POINTS, (nan, nan))):
        ticks = charts.scale_of(empty).ticks
        assert ticks[0] == 0 < ticks[-1]


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted), min_size=1, max_size=5))
def test_every_number_is_on_the_axis(ends: list[list[float]]) -> None:
    """Ticks rise evenly, are two to nine, hold zero, and every end lies between the first and the last."""
    scale = charts.scale_of(plot(Unit.POINTS, *((low, high) for low, high in ends)))
    assert 2 <= len(scale.ticks) <= 9
    assert 0 in scale.ticks
    assert list(scale.ticks) == sorted(set(scale.ticks))
    for value in (value for pair in ends for value in pair):
        assert scale.ticks[0] - 1e-3 <= value <= scale.ticks[-1] + 1e-3
        assert 0 <= scale.along(value) <= 1


def test_axes_name_their_unit_and_their_step() -> None:
    """A chart over time says what is measured upwards, of what, and the length of a bucket."""
    rates = rate_chart((series("small", ((2, 40),) * 24, HOURS),), HOURS, name="x", of="answered exchanges")
    assert (rates.unit, rates.step) == ("% of answered exchanges", "by hour")
    buckets = tuple(DecisionBucket(at, {"allow": 3}) for at in HOURS.buckets)
    decisions = decision_chart(buckets, HOURS)
    assert (decisions.unit, decisions.step) == ("exchanges an hour", "by hour")
    assert decision_chart(buckets[:3], DAYS).unit == "exchanges a day"


def test_a_thin_bucket_has_a_line_for_its_interval() -> None:
    """Buckets of fewer than five exchanges are drawn without a band, each with its interval all the same."""
    thin, thick = (rate_chart((series("small", ((1, n),) * 24, HOURS),), HOURS, name="x") for n in (4, 5))
    assert (kinds(thin).count("alone s0"), kinds(thin).count("band s0")) == (24, 0)
    assert (kinds(thick).count("alone s0"), kinds(thick).count("band s0")) == (0, 1)


def test_lines_of_few_buckets_stand_beside_each_other() -> None:
    """Two models that have but one bucket do not cover each other, and no interval of theirs leaves the axis."""
    lines = (series("small", ((5, 10),), HOUR), series("large", ((5, 15),), HOUR))
    chart = rate_chart(lines, HOUR, name="x")
    assert len({x for _, x, _ in chart.dots}) == 2
    assert chart.levels[-1][0] == "80 %"


def test_a_single_column_does_not_fill_the_chart() -> None:
    """One bucket is a column, however wide the chart is."""
    ((_, _, _, width, _),) = decision_chart((DecisionBucket(HOUR.since, {"deny": 3}),), HOUR).columns
    assert width == "18%"


def test_a_chart_says_its_numbers_in_a_sentence_and_a_table() -> None:
    """Whoever cannot see a chart hears the whole period's rate with its interval, and finds each bucket in a table."""
    chart = rate_chart((series("small", COUNTS),), DAYS, name="Model refused")
    assert chart.words == "Model refused over time, whole period: small 5.0 % (1.7 to 13.7 %)"
    assert [at for at, _ in chart.rows] == ["29 Jan 2026", "30 Jan 2026", "31 Jan 2026"]
    assert chart.hover[0].words.splitlines()[1] == "small: 5.0 % (0.89 to 23.6 %), n 20"


def test_a_bucket_without_data_is_a_gap_in_the_line() -> None:
    """Where nothing was counted no point is drawn, and the line is parted."""
    chart = rate_chart((series("small", ((1, 20), (0, 0), (2, 20))),), DAYS, name="x")
    assert len(chart.dots) == 2
    assert kinds(chart) == ["alone s0", "alone s0"]


def test_every_interval_is_drawn() -> None:
    """A line of several buckets has one band, from the low ends to the high ends."""
    chart = rate_chart((series("small", COUNTS), series("large", COUNTS)), DAYS, name="x")
    assert kinds(chart).count("band s0") == kinds(chart).count("band s1") == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=3, max_size=3))
def test_charts_stay_within_their_axes(counts: list[tuple[int, int]]) -> None:
    """Whatever the counts, every place of a chart lies between 0 and its height."""
    chart = rate_chart((series("small", tuple((min(k, n), n) for k, n in counts)),), DAYS, name="x")
    assert all(0 <= y <= 200 for _, _, y in chart.dots)
    assert "nan" not in repr(chart)


@given(st.lists(st.integers(0, 10**7), min_size=3, max_size=3))
def test_decisions_fill_at_most_the_height(counts: list[int]) -> None:
    """The parts of a column add up to its share of the axis, which never is less than the largest column."""
    buckets = tuple(
        DecisionBucket(at, {"allow": n, "deny": n // 3}) for at, n in zip(DAYS.buckets, counts, strict=True)
    )
    heights = [float(height) for *_, height in decision_chart(buckets, DAYS).columns]
    assert sum(heights) <= 3 * 192.1


def test_the_largest_bar_of_a_ranking_is_whole() -> None:
    """Bars are shares of the largest count, in the order given."""
    assert charts.ranking([("a", 4), ("b", 1)]) == (("a", 4, "100%"), ("b", 1, "25%"))
    assert charts.ranking([]) == ()


def test_larger_bins_have_larger_dots() -> None:
    """The area of a dot stands for its rows, and its words for its numbers."""
    small, large = charts.reliability_chart([Bin(0.0, 0.1, 0.05, wilson(0, 4)), Bin(0.9, 1.0, 0.95, wilson(16, 16))])
    assert (small.radius, large.radius) == ("5.5", "8.0")
    assert large.words == "16 rows, mean score .950, positive 1.00 (.806–1.00)"


def test_nothing_counted_is_a_dash() -> None:
    """A rate of nothing has no value and says that nothing was counted."""
    assert (charts.share_words(wilson(0, 0)), charts.interval_words(wilson(0, 0))) == ("–", "nothing counted")


def test_times_are_written_for_people() -> None:
    """Hours, days, months and times read as such; what is no time stays as it is."""
    assert charts.when("2026-01-31T12") == "31 Jan 2026 12:00"
    assert charts.when("2026-01-31T12:05:09") == "31 Jan 2026 12:05"
    assert charts.when("2026-01-31") == "31 Jan 2026"
    assert charts.when("2026-01") == "Jan 2026"
    assert charts.when("never") == "never"
