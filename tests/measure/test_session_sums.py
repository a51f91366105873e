"""Sessions are worth what their spread says, and a fixed run's rate has an exact interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from demur.measure.session_sums import SessionSums, exact_interval


def sums_of(sessions: Sequence[tuple[int, int]]) -> SessionSums:
    """Return the sums over sessions of K of M rows."""
    k, m = np.array(sessions).T
    return SessionSums(len(sessions), *(int(each.sum()) for each in (m, k, k * k, k * m, m * m)))


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [
        (0, 20, 0.0, 0.19675967970463107),
        (3, 50, 0.00963031715700646, 0.18206000347353044),
        (50, 1000, 0.03575086448180214, 0.06769871814086531),
        (20, 20, 0.803240320295369, 1.0),
    ],
)
def test_clopper_pearson(count: int, n: int, low: float, high: float) -> None:
    """Single rows have Clopper and Pearson's interval."""
    # By scipy.stats.binomtest, its proportion_ci at 0.975 with the method "exact".
    found = exact_interval(sums_of([(1, 1)] * count + [(0, 1)] * (n - count)), alpha=0.025)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-10)
    assert (found.method, found.level) == ("clopper-pearson", 0.975)


def test_sessions_widen_it() -> None:
    """Sessions that refuse throughout or not at all are worth one row each, less what t has over z."""
    single = exact_interval(sums_of([(1, 1)] * 10 + [(0, 1)] * 90))
    grouped = exact_interval(sums_of([(10, 10)] * 10 + [(0, 10)] * 90))
    assert sums_of([(10, 10)] * 10 + [(0, 10)] * 90).design_effect == pytest.approx(10 * 100 / 99)
    assert grouped.method == "korn-graubard"
    assert grouped.low < single.low < 0.1 < single.high < grouped.high
    assert grouped.high - grouped.low == pytest.approx(single.high - single.low, rel=0.05)


@pytest.mark.parametrize(
    ("sessions", "effect", "interval"),
    [([(0, 5)] * 4, 5.0, (0.0, None)), ([(5, 5)] * 4, 5.0, (None, 1.0)), ([(3, 9)], 9.0, (0.0, 1.0))],
    ids=["none refused", "all refused", "one session"],
)
def test_where_nothing_shows_the_spread(
    sessions: list[tuple[int, int]], effect: float, interval: tuple[float | None, float | None]
) -> None:
    """Each session counts as one row where none or all refused, and one session alone says nothing."""
    sums = sums_of(sessions)
    assert sums.design_effect == effect
    found = exact_interval(sums)
    for end, expected in zip((found.low, found.high), interval, strict=True):
        assert 0 < end < 1 if expected is None else end == expected


def test_nothing_counted() -> None:
    """No rows leave every rate possible."""
    found = exact_interval(SessionSums())
    assert (found.low, found.high, SessionSums().design_effect) == (0.0, 1.0, 1.0)


@pytest.mark.heavy
def test_coverage_with_sessions() -> None:
    """The interval of a run of sessions holds the true rate in 95 % of runs."""
    # 300 runs of 100 sessions of ten rows at ICC .3: 285 expected, three standard errors less is 273.
    rng = np.random.default_rng(5)
    rates = rng.beta(0.05 * 7 / 3, 0.95 * 7 / 3, size=(300, 100))
    runs = [exact_interval(sums_of([(k, 10) for k in row])) for row in rng.binomial(10, rates).tolist()]
    assert sum(found.low <= 0.05 <= found.high for found in runs) >= 273
