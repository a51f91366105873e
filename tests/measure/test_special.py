"""The special functions are scipy's, without scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from demur.measure import special as ours
from demur.measure.special import half_binomial, incomplete_beta, log_beta, normal_critical

EXPONENTS = st.floats(-1, 7)


@given(EXPONENTS, EXPONENTS)
def test_log_beta(a: float, b: float) -> None:
    """The logarithm of the beta function keeps its digits from a tenth to ten million."""
    a, b = 10**a, 10**b
    assert log_beta(a, b) == pytest.approx(float(special.betaln(a, b)), rel=1e-9, abs=1e-7)


@given(EXPONENTS, EXPONENTS, st.floats(-4, 4))
def test_incomplete_beta(a: float, b: float, spreads: float) -> None:
    """The regularised incomplete beta function is right in the middle and in the tails."""
    a, b = 10**a, 10**b
    mean = a / (a + b)
    x = min(1 - 1e-9, max(1e-9, mean + spreads * math.sqrt(mean * (1 - mean) / (a + b + 1))))
    assert incomplete_beta(x, a, b) == pytest.approx(float(special.betainc(a, b, x)), rel=1e-7, abs=1e-290)


def test_incomplete_beta_at_the_ends() -> None:
    """It is 0 at 0, 1 at 1, and 0 where it is too small for a float."""
    assert (incomplete_beta(0.0, 2, 3), incomplete_beta(1.0, 2, 3), incomplete_beta(1e-9, 1e6, 1e6)) == (0, 1, 0)


@pytest.mark.parametrize("df", [1, 2, 3, 11, 29, 500, 999, 1000, 10**6])
@pytest.mark.parametrize("alpha", [0.1, 0.05, 0.001])
def test_student(df: int, alpha: float) -> None:
    """Student's quantile is the same by fraction and by series."""
    assert ours.student_critical(alpha, df) == pytest.approx(float(stats.t.ppf(1 - alpha / 2, df)), rel=1e-12)


def test_normal() -> None:
    """The normal quantile undoes the normal tail."""
    assert normal_critical(0.05) == pytest.approx(1.959963984540054, abs=1e-12)
    assert ours.normal_two_sided(-normal_critical(0.01)) == pytest.approx(0.01, rel=1e-12)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (2, 11), (100, 260), (4_995_000, 10_000_000)])
def test_half_binomial(k: int, n: int) -> None:
    """The tail and the point of a fair coin are scipy's up to ten million throws."""
    below, at = half_binomial(k, n)
    assert below == pytest.approx(float(stats.binom.cdf(k - 1, n, 0.5)), rel=1e-8)
    assert at == pytest.approx(float(stats.binom.pmf(k, n, 0.5)), rel=1e-8)


def test_boundary_in_both_directions() -> None:
    """The turning point is found whichever end the condition holds at."""
    assert ours.boundary(lambda x: x < 0.3, 0.0, 1.0) == pytest.approx(0.3, abs=1e-15)
    assert ours.boundary(lambda x: x > 0.3, 1.0, 0.0) == pytest.approx(0.3, abs=1e-15)
