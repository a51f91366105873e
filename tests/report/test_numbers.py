"""Figures are short, rounded alike, and never invented."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demur.model.estimate import Interval, Rate
from demur.model.evaluation import Score
from demur.report.numbers import PERCENT, UNKNOWN, bounds, fraction, percent, points, spread


@pytest.mark.parametrize(
    ("shown_by", "expected"),
    [
        (fraction, {0.9654: ".965", 0.0: ".000", 1.0: "1.00", 0.9996: "1.00", 0.0004: ".000"}),
        (percent, {0.4689: "46.9", 0.00123: "0.12", 0.0: "0", 1.0: "100", 0.9999: "100", 0.01: "1.0", 0.00996: "1.0"}),
        (points, {0.012: "+1.2", -0.561: "-56.1", -0.0001: "+0.0"}),
    ],
    ids=["fraction", "percent", "points"],
)
def test_decimals(shown_by: Callable[[float | None], str], expected: dict[float, str]) -> None:
    """A fraction has three decimals, a percentage two below one per cent and none where empty, points their sign."""
    assert {value: shown_by(value) for value in expected} == expected
    assert shown_by(None) == UNKNOWN


def test_a_figure_stands_with_its_interval() -> None:
    """The ends follow the value and its unit in brackets; where nothing is known there is a dash alone."""
    rate = Rate(1, 4, Interval(0.0456, 0.6994, "wilson"))
    assert spread(rate) == ".250 (.046\u2013.699)"
    assert spread(rate, percent) == "25.0 (4.6\u201369.9)"
    assert spread(rate, percent, unit=PERCENT) == "25.0 % (4.6\u201369.9)"
    assert bounds(rate, percent) == "(4.6\u201369.9)"
    assert spread(Score(None, 0, Interval(0.0, 1.0, "x"))) == UNKNOWN
