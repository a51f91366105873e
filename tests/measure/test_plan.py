"""A stated power is the share of runs in which the report's own test gives that answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demur.measure import plan
from demur.measure.clusters import clustered_difference, sign_flip_midp
from demur.measure.paired import mcnemar_midp, paired_difference, tango_interval
from demur.measure.plan import (
    Clusters,
    anova_icc,
    churn_of,
    clusters_of,
    labels_to_correct,
    min_clusters,
    minimum_detectable,
    minimum_provable,
    pairs_to_detect,
    pairs_to_prove,
    power_of,
    power_to_detect,
    power_to_prove,
    rows_to_estimate,
    smoothed_share,
    width_of_correction,
    width_of_estimate,
)
from demur.measure.rates import wilson
from demur.measure.special import normal_critical
from demur.model.comparison import ClusterSum, PairCounts, Power
from demur.model.estimate import Difference

Z = normal_critical(0.05)
SIMULATED = 1500
# Three points, and two and a half standard errors of so many runs.
CLOSE = 0.03 + 2.5 * math.sqrt(0.8 * 0.2 / SIMULATED)


def drawn_pairs(n: int, up: float, down: float, *, seed: int) -> Counter[PairCounts]:
    """Return tables of n pairs drawn independently, with how often each came."""
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(n, [up, down, max(0.0, 1 - up - down)], size=4 * SIMULATED)
    return Counter(PairCounts(0, int(b), int(c), int(same)) for c, b, same in draws)


def drawn_sessions(sizes: Sequence[int], up: float, down: float, *, icc: float, seed: int) -> list[Difference]:
    """Return the differences of runs whose sessions have flip rates of their own, Dirichlet distributed."""
    rng = np.random.default_rng(seed)
    shape = np.maximum(np.array([up, down, 1 - up - down]), 1e-9) * (1 - icc) / icc
    found = []
    for _ in range(SIMULATED):
        own = rng.dirichlet(shape, len(sizes))
        flips = [rng.multinomial(size, each / each.sum()) for size, each in zip(sizes, own, strict=True)]
        gained, lost, same = (sum(int(each[i]) for each in flips) for i in range(3))
        counts = PairCounts(0, lost, gained, same)
        clusters = [ClusterSum(int(c - b), size, 1) for size, (c, b, _) in zip(sizes, flips, strict=True)]
        found.append(clustered_difference(counts, clusters)[0])
    return found


def share_of_rises(found: list[Difference]) -> float:
    return sum(d.p <= 0.05 and d.value > 0 for d in found) / len(found)


# scipy.stats.multinomial(n, [up, down, 1 - up - down]) summed over all tables.
@pytest.mark.parametrize(("n", "delta", "share"), [(12, 0.5, 0.1), (42, 0.2, 0.0), (60, 0.15, 0.1), (60, 0.3, 0.9)])
def test_power_is_the_sum_over_all_tables(n: int, delta: float, share: float) -> None:
    """The exact power is the chance of all tables whose mid-p proves a rise."""
    flips = min(1.0, share + delta)
    up, down = (flips + delta) / 2, (flips - delta) / 2
    chance = stats.multinomial(n, [up, down, 1 - up - down]).pmf
    tables = ((b, c) for b, c in product(range(n + 1), repeat=2) if c > b and b + c <= n)
    expected = sum(chance([c, b, n - b - c]) for b, c in tables if mcnemar_midp(b, c) <= 0.05)
    assert power_to_detect(n, delta, share) == pytest.approx(float(expected), abs=1e-8)


@pytest.mark.parametrize(("n", "margin", "share"), [(30, 0.15, 0.1), (60, 0.1, 0.0), (60, 0.2, 0.4)])
@pytest.mark.parametrize("both", [False, True], ids=["one_side", "both_sides"])
def test_proof_is_the_sum_over_all_intervals(n: int, margin: float, share: float, *, both: bool) -> None:
    """The chance of a proof is that of all tables whose interval ends below the margin, and above its negative where both are meant."""
    chance = stats.multinomial(n, [share / 2, share / 2, 1 - share]).pmf
    expected = 0.0
    for b, c in product(range(n + 1), repeat=2):
        if b + c <= n:
            low, high = tango_interval(b, c, n, critical=Z)
            if high < margin and (low > -margin or not both):
                expected += float(chance([c, b, n - b - c]))
    assert power_to_prove(n, margin, share, both=both) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("n", "share"), [(950, 0.9), (19_000, 0.01), (9_000, 0.1)])
def test_the_sum_meets_its_normal_limit(n: int, share: float) -> None:
    """Where the sum ends and the normal limit begins, both say the same to a point."""
    delta = minimum_detectable(n, share)
    assert delta is not None
    for n_near in (n // 2, n, 2 * n):
        exact, limit = power_to_detect(n_near, delta, share), connor(n_near, delta, share)
        assert exact == pytest.approx(limit, abs=0.012)


def connor(n: int, delta: float, share: float) -> float:
    """The power by Connor's formula, with a rise on top of the flips."""
    flips = share + delta
    reach = delta * math.sqrt(n) - 1.959963984540054 * math.sqrt(flips)
    return float(stats.norm.cdf(reach / math.sqrt(flips - delta**2)))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("n", [42, 100, 300, 1000, 2000])
