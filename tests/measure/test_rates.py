"""Intervals of rates and of their differences are those of the literature, and sound at the edges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from demur.measure.rates import (
    clustered_rate,
    f1_score,
    macro_f1,
    unpaired_bounds,
    unpaired_difference,
    unpaired_sessions,
    wilson,
)
from demur.measure.special import normal_critical
from demur.model.sessions import SessionSums

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


TALKS = SessionSums(20, 200, 24, 136, 240, 2000)


def test_a_rate_of_sessions_is_that_of_the_rows_they_are_worth() -> None:
    """Ten-turn sessions that refuse throughout or hardly ever are worth few rows, and the interval is Wilson's there with t for z.

    The design effect is (136 - 2 * .12 * 240 + .12**2 * 2000) * 20/19 / (200 * .12 * .88) = 5.3429, and t is scipy's `t.ppf(.975, 19)`.
    """
    found = clustered_rate(TALKS)
    assert TALKS.design_effect == pytest.approx(5.3429, abs=1e-4)
    n, t = 200 / TALKS.design_effect, stats.t.ppf(0.975, 19)
    rows = wilson(24, 200).interval
    centre, reach = 0.12 + t * t / (2 * n), t * math.sqrt(0.12 * 0.88 / n + t * t / (4 * n * n))
    scale = 1 + t * t / n
    assert found.interval.low == pytest.approx((centre - reach) / scale)
    assert found.interval.high == pytest.approx((centre + reach) / scale)
    assert found.interval.low < rows.low < rows.high < found.interval.high
    assert (found.count, found.n, found.interval.method) == (24, 200, "wilson, design effect")


def test_rates_of_sessions_at_the_edges() -> None:
    """Single rows are Wilson's own; one session tells nothing; without a refusal each session counts as one row."""
    assert clustered_rate(SessionSums.of_rows(3, 40)) == wilson(3, 40)
    assert clustered_rate(SessionSums()) == wilson(0, 0)
    one = clustered_rate(SessionSums(1, 50, 20, 400, 1000, 2500)).interval
    assert (one.low, one.high) == (0.0, 1.0)
    none, every = (clustered_rate(SessionSums(10, 50, k, k * 5, k * 5, 250)).interval for k in (0, 50))
    assert none.low == 0.0
    assert none.high > wilson(0, 10).interval.high
    assert every.low == pytest.approx(1 - none.high)
    assert every.high == 1.0


def sums_of(abstained: Sequence[int], sizes: Sequence[int]) -> SessionSums:
    k, m = np.array(abstained, np.int64), np.array(sizes, np.int64)
    return SessionSums(len(k), int(m.sum()), int(k.sum()), int(k @ k), int(k @ m), int(m @ m))


SIDE_OF_SESSIONS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=9).map(
    lambda each: sums_of([min(k, m) for k, m in each], [m for _, m in each])
)


@given(SIDE_OF_SESSIONS, SIDE_OF_SESSIONS)
def test_sessions_of_two_sides_mirror(first: SessionSums, second: SessionSums) -> None:
    """Swapping the sides mirrors the interval and keeps p; 0 is in the interval exactly where p > 0.05."""
    there, back = unpaired_sessions(first, second), unpaired_sessions(second, first)
    assert there.p == pytest.approx(back.p)
    assert there.value == pytest.approx(-back.value)
    assert (there.interval.low, there.interval.high) == pytest.approx(
        (-back.interval.high, -back.interval.low), abs=1e-9
    )
    low, high = there.interval.low, there.interval.high
    assert -1 <= low <= there.value + 1e-12
    assert there.value - 1e-12 <= high <= 1
    assert (low <= 0 <= high) == (there.p > 0.05)


def test_single_rows_of_two_sides_are_compared_as_before() -> None:
    """Where each row stands alone the difference is Miettinen and Nurminen's."""
    sides = SessionSums.of_rows(12, 100), SessionSums.of_rows(5, 120)
    assert unpaired_sessions(*sides) == unpaired_difference((12, 100), (5, 120))


