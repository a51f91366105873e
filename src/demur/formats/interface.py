"""What a trace format is: a name, a way to recognise a record, and a reader that takes records one by one.

A record is one line of a JSON-lines file, or a whole JSON document. A reader yields exchanges and skipped rows in the order
of the file; a record that it cannot read is a `ShapeError` that names the field, and the reader goes on with the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.model.run import Skipped, Traced
    from demur.wire.fields import JsonObject

__all__ = ["Kind", "TraceFormat", "TraceReader", "stands_alone", "stateless"]


class TraceReader(Protocol):
    """Takes the records of one file."""

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield what is known once this record is read."""
        ...

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield what was still waiting for its other half."""
        ...


class TraceFormat(Protocol):
    """A module of this package."""

    @property
    def NAME(self) -> str:  # noqa: N802 — a constant of the module
        """What `--format` calls it."""
        ...

    def sniffs(self, record: JsonObject) -> bool:
        """Return whether a record is of this format."""
        ...

    def open_reader(self) -> TraceReader:
        """Return a reader for one file."""
        ...


class _Stateless:
    def __init__(self, read: Callable[[JsonObject], Iterator[Traced | Skipped]]) -> None:
        self.feed = read

    def close(self) -> Iterator[Traced | Skipped]:
        return iter(())


def stateless(read: Callable[[JsonObject], Iterator[Traced | Skipped]]) -> Callable[[], TraceReader]:
    """Return the `open_reader` of a format whose records stand for themselves."""
    return lambda: _Stateless(read)


def stands_alone(reader: TraceReader) -> bool:
    """Return whether a reader keeps nothing between records, so that the lines of a file can be read in pieces."""
    return isinstance(reader, _Stateless)


@dataclass(frozen=True, slots=True)
class Kind:
    """A trace format that is a value, for modules that hold several."""

    NAME: str
    sniffs: Callable[[JsonObject], bool]
    open_reader: Callable[[], TraceReader]