def test_the_minimum_detectable_difference_is_seen(n: int, share: float) -> None:
    """A rise of the stated size, on top of the churn, is proven in 80 % of runs (audit 11: .52 to .70 before)."""
    delta = minimum_detectable(n, share)
    assert delta is not None
    drawn = drawn_pairs(n, share / 2 + delta, share / 2, seed=n)
    seen = sum(times for t, times in drawn.items() if paired_difference(t).p <= 0.05 and t.delta > 0)
    assert seen / drawn.total() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("margin", "share"), [(0.02, 0.0), (0.02, 0.04), (0.05, 0.1), (0.05, 0.2), (0.01, 0.01)])
def test_the_pairs_to_prove_no_increase(margin: float, share: float) -> None:
    """So many pairs prove no increase in 80 % of runs where nothing changed, and in 5 % or fewer where refusals rose by the margin."""
    n = pairs_to_prove(margin, share)
    assert n is not None
    same = drawn_pairs(n, share / 2, share / 2, seed=1)
    proven = sum(times for t, times in same.items() if paired_difference(t).interval.high < margin)
    # Without any flip the interval is always the same one.
    assert proven / same.total() == pytest.approx(0.8 if share else 1.0, abs=0.03)
    rose = drawn_pairs(n, share / 2 + margin, share / 2, seed=2)
    wrong = sum(times for t, times in rose.items() if paired_difference(t).interval.high < margin)
    assert wrong / rose.total() <= 0.05


def test_about_that_many_pairs_settle_it() -> None:
    """With the pairs that settle a margin, a rise of its size is seen and no change is shown (audit 11: inconclusive .37 to .61 before)."""
    for share in (0.05, 0.1, 0.2):
        n = power_of(100, share, margin=0.05).n_to_settle
        assert n is not None
        assert power_to_detect(n, 0.05, share) >= 0.8
        assert power_to_prove(n, 0.05, share, both=True) >= 0.8


# Pinned by `python -c "from demur.measure.plan import *; print(pairs_to_detect(...), pairs_to_prove(...))"`; the sum over tables and the
# simulations of this file are what they rest on.
@pytest.mark.parametrize(
    ("size", "share", "detect", "prove"),
    [
        (0.05, 0.1, 461, 339),
        (0.1, 0.1, 152, 100),
        (0.15, 0.1, 81, 49),
        (0.05, 0.04, 270, 177),
        (0.02, 0.05, 1357, 1043),
    ],
)
def test_pairs_that_people_ask_for(size: float, share: float, detect: int, prove: int) -> None:
    """The pairs of common questions do not move unseen."""
    assert pairs_to_detect(size, share) == detect
    assert pairs_to_prove(size, share) == prove


@given(st.integers(10, 3000), st.floats(0, 0.5))
def test_the_one_undoes_the_other(n: int, share: float) -> None:
    """The difference that n pairs show needs about n pairs."""
    delta = minimum_detectable(n, share)
    assert delta is not None
    found = pairs_to_detect(delta, share)
    assert found is not None
    # The exact power of few pairs goes up in steps.
    assert n * 0.97 - 3 <= found <= n * 1.005 + 1


def test_nothing_shows_nothing() -> None:
    """No pairs and too few pairs have no minimum; no margin is settled by any number of pairs."""
    assert power_to_detect(0, 0.5, 0.1) == power_to_prove(0, 0.5, 0.1) == 0
    assert minimum_detectable(3, 0.4) is None
    assert power_of(100, 0.1, margin=0.0).n_to_settle is None
    assert minimum_provable(1, 0.1) is not None
    assert smoothed_share(0, 0) == 0.5


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_up_to_four_sessions_show_nothing(count: int) -> None:
    """Fewer sessions than a test at 5 % needs detect no rise, and more pairs of them settle nothing (audit 1)."""
    few = Clusters(count, 0.1)
    assert minimum_detectable(400, 0.1, clusters=few) is None
    assert power_to_detect(400, 0.9, 0.1, clusters=few) == 0
    assert power_of(400, 0.1, margin=0.05, clusters=few) == Power(None, None)


