"""Calls that changed, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.axes.steps import ToolCall
from demur.axes.trajectory import call_edits, edit_distance, trajectory_summary

SEQUENCES = st.lists(st.sampled_from("abc"), max_size=6).map(tuple)


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name.rstrip("!"), "{x: string}" if name.endswith("!") else "{}", 0) for name in names]


def plain_distance(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Levenshtein's distance by its definition."""
    if not a or not b:
        return len(a) + len(b)
    inner = plain_distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(inner, 1 + plain_distance(a[1:], b), 1 + plain_distance(a, b[1:]))


@pytest.mark.heavy
@given(SEQUENCES, SEQUENCES)
def test_the_distance_is_levenshteins(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    """The table gives what the definition gives."""
    assert edit_distance(a, b) == plain_distance(a, b)


@given(SEQUENCES, SEQUENCES)
def test_the_normal_distance_is_a_distance(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    """It lies from 0 to 1, is symmetric, and 0 only for equal calls."""
    forth, back = call_edits(calls(*a), calls(*b)), call_edits(calls(*b), calls(*a))
    assert 0 <= forth.distance <= 1
    assert forth.distance == back.distance
    assert forth.changed == (a != b)
    assert (forth.dropped, forth.added) == (back.added, back.dropped)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (("lookup", "refund"), ("refund",), (("lookup",), (), (), ())),
        (("refund",), ("lookup", "refund"), ((), ("lookup",), (), ())),
        (("a", "b"), ("b", "a"), ((), (), ("a", "b"), ())),
        (("a", "b"), ("a!", "b"), ((), (), (), ("a",))),
        (("a", "a"), ("a",), (("a",), (), (), ())),
        (("a", "b", "c"), ("c", "a"), (("b",), (), ("a", "c"), ())),
    ],
)
def test_what_changed_is_named(
    before: tuple[str, ...], after: tuple[str, ...], told: tuple[tuple[str, ...], ...]
) -> None:
    """Tools dropped, added, moved and called with other arguments are told apart."""
    edit = call_edits(calls(*before), calls(*after))
    assert (edit.dropped, edit.added, edit.reordered, edit.reshaped) == told


def test_the_mean_sees_what_the_median_does_not() -> None:
    """Nine changed pairs of twenty have a median distance of 0 and a mean above it."""
    edits = [call_edits(calls("a"), calls("b") if i < 9 else calls("a")) for i in range(20)]
    found = trajectory_summary(edits)
    assert (found.changed, found.n, found.median, found.mean) == (9, 20, 0.0, 0.45)
    # By `proportion_confint(9, 20, method="wilson")` of statsmodels 0.15.
    assert (found.interval.low, found.interval.high) == pytest.approx((0.25819786, 0.65791466), abs=1e-7)


def test_sessions_count_as_one() -> None:
    """Pairs that change together are worth less, and the interval says so."""
    edits = [call_edits(calls("a"), calls("b") if i < 10 else calls("a")) for i in range(40)]
    alone = trajectory_summary(edits, [str(i) for i in range(40)])
    together = trajectory_summary(edits, [str(i // 10) for i in range(40)])
    assert alone.interval == trajectory_summary(edits).interval
    assert together.interval.low < alone.interval.low < alone.interval.high < together.interval.high
    assert together.interval.method != alone.interval.method


def test_no_pairs_know_nothing() -> None:
    """Nothing changed of nothing, anywhere from none to all."""
    found = trajectory_summary([])
    assert (found.share, found.interval.low, found.interval.high) == (0.0, 0.0, 1.0)
