"""Runs on a cluster: any Hadoop path, or a frame that somebody has, become judged rows that Spark keeps.

Lines are read as text and decoded by their trace format; a table of plain columns goes in by its columns, any other table as records.
The driver holds one note for each block of a file, never a row of it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from demur import errors
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named
from demur.io.records import read_records, sniff
from demur.io.sources import Source, find_sources
from demur.runs.counting import JudgedRun, OutcomeCount
from demur.runs.flat_tables import flat_table
from demur.runs.inputs import spool_rows
from demur.runs.spark.rows import (
    BLOCK,
    ERROR,
    FILE,
    LINE,
    SKIPPED,
    START,
    VALUE,
    RowJudge,
    escaped,
    judged_schema,
    run_files,
)
from demur.runs.spark.session import map_arrow, named_failures, watched
from demur.runs.sql import SPARK
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from demur.io.files import InputLimits
    from demur.model.columns import Columns
    from demur.runs.ingest import Ingest
    from demur.runs.options import Progress

__all__ = ["Place", "RawRows", "SparkRun", "load_run"]

_HEAD_ROWS = 200
_TEXT_COLUMNS = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS})
# Enough to see a pattern; the rest is counted.
_ERRORS_KEPT = 1000
_SILENT_FILES = 100
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 4 << 20, 128 << 20
# How files are read, whatever the session says: none left out, columns by their exact names, times that pandas writes.
_STEADY = {
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
# What Spark makes of a whole number of 64 bits without a sign, which an id may be.
_UNSIGNED = "decimal(20,0)"


Place = tuple[int, int, int, int, int]
"""The id of a row: its source, the start of its block, its place there, its line and its place within the line."""


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows not yet judged: lines of text or a table, of files or (without `keys`) of somebody's frame.

    `files` are what the user calls the files in their order, `keys` what Spark knows them by, `listed` whether it listed them itself,
    `texts` the columns of a table in which a number is no text.
    """

    raw: DataFrame
    lines: bool
    files: tuple[str, ...]
    keys: tuple[str, ...]
    listed: tuple[bool, ...]
    size_bytes: int
    texts: frozenset[str] = _TEXT_COLUMNS

    def only(self, numbers: Sequence[int]) -> DataFrame:
        """Return the rows of some of the files, in the same blocks; all rows of a frame."""
        if not self.keys:
            return self.raw
        paths = [escaped(self.keys[number]) for number in numbers]
        session = self.raw.sparkSession
        return _texts(session, paths) if self.lines else _table(session, paths, self.texts)

    def shown_line(self, before: int, line: int | None) -> int | None:
        """Return the line of a row in its file, given those before its block; the rows of a frame have none."""
        if not self.keys or line is None:
            return None
        return before + line if self.lines else line


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun(JudgedRun):
    """A judged run that Spark keeps.

    `given` are the rows as they are read, `judged` the verdicts, `marks` for each block the rows and the lines before it, `head`
    a file of the first rows.
    """

    given: RawRows
    judged: DataFrame
    head: Source
    marks: Mapping[tuple[int, int], tuple[int, int]]


