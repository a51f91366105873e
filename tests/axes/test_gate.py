"""An axis fails by size, proof and direction together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from demur.axes.gate import axis_gate
from demur.model.axes import AxisName, AxisResult, AxisUnit
from demur.model.axis import Severity
from demur.model.comparison import Direction
from demur.model.estimate import Interval

LONGER = AxisResult(
    AxisName.LENGTH,
    "length",
    AxisUnit.TOKENS,
    100.0,
    140.0,
    40.0,
    Interval(20, 60, "m"),
    0.01,
    Severity.SEVERE,
    50,
    p_adjusted=0.04,
    worse=Direction.INCREASE,
)
CALLS = replace(LONGER, name="trajectory", difference=0.3, p=None, p_adjusted=None)


@pytest.mark.parametrize(
    ("result", "fail_on", "failed"),
    [
        (LONGER, Severity.MODERATE, True),
        (LONGER, Severity.NONE, False),
        (replace(LONGER, p_adjusted=0.06), Severity.MODERATE, False),
        (replace(LONGER, severity=Severity.MINOR), Severity.MODERATE, False),
        (replace(LONGER, difference=-40.0), Severity.MODERATE, False),
        (replace(LONGER, difference=-40.0, worse=Direction.BOTH), Severity.MODERATE, True),
        (replace(CALLS, interval=Interval(0.06, 0.5, "wilson")), Severity.MODERATE, True),
        (replace(CALLS, interval=Interval(0.06, 0.5, "wilson")), Severity.SEVERE, False),
        (replace(CALLS, interval=Interval(0.04, 0.5, "wilson")), Severity.MODERATE, False),
    ],
)
def test_the_gate(result: AxisResult, fail_on: Severity, failed: bool) -> None:  # noqa: FBT001 - a table
    """Without a test the low end of the interval is the proof; every answer names the axis."""
    found = axis_gate(result, fail_on=fail_on)
    assert found.failed is failed
    assert found.why.startswith(f"{result.name}: ")


def test_what_was_mostly_not_measured_is_not_passed() -> None:
    """With more pairs missing than measured nothing is passed; a failure stays one, and a gate that is off stays off."""
    lost = replace(LONGER, severity=Severity.NONE, difference=0.0, n=3, missing=4)
    gate = axis_gate(lost)
    assert (gate.failed, gate.unsettled) == (False, True)
    assert gate.why == "length: none, below moderate, but 4 of 7 were not measured"
    assert not axis_gate(replace(lost, missing=3)).unsettled
    assert not axis_gate(lost, fail_on=Severity.NONE).unsettled
    failing = axis_gate(replace(LONGER, missing=400))
    assert (failing.failed, failing.unsettled) == (True, False)
