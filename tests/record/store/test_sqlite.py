"""The embedded store: durable, one tree whoever writes, and honest where it cannot go on."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.record.logs import MemoryTree, append, busy_log
from tests.record.store.passport_logs import ORIGIN, decided, opened_at, small_log, writing
from tests.record.store.store_laws import (
    LAWS,
    NAMES,
    check_finds_tails,
    check_many_writers,
    killed_after,
    sound,
    writer_process,
)

from demur.errors import StoreError, UsageError
from demur.model.passport import Restart
from demur.policy.gate import PolicyGate
from demur.record.interface import SessionTail
from demur.record.seal import open_sealed
from demur.record.store.location import LogPlace, log_place
from demur.record.store.log_store import LogStore, Migration, missing_steps
from demur.record.store.sqlite import SqliteConnection, SqliteLog
from demur.record.tree import leaf_hash

LOOK = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM records').fetchone()[0])"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteLog]:
    """An empty log."""
    with closing(SqliteLog(tmp_path / "log.db", origin=ORIGIN)) as opened:
        yield opened


@pytest.mark.parametrize("law", LAWS)
def test_the_laws_of_every_store_hold(store: SqliteLog, law: Callable[[LogStore], None]) -> None:
    """The embedded store keeps what every store of a log keeps."""
    law(store)


def test_a_missing_record_is_an_error_to_read(tmp_path: Path, store: SqliteLog) -> None:
    """Reading over a gap raises, naming the record."""
    append(store, busy_log(4).envelopes)
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as db:
        db.execute("DELETE FROM records WHERE idx = 1")
    with pytest.raises(StoreError, match="record 1 is missing"):
        list(store.read(0, 4))


def test_a_log_keeps_its_name(tmp_path: Path) -> None:
    """A log without a name is not made, and one with a name is opened under no other."""
    with pytest.raises(UsageError, match="has no name yet"):
        SqliteLog(tmp_path / "log.db")
    SqliteLog(tmp_path / "log.db", origin=ORIGIN).close()
    with pytest.raises(UsageError, match="is called"):
        SqliteLog(tmp_path / "log.db", origin="other.example/log")


def test_steps_are_applied_from_where_a_store_is() -> None:
    """A store gets the steps after its version; a later version than ours is refused."""
    steps = (Migration(1, "a"), Migration(2, "b"), Migration(3, "c"))
    assert [step.version for step in missing_steps(1, steps)] == [2, 3]
    assert missing_steps(3, steps) == ()
    with pytest.raises(StoreError, match="of version 4"):
        missing_steps(4, steps)


@pytest.mark.heavy
def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(place: LogPlace, gate: PolicyGate) -> None:
    """Where the file cannot grow, waiting callers are told so, the log stays sound, and goes on once there is room."""
    with writing(place) as writer:
        db = writer._store.db
        db.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        ((pages,),) = db.ask("PRAGMA page_count")
        db.ask(f"PRAGMA max_page_count = {pages + 2}")
        outcomes = [writer.submit(decided(gate, f"{n}" * 5000)).receipt.exception(timeout=30) for n in range(8)]
        failed = [str(outcome) for outcome in outcomes if outcome is not None]
        assert "cannot grow: the disk or the file's limit is full" in failed[0]
        during = writer.failure
        db.ask("PRAGMA max_page_count = 1000000")
        writer.submit(decided(gate)).receipt.result(timeout=30)
    assert isinstance(during, StoreError)
    assert writer.failure is None
    written = len(outcomes) - len(failed)
    assert written > 0
    assert sound(place) == written + 1


def test_killed_in_the_middle_nothing_acknowledged_is_lost(place: LogPlace) -> None:
    """A process killed while it writes leaves a store that agrees with its tree and holds all that was acknowledged."""
    with writer_process(place, "x", 100_000) as process:
        acknowledged = killed_after(process, 60)
    assert sound(place) >= acknowledged
    with writing(place):
        pass
    last = opened_at(place, -1).entry
    assert isinstance(last, Restart)
    assert not last.clean


@pytest.mark.heavy
def test_killed_in_async_mode_the_loss_is_bounded(place: LogPlace) -> None:
    """A process killed in `async` mode loses at most `max_unsynced` of the records that it acknowledged."""
    with writer_process(place, "x", 100_000, mode="async", unsynced=20) as process:
        acknowledged = killed_after(process, 200)
    assert sound(place) >= acknowledged - 20


@pytest.mark.heavy
def test_several_processes_write_one_log(place: LogPlace) -> None:
    """Three processes, a session shared among them, make one sound log with every record of each."""
    check_many_writers([place] * 3)


def test_a_restart_is_on_record_only_where_the_log_had_come_to_rest(tmp_path: Path) -> None:
    """A writer that joins others says nothing; one that finds the log at rest says so, and that it was left in order."""
    place = small_log(tmp_path, 2)
    with writing(place), writing(place):
        pass
    with closing(place.open(read_only=True)) as store:
        kinds = [row.kind for row in store.entries(0, 9)]
    entry = opened_at(place, 2).entry
    assert kinds == ["passport", "passport", "restart"]
    assert isinstance(entry, Restart)
    assert entry.clean
    assert entry.size == 2


def test_a_tree_that_memory_grows_is_the_one_in_the_store(store: SqliteLog) -> None:
    """Every node that the store keeps is the one of a tree in memory over the same leaves."""
    made = busy_log(9)
    append(store, made.envelopes)
    tree = MemoryTree(leaf_hash(envelope) for envelope in made.envelopes)
    for level in range(4):
        assert all(tree.node(level, index) == digest for index, digest in store.level(level))
        assert sum(1 for _ in store.level(level)) == 9 >> level


@pytest.mark.heavy
@pytest.mark.parametrize("size", [1, 2, 5, 63, 64, 65, 150])
def test_a_batch_of_any_size_is_written_as_its_records_one_by_one(tmp_path: Path, size: int) -> None:
    """Whether it takes one statement or several, filled or not, every table is as if each record had come alone."""
    made = busy_log(size)
    tables = []
    for name, step in (("whole", size), ("single", 1)):
        store = SqliteLog(tmp_path / f"{name}.db", origin=ORIGIN)
        for start in range(0, size, step):
            append(store, made.envelopes[start : start + step])
        assert list(store.read(0, size)) == made.envelopes
        names = ("records", "nodes", "rollup", "state", "retired_keys")
        tables.append([store.db.ask(f"SELECT *, typeof(1) FROM {table}") for table in names])  # noqa: S608 — ours
        store.close()
    assert tables[0] == tables[1]


def test_a_batch_that_fails_half_way_leaves_nothing(store: SqliteLog) -> None:
    """Where one row of many cannot be written, none of the batch is, and the log goes on once it can."""
    made = busy_log(9)
    append(store, made.envelopes[:2])
    before = store.frontier()
    store.db.ask("INSERT INTO records VALUES (6, x'00', x'00', 'restart', '', NULL, NULL)")
    with pytest.raises(StoreError, match="do not agree"):
        append(store, made.envelopes[2:])
    assert isinstance(store.db, SqliteConnection)
    assert (store.frontier(), store.db.native.in_transaction) == (before, False)
    assert [row.index for row in store.entries(0, None)] == [0, 1, 6]
    store.db.ask("DELETE FROM records WHERE idx = 6")
    assert append(store, made.envelopes[2:]) == range(2, 9)
    assert store.frontier() == made.tree.frontier


def test_damaged_tails_are_told(store: SqliteLog) -> None:
    """A row that no writer of ours can have made is an error with a way out, not a guess at the session's number."""
    append(store, busy_log(2).envelopes)
    store.db.ask("UPDATE records SET seq = 'x' WHERE session = 'a'")
    with pytest.raises(StoreError, match="damaged"):
        store.session_tail("a")


