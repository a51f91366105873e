"""The rows of one side of many pairs, read again and handed to the work that wants their exchanges, wherever it runs.

What is handed on at a place is the exchange that was judged there, with that verdict. A reading holds no state, so that it can be sent
to other processes; only what the work makes of the exchanges comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from msgspec.structs import replace

from demur.errors import InputError
from demur.formats.flat_rows import flat_layout
from demur.formats.registry import format_named
from demur.io.files import json_object
from demur.model.comparison import AxisSide
from demur.model.exchange import Choice, Exchange, Message, Request, Response, TextPart
from demur.model.run import Traced
from demur.model.verdict import Outcome
from demur.runs.ingest import exchanges_of
from demur.runs.row_measures import MEASURE_FIELDS, measures_of, usage_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from demur.formats.flat_rows import PlainRow
    from demur.formats.interface import TraceReader
    from demur.io.records import Record
    from demur.runs.row_measures import RowMeasures
    from demur.wire.fields import JsonObject

    _Ints = npt.NDArray[np.int64]

    _Read = tuple[Exchange, RowMeasures]

__all__ = ["LinesPiece", "RowReading", "WantedRows"]

_FLAT = "flat"
# A batch of exchanges in memory at once; a whole run of long texts would not fit.
_ROWS_AT_ONCE = 4096
_T = TypeVar("_T")
_OUTCOMES = (Outcome.COMPLIED, Outcome.REFUSED, Outcome.FAILED)
_STOPS = ("finish_reason", "stop_reason")


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The wanted rows of one source, in their order.

    `rows` are their places in the run, `pairs` the places of their pairs, `states` 0 for answered, 1 for abstained, 2 for failed; of a file of
    lines `lines` are theirs, and `firsts` the first row of each such line.
    """

    rows: _Ints
    pairs: _Ints
    states: _Ints
    lines: _Ints
    firsts: _Ints

    def by_row(self) -> dict[int, tuple[int, int]]:
        """Return the pair and the state of each row."""
        return dict(zip(self.rows.tolist(), zip(self.pairs.tolist(), self.states.tolist(), strict=True), strict=True))

    def between(self, first: int, beyond: int) -> WantedRows:
        """Return those on some lines."""
        # The lines of a source are in order, so a block's rows are a slice.
        low, high = np.searchsorted(self.lines, (first, beyond))
        return WantedRows(*(getattr(self, name)[low:high] for name in ("rows", "pairs", "states", "lines", "firsts")))


@dataclass(frozen=True, slots=True)
class LinesPiece:
    """Some whole lines, the number of the first, and the rows that are wanted of them."""

    first: int
    lines: bytes
    wanted: WantedRows


@dataclass(frozen=True, slots=True)
class RowReading(Generic[_T]):
    """How rows are read: the format, the work that is done on their exchanges, and the prompts of rows that have none."""

    format: str
    work: Callable[[Iterable[AxisSide]], _T]
    asked: Mapping[str, str] = field(default_factory=dict)

    def lines(self, piece: LinesPiece) -> tuple[_Ints, _T]:
        """Return the pairs that rows in a block of lines are of, and what the work made of them."""
        found: list[int] = []
        made = self.work(_noted(self._sides_in_lines(piece), found))
        return np.array(found, dtype=np.int64), made

    def records(self, records: Iterable[Record], wanted: WantedRows, start: int) -> Iterator[tuple[_Ints, _T]]:
        """Yield the same for a source that has to be read from its beginning, whose first row is `start`."""
        reader, known = format_named(self.format).open_reader(), wanted.by_row()
        read = enumerate(self._all_exchanges(records, reader), start)
        sides = (_judged_side(each, known[row]) for row, each in read if row in known)
        while True:
            found: list[int] = []
            made = self.work(_noted(sides, found, most=_ROWS_AT_ONCE))
            if not found:
                return
            yield np.array(found, dtype=np.int64), made

    def _sides_in_lines(self, piece: LinesPiece) -> Iterator[tuple[int, AxisSide]]:
        reader, split, wanted = format_named(self.format).open_reader(), piece.lines.split(b"\n"), piece.wanted.by_row()
        # A line may hold several exchanges.
        firsts = dict(zip(piece.wanted.lines.tolist(), piece.wanted.firsts.tolist(), strict=True))
        for line, first in firsts.items():
            # A file that was rewritten meanwhile may be shorter.
            if line - piece.first >= len(split):
                return
            for row, read in enumerate(self._exchanges(json_object(split[line - piece.first]), reader), first):
                if row in wanted:
                    yield _judged_side(read, wanted[row])

    def _all_exchanges(self, records: Iterable[Record], reader: TraceReader) -> Iterator[_Read]:
        for _, record in records:
            yield from self._exchanges(record, reader)
        yield from (self._full(item) for item in reader.close() if isinstance(item, Traced))

    def _exchanges(self, record: JsonObject | InputError, reader: TraceReader) -> Iterator[_Read]:
        """Yield the exchanges of a record with what they took, those before a fault in it included."""
        # A plain row is read without its format's reader, ten times as fast, to the same exchange.
        if self.format == _FLAT and not isinstance(record, InputError):
            names = tuple(record)
            fields = _measure_fields(names)
            layout = flat_layout(names, fields)
            if layout is not None and (plain := layout.row(record)) is not None:
                yield self._plain(record, plain, fields)
                return
        yield from map(self._full, exchanges_of(record, reader))

    def _plain(self, record: JsonObject, row: PlainRow, fields: tuple[str, ...]) -> _Read:
        key, prompt, session, text, labels = row
        measures = measures_of(zip(fields, labels, strict=True), self.format)
        stop = next((word for name in _STOPS if isinstance(word := record.get(name), str)), None)
        choice = Choice(0, (TextPart(text),), finish_raw=stop)
        asked = self.asked.get(key or "") if prompt is None else prompt
        exchange = Exchange(None, Response("", (choice,), usage=measures.usage), _request(asked), key, session)
        return exchange, measures

    def _full(self, traced: Traced) -> _Read:
        measures = measures_of(traced.fields, self.format)
        exchange = traced.exchange
        if exchange.request is None:
            exchange = replace(exchange, request=_request(self.asked.get(exchange.id or "")))
        usage = usage_of_row(traced, measures)
        if exchange.response is not None and usage != exchange.response.usage:
            exchange = replace(exchange, response=replace(exchange.response, usage=usage))
        return exchange, measures


@lru_cache(maxsize=256)
def _measure_fields(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in MEASURE_FIELDS if name in names)


def _request(prompt: str | None) -> Request | None:
    return None if prompt is None else Request("", (Message("user", (TextPart(prompt),)),))


def _judged_side(read: _Read, wanted: tuple[int, int]) -> tuple[int, AxisSide]:
    (exchange, measures), (pair, state) = read, wanted
    return pair, AxisSide(exchange, measures.latency_ms, measures.cost, _OUTCOMES[state])


def _noted(sides: Iterator[tuple[int, AxisSide]], found: list[int], *, most: int | None = None) -> Iterator[AxisSide]:
    """Yield sides, at most so many, and note the pairs that they are of."""
    for pair, side in islice(sides, most):
        found.append(pair)
        yield side
