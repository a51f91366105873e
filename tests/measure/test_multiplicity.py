"""Many tests, one chance of a false alarm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.measure.decision import false_discovery, holm

CHANCES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def test_worked_by_hand() -> None:
    """Adjusted as `statsmodels.stats.multitest.multipletests([.01, .04, .03, .005], method="holm")` does."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


@given(CHANCES)
def test_laws(chances: list[float | None]) -> None:
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


def test_worked_example() -> None:
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
