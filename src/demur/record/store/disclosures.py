"""Where do salts and texts live? Apart from the log, where they can be deleted without a trace but their erasure on record.

Laws: the log never reads from here, so deleting leaves every record, proof and root as it was; erased bytes are overwritten and
the write-ahead log is emptied, so they cannot be read from the file any more, and where a reader keeps that from being done they are
not said to be erased: the deletion is remembered and finished by the next erasure. What is older than the retention can be found.
In PostgreSQL an erased row is deleted and vacuumed; what its own archives and backups keep is theirs to delete.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from demur.errors import StoreError
from demur.record.commit import Disclosure
from demur.record.store.growth import stored_bytes
from demur.record.store.postgres.link import PostgresLink
from demur.record.store.sqlite_files import connect_sqlite, immediate, sqlite_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["PostgresDisclosures", "SqliteDisclosures"]

_SQLITE_TABLE = """CREATE TABLE IF NOT EXISTS disclosures (
    digest TEXT PRIMARY KEY, salt BLOB NOT NULL, text BLOB NOT NULL, kept_at TEXT NOT NULL) WITHOUT ROWID"""
_ERASING_TABLE = "CREATE TABLE IF NOT EXISTS erasing (digest TEXT PRIMARY KEY) WITHOUT ROWID"
"""What is deleted and may still be in the write-ahead log: digests alone, until they can be said to be erased."""
_PATIENCE_S = 30.0
_CREATING = 0x64656D7572_03
"""The key of the advisory lock under which the table is made."""
_POSTGRES_TABLE = """CREATE TABLE IF NOT EXISTS demur_disclosures.disclosures (
    digest TEXT PRIMARY KEY, salt BYTEA NOT NULL, text BYTEA NOT NULL, kept_at TEXT NOT NULL)"""


class SqliteDisclosures:
    """Disclosures in a file of their own."""

    def __init__(
        self, path: Path, *, clock: Callable[[], str], read_only: bool = False, patience_s: float = _PATIENCE_S
    ) -> None:
        """Open the file, or make it; `patience_s` is how long others are waited for."""
        self._path, self._clock = path, clock
        self._db = connect_sqlite(path, read_only=read_only, timeout_s=patience_s)
        if not read_only:
            with self._told():
                self._db.execute("PRAGMA secure_delete = ON")
                self._db.execute(_SQLITE_TABLE)
                self._db.execute(_ERASING_TABLE)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise sqlite_failure(exc, self._path) from exc

    def put(self, disclosures: Sequence[Disclosure]) -> None:
        """Keep these, durably."""
        now = self._clock()
        rows = [(each.digest, each.salt, each.text, now) for each in disclosures]
        with self._told(), immediate(self._db):
            self._db.executemany("INSERT OR IGNORE INTO disclosures VALUES (?, ?, ?, ?)", rows)

    def get(self, digest: str) -> Disclosure | None:
        """Return what is behind a digest; None where it was erased or never kept."""
        with self._told():
            row = self._db.execute("SELECT salt, text FROM disclosures WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else Disclosure(digest, stored_bytes(row[0]), stored_bytes(row[1]))

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete beyond recovery; return the digests that were there. Raise where a reader still holds on to the text."""
        wanted = [(digest,) for digest in dict.fromkeys(digests)]
        with self._told():
            with immediate(self._db):
                kept = "INSERT OR IGNORE INTO erasing SELECT digest FROM disclosures WHERE digest = ?"
                self._db.executemany(kept, wanted)
                self._db.executemany("DELETE FROM disclosures WHERE digest = ?", wanted)
            # Until it is folded in and cut, the write-ahead log still holds the page with the text.
            (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                what = f"the texts are deleted, but a reader of `{self._path}` keeps them from being overwritten"
                raise StoreError(what, hint="end what reads it and erase again: until then nothing is on record")
            with immediate(self._db):
                query = "DELETE FROM erasing WHERE digest = ? RETURNING digest"
                found = [row[0] for one in wanted for row in self._db.execute(query, one).fetchall()]
        return tuple(found)

    def kept_before(self, at: str) -> tuple[str, ...]:
        """Return the digests of what was put here before this time (RFC 3339, UTC, as the clock writes it).

        What was deleted and could not be overwritten yet is among them, first, so that the next erasure finishes it.
        """
        query = (
            "SELECT digest, '' AS since FROM erasing UNION ALL SELECT digest, kept_at FROM disclosures WHERE kept_at < ? "
            "ORDER BY since, digest"
        )
        with self._told():
            return tuple(digest for digest, _ in self._db.execute(query, (at,)))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


class PostgresDisclosures:
    """Disclosures in a schema of their own, so that a role can be kept out of it."""

    def __init__(self, url: str, *, clock: Callable[[], str], read_only: bool = False) -> None:
        self._clock = clock
        self._db = PostgresLink(url, read_only=read_only)
        try:
            self._find() if read_only else self._create()
        except StoreError:
            self._db.close()
            raise

    def _find(self) -> None:
        if self._db.one("SELECT to_regclass('demur_disclosures.disclosures')") == (None,):
            raise StoreError("no texts were kept in this database", hint="the gateway keeps none by default")

    def _create(self) -> None:
        with self._db.transaction(f"SELECT pg_advisory_xact_lock({_CREATING})"):
            self._db.ask("CREATE SCHEMA IF NOT EXISTS demur_disclosures")
            self._db.ask(_POSTGRES_TABLE)

    def put(self, disclosures: Sequence[Disclosure]) -> None:
        """Keep these, durably."""
        now = self._clock()
        rows = [(each.digest, each.salt, each.text, now) for each in disclosures]
        with self._db.transaction():
            self._db.insert("demur_disclosures.disclosures", rows, otherwise="ON CONFLICT DO NOTHING")

    def get(self, digest: str) -> Disclosure | None:
        """Return what is behind a digest; None where it was erased or never kept."""
        row = self._db.one("SELECT salt, text FROM demur_disclosures.disclosures WHERE digest = ?", digest)
        return None if row is None else Disclosure(digest, stored_bytes(row[0]), stored_bytes(row[1]))

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete; return the digests that were there."""
        query = "DELETE FROM demur_disclosures.disclosures WHERE digest = ANY(?) RETURNING digest"
        found = tuple(str(digest) for (digest,) in self._db.ask(query, list(digests)))
        self._db.ask("VACUUM demur_disclosures.disclosures")
        return found

    def kept_before(self, at: str) -> tuple[str, ...]:
        """Return the digests of what was put here before this time."""
        query = "SELECT digest FROM demur_disclosures.disclosures WHERE kept_at < ? ORDER BY kept_at, digest"
        return tuple(str(digest) for (digest,) in self._db.ask(query, at))

    def close(self) -> None:
        """Let go of the connection."""
        self._db.close()