def records_seen_elsewhere(path: str) -> int:
    """Open, read and close the log in a process of its own, as the last to leave would."""
    done = subprocess.run([sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=True)  # noqa: S603 — ours
    return int(done.stdout)


def test_opening_a_log_twice_keeps_its_locks(place: LogPlace, gate: PolicyGate) -> None:
    """After a second store was opened in a process, another process that comes and goes leaves the write-ahead log alone."""
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        second = place.open(origin=ORIGIN, read_only=False)
        assert records_seen_elsewhere(place.store) == 1
        for _ in range(3):
            writer.submit(decided(gate)).receipt.result(timeout=30)
        assert records_seen_elsewhere(place.store) == 4
        second.close()


def test_new_files_are_their_owners_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    """A log and its texts are made for their owner alone; one that its owner has opened to others stays so."""
    place = small_log(tmp_path, 1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.db")}
    assert modes == {"log.db": 0o600, "disclosures.db": 0o600}
    path = tmp_path / "log.db"
    path.chmod(0o640)
    place.open(origin=ORIGIN, read_only=False).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_database_of_another_program_is_refused(tmp_path: Path, version: int, read_only: bool) -> None:  # noqa: FBT001 — a case
    """Whatever version it says to be of, a database with other tables is no log, and nothing is put into it."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE notes (text)")
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match="no log of passports"):
        log_place(str(path)).open(origin=None if read_only else ORIGIN, read_only=read_only)
    db = sqlite3.connect(path)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    db.close()


def test_what_a_holder_appends_is_known_to_it(store: SqliteLog) -> None:
    """Frontier and tails after an append inside a hold are those that the store gives once it is let go."""
    made = busy_log(7)
    with store.exclusive() as locked:
        assert locked.session_tails(["a", "nobody"]) == {"a": None, "nobody": None}
        assert locked.append([open_sealed(envelope) for envelope in made.envelopes[:3]]) == range(3)
        assert locked.append([open_sealed(envelope) for envelope in made.envelopes[3:]]) == range(3, 7)
        known = locked.frontier(), locked.session_tails(["a", "b", "nobody"])
    assert known == (store.frontier(), store.session_tails(["a", "b", "nobody"]))
    assert {name: (tail.seq, tail.leaf) for name, tail in known[1].items() if tail is not None} == made.tails


def test_many_sessions_are_asked_for_at_once(store: SqliteLog) -> None:
    """Whatever their number and their names, the tails asked for together are those asked for one by one."""
    check_finds_tails(store, [f"session {number}" for number in range(300)] + [*NAMES, "a\x00b", "a\x00"])


def test_tails_that_were_taken_are_not_asked_for(store: SqliteLog) -> None:
    """A holder believes what it is told of the state that it holds: it does not look again."""
    append(store, busy_log(2).envelopes)
    with store.exclusive() as locked:
        tail = SessionTail(99, "ab" * 32, "2026-01-31T12:00:00Z")
        locked.assume({"a": tail}, ["key"])
        assert locked.session_tails(["a"]) == {"a": tail}
        assert not locked.is_retired("key")
