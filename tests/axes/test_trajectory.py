"""Calls that changed, and how."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.axes.paired_exchanges import exchange, pair

from demur.axes.compare import AxesSettings, axis_gate, compare_axes
from demur.axes.steps import ToolCall
from demur.axes.trajectory import call_edits, edit_distance, trajectory_summary
from demur.model.axes import AxisFlag, AxisName, AxisResult
from demur.model.exchange import Exchange

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


def tools(rng: random.Random, *, weights: tuple[float, ...] = (1, 1, 1), n: int = 60) -> list[Exchange]:
    """A run of an agent that chooses one of three tools at random."""
    return [exchange("Done.", calls=(name,)) for name in rng.choices(("a", "b", "c"), weights, k=n)]


def compared(base: list[Exchange], candidate: list[Exchange], again: list[Exchange] | None) -> AxisResult:
    settings = AxesSettings(axes=(AxisName.TRAJECTORY,))
    pairs = [pair(f"q{i}", b, c) for i, (b, c) in enumerate(zip(base, candidate, strict=True))]
    floor = None if again is None else [pair(f"q{i}", b, c) for i, (b, c) in enumerate(zip(base, again, strict=True))]
    (found,) = compare_axes(pairs, settings, floor=floor).results
    return found


@pytest.mark.heavy
def test_two_draws_of_one_agent_seldom_fail() -> None:
    """Audit 9: with a floor at most one comparison in twenty of an agent with itself fails, and another agent does fail."""
    rng = random.Random(3)  # noqa: S311 - made-up runs
    times = 200
    failed = sum(axis_gate(compared(tools(rng), tools(rng), tools(rng))).failed for _ in range(times))
    # The test is one-sided at 2.5 %; three standard errors of 200 runs at 5 % are 0.046.
    assert failed / times <= 0.05
    sharp = (20.0, 1.0, 1.0)
    base, again = tools(rng, weights=sharp), tools(rng, weights=sharp)
    other = compared(base, tools(rng, weights=(1.0, 20.0, 1.0)), again)
    assert axis_gate(other).failed
    assert other.baseline is not None
    assert other.candidate is not None
    assert other.baseline < 0.4 < other.candidate


def test_without_a_floor_nothing_is_decided() -> None:
    """Audit 9: it is not known what changes by chance, so the axis neither fails nor passes, and says so."""
    rng = random.Random(4)  # noqa: S311 - made-up runs
    found = compared(tools(rng), tools(rng), None)
    gate = axis_gate(found)
    assert (gate.failed, gate.unsettled, found.p) == (False, True, None)
    assert AxisFlag.NO_FLOOR in found.flags
    assert "--floor RUN" in gate.why


def test_a_floor_counts_where_both_have_the_pair() -> None:
    """Pairs that the floor run lacks are missing; with none in common the axis is absent."""
    rng = random.Random(5)  # noqa: S311 - made-up runs
    base, candidate, again = tools(rng, n=20), tools(rng, n=20), tools(rng, n=20)
    pairs = [pair(f"q{i}", b, c) for i, (b, c) in enumerate(zip(base, candidate, strict=True))]
    floor = [pair(f"q{i}", b, c) for i, (b, c) in enumerate(zip(base, again, strict=True))]
    settings = AxesSettings(axes=(AxisName.TRAJECTORY,))
    (found,) = compare_axes(pairs, settings, floor=floor[:15]).results
    assert (found.n, found.missing) == (15, 5)
    other = [pair(f"r{i}", b, c) for i, (b, c) in enumerate(zip(base, again, strict=True))]
    (absent,) = compare_axes(pairs, settings, floor=other).absent
    assert absent.why == "no pair of the floor run is one of the candidate's"
