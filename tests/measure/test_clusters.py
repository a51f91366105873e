"""Groups that move together count for what they are worth."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.measure import clusters as clusters_module
from demur.measure.clusters import cluster_effect, clustered_difference, rate_sums, sign_flip_midp
from demur.measure.paired import mcnemar_midp
from demur.model.comparison import ClusterSum, PairCounts
from demur.model.sessions import SessionSums

NETS = [3, 0, 2, 0, 0, 1, -1, 4, 0, 0, 2, 0]
SESSIONS = tuple(ClusterSum(net, 5, 1) for net in NETS)
COUNTS = PairCounts(both=0, baseline_only=1, candidate_only=12, neither=47)


def by_enumeration(nets: list[int]) -> float:
    """Two-sided mid-p of the sum over every choice of signs."""
    sums = [sum(s * n for s, n in zip(signs, nets, strict=True)) for signs in product((-1, 1), repeat=len(nets))]
    observed = abs(sum(nets))
    beyond, at = sum(s > observed for s in sums), sum(s == observed for s in sums)
    return (2 * beyond + at) / len(sums)


def test_worked_example() -> None:
    """Twelve sessions of five turns: standard error, design effect, interval and p are the worked ones."""
    # statsmodels 0.15: OLS(d, 1).fit(cov_type="cluster", cov_kwds={"groups": session}).bse
    # scipy.stats.permutation_test((D,), sum, permutation_type="samples"): 0.09375, less half of P(|S| = 11): 0.0625
    difference, effect = clustered_difference(COUNTS, SESSIONS)
    assert effect.standard_error == pytest.approx(0.08689364217539192, abs=1e-12)
    assert effect.design_effect == pytest.approx(2.4748241136708504, abs=1e-12)
    assert effect.effective_n == pytest.approx(24.244147157190643, abs=1e-9)
    assert difference.value == pytest.approx(0.18333333333333332)
    ends = (-0.035698989429720385, 0.4098221348334874)
    assert (difference.interval.low, difference.interval.high) == pytest.approx(ends, abs=1e-9)
    assert difference.p == pytest.approx(0.0625, abs=1e-14)
    assert (effect.count, difference.n, difference.interval.method) == (12, 60, "tango, design effect")


@given(st.lists(st.integers(-9, 9), max_size=9))
def test_sign_flips_are_all_signs(nets: list[int]) -> None:
    """The convolution is what trying every sign gives."""
    found = sign_flip_midp([ClusterSum(net, 9, 1) for net in nets])
    assert found == pytest.approx(by_enumeration(nets), rel=1e-11)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 9), st.integers(1, 3))
def test_single_pairs_are_mcnemars(b: int, c: int, same: int, scale: int) -> None:
    """Where every cluster has one net flip, of whatever size, p is McNemar's mid-p, far tails included."""
    sums = (ClusterSum(scale, scale, c), ClusterSum(-scale, scale, b), ClusterSum(0, 1, same))
    assert sign_flip_midp(sums) == pytest.approx(mcnemar_midp(b, c), rel=1e-9, abs=1e-307)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 40)), max_size=12))
def test_only_the_histogram_matters(kinds: list[tuple[int, int]]) -> None:
    """Clusters counted together and one by one give the same p, and the other sign the same again."""
    together = [ClusterSum(net, 3, count) for net, count in kinds]
    apart = [ClusterSum(net, 3, 1) for net, count in kinds for _ in range(count)]
    mirrored = [ClusterSum(-net, 3, count) for net, count in kinds]
    assert sign_flip_midp(together) == sign_flip_midp(apart) == sign_flip_midp(mirrored)


def test_a_million_clusters() -> None:
    """A million single-pair clusters keep McNemar's eight digits."""
    sums = (ClusterSum(1, 1, 41_000), ClusterSum(-1, 1, 40_000), ClusterSum(0, 1, 919_000))
    assert sign_flip_midp(sums) == pytest.approx(mcnemar_midp(40_000, 41_000), rel=1e-8)


def test_the_saddlepoint_comes_near() -> None:
    """Where the lattice is too large to convolve, the approximation is within two per cent of an exact neighbour."""
    rng = np.random.default_rng(7)
    nets = rng.integers(-40_000, 48_000, 2000)
    large = [ClusterSum(int(net), 100_000, 1) for net in nets]
    small = [ClusterSum(round(net / 400), 250, 1) for net in nets]
    kinds = len({abs(c.net) for c in large})
    assert kinds * sum(abs(c.net) for c in large) > clusters_module._MAX_WORK
    assert sign_flip_midp(large) == pytest.approx(sign_flip_midp(small), rel=0.02)


def test_the_saddlepoint_next_to_the_mean() -> None:
    """Where the observed sum is next to nothing beside its spread, p is 1."""
    large = [ClusterSum(sign * net, 100_000, 1) for net in range(40_000, 42_000) for sign in (-1, 1)]
    assert sign_flip_midp([*large, ClusterSum(1, 100_000, 1)]) == 1.0


def test_one_cluster_tells_nothing() -> None:
    """However many pairs it has, one cluster is one observation."""
    difference, effect = clustered_difference(PairCounts(0, 0, 9, 1), (ClusterSum(9, 10, 1),))
    assert (difference.interval.low, difference.interval.high, difference.p) == (-1.0, 1.0, 1.0)
    assert (effect.design_effect, effect.effective_n) == (10.0, 1.0)


@pytest.mark.parametrize(
    ("counts", "net"), [(PairCounts(2, 0, 0, 10), 0), (PairCounts(0, 0, 12, 0), 3), (PairCounts(0, 12, 0, 0), -3)]
)
def test_no_variance_counts_clusters(counts: PairCounts, net: int) -> None:
    """Where all pairs moved alike each cluster is worth one pair."""
    effect = cluster_effect(counts, (ClusterSum(net, 3, 4),))
    assert (effect.design_effect, effect.effective_n) == (3.0, 4.0)


def test_flips_that_cancel_do_not_help() -> None:
    """The design effect is never below 1."""
    effect = cluster_effect(PairCounts(0, 5, 5, 0), (ClusterSum(0, 2, 5),))
    assert (effect.design_effect, effect.effective_n) == (1.0, 10.0)


def test_clusters_must_add_up() -> None:
    """A histogram that is not of these pairs is refused."""
    with pytest.raises(UsageError, match="do not add up"):
        cluster_effect(COUNTS, SESSIONS[1:])


def test_no_clusters_no_flips() -> None:
    """Nothing at all is p = 1, and worth no pairs."""
    assert sign_flip_midp(()) == 1.0
    assert cluster_effect(PairCounts(0, 0, 0, 0), ()).effective_n == 0.0


def test_the_sums_of_both_runs() -> None:
    """The sums of each run's abstentions over clusters are those by hand; where a cluster does not say them there are none."""
    clusters = (ClusterSum(2, 5, 3, 1), ClusterSum(-1, 2, 1, 2), ClusterSum(0, 1, 4, 0))
    # Baseline: 1 of 5 three times, 2 of 2, 0 of 1 four times; candidate: 3 of 5 three times, 1 of 2, 0 of 1 four times.
    before = SessionSums(8, 21, 5, 3 * 1 + 4, 3 * 5 + 4, 3 * 25 + 4 + 4)
    after = SessionSums(8, 21, 10, 3 * 9 + 1, 3 * 15 + 2, 3 * 25 + 4 + 4)
    assert rate_sums(clusters) == (before, after)
    assert rate_sums((*clusters, ClusterSum(0, 1, 1))) is None
    assert rate_sums(()) is None
