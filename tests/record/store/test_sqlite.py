"""The embedded store: durable, one tree whoever writes, and honest where it cannot go on."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.record.logs import Log, busy_log
from tests.record.store.passport_logs import ORIGIN, decided, gate_in, small_log, writing

from demur.errors import StoreError, UsageError
from demur.model.passport import Restart
from demur.record.interface import SessionTail
from demur.record.seal import open_sealed
from demur.record.store.checks import StoreCheck
from demur.record.store.location import log_place
from demur.record.store.log_store import Migration, missing_steps
from demur.record.store.sqlite import SqliteConnection, SqliteLog
from demur.record.tree import MemoryTree, inclusion_proof, is_included, leaf_hash
from demur.record.verify import Evidence, Trust, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
Child = subprocess.Popen[str]
LOOK = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM records').fetchone()[0])"
WRITER = """
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from demur.record.store.location import log_place
from demur.record.store.sealing import utc_now
from demur.record.store.writer import Durability, WriterSettings
from tests.record.store.passport_logs import decided, gate_in, writing

folder, name, count, mode, unsynced = sys.argv[1:]
settings = WriterSettings(Durability(mode), interval_s=0.002, max_unsynced=int(unsynced), checkpoint_records=25)
gate = gate_in(Path(folder) / f"policy-{name}")
with writing(log_place(folder), settings=settings, clock=utc_now) as writer:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        session = f"{name}-{number % 3}" if number % 4 else "shared"
        submission = writer.submit(decided(gate, session))
        if submission.must_wait:
            submission.receipt.result()
        print(number, flush=True)
"""


@contextmanager
def child(folder: Path, name: str, count: int, *, mode: str = "sync", unsynced: int = 1000) -> Iterator[Child]:
    """A process that writes to the log once it is told to, and prints each record that it acknowledges."""
    with subprocess.Popen(  # noqa: S603 — our own interpreter
        [sys.executable, "-c", WRITER, str(folder), name, str(count), mode, str(unsynced)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def go(process: Child) -> None:
    """Let a child begin, once it is ready."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


def killed_after(process: Child, records: int) -> int:
    """Let a child write so many records, kill it while it goes on, and return how many it acknowledged."""
    go(process)
    assert process.stdout is not None
    for _ in range(records):
        process.stdout.readline()
    process.kill()
    # The last line may be cut; what is whole was acknowledged.
    return records + process.stdout.read().count("\n")


def sound(folder: Path) -> int:
    """Return the size of a log, having verified all of it."""
    place = log_place(str(folder))
    store = place.open(read_only=True)
    with store.snapshot():
        check = StoreCheck(store)
        found = verify(check.envelopes(), Trust(ORIGIN, place.keys().public()), Evidence(tuple(store.checkpoints())))
        check.close()
    store.close()
    assert (found.faults, check.faults) == ((), [])
    return found.records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteLog]:
    """An empty log."""
    with closing(SqliteLog(tmp_path / "log.db", origin=ORIGIN)) as opened:
        yield opened


def test_a_store_keeps_the_port_of_the_record_stage(tmp_path: Path) -> None:
    """What is appended is read back byte for byte, with the frontier, nodes, tails and proofs of the same tree."""
    made = busy_log(11)
    with_store = SqliteLog(tmp_path / "log.db", origin=ORIGIN)
    assert with_store.append(made.envelopes[:4]) == range(4)
    assert with_store.append(made.envelopes[4:]) == range(4, 11)
    assert list(with_store.read(2, 7)) == made.envelopes[2:7]
    assert with_store.frontier() == made.tree.frontier
    tail = with_store.session_tail("a")
    assert tail is not None
    assert (tail.seq, tail.leaf) == made.tails["a"]
    assert with_store.session_tail("nobody") is None
    root, leaf = made.tree.frontier.root(), leaf_hash(made.envelopes[5])
    assert is_included(leaf, 5, size=11, root=root, proof=inclusion_proof(5, 11, with_store.node))
    with_store.close()


def test_a_checkpoint_with_more_signatures_replaces_the_earlier(store: SqliteLog) -> None:
    """Of two checkpoints of one size the one that carries more signatures is kept."""
    made = busy_log(2)
    note = made.checkpoint()
    more = note + note.splitlines(keepends=True)[-1]
    for given in (note, more, note):
        store.add_checkpoint(2, given)
    assert list(store.checkpoints()) == [more]
    assert list(store.checkpoints(3)) == []


