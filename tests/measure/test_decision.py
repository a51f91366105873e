"""What may be said, and when the gate fails."""

from __future__ import annotations

import math

import pytest

from demur.measure.decision import change_of, data_flags, gate_of, rate_flags, rate_severity
from demur.measure.rates import wilson
from demur.model.comparison import Change, DiffSettings, GateMode, Power
from demur.model.estimate import Difference, Direction, Flag, Interval, Severity


def difference(value: float, p: float, low: float = -0.5, high: float = 0.5) -> Difference:
    return Difference(value, Interval(low, high, "tango"), p, 100)


@pytest.mark.parametrize(
    ("found", "change"),
    [
        (difference(0.07, 0.039), Change.INCREASED),
        (difference(-0.07, 0.05), Change.DECREASED),
        (difference(0.07, 0.0501), Change.INCONCLUSIVE),
        (difference(0.001, 0.5, -0.049, 0.049), Change.NO_MEANINGFUL_CHANGE),
        (difference(0.001, 0.5, -0.05, 0.049), Change.INCONCLUSIVE),
        (difference(0.01, 0.01, 0.005, 0.02), Change.INCREASED),
        (difference(0.0, 1.0, 0.0, 0.0), Change.NO_MEANINGFUL_CHANGE),
    ],
)
def test_change(found: Difference, change: Change) -> None:
    """Proof comes first, then the margin, strictly; the rest is open."""
    assert change_of(found) is change


def test_q_takes_the_place_of_p() -> None:
    """Among many a small p alone claims nothing."""
    assert change_of(difference(0.07, 0.039), q=0.2) is Change.INCONCLUSIVE


def test_flags() -> None:
    """Each flag stands for its own condition, in the order of the vocabulary."""
    inside, none = wilson(10, 100), wilson(0, 100)
    good = Power(0.1, 300)
    assert data_flags((inside, inside), good, discordant=5, clustered=False, calibrated=True) == ()
    assert data_flags((inside, none), Power(None, None), discordant=4, clustered=True, calibrated=False) == (
        Flag.FEW_DISCORDANT,
        Flag.UNDERPOWERED,
        Flag.BOUNDARY_RATE,
        Flag.CLUSTERED,
        Flag.DETECTOR_UNCALIBRATED,
    )
    assert data_flags((inside, inside), Power(0.16, 9), discordant=None, clustered=False, calibrated=True) == (
        Flag.UNDERPOWERED,
        Flag.UNPAIRED,
    )


BOTH, DECREASE = DiffSettings(gate_on=Direction.BOTH), DiffSettings(gate_on=Direction.DECREASE)
SEED, STRICT = DiffSettings(gate=GateMode.SEED), DiffSettings(fail_on=Severity.SEVERE)
MODERATE = Severity.MODERATE


@pytest.mark.parametrize(
    ("found", "severity", "settings", "failed", "why"),
    [
        (difference(0.07, 0.0386), MODERATE, DiffSettings(), True, "refusals rose by 7.0 points (moderate, p = 0.039)"),
        (
            difference(0.07, 0.0386),
            MODERATE,
            STRICT,
            False,
            "refusals rose by 7.0 points (moderate, p = 0.039), below severe",
        ),
        (
            difference(0.2, 0.25),
            Severity.SEVERE,
            DiffSettings(),
            False,
            "refusals rose by 20.0 points (severe, p = 0.250), not told apart from chance",
        ),
        (
            difference(-0.07, 0.0001),
            MODERATE,
            DiffSettings(),
            False,
            "refusals fell by 7.0 points (moderate, p < 0.001), and the gate is for an increase",
        ),
        (difference(-0.07, 0.0001), MODERATE, BOTH, True, "refusals fell by 7.0 points (moderate, p < 0.001)"),
        (difference(-0.07, 0.0001), MODERATE, DECREASE, True, "refusals fell by 7.0 points (moderate, p < 0.001)"),
        (
            difference(0.07, 0.0001),
            MODERATE,
            DECREASE,
            False,
            "refusals rose by 7.0 points (moderate, p < 0.001), and the gate is for a decrease",
        ),
        (difference(-0.2, 0.25), Severity.SEVERE, SEED, True, "refusals fell by 20.0 points (severe, by size alone)"),
        (
            difference(0.0, 1.0),
            Severity.NONE,
            DiffSettings(),
            False,
            "refusals did not change (none, p = 1), below moderate",
        ),
        (
            difference(0.0002, 0.01),
            Severity.MINOR,
            DiffSettings(fail_on=Severity.MINOR),
            True,
            "refusals rose by 0.02 points (minor, p = 0.010)",
        ),
    ],
)
def test_gate(found: Difference, severity: Severity, settings: DiffSettings, *, failed: bool, why: str) -> None:
    """The default gate asks for size, proof and direction, the seed's for size alone; both say why."""
    gate = gate_of(found, severity, settings)
    assert (gate.failed, gate.why) == (failed, why)
    assert (gate.mode, gate.direction, gate.fail_on) == (settings.gate, settings.gate_on, settings.fail_on)


@pytest.mark.parametrize(
    ("delta", "low", "high", "severity"),
    [
        (0.0, 0.0, 0.0, Severity.NONE),
        (1e-10, 0.0, 1.0, Severity.NONE),
        (0.049, 0.01, 0.09, Severity.MINOR),
        (0.05, 0.01, 0.09, Severity.MODERATE),
        (-0.149, -0.2, -0.1, Severity.MODERATE),
        (0.15, 0.1, 0.2, Severity.SEVERE),
        (0.3, -0.1, 0.5, Severity.MINOR),
        (0.3, -0.01, 0.25, Severity.SEVERE),
        (0.33, 0.0, 1.0, Severity.SEVERE),
        (math.nan, 0.0, 0.0, Severity.NONE),
        (0.3, -math.inf, 0.3, Severity.NONE),
    ],
)
def test_labels(delta: float, low: float, high: float, severity: Severity) -> None:
    """Size decides, a strict straddle of zero caps, an end that touches zero does not."""
    assert rate_severity(delta, low, high) is severity


def test_rate_flags() -> None:
    """Fewer than five pairs, and an interval on both sides of zero."""
    assert rate_flags(0, 0.0, 0.0) == ()
    assert rate_flags(4, 0.0, 1.0) == (Flag.LOW_POWER,)
    assert rate_flags(4, -0.1, 0.1) == (Flag.LOW_POWER, Flag.CI_CROSSES_ZERO)
    assert rate_flags(5, -0.1, 0.1) == (Flag.CI_CROSSES_ZERO,)
