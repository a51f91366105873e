"""The exchanges at given rows of a run on a cluster, read again where they stand: texts are kept nowhere else.

Laws: what comes back for a place is the exchange that was judged there, and no more comes back than was asked for; only files
that hold a wanted row are read again. A frame is somebody's query, and may give other rows the second time: whoever asks looks
whether the exchange still is what it was judged to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import InputError
from demur.formats.registry import format_named
from demur.io.files import BOM, json_object
from demur.model.run import Traced
from demur.runs.spark.rows import FILE, LINE, START, VALUE, RowPicker, file_key
from demur.runs.spark.session import map_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from demur.runs.excerpts import Excerpt
    from demur.runs.spark.runs import SparkRun
    from demur.runs.spark.tallies import Place
    from demur.wire.fields import JsonObject

__all__ = ["excerpts_at"]


def excerpts_at(run: SparkRun, places: Iterable[Place]) -> Mapping[Place, Excerpt]:
    """Return the exchanges at these places of a run."""
    wanted: dict[tuple[str, int], dict[int, list[Place]]] = {}
    for place in dict.fromkeys(places):
        file = run.given.keys[place[0]] if run.given.keys else ""
        wanted.setdefault((file, place[1]), {}).setdefault(place[3], []).append(place)
    if not wanted:
        return {}
    found: dict[Place, Excerpt] = {}
    for file, start, line, record in _picked(run, wanted):
        traced = list(_exchanges_in(record, run.format))
        for place in wanted.get((file, start), {}).get(line, ()):
            if place[4] < len(traced):
                shown = run.given.shown_line(run.marks[place[0], place[1]][1], line)
                found[place] = (run.given.files[place[0]], shown, traced[place[4]])
    return found


def _picked(
    run: SparkRun, wanted: Mapping[tuple[str, int], Mapping[int, Sequence[Place]]]
) -> Iterator[tuple[str, int, int, JsonObject | InputError]]:
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import to_arrow_schema

    places = [place for lines in wanted.values() for there in lines.values() for place in there]
    raw = run.given.only(sorted({place[0] for place in places}))
    if run.given.keys:
        # What is not wanted is left out before rows are handed to Python: whole blocks, and the rows of a table.
        raw = raw.where(sql.col(f"`{START}`").isin(sorted({place[1] for place in places})))
    if run.given.keys and not run.given.lines:
        raw = raw.where(sql.col(f"`{LINE}`").isin(sorted({place[3] for place in places})))
    picker = RowPicker({block: frozenset(lines) for block, lines in wanted.items()})
    rows: pa.Table = map_arrow(raw, picker.pick, to_arrow_schema(raw.schema)).toArrow()
    names = [name for name in rows.column_names if name not in (FILE, START, LINE)]
    found = zip(*(rows.column(name).to_pylist() for name in (FILE, START, LINE)), strict=True)
    records = _lines_of(rows) if run.given.lines else rows.select(names).to_pylist()
    for (file, start, line), record in zip(found, records, strict=True):
        yield file_key(file, encoded=True), start, line, record


def _lines_of(rows: pa.Table) -> list[JsonObject | InputError]:
    import pyarrow as pa

    return [json_object((line or b"").removeprefix(BOM)) for line in rows.column(VALUE).cast(pa.binary()).to_pylist()]


def _exchanges_in(record: JsonObject | InputError, format_name: str) -> Iterator[Traced]:
    """Yield the exchanges of a record, those before a fault in it included, as they were judged."""
    if isinstance(record, InputError):
        return
    try:
        yield from (item for item in format_named(format_name).open_reader().feed(record) if isinstance(item, Traced))
    except InputError:
        return
