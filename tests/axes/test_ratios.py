"""Ratios over pairs: one test each, and the interval that inverts it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.axes.ratios import PairedRatio, median_ratio, tail_ratio, total_ratio
from demur.errors import UsageError
from demur.measure.clusters import min_clusters

Estimate = Callable[[np.ndarray, np.ndarray, np.ndarray], PairedRatio | None]
ESTIMATES: dict[str, Estimate] = {"median": median_ratio, "total": total_ratio, "tail": tail_ratio}
VALUES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 11)), min_size=1, max_size=40)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    before, after = (np.array([row[i] for row in rows], dtype=np.float64) for i in (0, 1))
    return before, after, np.unique([row[2] for row in rows], return_inverse=True)[1].reshape(-1)


def drawn(rng: np.random.Generator, groups: int, each: int, ratio: float) -> tuple[np.ndarray, ...]:
    """Pairs of a log-normal value in groups that move together, the candidate so many times the baseline."""
    where = np.repeat(np.arange(groups), each)
    asked = rng.lognormal(6, 1, len(where))
    moved = [rng.lognormal(0, 0.3, groups)[where] * rng.lognormal(0, 0.3, len(where)) for _ in range(2)]
    return asked * moved[0], ratio * asked * moved[1], where


@pytest.mark.parametrize("name", ESTIMATES)
@given(VALUES)
def test_interval_and_p_never_contradict_each_other(name: str, rows: list[tuple[int, int, int]]) -> None:
    """Audit 7: the interval leaves 1 out exactly where p is at most alpha, holds the ratio, and has a width."""
    found = ESTIMATES[name](*columns(rows))
    assert found is not None
    if found.interval is None:
        return
    low, high = found.interval.low, found.interval.high
    assert (low <= 1 <= high) == (found.p > 0.05)
    assert low <= found.value <= high
    assert low < high


@pytest.mark.parametrize("name", ["median", "tail"])
@given(VALUES)
def test_swapping_the_runs_inverts_the_ratio(name: str, rows: list[tuple[int, int, int]]) -> None:
    """The p-value stays, and the ratio and its ends become their inverses."""
    before, after, where = columns(rows)
    forth, back = ESTIMATES[name](before, after, where), ESTIMATES[name](after, before, where)
    assert forth is not None
    assert back is not None
    assert forth.p == pytest.approx(back.p)
    assert forth.value == pytest.approx(1 / back.value if back.value else math.inf)
    if name == "median" and forth.interval is not None and back.interval is not None:
        ends = [1 / end if end else math.inf for end in (back.interval.high, back.interval.low)]
        assert (forth.interval.low, forth.interval.high) == pytest.approx(ends)


def test_the_interval_of_a_median_is_that_of_order_statistics() -> None:
    """Of twenty pairs it reaches from the sixth to the fifteenth: five on one side are rejected, six are not."""
    ratios = np.arange(1, 21) / 10
    found = median_ratio(np.ones(20), ratios, np.arange(20))
    assert found.interval is not None
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx((math.sqrt(1.0 * 1.1), 0.6, 1.5))
    # 2 * (binom.cdf(9, 20, 0.5) - binom.pmf(9, 20, 0.5) / 2) of scipy 1.16: a ratio of 1 itself speaks against a change; capped at 1.
    assert found.p == pytest.approx(1.0)
    higher = median_ratio(np.ones(20), ratios + 0.45, np.arange(20))
    # The same with 5 of 20 below 1.
    assert higher.p == pytest.approx(2 * (stats.binom.cdf(5, 20, 0.5) - stats.binom.pmf(5, 20, 0.5) / 2))


def test_flips_of_totals_are_those_of_a_permutation_test() -> None:
    """Of eight pairs all flips are tried: p is scipy's, less the half of the observed one that mid-p leaves out."""
    rng = np.random.default_rng(2)
    before = rng.lognormal(0, 1, 8)
    after = before * rng.lognormal(0.4, 0.5, 8)
    theirs = stats.permutation_test(
        (after, before), lambda a, b, axis: (a - b).sum(axis=axis), permutation_type="samples", n_resamples=10_000
    )
    assert total_ratio(before, after, np.arange(8)).p == pytest.approx(theirs.pvalue - 1 / 2**8)


def test_what_is_zero_or_without_a_response() -> None:
    """Audit 32: from 0 to something is more than any other rise, from 0 to 0 is none, and no response is slower than any."""
    pairs = np.arange(20)
    from_zero = median_ratio(np.zeros(20), np.full(20, 50.0), pairs)
    assert (from_zero.value, from_zero.p) == (math.inf, 2.0**-20)
    assert total_ratio(np.zeros(20), np.full(20, 50.0), pairs).value == math.inf
    nothing = median_ratio(np.zeros(20), np.zeros(20), pairs)
    assert (nothing.value, nothing.p) == (1.0, 1.0)
    assert total_ratio(np.zeros(20), np.zeros(20), pairs).p == 1.0
    silent = median_ratio(np.arange(1.0, 21), np.where(pairs < 12, np.inf, np.arange(1.0, 21)), pairs)
    assert silent.value == math.inf
    assert silent.interval is not None
    assert silent.interval.low == 1.0


