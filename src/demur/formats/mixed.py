"""Files whose rows are in several formats: each row is read by the format that knows it.

The format of most rows is asked first; a row that it does not know goes to the first other format that does. A row that no format knows
stays the error that it was. A format that the user named reads every row alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.formats.flat_rows import open_named_reader
from demur.formats.interface import stands_alone, stateless
from demur.formats.registry import FORMATS, format_named
from demur.model.columns import NO_COLUMNS
from demur.wire.flat import reads_flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.formats.interface import TraceReader
    from demur.model.columns import Columns
    from demur.model.run import Skipped, Traced
    from demur.wire.fields import JsonObject

__all__ = ["reader_of"]


_PROVIDERS = frozenset({"azure", "openai-chat", "anthropic", "gemini", "bedrock"})
"""Each of these reads the others' responses; where their errors look alike, the file's own format decides whose an error is."""


def reader_of(name: str, *, named: bool, columns: Columns = NO_COLUMNS) -> TraceReader:
    """Return a reader for one file of this format; `named` is a format by which the user wants every row read.

    Rows whose `columns` the user named are flat ones.
    """
    if columns:
        return open_named_reader(columns)
    known = format_named(name)
    home = known.open_reader()
    if named:
        return home
    # Any format's row may have a field like a column: only a column of text is surely a row's own.
    knows = reads_flat if known.NAME == "flat" else known.sniffs

    def feed(record: JsonObject) -> Iterator[Traced | Skipped]:
        other = None if knows(record) else _other_reader(record, known.NAME)
        return (other or home).feed(record)

    return stateless(feed)() if stands_alone(home) else _Joined(feed, home)


def _other_reader(record: JsonObject, home: str) -> TraceReader | None:
    """Return a reader of the first format that knows a row, None where none does but the file's own."""
    for name, known in FORMATS.items():
        if known.sniffs(record):
            if name in _PROVIDERS and home in _PROVIDERS:
                return None
            reader = known.open_reader()
            # A format that needs the records before cannot read one row among others.
            if stands_alone(reader):
                return reader
    return None


class _Joined:
    """A reader whose format keeps something between records."""

    def __init__(self, feed: Callable[[JsonObject], Iterator[Traced | Skipped]], home: TraceReader) -> None:
        self.feed = feed
        self.close = home.close
