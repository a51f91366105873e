"""The seed's interval without chance is what endless chance would give."""

from __future__ import annotations

import numpy as np
import pytest

from demur.measure.paired import percentile_interval, resampled_interval


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
    assert percentile_interval(b, c, n) == exact_by_convolution(b, c, n)


@pytest.mark.parametrize(("b", "c", "n"), [(5, 12, 100), (40, 60, 1000), (0, 3, 30)])
def test_resampling_comes_near_and_repeats(b: int, c: int, n: int) -> None:
    """A thousand seeded draws give the same twice, within two lattice steps of the limit."""
    drawn = resampled_interval(b, c, n, seed=1)
    assert drawn == resampled_interval(b, c, n, seed=1)
    assert drawn == pytest.approx(percentile_interval(b, c, n), abs=2 / n + 0.01)


def test_edges() -> None:
    """Nothing, no change, and all one way."""
    assert percentile_interval(0, 0, 0) == resampled_interval(0, 0, 0, seed=1) == (0.0, 0.0)
    assert percentile_interval(0, 0, 9) == (0.0, 0.0)
    assert percentile_interval(0, 3, 3) == (1.0, 1.0)
    assert percentile_interval(3, 0, 3) == (-1.0, -1.0)


def test_a_million_pairs() -> None:
    """Large runs keep to the normal limit."""
    low, high = percentile_interval(10_000, 30_000, 1_000_000)
    assert (low, high) == pytest.approx((0.02 - 1.96 * 0.000199, 0.02 + 1.96 * 0.000199), abs=2e-6)
