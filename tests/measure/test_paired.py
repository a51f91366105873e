"""The paired interval and test are those of the literature, sound at the edges; the seed's interval is endless chance's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.measure import paired
from demur.measure.paired import flips_to_undo, mcnemar_midp, paired_bounds, tango_interval
from demur.measure.special import normal_critical
from demur.model.comparison import Missing, PairCounts

Z = normal_critical(0.05)
# Tango by bisection to 1e-8, mid-p by scipy.stats.binom, for (both, baseline alone, candidate alone, neither).
WORKED = json.loads((Path(__file__).parent / "worked_pairs.json").read_text(encoding="utf-8"))
COUNTS = st.integers(0, 3_000_000)


@pytest.mark.parametrize("case", WORKED, ids=lambda case: str(case["counts"]))
def test_worked_examples(case: dict[str, Any]) -> None:
    """Difference, interval and p are the worked ones."""
    found = paired.paired_difference(PairCounts(*case["counts"]))
    assert found.value == pytest.approx(case["delta"], abs=1e-12)
    _, b, c, _ = case["counts"]
    assert tango_interval(b, c, found.n, critical=Z) == pytest.approx(tuple(case["tango"]), abs=1e-7)
    assert found.p == pytest.approx(case["midp"], rel=1e-9, abs=1e-300)
    assert (found.interval.method, found.interval.level) == ("tango", 0.95)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 2000))
def test_interval_and_p_agree_about_0(b: int, c: int, same: int) -> None:
    """An interval excludes 0 exactly where p is at most alpha (audit 13: four flips one way of a hundred did not)."""
    found = paired.paired_difference(PairCounts(0, b, c, same))
    assert (found.interval.low <= 0 <= found.interval.high) == (found.p > 0.05)
    assert found.interval.low <= found.value <= found.interval.high


def test_published_examples() -> None:
    """Two tables of the R package contingencytables give its intervals and its mid-p."""
    # contingencytables::Tango_asymptotic_score_CI_paired_2x2 and ::McNemar_midP_test_paired_2x2
    assert tango_interval(16, 6, 161, critical=Z) == pytest.approx((-0.1240, -0.0054), abs=5e-5)
    assert mcnemar_midp(16, 6) == pytest.approx(0.034690, abs=5e-7)
    assert tango_interval(0, 3, 3, critical=Z) == pytest.approx((-0.1230, 1), abs=5e-5)


def score_by_hand(b: float, c: float, n: float, d: float) -> float:
    """The statistic as the method's own formula has it."""
    linear, constant = -b - c + (2 * n - c + b) * d, -b * d * (1 - d)
    q = (math.sqrt(linear**2 - 8 * n * constant) - linear) / (4 * n)
    return (c - b - n * d) / math.sqrt(n * (2 * q + d * (1 - d)))


@pytest.mark.parametrize(
    ("b", "c", "n"), [(0.4, 4.8, 24.2), (3, 1, 30), (0, 0, 7.5), (20_000, 40_000, 1e6), (90, 100, 1e7), (1, 0, 1.5)]
)
def test_the_ends_are_where_the_score_is_critical(b: float, c: float, n: float) -> None:
    """At both ends, for fractions and millions alike, the score statistic is the critical value."""
    low, high = tango_interval(b, c, n, critical=Z)
    assert score_by_hand(b, c, n, low) == pytest.approx(Z, rel=1e-6)
    assert score_by_hand(b, c, n, high) == pytest.approx(-Z, rel=1e-6)


@given(COUNTS, COUNTS, COUNTS, st.floats(0.5, 15))
def test_laws_of_the_interval(b: int, c: int, same: int, critical: float) -> None:
    """The difference lies in its interval, the interval in [-1, 1], and swapping the runs mirrors it."""
    n = b + c + same
    low, high = tango_interval(b, c, n, critical=critical)
    delta = (c - b) / n if n else 0.0
    assert -1 <= low <= delta <= high <= 1
    assert tango_interval(c, b, n, critical=critical) == (-high, -low)


def test_edges_of_the_interval() -> None:
    """Nothing known is [-1, 1]; all one way ends at that way's end; no flips is a symmetric doubt."""
    assert tango_interval(0, 0, 0, critical=Z) == (-1, 1)
    assert tango_interval(5, 0, 5, critical=Z)[0] == -1
    assert tango_interval(0, 5, 5, critical=Z)[1] == 1
    low, high = tango_interval(0, 0, 30, critical=Z)
    assert low == -high
    # The high end of scipy.stats.binomtest(0, 30).proportion_ci(method="wilson").
    assert high == pytest.approx(0.1135133931739688, abs=1e-12)


