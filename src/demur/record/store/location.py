"""Where a log is and what is beside it: a folder with a file in it, or a database and a folder for the keys.

    FOLDER/log.db            the records, with their tree
    FOLDER/disclosures.db    salts and texts, erasable
    FOLDER/signing.pem       the private key, for its owner alone
    FOLDER/keys.json         the public keys and their windows
    FOLDER/checkpoints.txt   every checkpoint that was signed
    FOLDER/log.db-writers    an empty database whose lock says who is writing

A log that is only read is opened so that it cannot be written to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import StoreError, UsageError
from demur.record.commit import Disclosure
from demur.record.store.key_files import KeyFolder
from demur.record.store.log_store import stored_bytes
from demur.record.store.postgres import PostgresConnection, PostgresLog
from demur.record.store.postgres_address import without_password
from demur.record.store.sqlite import SqliteConnection, SqliteLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from demur.record.commit import Disclose
    from demur.record.interface import Database
    from demur.record.store.log_store import LogStore

__all__ = ["Disclosures", "LogPlace", "PostgresDisclosures", "SqliteDisclosures", "log_place"]

_DATABASE = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A log's store and the folder beside it; None where only a database is given."""

    store: str
    folder: Path | None

    @property
    def is_database(self) -> bool:
        """Whether the log is in PostgreSQL."""
        return self.store.startswith(_DATABASE)

    @property
    def shown(self) -> str:
        """The place for messages, without a password."""
        return without_password(self.store)

    @property
    def anchors(self) -> Path | None:
        """The file of checkpoints."""
        return None if self.folder is None else self.folder / "checkpoints.txt"

    def keys(self) -> KeyFolder:
        """Return the keys beside the log."""
        if self.folder is None:
            raise UsageError("a log in a database needs a folder for its keys", hint="give --folder")
        return KeyFolder(self.folder)

    def open(self, *, origin: str | None = None, read_only: bool) -> LogStore:
        """Return the log, opened."""
        if self.is_database:
            return PostgresLog(self.store, origin=origin, read_only=read_only)
        return SqliteLog(Path(self.store), origin=origin, read_only=read_only)

    def connect(self) -> Database:
        """Return a read-only connection to the log's tables, for queries of one's own."""
        if self.is_database:
            return PostgresConnection(self.store, read_only=True)
        return SqliteConnection(Path(self.store), read_only=True)

    def disclosures(self, clock: Callable[[], str], *, create: bool = False, read_only: bool = False) -> Disclosures:
        """Return the store of salts and texts; raise where none was ever kept, unless `create`."""
        if self.is_database:
            return PostgresDisclosures(self.store, clock=clock, read_only=read_only)
        path = Path(self.store).with_name("disclosures.db")
        if not create and not path.exists():
            raise StoreError(f"no texts were kept beside `{self.store}`", hint="the gateway keeps none by default")
        return SqliteDisclosures(path, clock=clock, read_only=read_only)

    @contextmanager
    def disclosing(self, clock: Callable[[], str], *, on: bool) -> Iterator[Disclose | None]:
        """Give the lookup of texts by their digest; None where it is not `on`, or where no texts were kept."""
        # Texts are optional, so a reader can go on without them: what depends on them stays unchecked or unseen.
        try:
            texts = self.disclosures(clock, read_only=True) if on else None
        except StoreError:
            texts = None
        try:
            yield None if texts is None else texts.get
        finally:
            if texts is not None:
                texts.close()


def log_place(given: str, folder: str | None = None) -> LogPlace:
    """Return the place that a user names: a folder, a file of ours, or a database's address."""
    beside = None if folder is None else Path(folder)
    if given.startswith(_DATABASE):
        return LogPlace(given, beside)
    path = Path(given)
    if path.suffix == ".db":
        return LogPlace(str(path), beside or path.parent)
    return LogPlace(str(path / "log.db"), beside or path)


_SQLITE_TABLE = """CREATE TABLE IF NOT EXISTS disclosures (
    digest TEXT PRIMARY KEY, salt BLOB NOT NULL, text BLOB NOT NULL, kept_at TEXT NOT NULL) WITHOUT ROWID"""
# What is deleted and may still be in the write-ahead log: only digests, until they can be reported as erased.
_ERASING_TABLE = "CREATE TABLE IF NOT EXISTS erasing (digest TEXT PRIMARY KEY) WITHOUT ROWID"
_BUSY_S = 30.0
# The key of the advisory lock under which the table is created: two gateways that start at once would both try.
_CREATING = 0x64656D7572_03
_POSTGRES_TABLE = """CREATE TABLE IF NOT EXISTS {disclosures} (
    digest TEXT PRIMARY KEY, salt BYTEA NOT NULL, text BYTEA NOT NULL, kept_at TEXT NOT NULL)"""