def test_sessions_that_do_not_move_together_are_worth_their_rows() -> None:
    """Where refusals fall evenly over sessions, p is that of the rows up to t for z."""
    first, second = sums_of([2] * 40, [10] * 40), sums_of([3] * 40, [10] * 40)
    assert unpaired_sessions(first, second).p == pytest.approx(2 * stats.t.sf(0.1 / math.sqrt(0.25 * 0.75 / 200), 78))


def test_few_sessions_give_no_test() -> None:
    """Four sessions on a side give p = 1 and an interval that holds 0; one tells nothing; five can prove."""
    many = sums_of([0] * 30, [10] * 30)
    one, four, five = (unpaired_sessions(sums_of([10] * n, [10] * n), many) for n in (1, 4, 5))
    assert (one.p, one.interval.low, one.interval.high) == (1.0, -1.0, 1.0)
    assert (four.p, four.value, four.interval.low) == (1.0, 1.0, 0.0)
    assert five.p < 0.01
    nothing = unpaired_sessions(SessionSums(), many)
    assert (nothing.value, nothing.p, nothing.interval.low) == (0.0, 1.0, -1.0)
    quiet = unpaired_sessions(many, sums_of([0] * 30, [10] * 30))
    assert (quiet.value, quiet.p) == (0.0, 1.0)
    # No refusal shows how far rows move together, so each of the thirty sessions counts as one row.
    assert quiet.interval.high > unpaired_difference((0, 30), (0, 30)).interval.high


def drawn_sessions(
    rng: np.random.Generator, rate: float, sessions: int, turns: tuple[int, int], icc: float = 0.3
) -> SessionSums:
    sizes = rng.integers(turns[0], turns[1] + 1, sessions)
    spread = 1 / icc - 1
    shares = rng.beta(rate * spread, (1 - rate) * spread, sessions)
    return sums_of(rng.binomial(sizes, shares).tolist(), sizes.tolist())


CELLS = [((20, 20), (10, 10), rate) for rate in (0.05, 0.2, 0.5)]
CELLS += [((20, 20), (1, 20), 0.2), ((40, 8), (1, 10), 0.05), ((5, 5), (10, 10), 0.5)]


@pytest.mark.heavy
@pytest.mark.parametrize(("sessions", "turns", "rate"), CELLS)
def test_false_alarms_between_runs_of_sessions(sessions: tuple[int, int], turns: tuple[int, int], rate: float) -> None:
    """Without a change 5.5 % of comparisons of correlated turns (ICC .3) reject at most; where turns were counted, 30 % did (audit 6)."""
    rng = np.random.default_rng(18)
    pairs = ([drawn_sessions(rng, rate, n, turns) for n in sessions] for _ in range(400))
    assert sum(unpaired_sessions(*pair).p <= 0.05 for pair in pairs) / 400 <= 0.055


@pytest.mark.heavy
@pytest.mark.parametrize(("before", "after"), [(0.05, 0.05), (0.3, 0.6), (0.05, 0.25)])
def test_coverage_between_runs_of_sessions(before: float, after: float) -> None:
    """The interval of a difference between runs of 20 ten-turn sessions, ICC .3, covers it 92 % of the time at least."""
    rng = np.random.default_rng(19)
    covered = 0
    for _ in range(300):
        found = unpaired_sessions(*(drawn_sessions(rng, rate, 20, (10, 10)) for rate in (after, before))).interval
        covered += found.low <= after - before <= found.high
    assert covered / 300 >= 0.92


@pytest.mark.heavy
@pytest.mark.parametrize(("rate", "least"), [(0.05, 0.88), (0.2, 0.92), (0.5, 0.93)])
def test_coverage_of_a_rate_of_sessions(rate: float, least: float) -> None:
    """The interval of a rate from 20 ten-turn sessions, ICC .3, covers it nearly as often as it says; least where refusals are rare."""
    rng = np.random.default_rng(20)
    found = [clustered_rate(drawn_sessions(rng, rate, 20, (10, 10))).interval for _ in range(1000)]
    assert sum(each.low <= rate <= each.high for each in found) / 1000 >= least
