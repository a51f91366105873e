"""Two sets of different questions are compared as the literature does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from demur.measure.rates import unpaired_bounds, unpaired_difference
from demur.measure.special import normal_critical

SIDES = st.tuples(st.integers(0, 3000), st.integers(0, 3000)).map(lambda s: (s[0], sum(s)))

# Newcombe 1998 (Statistics in Medicine 17:873), table II, method 6 (Miettinen and Nurminen).
PUBLISHED = [
    ((56, 70), (48, 80), 0.0528, 0.3382),
    ((9, 10), (3, 10), 0.1700, 0.8406),
    ((6, 7), (2, 7), 0.0342, 0.8534),
    ((5, 56), (0, 29), -0.0326, 0.1933),
    ((0, 10), (0, 20), -0.1658, 0.2844),
    ((0, 10), (0, 10), -0.2879, 0.2879),
    ((10, 10), (0, 20), 0.7156, 1.0),
    ((10, 10), (0, 10), 0.6636, 1.0),
]


@pytest.mark.parametrize(("first", "second", "low", "high"), PUBLISHED)
def test_published_intervals(first: tuple[int, int], second: tuple[int, int], low: float, high: float) -> None:
    """The interval is the published one to its four decimals."""
    interval = unpaired_difference(first, second).interval
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5.1e-5)
    assert interval.method == "miettinen-nurminen"


def score_by_likelihood(first: tuple[int, int], second: tuple[int, int], d: float) -> float:
    """The statistic with the shares that maximise the likelihood by search instead of by cubic."""
    (x1, n1), (x2, n2) = first, second

    def unlikely(p: float) -> float:
        return -(
            x1 * math.log(p + d) + (n1 - x1) * math.log(1 - p - d) + x2 * math.log(p) + (n2 - x2) * math.log(1 - p)
        )

    ends = max(0.0, -d) + 1e-12, min(1.0, 1 - d) - 1e-12
    p = optimize.minimize_scalar(unlikely, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    variance = ((p + d) * (1 - p - d) / n1 + p * (1 - p) / n2) * (n1 + n2) / (n1 + n2 - 1)
    return float((x1 / n1 - x2 / n2 - d) / math.sqrt(variance))


@pytest.mark.parametrize(
    ("first", "second"), [((12, 100), (5, 120)), ((1, 4), (3, 900)), ((450, 1000), (500, 1000)), ((9, 10), (1, 12))]
)
def test_the_ends_are_where_the_score_is_critical(first: tuple[int, int], second: tuple[int, int]) -> None:
    """At both ends the score statistic, its likelihood maximised by search, is the critical value."""
    interval, z = unpaired_difference(first, second).interval, normal_critical(0.05)
    assert score_by_likelihood(first, second, interval.low) == pytest.approx(z, abs=1e-4)
    assert score_by_likelihood(first, second, interval.high) == pytest.approx(-z, abs=1e-4)


def test_worked_example() -> None:
    """Difference, p and interval of 12 in 100 against 5 in 120."""
    # statsmodels 0.15: test_proportions_2indep(12, 100, 5, 120, method="score", compare="diff").pvalue
    # Its confint_proportions_2indep is not the pin: the linear term of its cubic has count0 * diff for nobs0 * diff.
    # The ends are the roots of `score_by_likelihood` above, by scipy.optimize.brentq.
    found = unpaired_difference((12, 100), (5, 120))
    assert found.value == pytest.approx(0.07833333333333334)
    assert found.p == pytest.approx(0.030644614881042434, abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.00770617, 0.16157533), abs=1e-7)
    assert found.n == 220


@given(SIDES, SIDES)
def test_laws(first: tuple[int, int], second: tuple[int, int]) -> None:
    """The difference lies in its interval, the interval in [-1, 1], and swapping the sides mirrors both."""
    there, back = unpaired_difference(first, second), unpaired_difference(second, first)
    assert -1 <= there.interval.low <= there.value + 1e-12
    assert there.value - 1e-12 <= there.interval.high <= 1
    assert (back.interval.low, back.interval.high) == pytest.approx((-there.interval.high, -there.interval.low))
    assert there.p == pytest.approx(back.p)
    assert 0 <= there.p <= 1


def test_edges() -> None:
    """An empty side tells nothing, and two sides without, or full of, abstentions do not differ."""
    nothing = unpaired_difference((0, 0), (3, 9))
    assert (nothing.value, nothing.p, nothing.interval.low, nothing.interval.high) == (0.0, 1.0, -1.0, 1.0)
    assert unpaired_difference((0, 9), (0, 30)).p == unpaired_difference((9, 9), (30, 30)).p == 1.0
    assert unpaired_difference((1, 1), (0, 1)).interval.high == 1.0


def test_failed_rows_bound_the_difference() -> None:
    """Each failed row is taken at its worst and at its best."""
    assert unpaired_bounds((5, 10), (2, 10), first_failed=0, second_failed=0) is None
    bounds = unpaired_bounds((5, 10), (2, 10), first_failed=10, second_failed=10)
    assert bounds == pytest.approx((5 / 20 - 12 / 20, 15 / 20 - 2 / 20))
