"""What a writer knows without asking again is what it would be told if it asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.record.logs import Log, busy_log
from tests.record.store.passport_logs import ORIGIN

from demur.record.interface import SessionTail
from demur.record.store.cache import LeftState
from demur.record.store.growth import line_of
from demur.record.store.sqlite_log import SqliteLog
from demur.record.tree import Frontier, MemoryTree, leaf_hash

if TYPE_CHECKING:
    from pathlib import Path

TAIL = SessionTail(3, "ab" * 32, "2026-01-31T12:00:00Z")


def frontier(size: int) -> Frontier:
    """The state of a tree of so many leaves."""
    return MemoryTree(leaf_hash(bytes([number])) for number in range(size)).frontier


def test_what_was_left_counts_while_the_log_stands_there() -> None:
    """Tails and keys are known at the very state that was left, and at no other of the same or another size."""
    left = LeftState()
    left.leave({"a": TAIL, "b": None}, ["key"], before=Frontier(), after=frontier(2))
    assert dict(left.tails(frontier(2))) == {"a": TAIL, "b": None}
    assert list(left.keys(frontier(2))) == ["key"]
    for other in (frontier(3), Frontier(2, (b"x" * 32,)), Frontier()):
        assert dict(left.tails(other)) == {}
        assert list(left.keys(other)) == []


def test_a_record_of_another_makes_all_forgotten() -> None:
    """Where a batch met the log in another state than it was left in, only that batch's own tails are known after it."""
    left = LeftState()
    left.leave({"a": TAIL}, ["key"], before=Frontier(), after=frontier(2))
    assert left.expected() == frontier(2)
    left.leave({"b": TAIL}, ["key"], before=frontier(3), after=frontier(4))
    assert dict(left.tails(frontier(4))) == {"b": TAIL}
    assert left.expected() is None
    left.leave({"c": TAIL}, ["key"], before=frontier(4), after=frontier(5))
    assert dict(left.tails(frontier(5))) == {"b": TAIL, "c": TAIL}
    assert left.expected() == frontier(5)


def test_no_more_is_remembered_than_the_bound() -> None:
    """What would be too much is forgotten, never the newest in favour of the older."""
    left = LeftState(most=2)
    left.leave({"a": TAIL, "b": TAIL}, [], before=Frontier(), after=frontier(1))
    left.leave({"c": TAIL}, [], before=frontier(1), after=frontier(2))
    assert dict(left.tails(frontier(2))) == {"c": TAIL}
    left.leave(dict.fromkeys("defg", TAIL), [], before=frontier(2), after=frontier(3))
    assert dict(left.tails(frontier(3))) == {}


def test_what_a_holder_appends_is_known_to_it(tmp_path: Path) -> None:
    """Frontier and tails after an append inside a hold are those that the store gives once it is let go."""
    made = busy_log(7)
    store = SqliteLog(tmp_path / "log.db", origin=ORIGIN)
    with store.exclusive() as held:
        assert held.session_tails(["a", "nobody"]) == {"a": None, "nobody": None}
        assert held.append([line_of(envelope) for envelope in made.envelopes[:3]]) == range(3)
        assert held.append([line_of(envelope) for envelope in made.envelopes[3:]]) == range(3, 7)
        known = held.frontier(), held.session_tails(["a", "b", "nobody"])
    assert known == (store.frontier(), store.session_tails(["a", "b", "nobody"]))
    assert {name: (tail.seq, tail.leaf) for name, tail in known[1].items() if tail is not None} == made.tails
    store.close()


def test_many_sessions_are_asked_for_at_once(tmp_path: Path) -> None:
    """Whatever their number and their names, the tails asked for together are those asked for one by one."""
    names = [f"session {number}" for number in range(300)] + ["", "'; --", '"', "a", "a\x00b", "é", "\U0001f600", "A"]
    made = Log()
    for name in (*names, *names[::3]):
        made.exchange(name)
    store = SqliteLog(tmp_path / "log.db", origin=ORIGIN)
    store.append(made.envelopes)
    asked = [*names, "a\x00", "nobody"]
    found = store.session_tails(asked)
    assert list(found) == asked
    assert found == {name: store.session_tail(name) for name in asked}
    assert {name: (tail.seq, tail.leaf) for name, tail in found.items() if tail is not None} == made.tails
    assert store.session_tails([]) == {}
    store.close()


def test_tails_that_were_taken_are_not_asked_for(tmp_path: Path) -> None:
    """A holder believes what it is told of the state that it holds: it does not look again."""
    store = SqliteLog(tmp_path / "log.db", origin=ORIGIN)
    store.append(busy_log(2).envelopes)
    with store.exclusive() as held:
        told = replace(TAIL, seq=99)
        held.take({"a": told}, ["key"])
        assert held.session_tails(["a"]) == {"a": told}
        assert not held.is_retired("key")
    store.close()
