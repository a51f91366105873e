"""A change is dated to the row, with the rows that it may have been, in a history that stays small."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.measure.change_point import Block, History, append_session, date_change
from demur.measure.session_sums import SessionSums
from demur.measure.watching import confidence_sequence


def history_of(hits: list[bool]) -> History:
    """Return the history of single rows."""
    levels: list[list[Block]] = []
    for row, hit in enumerate(hits, 1):
        append_session(levels, (row, int(hit), 1))
    n, k = len(hits), sum(hits)
    return History(SessionSums(n, n, k, k, k, n), tuple(map(tuple, levels)))


dated = partial(date_change, interval=confidence_sequence)


@given(st.lists(st.booleans(), min_size=1, max_size=3000))
def test_blocks_add_up(hits: list[bool]) -> None:
    """The blocks of a history are all rows in their order, the last of them single."""
    blocks = history_of(hits).blocks
    assert sum(rows for _, _, rows in blocks) == len(hits)
    assert sum(count for _, count, _ in blocks) == sum(hits)
    assert [first for first, _, _ in blocks] == sorted(first for first, _, _ in blocks)
    assert all(rows == 1 for *_, rows in blocks[-128:])


def test_a_long_history_stays_small() -> None:
    """A hundred thousand rows take some thousand blocks."""
    assert len(history_of([False] * 100_000).blocks) < 2500


def test_a_clear_change_is_dated_to_the_row() -> None:
    """Where no row was refused and then all are, there is one row that it can have been."""
    found = dated(history_of([False] * 300 + [True] * 20), (0.0, 0.05), is_rise=True)
    assert (found.since, found.latest, found.abstained, found.rows) == (301, 301, 20, 20)
    assert 300 - 25 < found.earliest <= 301
    assert found.interval.low > 0.5


def test_a_fall_is_dated() -> None:
    """Refusals that end are dated as well."""
    found = dated(history_of([True] * 100 + [False] * 40), (0.9, 1.0), is_rise=False)
    assert (found.since, found.abstained, found.rows) == (101, 0, 40)
    assert found.interval.low == 0


@pytest.mark.parametrize("is_rise", [True, False])
def test_a_rate_that_was_never_right(*, is_rise: bool) -> None:
    """A stream that was outside its band from the start is dated to its first row."""
    found = dated(history_of([is_rise] * 30), (0.4, 0.6), is_rise=is_rise)
    assert (found.since, found.earliest, found.rows) == (1, 1, 30)
