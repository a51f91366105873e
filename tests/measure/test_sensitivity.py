"""How many misread answers undo a finding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demur.measure.paired import mcnemar_midp
from demur.measure.sensitivity import flips_to_undo
from demur.model.comparison import PairCounts


def test_five_one_way_flips_rest_on_one() -> None:
    """Five one-way flips are the fewest that prove a change, so one of them taken back undoes it."""
    assert flips_to_undo(PairCounts(0, 0, 5, 95), alpha=0.05) == 1
    assert flips_to_undo(PairCounts(0, 5, 0, 95), alpha=0.05) == 1


def test_nothing_proven_is_nothing_to_undo() -> None:
    """Where p is above alpha there is nothing to undo."""
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