@pytest.mark.parametrize("name", ESTIMATES)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_few_groups_exclude_nothing(name: str, groups: int) -> None:
    """Audit 18: below five groups no p is at most 0.05, and the interval is all there is; five can reject."""
    assert groups < min_clusters(0.05) == 5
    where = np.arange(200) % groups
    found = ESTIMATES[name](np.linspace(1, 2, 200), np.linspace(5, 10, 200), where)
    assert found is not None
    assert found.p > 0.05
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (0.0, math.inf)


def test_pairs_that_moved_alike_have_no_interval() -> None:
    """No interval is of width zero: where every pair moved alike there is none."""
    before = np.linspace(100, 200, 30)
    for estimate in (median_ratio, total_ratio):
        found = estimate(before, 1.5 * before, np.arange(30))
        assert found.interval is None
        assert found.value == pytest.approx(1.5)
        assert found.p < 0.001


def test_a_tail_is_seen_by_the_tail() -> None:
    """Audit 8: one answer in ten forty times as slow moves the 95th percentile, and not the median."""
    rng = np.random.default_rng(4)
    before = rng.lognormal(6, 0.5, 200)
    after = before * rng.lognormal(0, 0.05, 200) * np.where(np.arange(200) < 20, 40, 1)
    typical, slow = median_ratio(before, after, np.arange(200)), tail_ratio(before, after, np.arange(200))
    assert slow is not None
    assert slow.interval is not None
    assert typical.p > 0.05
    assert slow.p < 0.001
    assert slow.interval.low > 5


def test_the_seed_alone_is_chance() -> None:
    """The same seed gives the same bytes, and another one nearly the same."""
    before, after, where = drawn(np.random.default_rng(1), 60, 1, 1.2)
    assert total_ratio(before, after, where, seed=3) == total_ratio(before, after, where, seed=3)
    other = total_ratio(before, after, where, seed=4)
    assert total_ratio(before, after, where, seed=3).p == pytest.approx(other.p, abs=0.02)


def test_no_pairs_are_an_error() -> None:
    """Nothing has no ratio, and what is negative or not a number has none either."""
    for sides in (([], []), ([1.0], []), ([float("nan")], [1.0]), ([-1.0], [1.0])):
        before, after = (np.array(side, dtype=np.float64) for side in sides)
        for estimate in ESTIMATES.values():
            with pytest.raises(UsageError, match="no ratios"):
                estimate(before, after, np.arange(len(before)))


@pytest.mark.heavy
@pytest.mark.parametrize(("groups", "each"), [(5, 4), (8, 5), (30, 1), (100, 1), (30, 5)])
@pytest.mark.parametrize("name", ESTIMATES)
def test_levels_and_coverage_hold(name: str, groups: int, each: int) -> None:
    """Without a change at most one test in twenty rejects, and an interval holds a true ratio of 1.5 as often as it says."""
    rng = np.random.default_rng(groups * each)
    times = 400
    rejected = covered = 0
    for _ in range(times):
        same, more = ESTIMATES[name](*drawn(rng, groups, each, 1.0)), ESTIMATES[name](*drawn(rng, groups, each, 1.5))
        assert same is not None
        assert more is not None
        assert more.interval is not None
        rejected += same.p <= 0.05
        covered += more.interval.low <= 1.5 <= more.interval.high
    # Two-sided mid-p of five groups rejects one time in sixteen; beyond that four standard errors of 400 runs are 0.044.
    assert rejected / times <= 0.0625 + 0.044
    assert covered / times >= 0.95 - 0.044


@pytest.mark.heavy
def test_a_large_run_is_the_normal_limit() -> None:
    """Of a hundred thousand pairs the ends are those of the asymptotic intervals, for pairs and for groups of them."""
    rng = np.random.default_rng(1)
    before = rng.lognormal(5, 1, 100_000)
    after = before * rng.lognormal(0.01, 0.3, 100_000)
    typical = median_ratio(before, after, np.arange(100_000))
    whole = total_ratio(before, after, np.arange(100_000))
    # The standard error of a median of logs is sqrt(pi/2) sd/sqrt(n); that of a ratio of totals follows by the delta method.
    spread = 1.96 * math.sqrt(math.pi / 2) * 0.3 / math.sqrt(100_000)
    assert typical.interval is not None
    assert whole.interval is not None
    assert math.log(typical.interval.high / typical.interval.low) == pytest.approx(2 * spread, rel=0.1)
    error = 1.96 * float(np.std(after - whole.value * before)) / math.sqrt(100_000) / float(before.mean())
    assert whole.interval.high - whole.interval.low == pytest.approx(2 * error, rel=0.1)