def test_the_fewest_sessions() -> None:
    """The fewest sessions of a test are those whose least p, 2^-G, reaches alpha."""
    assert (min_clusters(0.05), min_clusters(0.01), min_clusters(0.5)) == (5, 7, 1)
    assert sign_flip_midp([ClusterSum(3, 10, 5)]) <= 0.05 < sign_flip_midp([ClusterSum(3, 10, 4)])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("count", "turns", "share", "icc"),
    [
        (5, 10, 0.05, 0.1),
        (6, 10, 0.2, 0.3),
        (8, 10, 0.1, 0.3),
        (8, 40, 0.1, 0.1),
        (11, 20, 0.05, 0.3),
        (12, 10, 0.04, 0.3),
        (20, 10, 0.2, 0.1),
        (30, 10, 0.0, 0.3),
        (30, 10, 0.04, 0.1),
    ],
)
def test_the_minimum_detectable_difference_of_sessions(count: int, turns: int, share: float, icc: float) -> None:
    """A rise of the stated size is proven in 80 % of runs with few sessions too (audit 1 and section 1: .31 to .51 before)."""
    delta = minimum_detectable(count * turns, share, clusters=Clusters(count, icc))
    assert delta is not None
    found = drawn_sessions([turns] * count, share / 2 + delta, share / 2, icc=icc, seed=count)
    assert share_of_rises(found) == pytest.approx(0.8, abs=CLOSE)


@pytest.mark.heavy
def test_sessions_of_all_sizes() -> None:
    """Sessions of very different lengths are taken as they are, also where one holds a third of all pairs."""
    for sizes in ([*range(1, 11)] * 2, [50, *[5] * 20]):
        clusters = Clusters(len(sizes), 0.3, tuple(sorted(Counter(sizes).items())))
        delta = minimum_detectable(sum(sizes), 0.1, clusters=clusters)
        assert delta is not None
        found = drawn_sessions(sizes, 0.05 + delta, 0.05, icc=0.3, seed=3)
        assert share_of_rises(found) == pytest.approx(0.8, abs=CLOSE)


