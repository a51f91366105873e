"""Medians move by so much, surely or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.axes.results import median_shift, value_severity
from demur.errors import UsageError
from demur.measure.paired import mcnemar_midp

VALUES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=40)


def plain_interval(before: np.ndarray, after: np.ndarray, seed: int) -> tuple[float, float]:
    """The same interval by drawing every pair of every resample."""
    drawn = np.random.default_rng(seed).integers(0, len(before), (4000, len(before)))
    shifts = np.median(after[drawn], axis=1) - np.median(before[drawn], axis=1)
    low, high = np.quantile(shifts, (0.025, 0.975))
    return float(low), float(high)


@pytest.mark.heavy
@pytest.mark.parametrize("n", [7, 60, 3000])
def test_the_interval_is_that_of_plain_resampling(n: int) -> None:
    """Following only the middle of the values gives the interval that drawing all of them gives."""
    rng = np.random.default_rng(n)
    before = rng.lognormal(5, 1, n)
    after = before * rng.lognormal(0.1, 0.3, n)
    found = median_shift(before.tolist(), after.tolist(), seed=1).interval
    spread = float(np.std(before)) / np.sqrt(n)
    assert (found.low, found.high) == pytest.approx(plain_interval(before, after, 2), abs=0.35 * spread)


def test_clusters_widen_the_interval_and_the_p() -> None:
    """Twenty turns that move as one are one, not twenty."""
    rng = np.random.default_rng(3)
    session = np.repeat(np.arange(12), 20)
    before = rng.normal(100, 1, 240)
    after = before + rng.normal(2, 6, 12)[session]
    alone = median_shift(before.tolist(), after.tolist())
    together = median_shift(before.tolist(), after.tolist(), clusters=[str(s) for s in session])
    assert together.interval.high - together.interval.low > 2 * (alone.interval.high - alone.interval.low)
    assert together.p > alone.p


@pytest.mark.heavy
def test_a_hundred_thousand_pairs() -> None:
    """A large run keeps to the normal limit of two medians that move together."""
    rng = np.random.default_rng(1)
    before = rng.lognormal(5, 1, 100_000)
    after = before * rng.lognormal(0.01, 0.3, 100_000)
    shift = median_shift(before, after, seed=1)
    middle = rng.integers(0, 100_000, (60, 100_000))
    spread = float(np.std([np.median(after[drawn]) - np.median(before[drawn]) for drawn in middle]))
    ends = (shift.difference - 1.96 * spread, shift.difference + 1.96 * spread)
    assert (shift.interval.low, shift.interval.high) == pytest.approx(ends, abs=0.6 * spread)


@given(VALUES)
def test_swapping_the_runs_mirrors_the_shift(pairs: list[tuple[int, int]]) -> None:
    """The difference changes its sign and p stays."""
    before, after = [float(b) for b, _ in pairs], [float(a) for _, a in pairs]
    forth, back = median_shift(before, after), median_shift(after, before)
    assert forth.difference == -back.difference
    assert forth.p == back.p
    assert forth.p == pytest.approx(mcnemar_midp(forth.lower, forth.higher))
    assert (forth.interval.low, forth.interval.high) == pytest.approx((-back.interval.high, -back.interval.low))


@given(VALUES, st.integers(0, 3))
def test_the_same_seed_gives_the_same(pairs: list[tuple[int, int]], seed: int) -> None:
    """Nothing but the seed is chance."""
    sides = [float(b) for b, _ in pairs], [float(a) for _, a in pairs]
    assert median_shift(*sides, seed=seed) == median_shift(*sides, seed=seed)


@pytest.mark.heavy
def test_the_level_of_the_test_holds() -> None:
    """Where sides are exchangeable about one in twenty p is below 0.05."""
    rng = np.random.default_rng(5)
    rejected = 0
    for _ in range(600):
        before, after = rng.lognormal(3, 1, (2, 30))
        rejected += median_shift(before.tolist(), after.tolist()).p <= 0.05
    assert 0.03 <= rejected / 600 <= 0.07


@pytest.mark.parametrize(
    ("delta", "baseline", "ends", "label"),
    [
        (0.0, 100, (0, 0), "none"),
        (9.9, 100, (1, 20), "minor"),
        (10.0, 100, (1, 20), "moderate"),
        (-29.9, 100, (-40, -20), "moderate"),
        (30.0, 100, (1, 60), "severe"),
        (-30.0, 100, (-60, -1), "severe"),
        (50.0, 100, (-1, 99), "minor"),
        (50.0, 100, (0, 99), "severe"),
        (5.0, 0, (1, 9), "minor"),
        (float("nan"), 1, (0, 1), "none"),
    ],
)
def test_severity_is_relative(delta: float, baseline: float, ends: tuple[float, float], label: str) -> None:
    """Ten and thirty per cent of the baseline part the labels; an interval about zero, and a baseline of 0, cap them."""
    assert value_severity(delta, baseline, *ends) == label


def test_no_pairs_are_an_error() -> None:
    """Nothing has no median, and what is not a number has none either."""
    for sides in (([], []), ([1.0], []), ([float("nan")], [1.0])):
        with pytest.raises(UsageError, match="no medians"):
            median_shift(*sides)