def test_a_batch_that_does_not_follow_is_refused_whole(store: SqliteLog) -> None:
    """A batch whose last passport continues no tail leaves the store as it was."""
    made = busy_log(4)
    with pytest.raises(UsageError, match="does not follow"):
        store.append([*made.envelopes[:2], made.envelopes[0]])
    assert store.frontier().size == 0
    assert list(store.entries(0, 9)) == []


def test_a_missing_record_is_an_error_to_read(tmp_path: Path, store: SqliteLog) -> None:
    """Reading over a gap raises, naming the record."""
    store.append(busy_log(4).envelopes)
    db = sqlite3.connect(tmp_path / "log.db")
    db.execute("DELETE FROM records WHERE idx = 1")
    db.commit()
    db.close()
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


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """The log, its journal and the texts can be read by their owner only."""
    small_log(tmp_path / "log", 1)
    modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "log").glob("*.db")}
    assert modes == {"log.db": 0, "disclosures.db": 0}


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Where the file cannot grow, waiting callers are told so, the log stays sound, and goes on once there is room."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
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
    assert sound(tmp_path) == written + 1


def test_killed_in_the_middle_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """A process killed while it writes leaves a store that agrees with its tree and holds all that was acknowledged."""
    with child(tmp_path, "x", 100_000) as process:
        acknowledged = killed_after(process, 60)
    assert sound(tmp_path) >= acknowledged
    place = log_place(str(tmp_path))
    with writing(place):
        pass
    store = place.open(read_only=True)
    last = open_sealed(list(store.read(0, store.frontier().size))[-1]).entry
    store.close()
    assert isinstance(last, Restart)
    assert not last.clean


def test_killed_in_async_mode_the_loss_is_bounded(tmp_path: Path) -> None:
    """A process killed in `async` mode loses at most `max_unsynced` of the records that it acknowledged."""
    with child(tmp_path, "x", 100_000, mode="async", unsynced=20) as process:
        acknowledged = killed_after(process, 200)
    assert sound(tmp_path) >= acknowledged - 20


@pytest.mark.heavy
def test_several_processes_write_one_log(tmp_path: Path) -> None:
    """Three processes, a session shared among them, make one sound log with every record of each."""
    with child(tmp_path, "x", 40) as x, child(tmp_path, "y", 40) as y, child(tmp_path, "z", 40) as z:
        for process in (x, y, z):
            go(process)
        for process in (x, y, z):
            assert process.stdout is not None
            assert len(process.stdout.read().splitlines()) == 40
            assert process.wait() == 0
    size = sound(tmp_path)
    store = log_place(str(tmp_path)).open(read_only=True)
    kinds = Counter(row.kind for row in store.entries(0, size))
    shared = store.session_tail("shared")
    store.close()
    # One that was slow to start may have found the log at rest, and said so.
    assert (kinds.pop("passport"), set(kinds) <= {"restart"}) == (120, True)
    assert shared is not None
    assert shared.seq == 29


def test_a_restart_is_on_record_only_where_the_log_had_come_to_rest(tmp_path: Path) -> None:
    """A writer that joins others says nothing; one that finds the log at rest says so, and that it was left in order."""
    place = small_log(tmp_path, 2)
    with writing(place), writing(place):
        pass
    store = place.open(read_only=True)
    kinds = [row.kind for row in store.entries(0, 9)]
    entry = open_sealed(next(store.read(2, 3))).entry
    store.close()
    assert kinds == ["passport", "passport", "restart"]
    assert isinstance(entry, Restart)
    assert entry.clean
    assert entry.size == 2


def test_a_tree_that_memory_grows_is_the_one_in_the_store(store: SqliteLog) -> None:
    """Every node that the store keeps is the one of a tree in memory over the same leaves."""
    made = busy_log(9)
    store.append(made.envelopes)
    tree = MemoryTree(leaf_hash(envelope) for envelope in made.envelopes)
    for level in range(4):
        assert all(tree.node(level, index) == digest for index, digest in store.level(level))
        assert sum(1 for _ in store.level(level)) == 9 >> level


