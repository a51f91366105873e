"""What may be said, and when the gate fails; of many tests, one chance of a false alarm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.measure.decision import change_of, data_flags, false_discovery, gate_of, holm, rate_flags, rate_severity
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
        (difference(0.001, 0.5, -0.049, 0.049), Change.EQUIVALENT),
        (difference(0.001, 0.5, -0.05, 0.049), Change.INCONCLUSIVE),
        (difference(0.01, 0.01, 0.005, 0.02), Change.INCREASED),
        (difference(0.0, 1.0, 0.0, 0.0), Change.EQUIVALENT),
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
    of_data = (Flag.FEW_DISCORDANT, Flag.UNDERPOWERED, Flag.BOUNDARY_RATE, Flag.CLUSTERED, Flag.DETECTOR_UNCALIBRATED)
    found = data_flags((inside, none), Power(None, None), discordant=4, clustered=True, calibrated=False)
    assert found == of_data
    found = data_flags((inside, inside), Power(0.16, 9), discordant=None, clustered=False, calibrated=True)
    assert found == (Flag.UNDERPOWERED, Flag.UNPAIRED)


INCREASE, MODERATE, SEVERE = DiffSettings(), Severity.MODERATE, Severity.SEVERE
BOTH, DECREASE = DiffSettings(gate_on=Direction.BOTH), DiffSettings(gate_on=Direction.DECREASE)
SEED, STRICT, LENIENT = (
    DiffSettings(gate=GateMode.SEED),
    DiffSettings(fail_on=SEVERE),
    DiffSettings(fail_on=Severity.MINOR),
)
FELL = "fell by 7.0 points (moderate, p < 0.001)"


@pytest.mark.parametrize(
    ("value", "p", "severity", "settings", "failed", "why"),
    [
        (0.07, 0.0386, MODERATE, INCREASE, True, "rose by 7.0 points (moderate, p = 0.039)"),
        (0.07, 0.0386, MODERATE, STRICT, False, "rose by 7.0 points (moderate, p = 0.039), below severe"),
        (0.2, 0.25, SEVERE, INCREASE, False, "rose by 20.0 points (severe, p = 0.250), not told apart from chance"),
        (-0.07, 0.0001, MODERATE, INCREASE, False, f"{FELL}, and the gate is for an increase"),
        (-0.07, 0.0001, MODERATE, BOTH, True, FELL),
        (-0.07, 0.0001, MODERATE, DECREASE, True, FELL),
        (0.07, 0.0001, MODERATE, DECREASE, False, f"{FELL.replace('fell', 'rose')}, and the gate is for a decrease"),
        (-0.2, 0.25, SEVERE, SEED, True, "fell by 20.0 points (severe, by size alone)"),
        (0.0, 1.0, Severity.NONE, INCREASE, False, "did not change (none, p = 1), below moderate"),
        (0.0002, 0.01, Severity.MINOR, LENIENT, True, "rose by 0.02 points (minor, p = 0.010)"),
    ],
)
def test_gate(value: float, p: float, severity: Severity, settings: DiffSettings, *, failed: bool, why: str) -> None:
    """The default gate asks for size, proof and direction, the seed's for size alone; both say why."""
    gate = gate_of(difference(value, p), severity, settings)
    assert (gate.failed, gate.why) == (failed, f"refusals {why}")
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


CHANCES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def test_holm_worked_by_hand() -> None:
    """Adjusted as `statsmodels.stats.multitest.multipletests([.01, .04, .03, .005], method="holm")` does."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


@given(CHANCES)
def test_laws_of_holm(chances: list[float | None]) -> None:
    """Adjusted p are no smaller, keep their order and at most 1; what was not tested is not and costs nothing."""
    adjusted = holm(chances)
    known = [(p, a) for p, a in zip(chances, adjusted, strict=True) if p is not None and a is not None]
    assert [p is None for p in chances] == [a is None for a in adjusted]
    assert all(p <= a <= 1 for p, a in known)
    assert [a for _, a in sorted(known)] == sorted(a for _, a in known)
    assert holm([p for p in chances if p is not None]) == tuple(a for a in adjusted if a is not None)


def test_the_chance_of_any_false_alarm() -> None:
    """Of eight true nulls at least one is rejected about one time in twenty."""
    rng = np.random.default_rng(1)
    alarms = [min(p for p in holm(row.tolist()) if p is not None) <= 0.05 for row in rng.random((2000, 8))]
    assert 0.035 <= np.mean(alarms) <= 0.065


def test_false_discovery_worked() -> None:
    """Eight p values give the worked q values."""
    # scipy 1.17.1: scipy.stats.false_discovery_control(p)
    p = [0.001, 0.012, 0.014, 0.03, 0.04, 0.2, 0.5, 0.9]
    q = (0.008, 0.03733333333333333, 0.03733333333333333, 0.06, 0.064, 0.26666666666666666, 0.5714285714285714, 0.9)
    assert false_discovery(p) == pytest.approx(q, abs=1e-12)
    assert false_discovery([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_q_is_scipys(p: list[float]) -> None:
    """In any order, with ties, q is what scipy computes, and never below p."""
    q = false_discovery(p)
    assert q == pytest.approx(stats.false_discovery_control(p).tolist(), rel=1e-12)
    assert all(a >= b for a, b in zip(q, p, strict=True))
