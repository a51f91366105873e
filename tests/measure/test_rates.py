"""Intervals are those of the reference implementations, and sound at the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.measure.rates import f1_score, macro_f1, wilson

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
    assert (score.interval.low, score.interval.high) == pytest.approx(
        (0.8312096257219821, 0.9285521425113143), abs=1e-12
    )


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
