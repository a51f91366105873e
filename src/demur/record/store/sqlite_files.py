"""How is an SQLite file opened, held and shared by processes, and what do its failures mean?

Laws: a file is made for its owner alone; what is committed is on the disk; a transaction that fails leaves nothing behind; an
error of the engine becomes one line that says what to do.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from demur.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["WriterPresence", "connect_sqlite", "immediate", "insert_many", "sqlite_failure"]

_PAGE_BYTES = 16384
"""Seven ordinary records fill a page; at 4,096 one would, and half of the file were air."""
_BUSY_S = 30.0
_RETRY_S = 0.005
_AT_ONCE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Rows that one statement inserts, some of them empty: few statements a batch, and few forms of them to keep ready."""
_FULL_HINT = "make room on the disk; nothing of this batch was written"


def sqlite_failure(exc: sqlite3.Error, path: Path) -> StoreError:
    """Return what a failure of the engine means for the user."""
    code = (getattr(exc, "sqlite_errorcode", None) or 0) & 0xFF
    where = f"`{path}`"
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreError(f"{where} cannot grow: the disk or the file's limit is full", hint=_FULL_HINT)
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


def connect_sqlite(path: Path, *, read_only: bool, timeout_s: float = _BUSY_S) -> sqlite3.Connection:
    """Return a connection that commits durably; a store on a medium that cannot be written to is read as it stands."""
    if read_only and not path.is_file():
        raise StoreError(f"there is no store at `{path}`", hint="check the path")
    if not read_only:
        _make_private(path)
    uri = path.resolve().as_uri() + ("?mode=ro" if read_only else "?mode=rwc")
    try:
        connection = _connected(uri, timeout_s)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # Reading a write-ahead log wants to write beside it; without one the file cannot change under us.
            if not read_only or path.with_name(path.name + "-wal").exists():
                raise
            connection.close()
            connection = _connected(uri + "&immutable=1", timeout_s)
        if not read_only:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _write_ahead(connection, timeout_s)
            connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as exc:
        raise sqlite_failure(exc, path) from exc
    return connection


def _make_private(path: Path) -> None:
    """Make the file, its folder too, for its owner alone; the engine gives the files beside it the same mode.

    A file that is there is never opened here: closing it again would drop every lock that this process holds on it (POSIX), and
    another process would then take the log for its own alone and remove the write-ahead log under our feet.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise StoreError(f"`{path}` cannot be opened: {what}", hint="check the path and its permissions") from exc


def _connected(uri: str, timeout_s: float) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s, check_same_thread=False)


def _write_ahead(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Turn on the write-ahead log; of two that do so at once the engine refuses one, whatever its patience."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def insert_many(db: sqlite3.Connection, into: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> None:
    """Insert rows, whose first value is never None, many at a time; `otherwise` says what to do about one that is there.

    The driver lets the interpreter go three times a statement: a row each would have a batch wait for other threads row by row.
    """
    for start in range(0, len(rows), _AT_ONCE[-1]):
        batch = rows[start : start + _AT_ONCE[-1]]
        size, width = next(size for size in _AT_ONCE if size >= len(batch)), len(batch[0])
        values = [*chain.from_iterable(batch), *[None] * (width * (size - len(batch)))]
        db.execute(_insertion(into, width, rows=size, otherwise=otherwise), values)


@lru_cache(maxsize=64)
def _insertion(into: str, width: int, *, rows: int, otherwise: str) -> str:
    """Return the statement; where a row fails it ends the transaction, else every page would be copied in case one does."""
    values = ", ".join([f"({', '.join('?' * width)})"] * rows)
    return f"INSERT OR ROLLBACK INTO {into} SELECT * FROM (VALUES {values}) WHERE column1 IS NOT NULL {otherwise}"  # noqa: S608 — names are ours, values go apart


@contextmanager
def immediate(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the file for writing: all that is done inside is committed at the end, or nothing is."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        # The engine itself rolls back where a disk is full; there is nothing left to do then.
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")


class WriterPresence:
    """Is any other writer alive? A shared lock on a small database of its own, which ends with its process.

    Asked and taken only while the log is held, so that two who start at once see each other.
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
        """Let the lock go."""
        if self._db is not None:
            self._db.close()
            self._db = None