@pytest.mark.parametrize("size", [1, 2, 5, 63, 64, 65, 150])
def test_a_batch_of_any_size_is_written_as_its_records_one_by_one(tmp_path: Path, size: int) -> None:
    """Whether it takes one statement or several, filled or not, every table is as if each record had come alone."""
    made = busy_log(size)
    tables = []
    for name, step in (("whole", size), ("single", 1)):
        store = SqliteLog(tmp_path / f"{name}.db", origin=ORIGIN)
        for start in range(0, size, step):
            store.append(made.envelopes[start : start + step])
        assert list(store.read(0, size)) == made.envelopes
        names = ("records", "nodes", "rollup", "state", "retired_keys")
        tables.append([store.db.ask(f"SELECT *, typeof(1) FROM {table}") for table in names])  # noqa: S608 — ours
        store.close()
    assert tables[0] == tables[1]


def test_a_batch_that_fails_half_way_leaves_nothing(store: SqliteLog) -> None:
    """Where one row of many cannot be written, none of the batch is, and the log goes on once it can."""
    made = busy_log(9)
    store.append(made.envelopes[:2])
    before = store.frontier()
    store.db.ask("INSERT INTO records VALUES (6, x'00', x'00', 'restart', '', NULL, NULL)")
    with pytest.raises(StoreError, match="do not agree"):
        store.append(made.envelopes[2:])
    assert isinstance(store.db, SqliteConnection)
    assert (store.frontier(), store.db.native.in_transaction) == (before, False)
    assert [row.index for row in store.entries(0, None)] == [0, 1, 6]
    store.db.ask("DELETE FROM records WHERE idx = 6")
    assert store.append(made.envelopes[2:]) == range(2, 9)
    assert store.frontier() == made.tree.frontier


def test_damaged_tails_are_told(store: SqliteLog) -> None:
    """A row that no writer of ours can have made is an error with a way out, not a guess at the session's number."""
    store.append(busy_log(2).envelopes)
    store.db.ask("UPDATE records SET seq = 'x' WHERE session = 'a'")
    with pytest.raises(StoreError, match="damaged"):
        store.session_tail("a")


def records_seen_elsewhere(path: str) -> int:
    """Open, read and close the log in a process of its own, as the last to leave would."""
    done = subprocess.run([sys.executable, "-c", LOOK, path], capture_output=True, text=True, check=True)  # noqa: S603 — ours
    return int(done.stdout)


def test_opening_a_log_twice_keeps_its_locks(tmp_path: Path) -> None:
    """After a second store was opened in a process, another process that comes and goes leaves the write-ahead log alone."""
    place = log_place(str(tmp_path))
    gate = gate_in(tmp_path / "policy")
    with writing(place) as writer:
        writer.submit(decided(gate)).receipt.result(timeout=30)
        second = place.open(origin=ORIGIN, read_only=False)
        assert records_seen_elsewhere(place.store) == 1
        for _ in range(3):
            writer.submit(decided(gate)).receipt.result(timeout=30)
        assert records_seen_elsewhere(place.store) == 4
        second.close()


def test_a_new_file_is_its_owners_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    """A log is made for its owner alone; one that its owner has opened to others stays so."""
    place = log_place(str(tmp_path))
    place.open(origin=ORIGIN, read_only=False).close()
    path = tmp_path / "log.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    place.open(origin=ORIGIN, read_only=False).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_database_of_another_program_is_refused(tmp_path: Path, version: int, read_only: bool) -> None:  # noqa: FBT001 — a case
    """Whatever version it says to be of, a database with other tables is no log, and nothing is put into it."""
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE notes (text)")
    db.execute(f"PRAGMA user_version = {version}")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="no log of passports"):
        log_place(str(path)).open(origin=ORIGIN, read_only=read_only)
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
    names = [f"session {number}" for number in range(300)] + ["", "'; --", '"', "a", "a\x00b", "é", "\U0001f600", "A"]
    made = Log()
    for name in (*names, *names[::3]):
        made.exchange(name)
    store.append(made.envelopes)
    asked = [*names, "a\x00", "nobody"]
    found = store.session_tails(asked)
    assert list(found) == asked
    assert found == {name: store.session_tail(name) for name in asked}
    assert {name: (tail.seq, tail.leaf) for name, tail in found.items() if tail is not None} == made.tails
    assert store.session_tails([]) == {}


def test_tails_that_were_taken_are_not_asked_for(store: SqliteLog) -> None:
    """A holder believes what it is told of the state that it holds: it does not look again."""
    store.append(busy_log(2).envelopes)
    with store.exclusive() as locked:
        tail = SessionTail(99, "ab" * 32, "2026-01-31T12:00:00Z")
        locked.assume({"a": tail}, ["key"])
        assert locked.session_tails(["a"]) == {"a": tail}
        assert not locked.is_retired("key")
