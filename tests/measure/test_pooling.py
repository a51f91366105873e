"""Slices by partial pooling: better on average, and never more than a reading aid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from demur.measure.pooling import partial_pooling, pooled_differences
from demur.model.comparison import ClusterSum, PairCounts, SliceTally


def cut(b: int, c: int, n: int, *, clusters: tuple[ClusterSum, ...] = ()) -> SliceTally:
    return SliceTally("category", f"{b} {c} {n}", PairCounts(0, b, c, n - b - c), clusters)


def test_slices_that_differ_by_chance_alone_come_close() -> None:
    """Where slices scatter no more than chance allows, each is drawn more than half of the way to the common mean."""
    found = pooled_differences([cut(1, 2, 40), cut(2, 2, 40), cut(1, 3, 40), cut(2, 3, 40), cut(1, 1, 40)])
    assert all(one is not None and one.towards > 0.5 for one in found)


def test_a_small_slice_is_drawn_further_than_a_large_one() -> None:
    """What rests on less moves more, always towards the mean and never beyond it."""
    found = pooled_differences([cut(0, 3, 10), cut(10, 300, 1000), cut(20, 20, 1000), cut(5, 60, 500)])
    small, large = found[0], found[1]
    assert small is not None
    assert large is not None
    assert small.towards > large.towards
    assert abs(large.value - 0.29) < 0.01
    assert small.interval.low < small.value < 0.3


def test_the_eight_schools() -> None:
    """Rubin's eight schools come out as adaptive quadrature over the spread gives them."""
    # Effects over 100, so that a spread of at most 1 is no limit (Rubin 1981, table 1).
    effects = np.array([28, 8, -3, 7, -1, 1, 18, 12]) / 100
    variances = (np.array([15, 10, 16, 11, 9, 11, 10, 18]) / 100) ** 2

    def density(spread: float) -> float:
        precision = 1 / (variances + spread**2)
        mean = (precision @ effects) / precision.sum()
        return float(np.sqrt(precision.prod() / precision.sum()) * np.exp(-((effects - mean) ** 2 @ precision) / 2))

    def drawn(spread: float) -> float:
        precision = 1 / (variances + spread**2)
        mean = (precision @ effects) / precision.sum()
        return float(effects[0] + variances[0] * precision[0] * (mean - effects[0])) * density(spread)

    expected = quad(drawn, 0, 1)[0] / quad(density, 0, 1)[0]
    means, _, towards = partial_pooling(effects, variances)
    assert means[0] == pytest.approx(expected, rel=1e-4)
    assert 0.11 < means[0] < 0.12  # 28 before pooling, 11.4 after, in the units of the paper
    assert towards.argmin() == 4  # the school with the least error is drawn least


def test_too_few_slices_are_not_pooled() -> None:
    """Two slices, or two with pairs, say nothing of the spread between slices."""
    assert pooled_differences([cut(1, 2, 40), cut(2, 2, 40)]) == (None, None)
    assert pooled_differences([cut(1, 2, 40), cut(2, 2, 40), cut(0, 0, 0)]) == (None, None, None)
    assert pooled_differences([]) == ()


def test_no_flips_at_all() -> None:
    """Without any flip every estimate is 0, with a width that is not."""
    found = pooled_differences([cut(0, 0, 20)] * 3)
    assert all(one is not None and one.value == 0 and one.interval.low < 0 < one.interval.high for one in found)


def test_clusters_make_a_slice_weigh_less() -> None:
    """A slice whose pairs move together is drawn further."""
    plain = [cut(0, 20, 100), cut(5, 5, 100), cut(10, 2, 100), cut(0, 30, 100)]
    grouped = [cut(0, 20, 100, clusters=(ClusterSum(10, 10, 2), ClusterSum(0, 10, 8))), *plain[1:]]
    alone, together = pooled_differences(plain)[0], pooled_differences(grouped)[0]
    assert alone is not None
    assert together is not None
    assert together.towards > alone.towards


@pytest.mark.heavy
def test_pooled_estimates_are_nearer_and_cover() -> None:
    """Over 400 sets of twelve slices that differ by 5 points (SD), pooling has at most 0.8 times the squared error and covers 93 % or more."""
    rng = np.random.default_rng(20)
    raw = pooled = covered = count = 0.0
    for _ in range(400):
        truths = np.clip(rng.normal(0.05, 0.05, 12), -0.09, 0.3)
        cuts = []
        for truth in truths:
            chances = [0.1, 0.1 + truth, 0.8 - truth]
            b, c, _rest = rng.multinomial(60, chances)
            cuts.append(cut(int(b), int(c), 60))
        for one, made, truth in zip(pooled_differences(cuts), cuts, truths, strict=True):
            assert one is not None
            raw += (made.counts.delta - truth) ** 2
            pooled += (one.value - truth) ** 2
            covered += one.interval.low <= truth <= one.interval.high
            count += 1
    assert pooled <= 0.8 * raw
    assert covered / count >= 0.93
