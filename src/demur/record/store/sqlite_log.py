"""The embedded store: a log in one SQLite file.

Laws: write-ahead log with `synchronous=FULL`, so what is committed survives a power cut; every append is one `BEGIN IMMEDIATE`
transaction that reads the frontier it extends, so several processes on one file append in turn and the tree never forks;
readers never wait for writers. Who is writing is known by a lock that dies with its process, on a small file beside.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from demur.errors import ShapeError, StoreError, UsageError
from demur.record.checkpoint import read_checkpoint
from demur.record.interface import SessionTail
from demur.record.store.cache import HeldState
from demur.record.store.growth import (
    Bookkeeping,
    Presence,
    RateKey,
    StoredRow,
    line_of,
    stored_bytes,
)
from demur.record.store.schema import migrations, steps_from
from demur.record.store.sqlite_files import WriterPresence, connect_sqlite, immediate, insert_many, sqlite_failure
from demur.record.tree import Frontier

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from demur.record.store.growth import Growth

__all__ = ["SqliteLog"]

_FETCH = 256
_MOST_ASKED = 256
"""Sessions in one question; a power of two, as are the smaller ones, so that there are few forms of it to keep ready."""
_TAILS = msgspec.json.Decoder(list[tuple[int, int, str, str]])
_COUNTED_ON = "ON CONFLICT (hour, model, decision, causes, answered) DO UPDATE SET n = n + excluded.n"
_TABLES = frozenset({"checkpoints", "nodes", "records", "retired_keys", "rollup", "state"})


class SqliteLog:
    """A log in one file; one instance serves one thread at a time."""

    def __init__(self, path: Path, *, origin: str | None = None, read_only: bool = False) -> None:
        """Open the log; where there is none, make one of that name."""
        self._path = path
        self._db = connect_sqlite(path, read_only=read_only)
        self._presence = WriterPresence(path.with_name(path.name + "-writers"))
        try:
            with self._told():
                self.origin = self._prepare(origin, read_only=read_only)
        except (StoreError, UsageError):
            self._db.close()
            raise

    def _prepare(self, origin: str | None, *, read_only: bool) -> str:
        steps = migrations("sqlite")
        self._refuse_foreign()
        if read_only:
            if steps_from(self._version(), steps):
                raise StoreError(f"`{self._path}` is no store of this version", hint="open it with its gateway first")
        else:
            with immediate(self._db):
                for step in steps_from(self._version(), steps):
                    _run_script(self._db, step.sql)
                    self._db.execute(f"PRAGMA user_version = {step.version}")
                if origin is not None:
                    first = (origin, Frontier().to_bytes())
                    self._db.execute("INSERT OR IGNORE INTO state VALUES (1, ?, ?, 0)", first)
        row = self._db.execute("SELECT origin FROM state").fetchone()
        if row is None:
            raise UsageError(f"the log `{self._path}` has no name yet", hint="give its origin")
        if origin not in (None, row[0]):
            raise UsageError(f"the log is called `{row[0]}`, not `{origin}`", hint="open it under its own name")
        return str(row[0])

    def _refuse_foreign(self) -> None:
        """Refuse the database of another program, whatever version it says to have: nothing of ours belongs in it."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables if self._version() == 0 else not tables >= _TABLES:
            raise StoreError(f"`{self._path}` is no log of passports", hint="name a folder of records, or its log.db")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise sqlite_failure(exc, self._path) from exc

    @contextmanager
    def exclusive(self) -> Iterator[_HeldSqlite]:
        """Hold the log: all that is appended inside becomes durable at the end, or nothing does."""
        with self._told(), immediate(self._db):
            yield _HeldSqlite(self._db, self._presence)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See the log as it stands now, whatever is appended meanwhile."""
        with self._told():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def append(self, envelopes: Sequence[bytes]) -> range:
        """Append a batch of sealed envelopes in order, durably; return their leaf indices."""
        lines = [line_of(envelope) for envelope in envelopes]
        with self.exclusive() as held:
            return held.append(lines)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the envelopes from leaf `start` up to, not including, leaf `stop`; a missing one is an error."""
        expected = start
        for row in self.rows(start, stop):
            if row.place != expected:
                raise StoreError(f"record {expected} is missing from the store", hint="see `demur passport verify`")
            expected += 1
            yield row.envelope

    def rows(self, start: int, stop: int | None) -> Iterator[StoredRow]:
        """Yield the rows in order, gaps and all; to the very last where no stop is given."""
        within, values = ("", (start,)) if stop is None else ("AND idx < ? ", (start, stop))
        query = f"SELECT idx, payload, rest, kind, at, session, seq FROM records WHERE idx >= ? {within}ORDER BY idx"  # noqa: S608 — ours
        with self._told():
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(_FETCH):
                yield from map(StoredRow.of, rows)

    def row_of(self, session: str, seq: int | None = None) -> StoredRow | None:
        """Return a session's record of this number, its last where none is given."""
        query = (
            "SELECT idx, payload, rest, kind, at, session, seq FROM records WHERE session = ? AND idx >= 0 "
            "AND (? IS NULL OR seq = ?) ORDER BY seq DESC LIMIT 1"
        )
        with self._told():
            row = self._db.execute(query, (session, seq, seq)).fetchone()
        return None if row is None else StoredRow.of(row)

    def frontier(self) -> Frontier:
        """Return the state of the tree: `size` is the number of leaves."""
        with self._told():
            return _frontier(self._db)

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree."""
        with self._told():
            row = self._db.execute("SELECT hash FROM nodes WHERE level = ? AND idx = ?", (level, index)).fetchone()
        if row is None:
            raise ShapeError(f"the tree has no node {index} on level {level}", hint="ask within the tree's size")
        return stored_bytes(row[0])

    def level(self, level: int) -> Iterator[tuple[int, bytes]]:
        """Yield the nodes of a level: number and hash."""
        with self._told():
            cursor = self._db.execute("SELECT idx, hash FROM nodes WHERE level = ? ORDER BY idx", (level,))
            while rows := cursor.fetchmany(_FETCH):
                yield from ((index, stored_bytes(digest)) for index, digest in rows)

    def session_tail(self, session: str) -> SessionTail | None:
        """Return the last passport of a session; None where it has none."""
        return self.session_tails([session])[session]

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""
        with self._told():
            return _tails(self._db, [*sessions])

    def add_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed checkpoint; a later one of the same size that carries more signatures replaces the earlier."""
        with self._told(), immediate(self._db):
            row = self._db.execute("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
            if row is None or _signatures(stored_bytes(row[0])) < _signatures(note):
                self._db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", (size, note))

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the checkpoints of at least this size, smallest first."""
        with self._told():
            for (note,) in self._db.execute("SELECT note FROM checkpoints WHERE size >= ? ORDER BY size", (start,)):
                yield stored_bytes(note)

    def rollup(self) -> Iterator[tuple[RateKey, int]]:
        """Yield the hourly counts; a row that no writer of ours can have made is an error, never a guess."""
        query = "SELECT hour, model, decision, causes, answered, n FROM rollup ORDER BY hour, model, decision, causes"
        with self._told():
            for hour, model, decision, causes, answered, n in self._db.execute(query):
                words = (hour, model, decision, causes)
                # The engine takes any type in any column, so one count could stand in it twice.
                if not all(isinstance(word, str) for word in words) or answered not in (0, 1) or type(n) is not int:
                    raise StoreError(f"the hourly counts in `{self._path}` are damaged", hint="go back to a copy")
                yield RateKey(hour, model, decision, causes, bool(answered)), n

    def bookkeeping(self) -> Bookkeeping:
        """Return what a check compares with the records besides rows, levels and counts."""
        with self._told():
            (nodes,) = self._db.execute("SELECT count(*) FROM nodes").fetchone()
            retired = self._db.execute("SELECT key_id, idx FROM retired_keys").fetchall()
            notes = self._db.execute("SELECT size, note FROM checkpoints ORDER BY size").fetchall()
        return Bookkeeping(nodes, frozenset(retired), tuple((size, stored_bytes(note)) for size, note in notes))

    def close(self) -> None:
        """Let go of the file."""
        self._presence.close()
        self._db.close()


class _HeldSqlite(HeldState):
    """The log inside one `BEGIN IMMEDIATE`."""

    def __init__(self, db: sqlite3.Connection, presence: WriterPresence) -> None:
        super().__init__()
        self._db, self._presence = db, presence

    def _read_frontier(self) -> Frontier:
        return _frontier(self._db)

    def _read_tails(self, sessions: Sequence[str]) -> dict[str, SessionTail | None]:
        return _tails(self._db, sessions)

    def _read_retired(self, key_id: str) -> bool:
        return self._db.execute("SELECT 1 FROM retired_keys WHERE key_id = ?", (key_id,)).fetchone() is not None

    def _write(self, growth: Growth) -> None:
        db = self._db
        insert_many(db, "records", growth.rows)
        insert_many(db, "nodes", growth.nodes)
        insert_many(db, "rollup", [(*key, n) for key, n in growth.counts.items()], otherwise=_COUNTED_ON)
        insert_many(db, "retired_keys", growth.retired)
        db.execute("UPDATE state SET frontier = ?", (growth.frontier.to_bytes(),))

    def join(self) -> Presence:
        """Count a writer in; those who died without a word are found where nobody else is alive."""
        alone = self._presence.enter()
        (left,) = self._db.execute("SELECT writers FROM state").fetchone()
        self._db.execute("UPDATE state SET writers = ?", (1 if alone else left + 1,))
        return Presence(alone, clean=left == 0)

    def leave(self) -> None:
        """Count a writer out."""
        self._db.execute("UPDATE state SET writers = max(writers - 1, 0)")
        self._presence.close()


def _run_script(db: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script inside the transaction in force, which `executescript` would commit."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""


def _frontier(db: sqlite3.Connection) -> Frontier:
    return Frontier.from_bytes(stored_bytes(db.execute("SELECT frontier FROM state").fetchone()[0]))


def _tails(db: sqlite3.Connection, sessions: Sequence[str]) -> dict[str, SessionTail | None]:
    """Return the sessions' tails; the answer comes as one row, since the interpreter is let go once a row."""
    found: dict[str, SessionTail | None] = dict.fromkeys(sessions)
    for start in range(0, len(sessions), _MOST_ASKED):
        asked = sessions[start : start + _MOST_ASKED]
        size = 1 << (len(asked) - 1).bit_length()
        (text,) = db.execute(_tails_query(size), [*asked, *[None] * (size - len(asked))]).fetchone()
        for number, seq, leaf, at in _read_tails(text):
            found[asked[number]] = SessionTail(seq, leaf, at)
    return found


def _read_tails(text: str) -> list[tuple[int, int, str, str]]:
    try:
        return _TAILS.decode(text)
    except msgspec.ValidationError as exc:
        raise StoreError("a session's last record is damaged", hint="see `demur passport verify`") from exc


@lru_cache
def _tails_query(size: int) -> str:
    """Return the question for so many sessions by number; one that is NULL has no records."""
    asked = ", ".join(f"({number}, ?)" for number in range(size))
    return (
        f"WITH asked (number, name) AS (VALUES {asked}) "  # noqa: S608 — numbers and marks, values go apart
        "SELECT json_group_array(json_array(number, seq, lower(hex(hash)), at)) FROM asked CROSS JOIN records "
        "ON session = name AND seq = (SELECT max(seq) FROM records WHERE session = name) "
        "JOIN nodes ON nodes.level = 0 AND nodes.idx = records.idx"
    )


def _signatures(note: bytes) -> int:
    return len(read_checkpoint(note).signatures)
