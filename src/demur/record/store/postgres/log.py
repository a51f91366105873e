"""The shared store: one log in PostgreSQL for many gateways.

Laws: whoever appends first takes one advisory lock, for the transaction, and only then reads the frontier it extends, so records
are ordered and the tree never forks, however many write; `synchronous_commit` is on, whatever the server's default; readers never
wait for writers. Who is writing is known by a shared advisory lock that ends with its connection. One log a database.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from demur.errors import ShapeError, StoreError, UsageError
from demur.record.checkpoint import read_checkpoint
from demur.record.interface import SessionTail
from demur.record.store.cache import HeldState
from demur.record.store.growth import Bookkeeping, Presence, RateKey, StoredRow, line_of
from demur.record.store.postgres.link import PostgresLink
from demur.record.store.schema import migrations, steps_from
from demur.record.tree import Frontier

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from demur.record.store.growth import Growth

__all__ = ["PostgresLog"]

_APPENDING, _PRESENT = 0x64656D7572_01, 0x64656D7572_02
"""The keys of the two advisory locks: `demur` in ASCII and a number."""
_SEQUENCING = f"SELECT pg_advisory_xact_lock({_APPENDING})"
_STAYING = f"SELECT pg_advisory_lock_shared({_PRESENT})"
_FETCH = 256
_LAST = 2**63 - 1
"""The largest place that a column can hold."""
_COUNTED = "ON CONFLICT (hour, model, decision, causes, answered) DO UPDATE SET n = r.n + excluded.n"
_ROW = "SELECT idx, payload, rest, kind, at, session, seq FROM demur.records "


class PostgresLog:
    """A log in a database, in the schema `demur`; one instance serves one thread at a time."""

    def __init__(self, url: str, *, origin: str | None = None, read_only: bool = False) -> None:
        """Open the log; where there is none, make one of that name."""
        self._db = PostgresLink(url, read_only=read_only)
        try:
            if not read_only:
                self._migrate(origin)
            self.origin = self._named(origin)
        except (StoreError, UsageError):
            self._db.close()
            raise

    def _migrate(self, origin: str | None) -> None:
        with self._db.transaction(_SEQUENCING):
            for step in steps_from(self._version(), migrations("postgres")):
                self._db.ask("CREATE SCHEMA IF NOT EXISTS demur")
                self._db.ask("CREATE TABLE IF NOT EXISTS demur.schema_version (version INTEGER NOT NULL)")
                self._db.ask(step.sql)
                self._db.ask("DELETE FROM demur.schema_version")
                self._db.ask("INSERT INTO demur.schema_version VALUES (?)", step.version)
            if origin is not None:
                first = (1, origin, Frontier().to_bytes(), 0)
                self._db.insert("demur.state", [first], otherwise="ON CONFLICT DO NOTHING")

    def _version(self) -> int:
        if self._db.one("SELECT to_regclass('demur.schema_version')") == (None,):
            return 0
        row = self._db.one("SELECT version FROM demur.schema_version")
        return 0 if row is None else int(row[0])

    def _named(self, origin: str | None) -> str:
        if steps_from(self._version(), migrations("postgres")):
            raise StoreError("the database holds no log of this version", hint="open it with its gateway first")
        row = self._db.one("SELECT origin FROM demur.state")
        if row is None:
            raise UsageError("the log has no name yet", hint="give its origin")
        if origin not in (None, row[0]):
            raise UsageError(f"the log is called `{row[0]}`, not `{origin}`", hint="open it under its own name")
        return str(row[0])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See the log as it stands now, whatever is appended meanwhile."""
        with self._db.transaction(mode="ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[_HeldPostgres]:
        """Hold the log: all that is appended inside becomes durable at the end, or nothing does."""
        with self._db.transaction(_SEQUENCING):
            held = _HeldPostgres(self._db, here=bool(self._db.standing))
            yield held
        # After the server went away, the next connection says again that a writer is here.
        self._db.standing = _STAYING if held.here else ""

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
        last = _LAST if stop is None else stop - 1
        query = _ROW + "WHERE idx BETWEEN ? AND ? ORDER BY idx LIMIT ?"
        while start <= last and (rows := self._db.ask(query, start, last, _FETCH)):
            yield from map(StoredRow.of, rows)
            start = rows[-1][0] + 1

    def row_of(self, session: str, seq: int | None = None) -> StoredRow | None:
        """Return a session's record of this number, its last where none is given."""
        which, values = ("", (session,)) if seq is None else ("AND seq = ? ", (session, seq))
        row = self._db.one(_ROW + f"WHERE session = ? AND idx >= 0 {which}ORDER BY seq DESC LIMIT 1", *values)
        return None if row is None else StoredRow.of(row)

    def frontier(self) -> Frontier:
        """Return the state of the tree: `size` is the number of leaves."""
        return _stored_frontier(self._db)

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree."""
        row = self._db.one("SELECT hash FROM demur.nodes WHERE level = ? AND idx = ?", level, index)
        if row is None:
            raise ShapeError(f"the tree has no node {index} on level {level}", hint="ask within the tree's size")
        return bytes(row[0])

    def level(self, level: int) -> Iterator[tuple[int, bytes]]:
        """Yield the nodes of a level: number and hash."""
        query = "SELECT idx, hash FROM demur.nodes WHERE level = ? AND idx >= ? ORDER BY idx LIMIT ?"
        start = 0
        while rows := self._db.ask(query, level, start, _FETCH):
            for start, digest in rows:
                yield start, bytes(digest)
            start += 1

    def session_tail(self, session: str) -> SessionTail | None:
        """Return the last passport of a session; None where it has none."""
        return self.session_tails([session])[session]

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""
        return _stored_tails(self._db, [*sessions]) if sessions else {}

    def add_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed checkpoint; a later one of the same size that carries more signatures replaces the earlier."""
        with self._db.transaction(_SEQUENCING):
            row = self._db.one("SELECT note FROM demur.checkpoints WHERE size = ?", size)
            if row is None or _note_signatures(row[0]) < _note_signatures(note):
                newer = "ON CONFLICT (size) DO UPDATE SET note = excluded.note"
                self._db.insert("demur.checkpoints", [(size, note)], otherwise=newer)

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the checkpoints of at least this size, smallest first."""
        for (note,) in self._db.ask("SELECT note FROM demur.checkpoints WHERE size >= ? ORDER BY size", start):
            yield bytes(note)

    def rollup(self) -> Iterator[tuple[RateKey, int]]:
        """Yield the hourly counts."""
        query = "SELECT hour, model, decision, causes, answered, n FROM demur.rollup ORDER BY 1, 2, 3, 4, 5"
        for *key, n in self._db.ask(query):
            yield RateKey._make(key), n

    def bookkeeping(self) -> Bookkeeping:
        """Return what a check compares with the records besides rows, levels and counts."""
        (nodes,) = self._db.one("SELECT count(*) FROM demur.nodes") or (0,)
        retired = self._db.ask("SELECT key_id, idx FROM demur.retired_keys")
        notes = self._db.ask("SELECT size, note FROM demur.checkpoints ORDER BY size")
        pairs = frozenset((str(key_id), int(index)) for key_id, index in retired)
        return Bookkeeping(nodes, pairs, tuple((int(size), bytes(note)) for size, note in notes))

    def close(self) -> None:
        """Let go of the connection, and of the locks with it."""
        self._db.close()


class _HeldPostgres(HeldState):
    """The log inside the sequencing transaction."""

    def __init__(self, db: PostgresLink, *, here: bool) -> None:
        super().__init__()
        self._db = db
        self.here = here

    def _read_frontier(self) -> Frontier:
        return _stored_frontier(self._db)

    def _read_tails(self, sessions: Sequence[str]) -> dict[str, SessionTail | None]:
        return _stored_tails(self._db, sessions)

    def _read_retired(self, key_id: str) -> bool:
        return self._db.one("SELECT 1 FROM demur.retired_keys WHERE key_id = ?", key_id) is not None

    def _write(self, growth: Growth) -> None:
        self._db.copy("demur.records (idx, payload, rest, kind, at, session, seq)", growth.rows)
        self._db.copy("demur.nodes (level, idx, hash)", growth.nodes, short=(0,))
        self._db.insert("demur.rollup AS r", [(*key, n) for key, n in growth.counts.items()], otherwise=_COUNTED)
        self._db.insert("demur.retired_keys", growth.retired)
        self._db.ask("UPDATE demur.state SET frontier = ?", growth.frontier.to_bytes())

    def join(self) -> Presence:
        """Count a writer in; those who died without a word are found where nobody else is alive."""
        (alone,) = self._db.one(f"SELECT pg_try_advisory_lock({_PRESENT})") or (False,)
        self._db.ask(_STAYING)
        if alone:
            self._db.ask(f"SELECT pg_advisory_unlock({_PRESENT})")
        (left,) = self._db.one("SELECT writers FROM demur.state") or (0,)
        self._db.ask("UPDATE demur.state SET writers = ?", 1 if alone else left + 1)
        self.here = True
        return Presence(alone, clean=left == 0)

    def leave(self) -> None:
        """Count a writer out."""
        self._db.ask("UPDATE demur.state SET writers = greatest(writers - 1, 0)")
        self._db.ask(f"SELECT pg_advisory_unlock_shared({_PRESENT})")
        self.here = False


def _stored_frontier(db: PostgresLink) -> Frontier:
    (state,) = db.one("SELECT frontier FROM demur.state") or (b"",)
    return Frontier.from_bytes(bytes(state))


def _stored_tails(db: PostgresLink, sessions: Sequence[str]) -> dict[str, SessionTail | None]:
    rows = db.ask(
        "SELECT name, seq, hash, at FROM unnest(CAST(? AS text[])) AS asked (name) CROSS JOIN LATERAL "
        "(SELECT seq, hash, at FROM demur.records r JOIN demur.nodes n ON n.level = 0 AND n.idx = r.idx "
        "WHERE session = name ORDER BY seq DESC LIMIT 1) AS last",
        [*sessions],
    )
    found: dict[str, SessionTail | None] = dict.fromkeys(sessions)
    return found | {name: SessionTail(seq, bytes(digest).hex(), at) for name, seq, digest, at in rows}


def _note_signatures(note: bytes) -> int:
    return len(read_checkpoint(note).signatures)
