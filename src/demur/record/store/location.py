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

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import StoreError, UsageError
from demur.record.store.key_files import KeyFolder
from demur.record.store.postgres_address import without_password

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.record.interface import Database
    from demur.record.store.disclosures import Disclosures
    from demur.record.store.log_store import LogStore

__all__ = ["LogPlace", "log_place"]

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
        # Only the engine that is used is imported: PostgreSQL's driver is an extra.
        if self.is_database:
            from demur.record.store.postgres import PostgresLog

            return PostgresLog(self.store, origin=origin, read_only=read_only)
        from demur.record.store.sqlite import SqliteLog

        return SqliteLog(Path(self.store), origin=origin, read_only=read_only)

    def connect(self) -> Database:
        """Return a read-only connection to the log's tables, for queries of one's own."""
        if self.is_database:
            from demur.record.store.postgres import PostgresConnection

            return PostgresConnection(self.store, read_only=True)
        from demur.record.store.sqlite import SqliteConnection

        return SqliteConnection(Path(self.store), read_only=True)

    def disclosures(self, clock: Callable[[], str], *, create: bool = False, read_only: bool = False) -> Disclosures:
        """Return the store of salts and texts; raise where none was ever kept, unless `create`."""
        from demur.record.store.disclosures import PostgresDisclosures, SqliteDisclosures

        if self.is_database:
            return PostgresDisclosures(self.store, clock=clock, read_only=read_only)
        path = Path(self.store).with_name("disclosures.db")
        if not create and not path.exists():
            raise StoreError(f"no texts were kept beside `{self.store}`", hint="the gateway keeps none by default")
        return SqliteDisclosures(path, clock=clock, read_only=read_only)


def log_place(given: str, folder: str | None = None) -> LogPlace:
    """Return the place that a user names: a folder, a file of ours, or a database's address."""
    beside = None if folder is None else Path(folder)
    if given.startswith(_DATABASE):
        return LogPlace(given, beside)
    path = Path(given)
    if path.suffix == ".db":
        return LogPlace(str(path), beside or path.parent)
    return LogPlace(str(path / "log.db"), beside or path)