@pytest.mark.heavy
@pytest.mark.parametrize(("turns", "share", "icc"), [(10, 0.05, 0.1), (10, 0.1, 0.3), (30, 0.02, 0.1)])
def test_the_sessions_to_prove_no_increase(turns: int, share: float, icc: float) -> None:
    """So many sessions prove no increase in 80 % of runs where nothing changed."""
    n = pairs_to_prove(0.08, share, turns=turns, icc=icc)
    assert n is not None
    assert n % turns == 0
    found = drawn_sessions([turns] * (n // turns), share / 2, share / 2, icc=icc, seed=turns)
    assert sum(d.interval.high < 0.08 for d in found) / len(found) == pytest.approx(0.8, abs=CLOSE)


@pytest.mark.heavy
def test_many_sessions_meet_the_normal_limit() -> None:
    """Where the simulation ends, the normal limit at the effective number of pairs says nearly the same."""
    for share, icc in ((0.05, 0.1), (0.2, 0.3)):
        simulated, limit = (minimum_detectable(10 * g, share, clusters=Clusters(g, icc)) for g in (100, 101))
        assert simulated is not None
        assert limit == pytest.approx(simulated, rel=0.06)
        simulated, limit = (minimum_provable(10 * g, share, clusters=Clusters(g, icc)) for g in (100, 101))
        assert simulated is not None
        assert limit == pytest.approx(simulated, rel=0.06)


@given(st.lists(st.integers(-9, 9), min_size=5, max_size=30))
def test_simulated_runs_are_tested_as_real_ones(nets: list[int]) -> None:
    """The test of many simulated runs at once rejects where the sign-flip test of the report does, but for p next to alpha."""
    p = sign_flip_midp([ClusterSum(net, 10, 1) for net in nets])
    if abs(p - 0.05) > 0.006:
        assert bool(plan._proves_rise(np.array([nets], dtype=np.float64), 0.05)[0]) == (p <= 0.05 and sum(nets) > 0)


def test_what_changed_is_not_churn() -> None:
    """Flips are churn, but where a change is proven only twice those against it."""
    assert churn_of(PairCounts(5, 2, 4, 89), changed=False) == pytest.approx(7 / 102)
    assert churn_of(PairCounts(5, 2, 14, 79), changed=True) == pytest.approx(5 / 102)
    assert churn_of(PairCounts(0, 0, 0, 0), changed=False) == 0.5


def test_sessions_of_a_comparison() -> None:
    """The correlation that a report plans by gives the design effect of its clusters; without flips each cluster counts as one pair."""
    counts = PairCounts(0, 10, 30, 160)
    clusters = [ClusterSum(4, 10, 5), ClusterSum(0, 10, 15)]
    found = clusters_of(counts, clusters)
    assert found is not None
    design = clustered_difference(counts, clusters)[1].design_effect
    assert found.count == 20
    assert 1 + 9 * found.icc == pytest.approx(design)
    assert clusters_of(PairCounts(0, 0, 0, 200), [ClusterSum(0, 10, 20)]) == Clusters(20, 1.0, ((10, 20),))
    uneven = [ClusterSum(10, 100, 1), ClusterSum(2, 10, 5), ClusterSum(0, 5, 10)]
    found = clusters_of(counts, uneven)
    assert found is not None
    size = (100 * 100 + 5 * 10 * 10 + 10 * 5 * 5) / 200
    assert found.mean_size(200) == pytest.approx(size)
    assert 1 + (size - 1) * found.icc == pytest.approx(clustered_difference(counts, uneven)[1].design_effect)
    assert 1 + (200 / 16 - 1) * found.even_icc == pytest.approx(1 + (size - 1) * found.icc)
    assert clusters_of(counts, [ClusterSum(0, 1, 200)]) is None
    assert clusters_of(counts, []) is None


def test_more_sessions_beat_more_turns() -> None:
    """The same pairs in fewer sessions show less, and independent pairs most."""
    alone = minimum_detectable(300, 0.05)
    spread = minimum_detectable(300, 0.05, clusters=Clusters(60, 0.2))
    packed = minimum_detectable(300, 0.05, clusters=Clusters(10, 0.2))
    assert alone is not None
    assert spread is not None
    assert packed is not None
    assert alone < spread < packed


def test_the_correlation_of_refusals() -> None:
    """The intraclass correlation is that of the analysis of variance, 0 where there is none to see."""
    groups = [[1] * 9 + [0], [1] * 5 + [0] * 5, [1] + [0] * 9, [0] * 10, [1] * 3 + [0] * 7]
    between = stats.f_oneway(*groups).statistic
    expected = (between - 1) / (between + 10 - 1)
    assert anova_icc([(sum(g), len(g), 1) for g in groups]) == pytest.approx(expected)
    assert anova_icc([(5, 10, 4), (5, 10, 4)]) == 0  # more even than chance
    assert anova_icc([(0, 10, 5), (10, 10, 5)]) == 1
    assert anova_icc([(0, 10, 9)]) == anova_icc([(10, 10, 9)]) == anova_icc([(1, 2, 1)]) == anova_icc([]) == 0
    assert anova_icc([(0, 1, 9), (1, 1, 3)]) == 0


@pytest.mark.parametrize(("width", "rate"), [(0.02, 0.05), (0.05, 0.5), (0.01, 0.01), (0.03, 0.95), (0.02, 0.0)])
def test_the_responses_to_estimate_a_rate(width: float, rate: float) -> None:
    """So many responses give an interval of at most ± width in 80 % of runs; scarcely more than that are needed."""
    n = rows_to_estimate(width, rate)
    assert n is not None

    def narrow(n: int) -> float:
        ends = (wilson(k, n).interval for k in range(n + 1))
        return sum(
            float(stats.binom.pmf(k, n, rate)) for k, end in enumerate(ends) if (end.high - end.low) / 2 <= width
        )

    assert narrow(n) >= 0.75
    assert narrow(math.floor(n * 0.93)) < 0.85


def test_sessions_to_estimate_a_rate() -> None:
    """Sessions need about their design effect times as many responses; one session gives no width at all."""
    alone, grouped = rows_to_estimate(0.02, 0.05), rows_to_estimate(0.02, 0.05, turns=10, icc=0.1)
    assert alone is not None
    assert grouped is not None
    assert 1.9 * alone < grouped < 2.1 * alone
    assert width_of_estimate(100, 0.1, clusters=Clusters(1, 0.1)) == width_of_estimate(0, 0.1) == 0.5


def test_labels_to_correct() -> None:
    """Worse detectors need more labels, perfect ones still some, and no number of labels replaces pairs."""
    common = {"share": 0.05, "pairs": 5000}
    perfect, good, bad = (labels_to_correct(0.02, errors, **common) for errors in (0.0, 0.02, 0.1))
    assert perfect is not None
    assert good is not None
    assert bad is not None
    assert 150 < perfect < good < bad < 5000
    assert width_of_correction(good, 0.02, **common) <= 0.02 < width_of_correction(good * 0.9, 0.02, **common)
    assert labels_to_correct(0.002, 0.02, **common) is None
    assert width_of_correction(0, 0.02, **common) == 1
