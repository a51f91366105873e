"""Axes are round, hold what stands on them, and never lack a tick."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demur.report.scale import scale_of
from demur.report.view import IntervalPlot, PlotRow, Unit


def plot(unit: Unit, *ends: tuple[float, float], n: int = 9) -> IntervalPlot:
    return IntervalPlot("t", unit, tuple(PlotRow("r", (low + high) / 2, low, high, n) for low, high in ends), "axis")


def test_round_ends() -> None:
    """Shares start at zero, differences hold it, and both end at a round number."""
    assert scale_of(plot(Unit.PERCENT, (0.027, 0.206))).ticks == (0, 0.05, 0.1, 0.15, 0.2, 0.25)
    assert scale_of(plot(Unit.POINTS, (-0.04, 0.11))).ticks == (-0.05, 0, 0.05, 0.1, 0.15)
    assert scale_of(plot(Unit.PERCENT, (0.0, 1.0))).ticks == (0, 0.2, 0.4, 0.6, 0.8, 1)
    assert scale_of(plot(Unit.POINTS, (-1.0, 1.0))).ticks == (-1, -0.5, 0, 0.5, 1)


def test_nothing_known_has_an_axis_too() -> None:
    """No rows, rows without answers and figures that are not finite leave a small axis from zero."""
    nan = float("nan")
    for empty in (plot(Unit.PERCENT), plot(Unit.POINTS, (-1.0, 1.0), n=0), plot(Unit.POINTS, (nan, nan))):
        ticks = scale_of(empty).ticks
        assert ticks[0] == 0 < ticks[-1]


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted), min_size=1, max_size=5))
def test_every_figure_is_on_the_axis(ends: list[list[float]]) -> None:
    """Ticks rise evenly, are two to nine, hold zero, and every end lies between the first and the last."""
    scale = scale_of(plot(Unit.POINTS, *((low, high) for low, high in ends)))
    assert 2 <= len(scale.ticks) <= 9
    assert 0 in scale.ticks
    assert list(scale.ticks) == sorted(set(scale.ticks))
    for value in (value for pair in ends for value in pair):
        assert scale.ticks[0] - 1e-3 <= value <= scale.ticks[-1] + 1e-3
        assert 0 <= scale.along(value) <= 1
