"""The dashboard's charts say what they measure, and stay readable where there is little to draw."""

from __future__ import annotations

import re

from demur.dashboard.pages.charts import decision_chart, rate_chart
from demur.dashboard.pages.values import DecisionBucket, Period, RatePoint, RateSeries, Step
from demur.measure.rates import wilson

HOURS = Period(tuple(f"2026-01-31T{hour:02}" for hour in range(24)), Step.HOUR, "24h")
HOUR = Period(HOURS.buckets[:1], Step.HOUR, "7d")


def series_of(name: str, k: int, n: int, *, period: Period = HOURS) -> RateSeries:
    points = tuple(RatePoint(at, wilson(k, n)) for at in period.buckets)
    return RateSeries(name, wilson(k * len(points), n * len(points)), points)


def test_axes_name_their_unit_and_their_step() -> None:
    """Above a plot stand what is measured upwards, of what, and the length of a bucket."""
    rates = rate_chart((series_of("small", 2, 40),), HOURS, name="x", of="exchanges that a provider answered")
    assert "<span>% of exchanges that a provider answered</span><span>by hour, UTC</span>" in rates
    decisions = decision_chart(tuple(DecisionBucket(at, {"allow": 3}) for at in HOURS.buckets), HOURS)
    assert "<span>exchanges a hour</span>" not in decisions
    assert "<span>exchanges an hour</span><span>by hour, UTC</span>" in decisions


def test_a_thin_bucket_has_a_line_for_its_interval() -> None:
    """Buckets of fewer than five exchanges are drawn without a band, each with its interval all the same."""
    thin, thick = (rate_chart((series_of("small", 1, n),), HOURS, name="x") for n in (4, 5))
    assert (thin.count('class="alone s0"'), thin.count('class="band s0"')) == (24, 0)
    assert (thick.count('class="alone s0"'), thick.count('class="band s0"')) == (0, 1)


def test_lines_of_few_buckets_stand_beside_each_other() -> None:
    """Two models that have but one bucket do not cover each other, and no interval of theirs leaves the axis."""
    lines = (series_of("small", 5, 10, period=HOUR), series_of("large", 5, 15, period=HOUR))
    chart = rate_chart(lines, HOUR, name="x")
    places = re.findall(r'<circle class="s\d" cx="([0-9.]+)%"', chart)
    assert len(places) == len(set(places)) == 2
    assert "80 %" in chart


def test_a_single_column_does_not_fill_the_chart() -> None:
    """One bucket is a column, however wide the chart is."""
    chart = decision_chart((DecisionBucket(HOUR.since, {"deny": 3}),), HOUR)
    assert 'width="18%"' in chart