@given(st.integers(0, 400), st.integers(0, 400))
def test_midp_is_the_binomial_one(b: int, c: int) -> None:
    """Mid-p is 2F(k) - f(k), symmetric, and 1 where flips balance."""
    k, m = min(b, c), b + c
    expected = min(1.0, float(2 * stats.binom.cdf(k, m, 0.5) - stats.binom.pmf(k, m, 0.5)))
    assert mcnemar_midp(b, c) == mcnemar_midp(c, b) == pytest.approx(expected, rel=1e-9)


def test_midp_of_millions() -> None:
    """Ten million flips keep eight digits, and what a float cannot hold is 0."""
    # By scipy.stats.binom: twice cdf(4995000, 10**7, .5), less pmf of the same.
    assert mcnemar_midp(4_995_000, 5_005_000) == pytest.approx(0.0015654018329835876, rel=1e-8)
    assert mcnemar_midp(20_000, 40_000) == 0.0


def test_five_one_way_are_the_least() -> None:
    """Four flips one way do not reach 0.05; five do."""
    assert mcnemar_midp(0, 4) > 0.05 >= mcnemar_midp(0, 5)


def test_missing_answers_bound_the_difference() -> None:
    """Each unknown side is taken at its worst and at its best over all pairs that there might have been."""
    counts = PairCounts(both=1, baseline_only=2, candidate_only=3, neither=4)
    assert paired_bounds(counts, Missing(baseline_failed=4)) is None
    missing = Missing(
        baseline_known_abstained=1,
        baseline_known_answered=2,
        candidate_known_abstained=3,
        candidate_known_answered=4,
        nothing_known=5,
    )
    assert paired_bounds(counts, missing) == pytest.approx(((1 - 1 - 4 - 5) / 25, (1 + 2 + 3 + 5) / 25))


def test_five_one_way_flips_rest_on_one() -> None:
    """Five one-way flips are the fewest that prove a change, so one taken back undoes it; of nothing proven none can be."""
    assert flips_to_undo(PairCounts(0, 0, 5, 95), alpha=0.05) == flips_to_undo(PairCounts(0, 5, 0, 95), alpha=0.05) == 1
    assert flips_to_undo(PairCounts(0, 0, 4, 96), alpha=0.05) is None
    assert flips_to_undo(PairCounts(0, 0, 0, 0), alpha=0.05) is None


@given(st.integers(0, 60), st.integers(0, 400))
def test_it_is_the_fewest(b: int, c: int) -> None:
    """Taking back that many flips leaves p above alpha, one fewer does not."""
    found = flips_to_undo(PairCounts(0, b, c, 10), alpha=0.05)
    low, high = sorted((b, c))
    if found is None:
        assert mcnemar_midp(low, high) > 0.05
    else:
        assert mcnemar_midp(low, high - found) > 0.05
        assert mcnemar_midp(low, high - found + 1) <= 0.05


def exact_by_convolution(b: int, c: int, n: int) -> tuple[float, float]:
    """The same quantiles by adding one pair at a time, for small n."""
    chances = np.array([1.0])
    for _ in range(n):
        chances = np.convolve(chances, [b / n, 1 - (b + c) / n, c / n])
    total = np.cumsum(chances)
    low, high = (int(np.searchsorted(total / total[-1], tail)) - n for tail in (0.025, 0.975))
    return low / n, high / n


@pytest.mark.parametrize(
    ("b", "c", "n"), [(0, 1, 3), (1, 4, 20), (3, 3, 50), (0, 10, 30), (7, 0, 40), (20, 30, 200), (50, 50, 100)]
)
def test_the_transform_is_the_convolution(b: int, c: int, n: int) -> None:
    """Both ends agree with adding the pairs up one by one."""
    assert paired.percentile_interval(b, c, n) == exact_by_convolution(b, c, n)


@pytest.mark.parametrize(("b", "c", "n"), [(5, 12, 100), (40, 60, 1000), (0, 3, 30)])
def test_resampling_comes_near_and_repeats(b: int, c: int, n: int) -> None:
    """A thousand seeded draws give the same twice, within two lattice steps of the limit."""
    drawn = paired.resampled_interval(b, c, n, seed=1)
    assert drawn == paired.resampled_interval(b, c, n, seed=1)
    assert drawn == pytest.approx(paired.percentile_interval(b, c, n), abs=2 / n + 0.01)


def test_edges_of_resampling() -> None:
    """Nothing, no change, and all one way."""
    assert paired.percentile_interval(0, 0, 0) == paired.resampled_interval(0, 0, 0, seed=1) == (0.0, 0.0)
    assert paired.percentile_interval(0, 0, 9) == (0.0, 0.0)
    assert paired.percentile_interval(0, 3, 3) == (1.0, 1.0)
    assert paired.percentile_interval(3, 0, 3) == (-1.0, -1.0)


def test_a_million_pairs() -> None:
    """Large runs keep to the normal limit."""
    low, high = paired.percentile_interval(10_000, 30_000, 1_000_000)
    assert (low, high) == pytest.approx((0.02 - 1.96 * 0.000199, 0.02 + 1.96 * 0.000199), abs=2e-6)
