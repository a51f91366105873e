"""Labelled pairs correct for the detector's own errors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from demur.errors import UsageError
from demur.measure.labels import MIN_LABELLED, corrected_difference
from demur.model.comparison import LabelledPair, PairCounts


def drawn(
    seed: int, *, labelled: int, rest: int, error: float
) -> tuple[PairCounts, list[LabelledPair], npt.NDArray[np.int64]]:
    """Pairs of which a detector gets a share wrong; the detector's word on those without a label comes third."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1, 0, 1], size=labelled + rest, p=[0.05, 0.8, 0.15])
    wrong = rng.random(labelled + rest) < error
    said = np.where(wrong, rng.choice([-1, 0, 1], size=labelled + rest), truth)
    b, c = int((said < 0).sum()), int((said > 0).sum())
    pairs = [LabelledPair(int(y), int(f)) for y, f in zip(truth[:labelled], said[:labelled], strict=True)]
    return PairCounts(0, b, c, labelled + rest - b - c), pairs, said[labelled:]


@pytest.mark.parametrize(("seed", "error", "rest"), [(1, 0.1, 900), (2, 0.5, 900), (3, 0.02, 5000), (4, 0.9, 300)])
def test_the_formula_on_arrays(seed: int, error: float, rest: int) -> None:
    """Estimate, interval and weight are those of the arrays written out, and the weight is nearly the best."""
    counts, labelled, said = drawn(seed, labelled=150, rest=rest, error=error)
    found = corrected_difference(counts, labelled)
    assert found is not None
    y, f = (np.array(column, dtype=float) for column in zip(*((p.human, p.detector) for p in labelled), strict=True))
    weight = float(np.clip(np.cov(y, f, ddof=0)[0, 1] / ((1 + 150 / rest) * f.var()), 0, 1))
    value = weight * said.mean() + (y - weight * f).mean()
    error_of = np.sqrt((y - weight * f).var() / 150 + weight**2 * said.var() / rest)
    assert found.weight == pytest.approx(weight, abs=1e-12)
    assert found.difference.value == pytest.approx(value, abs=1e-12)
    assert found.difference.interval.low == pytest.approx(value - 1.959963984540054 * error_of, abs=1e-12)
    assert found.difference.interval.high == pytest.approx(value + 1.959963984540054 * error_of, abs=1e-12)
    # Independent of the closed form: hardly any weight on a grid gives a smaller variance than the one chosen.
    grid = np.linspace(0, 1, 101)
    least = min((y - g * f).var() / 150 + g**2 * said.var() / rest for g in grid)
    assert error_of**2 == pytest.approx(least, rel=0.02)


def test_a_right_detector_gets_all_the_weight_it_may() -> None:
    """Where people never disagree the estimate is that of all pairs, as narrow as they allow."""
    counts, labelled, _ = drawn(5, labelled=100, rest=100_000, error=0.0)
    found = corrected_difference(counts, labelled)
    assert found is not None
    assert found.weight > 0.9
    assert found.difference.value == pytest.approx(counts.delta, abs=0.005)
    assert found.difference.p < 1e-9
    assert (found.labelled, found.difference.n, found.difference.interval.method) == (100, 100_100, "ppi++")


def test_a_blind_detector_gets_none() -> None:
    """Where the detector never speaks, or all pairs are labelled, only people count."""
    labelled = [LabelledPair(1, 0)] * 20 + [LabelledPair(0, 0)] * 100
    blind = corrected_difference(PairCounts(0, 0, 0, 500), labelled)
    everything = corrected_difference(PairCounts(0, 0, 0, 120), labelled)
    assert blind is not None
    assert everything is not None
    assert blind.weight == everything.weight == 0.0
    assert blind.difference.value == everything.difference.value == pytest.approx(20 / 120)


def test_a_design_effect_widens() -> None:
    """Pairs that move together widen the interval by the root of their design effect."""
    counts, labelled, _ = drawn(6, labelled=150, rest=900, error=0.1)
    plain, clustered = corrected_difference(counts, labelled), corrected_difference(counts, labelled, design_effect=4)
    assert plain is not None
    assert clustered is not None
    reaches = [f.difference.interval.high - f.difference.value for f in (plain, clustered)]
    assert reaches[1] == pytest.approx(2 * reaches[0])


def test_no_variance() -> None:
    """Where nobody saw any change there is no doubt left to measure, and p is 1."""
    found = corrected_difference(PairCounts(0, 0, 0, 200), [LabelledPair(0, 0)] * 100)
    assert found is not None
    assert (found.difference.value, found.difference.p) == (0.0, 1.0)


def test_too_few_labels_correct_nothing() -> None:
    """Below a hundred labels there is no correction."""
    few = [LabelledPair(0, 0)] * (MIN_LABELLED - 1)
    assert corrected_difference(PairCounts(0, 0, 0, 200), few) is None


def test_labels_of_other_pairs_are_refused() -> None:
    """Labelled pairs that cannot be among those compared are an error."""
    with pytest.raises(UsageError, match="not among"):
        corrected_difference(PairCounts(0, 0, 0, 200), [LabelledPair(1, 1)] * 100)
