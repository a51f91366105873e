"""Intervals of rates and of their differences are those of the literature, and sound at the edges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from demur.measure.rates import f1_score, macro_f1, unpaired_bounds, unpaired_difference, wilson
from demur.measure.special import normal_critical

# scipy 1.17.1: scipy.stats.binomtest(k, n).proportion_ci(confidence_level=.95, method="wilson")
WILSON = [
    (0, 3, 0.0, 0.5614970317550455),
    (1, 3, 0.06149194472039626, 0.7923403991979523),
    (0, 10, 0.0, 0.27753279986288926),
    (7, 10, 0.39677814746114526, 0.892208732593699),
    (10, 10, 0.7224672001371109, 1.0),
    (1, 1, 0.20654931437723745, 1.0),
    (983, 2074, 0.4525419209726909, 0.4954810624260055),
]


@pytest.mark.parametrize(("count", "n", "low", "high"), WILSON)
def test_wilson_is_scipys(count: int, n: int, low: float, high: float) -> None:
    """The interval of a share is the one that scipy computes."""
    rate = wilson(count, n)
    assert (rate.count, rate.n, rate.interval.method, rate.interval.level) == (count, n, "wilson", 0.95)
    assert rate.interval.low == pytest.approx(low, abs=1e-12)
    assert rate.interval.high == pytest.approx(high, abs=1e-12)


def test_wilson_at_another_level() -> None:
    """A higher level widens the interval as scipy's does."""
    interval = wilson(50, 100, level=0.99).interval
    assert (interval.low, interval.high) == pytest.approx((0.37527962504483986, 0.6247203749551602), abs=1e-12)


def test_nothing_counted_is_nothing_known() -> None:
    """With n = 0 there is no value, and the interval says that anything may be."""
    for figure in (wilson(0, 0), f1_score(0, 0, false_negatives=0), macro_f1([[0, 0], [0, 0]])):
        assert (figure.value, figure.n) == (None, 0)
        assert (figure.interval.low, figure.interval.high) == (0.0, 1.0)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_share_lies_in_its_interval(count: int, more: int) -> None:
    """0 <= low <= value <= high <= 1 for every count and n."""
    rate = wilson(count, count + more)
    low, high = rate.interval.low, rate.interval.high
    assert 0 <= low <= high <= 1
    assert rate.value is None or low <= rate.value <= high


def test_f1_maps_the_share_of_right_positives() -> None:
    """F1's interval is Wilson's for TP / (TP + FP + FN), mapped by 2J / (1 + J)."""
    # The ends of scipy.stats.binomtest(80, 100).proportion_ci(method="wilson"), each mapped.
    score = f1_score(80, 12, false_negatives=8)
    assert score.value == pytest.approx(160 / 180)
    assert score.n == 100
    ends = (0.8312096257219821, 0.9285521425113143)
    assert (score.interval.low, score.interval.high) == pytest.approx(ends, abs=1e-12)


def test_f1_needs_something_to_find() -> None:
    """Where no row is positive by label F1 is not known, however many false alarms there are."""
    score = f1_score(0, 5, false_negatives=0)
    assert (score.value, score.n, score.interval.low, score.interval.high) == (None, 0, 0.0, 1.0)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_f1_lies_in_its_interval(tp: int, fp: int, fn: int) -> None:
    """0 <= low <= F1 <= high <= 1, with the ends reached exactly at all wrong and all right."""
    score = f1_score(tp, fp, false_negatives=fn)
    assert 0 <= score.interval.low <= score.interval.high <= 1
    if score.value is not None:
        assert score.interval.low <= score.value + 1e-12
        assert score.value <= score.interval.high + 1e-12
        assert tp or score.interval.low == 0
        assert fp or fn or score.interval.high == 1


def test_macro_f1_is_the_mean_of_the_classes() -> None:
    """The value is scikit-learn's, the interval near that of a large bootstrap."""
    # sklearn.metrics.f1_score(average="macro") of this table: 0.7654690895639709
    # 40,000 multinomial resamples of it, percentiles 2.5 and 97.5: 0.6625, 0.8543
    score = macro_f1([[40, 3, 2], [3, 8, 4], [1, 4, 35]])
    assert score.value == pytest.approx(0.7654690895639709)
    assert score.n == 100
    assert score.interval.low == pytest.approx(0.6625, abs=0.01)
    assert score.interval.high == pytest.approx(0.8543, abs=0.01)


@pytest.mark.parametrize(
    ("counts", "value", "low", "high"),
    [
        ([[10, 0], [0, 90]], 1.0, 0.7224672001371109, 1.0),
        ([[0, 10], [90, 0]], 0.0, 0.0, 0.27753279986288926),
        ([[7, 0, 0], [0, 0, 0], [0, 0, 10]], 1.0, wilson(7, 7).interval.low, 1.0),
    ],
)
def test_macro_f1_at_the_edges(counts: list[list[int]], value: float, low: float, high: float) -> None:
    """All right or all wrong is as sure as the smallest class is large; a class that no label names has no say."""
    score = macro_f1(counts)
    assert score.value == value
    assert (score.interval.low, score.interval.high) == pytest.approx((low, high), abs=1e-12)


def test_an_answer_of_no_class_is_an_error() -> None:
    """A column beyond the classes counts against the class of its row."""
    right, unanswered = macro_f1([[8, 0], [0, 8]]), macro_f1([[8, 0, 2], [0, 8, 0]])
    assert right.value == 1.0
    assert unanswered.value == pytest.approx((16 / 18 + 1) / 2)


@pytest.mark.heavy
@given(st.lists(st.lists(st.integers(0, 500), min_size=4, max_size=4), min_size=3, max_size=3))
def test_macro_f1_lies_in_its_interval(counts: list[list[int]]) -> None:
    """0 <= low <= macro-F1 <= high <= 1 for every table."""
    score = macro_f1(counts)
    assert 0 <= score.interval.low <= score.interval.high <= 1
    assert score.value is None or score.interval.low - 1e-9 <= score.value <= score.interval.high + 1e-9


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
        first_side = x1 * math.log(p + d) + (n1 - x1) * math.log(1 - p - d)
        return -(first_side + x2 * math.log(p) + (n2 - x2) * math.log(1 - p))

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


def test_worked_difference() -> None:
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
def test_laws_of_the_difference(first: tuple[int, int], second: tuple[int, int]) -> None:
    """The difference lies in its interval, the interval in [-1, 1], and swapping the sides mirrors both."""
    there, back = unpaired_difference(first, second), unpaired_difference(second, first)
    assert -1 <= there.interval.low <= there.value + 1e-12
    assert there.value - 1e-12 <= there.interval.high <= 1
    assert (back.interval.low, back.interval.high) == pytest.approx((-there.interval.high, -there.interval.low))
    assert there.p == pytest.approx(back.p)
    assert 0 <= there.p <= 1


def test_edges_of_the_difference() -> None:
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
