"""The exchanges at given rows of a loaded run, read again from their sources: texts are kept nowhere else.

Laws: what comes back for a row is the exchange that was judged there; only the sources that hold a wanted row are opened, and
each is read once.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from demur.errors import InputError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named
from demur.io.records import lines_at, read_records
from demur.io.sources import Kind
from demur.model.run import Traced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demur.formats.interface import TraceReader
    from demur.io.config import InputLimits
    from demur.io.sources import Source
    from demur.runs.engine import Engine, LoadedRun
    from demur.wire.fields import JsonObject

__all__ = ["Excerpt", "field_names", "read_excerpts"]

_ROWS_FOR_NAMES = 200

Excerpt = tuple[str, int | None, Traced]
"""The source's name, the line, and the exchange there."""


def read_excerpts(
    engine: Engine, run: LoadedRun, places: Sequence[int], *, limits: InputLimits
) -> Mapping[int, Excerpt]:
    """Return the exchanges at these rows of a run."""
    wanted: dict[int, list[tuple[int, int | None]]] = {}
    if not places:
        return {}
    listed = ", ".join(map(str, sorted(set(places))))
    for place, source, line in engine.ask(f"SELECT rowid, source, line FROM {run.table} WHERE rowid IN ({listed})"):
        wanted.setdefault(source, []).append((place, line))
    found: dict[int, Excerpt] = {}
    for number, rows in wanted.items():
        source = run.sources[number]
        reader = format_named(run.format).open_reader()
        if source.kind is Kind.LINES and stands_alone(reader):
            found |= _by_line(engine, run, source, rows=rows, limits=limits)
        else:
            found |= _by_order(run, number, rows=rows, limits=limits)
    return found


def _by_line(
    engine: Engine, run: LoadedRun, source: Source, *, rows: Sequence[tuple[int, int | None]], limits: InputLimits
) -> dict[int, Excerpt]:
    """Return the rows of a file whose lines stand alone: only the wanted lines are taken apart."""
    reader = format_named(run.format).open_reader()
    places: dict[int, list[int]] = {}
    for place, line in rows:
        places.setdefault(line or 0, []).append(place)
    number = run.sources.index(source)
    found: dict[int, Excerpt] = {}
    marks = run.marks[number]
    wanted = frozenset(places)
    seekable = marks and source.compression is None
    records = lines_at(source, wanted, marks) if seekable else read_records(source, limits, only=wanted)
    for line, record in records:
        if line is None or isinstance(record, InputError):
            continue
        first = engine.ask(f"SELECT min(rowid) FROM {run.table} WHERE source = {number} AND line = {line}")[0][0]
        traced = list(_traced(reader, record))
        for place in places[line]:
            # A file that was rewritten meanwhile has other rows there, or none.
            if place - first < len(traced):
                found[place] = (source.name, line, traced[place - first])
    return found


def _by_order(
    run: LoadedRun, number: int, *, rows: Sequence[tuple[int, int | None]], limits: InputLimits
) -> dict[int, Excerpt]:
    """Return the rows of a source that has to be read from its start, counting its exchanges."""
    source = run.sources[number]
    wanted = {place - run.starts[number]: place for place, _ in rows}
    last = max(wanted)
    found: dict[int, Excerpt] = {}
    for index, (line, traced) in enumerate(_exchanges(source, run.format, limits)):
        if index in wanted:
            found[wanted[index]] = (source.name, line, traced)
        if index >= last:
            break
    return found


def field_names(run: LoadedRun, *, limits: InputLimits) -> tuple[str, ...]:
    """Return the fields that the first exchanges of a run have, in order of their names."""
    found = _exchanges(run.sources[0], run.format, limits)
    return tuple(sorted({name for _, traced in islice(found, _ROWS_FOR_NAMES) for name, _ in traced.fields}))


def _exchanges(source: Source, format_name: str, limits: InputLimits) -> Iterator[tuple[int | None, Traced]]:
    reader = format_named(format_name).open_reader()
    line: int | None = None
    for line, record in read_records(source, limits):
        if not isinstance(record, InputError):
            yield from ((line, traced) for traced in _traced(reader, record))
    yield from ((line, item) for item in reader.close() if isinstance(item, Traced))


def _traced(reader: TraceReader, record: JsonObject) -> Iterator[Traced]:
    """Yield the exchanges of a record, those before a fault in it included, as they were judged."""
    try:
        yield from (item for item in reader.feed(record) if isinstance(item, Traced))
    except InputError:
        return
