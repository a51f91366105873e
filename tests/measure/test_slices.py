"""Many comparisons at once are held to a false-discovery rate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.measure.slices import false_discovery


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
