"""What the adapters ask of those who use them: how to judge what was read, and whom to tell how far it came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from demur.errors import InputError
    from demur.io.records import Record

__all__ = ["IngestPort", "JudgedPort", "Progress"]


class JudgedPort(Protocol):
    """A batch of judged rows."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows, in the port's schema."""

    @property
    def errors(self) -> tuple[InputError, ...]:
        """What could not be read."""

    @property
    def skipped(self) -> Mapping[str, int]:
        """Rows that are no exchanges, by why."""


class IngestPort(Protocol):
    """Reads and judges records of one format; its methods can be sent to other processes."""

    @property
    def format(self) -> str:
        """The format's name."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a row that are kept."""

    def with_format(self, name: str) -> IngestPort:
        """Return the same for another format."""

    def schema(self) -> pa.Schema:
        """Return the columns of judged rows."""

    def lines(self, piece: tuple[int, bytes]) -> JudgedPort:
        """Return the judged rows in a block of lines."""

    def records(self, records: Iterable[Record]) -> Iterator[JudgedPort]:
        """Yield the judged rows of one file's records."""

    def columns(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return prompt key and verdict for each row of a table."""


class Progress(Protocol):
    """Whom to tell how far the reading came."""

    def start(self, name: str, size_bytes: int) -> None:
        """Begin with another run."""

    def read(self, size_bytes: int) -> None:
        """Take note of bytes read."""

    def rows(self, count: int) -> None:
        """Take note of rows judged."""
