"""The embedded store: a log in one SQLite file, for one machine.

Write-ahead log with `synchronous=FULL`, so what is committed survives a power cut; every append is one `BEGIN IMMEDIATE`, so
several processes on one file append in turn; readers never wait for writers.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from demur.errors import StoreError
from demur.record.interface import SessionTail
from demur.record.store.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from demur.record.store.log_store import Migration

__all__ = ["SqliteConnection", "SqliteLog"]

# About seven ordinary entries fill a page; at the default of 4,096 one would, and half of the file would be unused.
_PAGE_BYTES = 16384
_BUSY_S = 30.0
_RETRY_S = 0.005
# How many rows one INSERT takes, the last of them padding where need be: few statements per batch, and few to keep prepared.
_ROWS_AT_ONCE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# Sessions per query, filled up to a power of two for the same reason.
_MAX_SESSIONS_AT_ONCE = 256
_TAILS = msgspec.json.Decoder(list[tuple[int, int, str, str]])
_TABLES = frozenset({"checkpoints", "nodes", "records", "retired_keys", "rollup", "state"})


class SqliteConnection:
    """A connection that commits durably: a `Database`."""

    def __init__(self, path: Path, *, read_only: bool, timeout_s: float = _BUSY_S) -> None:
        """Open the file, or create it for its owner alone; `timeout_s` is how long to wait for other processes."""
        self._path = path
        if read_only and not path.is_file():
            raise StoreError(f"there is no store at `{path}`", hint="check the path")
        if not read_only:
            _make_private(path)
        uri = path.resolve().as_uri() + ("?mode=ro" if read_only else "?mode=rwc")
        with self._named_errors(), ExitStack() as undo:
            self.native = _connect(uri, timeout_s)
            # Whoever gets no connection cannot close it.
            undo.callback(self.close)
            try:
                self.native.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError:
                # A medium that cannot be written to: reading in WAL mode needs to write beside the file. Without a WAL, the
                # file cannot change while we read it.
                if not read_only or path.with_name(path.name + "-wal").exists():
                    raise
                self.native.close()
                self.native = _connect(uri + "&immutable=1", timeout_s)
            if not read_only:
                self.native.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                self._start_write_ahead(timeout_s)
                self.native.execute("PRAGMA synchronous = FULL")
            undo.pop_all()

    def _start_write_ahead(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while True:
            try:
                self.native.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as exc:
                # Of two processes that do this at once SQLite fails one at once, whatever its busy timeout.
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        with self._named_errors():
            return self.native.execute(_plain(query), values).fetchall()

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row; None where there is none."""
        with self._named_errors():
            row: tuple[Any, ...] | None = self.native.execute(_plain(query), values).fetchone()
        return row

    def insert(self, table: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> None:
        """Insert rows whose first value is never None, many at a time; `otherwise` is an ON CONFLICT clause."""
        # The driver releases the GIL three times per statement: with one statement per row, a batch would wait for the other
        # threads row by row.
        with self._named_errors():
            for start in range(0, len(rows), _ROWS_AT_ONCE[-1]):
                batch = rows[start : start + _ROWS_AT_ONCE[-1]]
                size, width = next(size for size in _ROWS_AT_ONCE if size >= len(batch)), len(batch[0])
                values = [*chain.from_iterable(batch), *[None] * (width * (size - len(batch)))]
                self.native.execute(_insertion(_plain(table), width, rows=size, otherwise=otherwise), values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Lock the file for writing: all that is written inside is committed at the end, or nothing is."""
        with self._named_errors():
            self.native.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.native.execute("COMMIT")
            finally:
                # SQLite itself has rolled back where the disk is full.
                if self.native.in_transaction:
                    with suppress(sqlite3.Error):
                        self.native.execute("ROLLBACK")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the file as it is now, whatever is written meanwhile."""
        self.ask("BEGIN")
        try:
            yield
        finally:
            self.ask("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self.native.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise _store_error(exc, self._path) from exc


class SqliteLog(LogStore):
    """A log in one file."""

    engine: ClassVar[str] = "sqlite"

    def __init__(self, path: Path, *, origin: str | None = None, read_only: bool = False) -> None:
        self._presence = _WriterPresence(path.with_name(path.name + "-writers"))
        super().__init__(SqliteConnection(path, read_only=read_only), f"`{path}`", origin=origin, read_only=read_only)

    def _version(self) -> int:
        ((version,),) = self.db.ask("PRAGMA user_version")
        tables = {name for (name,) in self.db.ask("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # Another program's database may say any version; nothing of ours belongs in it.
        if tables if version == 0 else not tables >= _TABLES:
            raise StoreError(f"{self._shown} is no log of passports", hint="name a folder of records, or its log.db")
        return int(version)

    def _migrate(self, step: Migration) -> None:
        # `executescript` would commit the transaction first.
        statement = ""
        for line in step.sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self.db.ask(statement)
                statement = ""
        self.db.ask(f"PRAGMA user_version = {step.version}")

    def _write_lock(self) -> AbstractContextManager[None]:
        return self.db.transaction()

    def append_rows(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Add new rows to `{records}` or `{nodes}`."""
        self.db.insert(table, rows)

    def enter_writer(self) -> bool:
        """Announce a writer for as long as its process lives; return whether there is no other."""
        return self._presence.enter()

    def leave_writer(self) -> None:
        """Take the announcement back."""
        self._presence.close()

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""
        names = [*sessions]
        found: dict[str, SessionTail | None] = dict.fromkeys(names)
        for start in range(0, len(names), _MAX_SESSIONS_AT_ONCE):
            part = names[start : start + _MAX_SESSIONS_AT_ONCE]
            size = 1 << (len(part) - 1).bit_length()
            ((text,),) = self.db.ask(_tails_query(size), *part, *[None] * (size - len(part)))
            try:
                tails = _TAILS.decode(text)
            except msgspec.ValidationError as exc:
                raise StoreError("a session's last record is damaged", hint="see `demur passport verify`") from exc
            for number, seq, leaf, at in tails:
                found[part[number]] = SessionTail(seq, leaf, at)
        return found

    def close(self) -> None:
        """Close the file, and let go of the locks."""
        self._presence.close()
        super().close()


class _WriterPresence:
    """Whether another writer is alive: a shared lock on a small database beside the log, which ends with its process.

    It is taken only under the log's own lock, so that two processes that start at once see each other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def enter(self) -> bool:
        """Take the shared lock; return whether nobody else had it."""
        if self._db is None:
            self._db = sqlite3.connect(self._path, isolation_level=None, timeout=0.0, check_same_thread=False)
        alone = True
        try:
            # An exclusive lock is refused while anybody holds the shared one.
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("CREATE TABLE IF NOT EXISTS here (nobody)")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            alone = False
        self._db.execute("BEGIN")
        self._db.execute("SELECT count(*) FROM here").fetchone()
        return alone

    def close(self) -> None:
        """Release the lock."""
        if self._db is not None:
            self._db.close()
            self._db = None


def _plain(query: str) -> str:
    """Return a statement without the braces around our tables: a file has one schema."""
    return query.replace("{", "").replace("}", "")


def _connect(uri: str, timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s, check_same_thread=False)


def _make_private(path: Path) -> None:
    """Create the file, and its folder, for its owner alone; SQLite gives the files beside it the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # An existing file is never opened here: closing it would drop every POSIX lock that this process holds on it. Another
        # process would then believe that it has the log alone, and remove the write-ahead log that we use.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise StoreError(f"`{path}` cannot be opened: {what}", hint="check the path and its permissions") from exc


@lru_cache(maxsize=64)
def _insertion(table: str, width: int, *, rows: int, otherwise: str) -> str:
    values = ", ".join([f"({', '.join('?' * width)})"] * rows)
    # OR ROLLBACK: without it, SQLite would copy every page that it changes, in case a later row of the statement fails.
    return f"INSERT OR ROLLBACK INTO {table} SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL {otherwise}"  # noqa: S608 — names are ours, values are bound


@lru_cache
def _tails_query(size: int) -> str:
    """Return the query for the tails of so many sessions; a NULL name has none."""
    asked = ", ".join(f"({number}, ?)" for number in range(size))
    # One row of JSON in place of a row per session: the driver releases the GIL once per row.
    return (
        f"WITH asked (number, name) AS (VALUES {asked}) "  # noqa: S608 — numbers and marks, values are bound
        "SELECT json_group_array(json_array(number, seq, lower(hex(hash)), at)) FROM asked CROSS JOIN records "
        "ON session = name AND seq = (SELECT max(seq) FROM records WHERE session = name) "
        "JOIN nodes ON nodes.level = 0 AND nodes.idx = records.idx"
    )


def _store_error(exc: sqlite3.Error, path: Path) -> StoreError:
    """Return what a failure of SQLite means for the user."""
    # The low byte is the primary result code: https://www.sqlite.org/rescode.html.
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & 0xFF
    where = f"`{path}`"
    match code:
        case sqlite3.SQLITE_FULL:
            hint = "make room on the disk; nothing of this batch was written"
            return StoreError(f"{where} cannot grow: the disk or the file's limit is full", hint=hint)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(f"{where} is held by another process", hint="see who writes to it, and try again")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(f"{where} is damaged or no store of ours ({exc})", hint="go back to a copy")
        case sqlite3.SQLITE_CONSTRAINT:
            return StoreError(f"the tables of {where} do not agree ({exc})", hint="see `demur passport verify`")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreError(f"{where} cannot be opened for this ({exc})", hint="check the path and its permissions")
        case _:
            return StoreError(f"{where}: {str(exc).lower()}", hint="see the engine's message")