def load_run(  # noqa: PLR0913 — what a run is read by, all by keyword
    session: SparkSession,
    run: object,
    *,
    table: str,
    name: str,
    port: Ingest,
    limits: InputLimits,
    folder: Path,
    format_name: str | None = None,
    progress: Progress | None = None,
) -> SparkRun:
    """Return a run, judged; `folder` is for what the driver writes down of it."""
    with named_failures(name):
        given = (
            _frame_input(run, name)
            if hasattr(run, "sparkSession")
            else _path_input(session, run, folder, port.named_columns)
        )
        head = _head(given, folder / f"head-{len(list(folder.iterdir()))}", name)
        port = _with_format(port, head, format_name, limits=limits)
        judge = RowJudge(port, {key: number for number, key in enumerate(given.keys)}, limits, sniffed=not port.named)
        judged = _judged(given, judge, head).persist()
        with ExitStack() as undo, watched(session, progress, name=name, size_bytes=given.size_bytes):
            undo.callback(judged.unpersist)
            # The first of these jobs reads and judges all; the others go by what Spark then keeps.
            counted, unreadable = _counted_rows(judged, port.fields)
            marks, skipped, formats = _marks(given, judged)
            if not port.named:
                _check_formats(given, marks, formats)
            bad = _bad_rows(given, judged, marks) if unreadable else ()
            found = SparkRun(
                table=table,
                name=name,
                format=port.format,
                named=port.named,
                columns=port.named_columns,
                fields=port.fields,
                counted=counted,
                skipped=skipped,
                errors=bad,
                unreadable=unreadable,
                given=given,
                judged=judged,
                head=head,
                marks=marks,
            )
            _check_tables(session, found)
            undo.pop_all()
    if not found.rows and not found.unreadable:
        why = ", ".join(f"{count:,} rows skipped: {reason}" for reason, count in found.skipped)
        raise EmptyInputError(f"no exchanges ({why or 'no rows'})", source=name, hint="an empty run is never a pass")
    return found


def _with_format(port: Ingest, head: Source, format_name: str | None, *, limits: InputLimits) -> Ingest:
    """Return the port for the format of a run, by its first rows, which have the columns that the user named."""
    columns = port.named_columns
    asked = columns.format_for(format_name)
    chosen = format_named(asked).NAME if asked else sniff(head, limits)
    columns.check_format(chosen, head.name)
    if columns:
        first = [record for _, record in read_records(head, limits)]
        all_rows = len(first) < _HEAD_ROWS
        columns.check_records(first, rows="no row has" if all_rows else f"none of the first {len(first)} rows has")
    if not stands_alone(format_named(chosen).open_reader()):
        hint = "run it without Spark: its files are read from start to end"
        raise UsageError(f"`{head.name}` is in format {chosen}, whose records need those before them", hint=hint)
    return port.with_format(chosen, named=bool(asked or columns))


def _frame_input(frame: Any, name: str) -> RawRows:  # noqa: ANN401 — a frame of either kind of session
    from pyspark.sql import functions as sql

    # An estimate of a stream that goes on is another statistic (`demur watch`).
    if frame.isStreaming:
        raise UsageError(f"`{name}` is a stream, which has no end", hint="pass a frame of what has come so far")
    _check_columns(frame, name)
    named = {LINE: sql.lit(None).cast("long"), FILE: sql.lit(""), START: sql.spark_partition_id().cast("long")}
    lines = frame.dtypes in ([(VALUE, "string")], [(VALUE, "binary")])
    rows = frame.select(sql.col(VALUE).cast("string").alias(VALUE)) if lines else frame
    return RawRows(rows.withColumns(named), lines, (name,), (), (), 0)


def _check_columns(frame: DataFrame, name: str) -> None:
    """Raise where two columns have one name, as after a join, or one has a name of ours: nobody could say which is meant."""
    exact = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    called = Counter([*(column if exact else column.lower() for column in frame.columns), FILE, START, LINE])
    twice = next((column for column, count in called.items() if count > 1), None)
    if twice is not None:
        raise ShapeError(f"two columns are called `{twice}`", source=name, hint="give every column a name of its own")