class Disclosures(ABC):
    """Disclosures in a database: a `DisclosureStore`."""

    def __init__(self, db: Database, clock: Callable[[], str]) -> None:
        self.db, self._clock = db, clock

    def put(self, disclosures: Sequence[Disclosure]) -> None:
        """Keep these, durably."""
        now = self._clock()
        rows = [(each.digest, each.salt, each.text, now) for each in disclosures]
        with self.db.transaction():
            self.db.insert("{disclosures}", rows, otherwise="ON CONFLICT DO NOTHING")

    def get(self, digest: str) -> Disclosure | None:
        """Return what is behind a digest; None where it was erased or never kept."""
        row = self.db.one("SELECT salt, text FROM {disclosures} WHERE digest = ?", digest)
        return None if row is None else Disclosure(digest, stored_bytes(row[0]), stored_bytes(row[1]))

    @abstractmethod
    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete beyond recovery; return the digests that were there."""

    @abstractmethod
    def kept_before(self, at: str) -> tuple[str, ...]:
        """Return the digests of what was put here before this time (RFC 3339, UTC, as the clock writes it)."""

    def close(self) -> None:
        """Close the connection."""
        self.db.close()


class SqliteDisclosures(Disclosures):
    """Disclosures in a file of their own."""

    def __init__(
        self, path: Path, *, clock: Callable[[], str], read_only: bool = False, timeout_s: float = _BUSY_S
    ) -> None:
        """Open the file, or create it; `timeout_s` is how long to wait for other processes."""
        super().__init__(SqliteConnection(path, read_only=read_only, timeout_s=timeout_s), clock)
        self._path = path
        if not read_only:
            # Overwrites deleted content with zeros: https://www.sqlite.org/pragma.html#pragma_secure_delete.
            self.db.ask("PRAGMA secure_delete = ON")
            self.db.ask(_SQLITE_TABLE)
            self.db.ask(_ERASING_TABLE)

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete beyond recovery; return the digests that were there. Raise where a reader still holds on to the text."""
        wanted = [*dict.fromkeys(digests)]
        with self.db.transaction():
            for digest in wanted:
                self.db.ask("INSERT OR IGNORE INTO erasing SELECT digest FROM disclosures WHERE digest = ?", digest)
                self.db.ask("DELETE FROM disclosures WHERE digest = ?", digest)
        # Until it is moved into the file and truncated, the write-ahead log still holds the page with the text.
        ((busy, *_),) = self.db.ask("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            what = f"the texts are deleted, but a reader of `{self._path}` keeps them from being overwritten"
            raise StoreError(what, hint="end what reads it and erase again: until then nothing is on record")
        with self.db.transaction():
            query = "DELETE FROM erasing WHERE digest = ? RETURNING digest"
            return tuple(str(row[0]) for digest in wanted for row in self.db.ask(query, digest))

    def kept_before(self, at: str) -> tuple[str, ...]:
        """Return the digests of what was put here before this time."""
        # What was deleted and could not be overwritten comes first, so that the next erasure finishes it.
        query = (
            "SELECT digest, '' AS since FROM erasing UNION ALL SELECT digest, kept_at FROM disclosures WHERE kept_at < ? "
            "ORDER BY since, digest"
        )
        return tuple(digest for digest, _ in self.db.ask(query, at))


class PostgresDisclosures(Disclosures):
    """Disclosures in a schema of their own, so that a role can be denied access to it."""

    def __init__(self, url: str, *, clock: Callable[[], str], read_only: bool = False) -> None:
        db = PostgresConnection(url, schema="demur_disclosures", read_only=read_only)
        super().__init__(db, clock)
        with ExitStack() as undo:
            undo.callback(db.close)
            if not read_only:
                with db.transaction(f"SELECT pg_advisory_xact_lock({_CREATING})"):
                    db.ask("CREATE SCHEMA IF NOT EXISTS demur_disclosures")
                    db.ask(_POSTGRES_TABLE)
            elif db.one("SELECT to_regclass('demur_disclosures.disclosures')") == (None,):
                raise StoreError("no texts were kept in this database", hint="the gateway keeps none by default")
            undo.pop_all()

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete; return the digests that were there."""
        query = "DELETE FROM {disclosures} WHERE digest = ANY(?) RETURNING digest"
        found = tuple(str(digest) for (digest,) in self.db.ask(query, list(digests)))
        # A deleted row stays in its page until it is vacuumed.
        self.db.ask("VACUUM {disclosures}")
        return found

    def kept_before(self, at: str) -> tuple[str, ...]:
        """Return the digests of what was put here before this time."""
        query = "SELECT digest FROM {disclosures} WHERE kept_at < ? ORDER BY kept_at, digest"
        return tuple(str(digest) for (digest,) in self.db.ask(query, at))
