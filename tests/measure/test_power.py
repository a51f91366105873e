"""What was seen, what could have been, and what it would take."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.measure.power import detectable_difference, pairs_needed, power_of, smoothed_share

WORKED = json.loads((Path(__file__).parent / "worked_pairs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("delta", "share", "n"),
    [(0.02, 0.05, 979), (0.05, 0.1, 312), (0.1, 0.2, 155), (0.15, 0.2, 68), (0.33, 0.4, 27)],
)
def test_pairs_needed(delta: float, share: float, n: int) -> None:
    """The pairs for a difference are those of Connor's formula."""
    assert math.ceil(pairs_needed(delta, share)) == n


@pytest.mark.parametrize("case", WORKED, ids=lambda case: str(case["counts"]))
def test_detectable_difference(case: dict[str, Any]) -> None:
    """The smallest difference seen is the worked one, None where there is none."""
    _, b, c, _ = case["counts"]
    n = sum(case["counts"])
    assert detectable_difference(n, smoothed_share(b + c, n)) == pytest.approx(case["mde"], abs=1e-9)


@given(st.floats(4, 1e7), st.floats(0, 1))
def test_the_one_undoes_the_other(n: float, share: float) -> None:
    """The difference that n pairs show needs n pairs."""
    delta = detectable_difference(n, share)
    assert delta is not None
    assert pairs_needed(delta, share) == pytest.approx(n, rel=1e-6)


def test_power_of() -> None:
    """A design effect asks for as many times the pairs, and a margin of 0 for more than any number."""
    plain, doubled = power_of(100, 0.1, margin=0.05), power_of(50, 0.1, margin=0.05, design_effect=2.0)
    assert plain.n_to_settle == 312
    assert doubled.n_to_settle == math.ceil(2 * pairs_needed(0.05, 0.1))
    assert plain.mde is not None
    assert doubled.mde is not None
    assert plain.mde < doubled.mde
    assert power_of(100, 0.1, margin=0.0).n_to_settle is None
    assert power_of(3, 0.4, margin=0.05).mde is None
