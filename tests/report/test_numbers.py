"""Figures are short, rounded alike, and never invented."""

from __future__ import annotations

import pytest

from demur.model.estimate import Interval, Rate
from demur.model.evaluation import Score
from demur.report.numbers import PERCENT, UNKNOWN, bounds, fraction, percent, points, spread


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.9654, ".965"), (0.0, ".000"), (1.0, "1.00"), (0.9996, "1.00"), (0.0004, ".000"), (None, UNKNOWN)],
)
def test_fractions(value: float | None, shown: str) -> None:
    """Three decimals without the leading zero."""
    assert fraction(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.4689, "46.9"),
        (0.00123, "0.12"),
        (0.0, "0"),
        (1.0, "100"),
        (0.9999, "100"),
        (0.01, "1.0"),
        (0.00996, "1.0"),
        (None, UNKNOWN),
    ],
)
def test_percentages(value: float | None, shown: str) -> None:
    """One decimal, two below one per cent, none where they would be empty."""
    assert percent(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.012, "+1.2"), (-0.561, "-56.1"), (-0.0001, "+0.0"), (None, UNKNOWN)])
def test_points(value: float | None, shown: str) -> None:
    """A difference always has its sign, and nothing has none of its own."""
    assert points(value) == shown


def test_a_figure_stands_with_its_interval() -> None:
    """The ends follow the value and its unit in brackets; where nothing is known there is a dash alone."""
    rate = Rate(1, 4, Interval(0.0456, 0.6994, "wilson"))
    assert spread(rate) == ".250 (.046\u2013.699)"
    assert spread(rate, percent) == "25.0 (4.6\u201369.9)"
    assert spread(rate, percent, unit=PERCENT) == "25.0 % (4.6\u201369.9)"
    assert bounds(rate, percent) == "(4.6\u201369.9)"
    assert spread(Score(None, 0, Interval(0.0, 1.0, "x"))) == UNKNOWN