def _path_input(session: SparkSession, run: object, folder: Path, columns: Columns) -> RawRows:
    files = run_files(session, run, folder)
    tables = {file.is_table for file in files}
    # Lines and tables are read by different jobs, and a run is one job.
    if len(tables) > 1:
        one, other = (next(file.name for file in files if file.is_table is kind) for kind in (True, False))
        raise ShapeError(f"Parquet, but `{other}` is not", source=one, hint="a run on Spark has one kind of file")
    size = sum(file.size_bytes for file in files)
    context = getattr(session, "_sc", None)
    steady = session
    # By itself Spark cuts files by the number of cores and by the files asked for, and either may be another when rows are read
    # again; a session of our own makes the same blocks each time. Over Spark Connect there is no context to make one in.
    if context is not None:
        steady = session.newSession()
        share = max(_MIN_BLOCK_BYTES, min(_MAX_BLOCK_BYTES, size // max(1, context.defaultParallelism)))
        # A notebook gives a store's keys to its session alone, under Hadoop's own names.
        hadoops = {key: value for key, value in session.conf.getAll.items() if not key.startswith("spark.")}
        for key, value in (hadoops | _STEADY | {"spark.sql.files.maxPartitionBytes": str(share)}).items():
            steady.conf.set(key, value)
    paths = [escaped(file.key) for file in files]
    texts = _TEXT_COLUMNS.union(filter(None, (columns.response_field, columns.prompt_field)))
    raw = _table(steady, paths, texts) if tables == {True} else _texts(steady, paths)
    names, keys = tuple(file.name for file in files), tuple(file.key for file in files)
    return RawRows(raw, tables == {False}, names, keys, tuple(file.listed for file in files), size, texts)


def _texts(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    # A lone carriage return ends no line of JSON.
    frame = session.read.option("lineSep", "\n").option("recursiveFileLookup", "true").text(list(paths))
    return frame.selectExpr(
        VALUE,
        f"CAST(NULL AS BIGINT) AS `{LINE}`",
        f"_metadata.file_path AS `{FILE}`",
        f"_metadata.file_block_start AS `{START}`",
    )


def _table(session: SparkSession, paths: Sequence[str], texts: frozenset[str]) -> DataFrame:
    from pyspark.sql import functions as sql

    # Without the merge Spark takes the schema of one file, and drops the columns that only others have.
    frame = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true").parquet(*paths)
    _check_columns(frame, paths[0])
    unsigned = [name for name, kind in frame.dtypes if kind == _UNSIGNED and name not in texts]
    where = frame.metadataColumn("_metadata")
    columns = [
        sql.col(SPARK.name(name)).cast("string").alias(name) if name in unsigned else sql.col(SPARK.name(name))
        for name in frame.columns
    ]
    return frame.select(
        *columns,
        (where["row_index"] + 1).alias(LINE),
        where["file_path"].alias(FILE),
        where["file_block_start"].alias(START),
    )


def _head(given: RawRows, path: Path, name: str) -> Source:
    """Return a file of the first rows, to see by what they are."""
    rows = given.raw.drop(LINE, FILE, START).limit(_HEAD_ROWS)
    if given.lines:
        texts = [row[0] or "" for row in rows.collect()]
        if not any(map(str.strip, texts)):
            raise EmptyInputError("no exchanges (no rows)", source=name, hint="an empty run is never a pass")
        path = path.with_suffix(".jsonl")
        path.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8", errors="replace")
    else:
        path = spool_rows(rows.toArrow(), path)
    return replace(find_sources([str(path)], path.parent)[0], name=name)


def _judged(given: RawRows, judge: RowJudge, head: Source) -> DataFrame:
    schema = judged_schema(judge.port)
    if given.lines:
        return map_arrow(given.raw, judge.lines, schema)
    table = flat_table(head, judge.port.fields, judge.port.named_columns) if judge.port.format == "flat" else None
    if table is None:
        return map_arrow(given.raw, judge.records, schema)
    chosen = [f"{query} AS {SPARK.name(name)}" for name, query in table.select(SPARK).items()]
    places = [SPARK.name(name) for name in (FILE, START, LINE)]
    return map_arrow(given.raw.selectExpr(*chosen, *places), judge.columns, schema)


def _counted_rows(judged: DataFrame, fields: Sequence[str]) -> tuple[tuple[OutcomeCount, ...], int]:
    """Return what the rows count up to, and how many could not be read."""
    from pyspark.sql import functions as sql

    counts = [sql.count(sql.col(SPARK.field(name))) for name in fields]
    rows = judged.groupBy("kind", "outcome", "reason", "cause").agg(sql.count("*"), *counts).collect()
    counted = tuple(OutcomeCount(r[1], r[2], r[3], r[4], tuple(r[5:])) for r in rows if r[0] is None)
    return counted, sum(row[4] for row in rows if row[0] == ERROR)


_Marks = dict[tuple[int, int], tuple[int, int]]


def _marks(given: RawRows, judged: DataFrame) -> tuple[_Marks, tuple[tuple[str, int], ...], dict[int, str]]:
    """Return the rows and lines before each block, what was skipped, most frequent first, and what each file is."""
    noted = judged.where(f"kind IN ('{BLOCK}', '{SKIPPED}')").select("source", "start", "kind", "said", "place", "line")
    # In the order of the files: what was skipped as often as something else stands in the order that it was met in.
    notes = sorted(noted.collect(), key=lambda note: (note[0], note[1], note[2]))
    skipped: Counter[str] = Counter()
    formats: dict[int, str] = {}
    marks: _Marks = {}
    last, row, line = -1, 0, 0
    for source, start, kind, said, rows, lines in notes:
        if kind == SKIPPED:
            skipped[said] += rows
            continue
        if said is not None:
            formats[source] = said
        line = line if source == last else 0
        marks[source, start] = (row, line)
        last, row, line = source, row + rows, line + (lines if given.lines else 0)
    return marks, tuple(sorted(skipped.items(), key=lambda item: -item[1])), formats


def _check_formats(given: RawRows, marks: _Marks, formats: Mapping[int, str]) -> None:
    """Raise where a file has no record, none of a known format, or those of another format than the first file."""
    there = {source for source, _ in marks}
    for number, (name, listed) in enumerate(zip(given.files, given.listed, strict=False)):
        if number not in there and not listed:
            raise EmptyInputError("no records in it", source=name, hint="an empty run is never a pass")
    first = min(formats, default=0)
    for number, said in sorted(formats.items()):
        if said.startswith("["):
            raise _error_of(said).at(given.files[number])
        if said != formats[first]:
            what = f"in format {said}, but `{given.files[first]}` is in format {formats[first]}"
            hint = "a run has one format: name the files apart, or pass --format"
            raise ShapeError(what, source=given.files[number], hint=hint)


def _error_of(said: str) -> InputError:
    kind, what, hint = msgspec.json.decode(said, type=tuple[str, str, str | None])
    error: InputError = getattr(errors, kind)(what, hint=hint)
    return error


def _bad_rows(
    given: RawRows, judged: DataFrame, marks: Mapping[tuple[int, int], tuple[int, int]]
) -> tuple[InputError, ...]:
    """Return the first errors, each with its file and line."""
    from pyspark.sql import functions as sql

    bad = judged.where(sql.col("kind") == ERROR)
    ordered = bad.orderBy("source", "start", "line").limit(_ERRORS_KEPT)
    first = ordered.select("said", "source", "start", "line").collect()
    found = []
    for said, source, start, line in first:
        found.append(_error_of(said).at(given.files[source], given.shown_line(marks[source, start][1], line)))
    return tuple(found)


def _check_tables(session: SparkSession, run: SparkRun) -> None:
    """Raise where a table has no column of answers that the others have: its rows would pass for missing answers."""
    from pyspark.sql import functions as sql

    given = run.given
    if given.lines or len(given.keys) < 2 or not any(each.outcome == "failed" for each in run.counted):  # noqa: PLR2004 — one is not mixed
        return
    answered = sql.sum(((sql.col("cause") == "text") | (sql.col("outcome") == "empty")).cast("int"))
    silent = run.judged.where("kind IS NULL").groupBy("source").agg(answered.alias("n")).where("coalesce(n, 0) = 0")
    for source in sorted(row.source for row in silent.limit(_SILENT_FILES).collect()):
        columns = session.read.parquet(escaped(given.keys[source])).columns
        known = (run.columns.response_field,) if run.columns.response_field else RESPONSE_FIELDS
        lacking = [name for name in known if name in given.raw.columns and name not in columns]
        if lacking:
            what = f"no column `{lacking[0]}`, which other files of the run have: their schemas are mixed"
            raise ShapeError(
                what, source=given.files[source], hint="name the files apart, or give them the same columns"
            )
