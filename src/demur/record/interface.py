"""What the record and its stores share: a sealed entry, the tail of a session, and the interfaces of a database and of disclosures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from demur.model.passport import LogEntry
    from demur.record.commit import Disclosure

__all__ = ["Database", "DisclosureStore", "SealedEntry", "SessionTail"]


# Here, not beside the functions that seal: a store takes sealed entries without knowing how they are made.
@dataclass(frozen=True, slots=True)
class SealedEntry:
    """An entry and its envelope: the signed bytes, the key that is named, its signature, and the leaf hash."""

    entry: LogEntry
    envelope: bytes
    payload: bytes
    key_id: str | None
    signature: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class SessionTail:
    """The last passport of a session: the next one has `seq + 1` and names this leaf as `previous`."""

    seq: int
    leaf: str
    """The leaf hash, in hex."""
    at: str


class Database(Protocol):
    """One connection to an SQL database, whose failures are `StoreError`s.

    Statements have `?` where a value goes, and braces around the names of our tables: engines differ in the schema they are in.
    """

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row; None where there is none."""

    def insert(self, table: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> None:
        """Insert rows, many at a time; `otherwise` is an ON CONFLICT clause."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commit all that is written inside durably, or nothing."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Read the database as it is now, whatever is written meanwhile."""

    def close(self) -> None:
        """Close the connection."""


class DisclosureStore(Protocol):
    """Keeps what is behind commitments, apart from the log, under the commitment's digest."""

    def put(self, disclosures: Sequence[Disclosure]) -> None:
        """Keep these."""

    def get(self, digest: str) -> Disclosure | None:
        """Return what is behind a digest; None where it was erased or never kept: a `commit.Disclose`."""

    def erase(self, digests: Sequence[str]) -> tuple[str, ...]:
        """Delete beyond recovery; return the digests that were there, for the `Erasure` to put on record."""

    def close(self) -> None:
        """Close it; what was kept stays."""
