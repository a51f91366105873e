"""Runs on a cluster: any Hadoop path, or a frame that somebody has → judged rows that Spark keeps, and what is known of them.

Lines are read as text and decoded by their trace format; a table of plain columns goes in by its columns, any other table as
records. Laws: what the embedded engine calls a row is a row here, with the same verdict; the driver holds one note for each
block of a file, never a row of it; files of one run have one layout and one format, and are refused by name where not.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from demur import errors
from demur.adapters.flat_tables import flat_columns
from demur.adapters.memory import spool_rows
from demur.adapters.records import sniff
from demur.adapters.sources import Kind, Source, find_sources
from demur.adapters.spark_failures import named_failures
from demur.adapters.spark_progress import watched
from demur.adapters.spark_rows import BLOCK, ERROR, FILE, LINE, SKIPPED, START, VALUE, RowJudge, file_key, judged_schema
from demur.adapters.spark_session import map_arrow
from demur.adapters.spark_tables import plain_frame, ticked
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.wire.flat import RESPONSE_FIELDS
from demur.wire.traces.formats import format_named
from demur.wire.traces.interface import stands_alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from demur.adapters.config import InputLimits
    from demur.adapters.ports import IngestPort, Progress

__all__ = ["Counted", "RawRows", "SparkRun", "escaped", "load_run", "refuse_local"]

_ENDINGS = "*.{jsonl,ndjson,json,agentlog,parquet,gz}"
_HEAD_ROWS = 200
_ERRORS_KEPT = 1000
_SILENT_FILES = 100
_LEAST_BLOCK_BYTES, _MOST_BLOCK_BYTES = 4 << 20, 128 << 20
_PATTERN = re.compile(r"([\[\]{}*?\\])")
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
"""What Hadoop finds by itself: `file:`, `hdfs:`, `s3a:`; a drive of Windows has one letter."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows have an outcome, a reason and a cause, and in how many of them each field is there."""

    outcome: str
    reason: str | None
    cause: str | None
    rows: int
    fields: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows not yet judged: lines of text or a table, of files or (without `keys`) of somebody's frame.

    `files` are what the user calls the files in their order, `keys` what Spark knows them by.
    """

    raw: DataFrame
    lines: bool
    files: tuple[str, ...]
    keys: tuple[str, ...]
    size_bytes: int

    def only(self, numbers: Sequence[int]) -> DataFrame:
        """Return the rows of some of the files, in the same blocks; all rows of a frame."""
        if not self.keys:
            return self.raw
        paths = [escaped(self.keys[number]) for number in numbers]
        return (_texts if self.lines else _table)(self.raw.sparkSession, paths)

    def shown_line(self, before: int, line: int | None) -> int | None:
        """Return the line of a row in its file, given those before its block; the rows of a frame have none."""
        if not self.keys or line is None:
            return None
        return before + line if self.lines else line


@dataclass(frozen=True, slots=True)
class SparkRun:
    """A judged run that Spark keeps.

    `given` are the rows as they are read, `judged` the verdicts, `marks` for each block the rows and the lines before it, `head`
    a file of the first rows.
    """

    name: str
    format: str
    given: RawRows
    judged: DataFrame
    head: Source
    fields: tuple[str, ...]
    marks: Mapping[tuple[int, int], tuple[int, int]]
    counted: tuple[Counted, ...]
    skipped: tuple[tuple[str, int], ...]
    errors: tuple[InputError, ...]
    unreadable: int

    @property
    def rows(self) -> int:
        """How many rows were judged."""
        return sum(each.rows for each in self.counted)

    def filled(self) -> tuple[str, ...]:
        """Return the fields that some row has."""
        return tuple(n for i, n in enumerate(self.fields) if any(each.fields[i] for each in self.counted))


def load_run(  # noqa: PLR0913 — what a run is read by, all by keyword
    session: SparkSession,
    run: object,
    *,
    name: str,
    port: IngestPort,
    limits: InputLimits,
    folder: Path,
    format_name: str | None = None,
    progress: Progress | None = None,
) -> SparkRun:
    """Return a run, judged; `folder` is for what the driver writes down of it."""
    with named_failures(name):
        given = _frame_input(run, name) if hasattr(run, "sparkSession") else _path_input(session, run, folder)
        head = _head(given, folder / f"head-{len(list(folder.iterdir()))}", name)
        chosen = format_named(format_name).NAME if format_name else sniff(head, limits)
        _refuse_order(chosen, name)
        judge = RowJudge(
            port.with_format(chosen),
            {key: number for number, key in enumerate(given.keys)},
            limits,
            sniffed=format_name is None,
        )
        judged = _judged(given, judge, head).persist()
        with ExitStack() as undo, watched(session, progress, name=name, size_bytes=given.size_bytes):
            undo.callback(judged.unpersist)
            # The first of these jobs reads and judges all; the others go by what Spark then keeps.
            counted, unreadable = _counted_rows(judged, port.fields)
            marks, skipped = _marks(given, judged)
            bad = _bad_rows(given, judged, marks) if unreadable else ()
            found = SparkRun(
                *(name, chosen, given, judged, head, port.fields),
                *(marks, counted, skipped, bad, unreadable),
            )
            _refuse_foreign_tables(session, found)
            undo.pop_all()
    if not found.rows and not found.unreadable:
        why = ", ".join(f"{count:,} rows skipped: {reason}" for reason, count in found.skipped)
        raise EmptyInputError(f"no exchanges ({why or 'no rows'})", source=name, hint="an empty run is never a pass")
    return found


def escaped(path: str) -> str:
    """Return a path as Spark reads it: as itself, and not as a pattern."""
    return _PATTERN.sub(r"\\\1", path)


def _frame_input(frame: Any, name: str) -> RawRows:  # noqa: ANN401 — a frame of either kind of session
    from pyspark.sql import functions as sql

    named = {LINE: sql.lit(None).cast("long"), FILE: sql.lit(""), START: sql.spark_partition_id().cast("long")}
    return RawRows(frame.withColumns(named), frame.columns == [VALUE], (name,), (), 0)


def refuse_local(run: object, folder: Path) -> None:
    """Raise where a run is none, or its files on this machine are not there or cannot be read; addresses are Spark's to find."""
    if not hasattr(run, "sparkSession"):
        for name in _path_names(run):
            if not _ADDRESS.match(name):
                _local_files(name, folder)


def _path_names(run: object) -> list[str]:
    names = [run] if isinstance(run, str | Path) else run
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str | Path) for n in names):
        raise UsageError(
            "a run is neither a path nor a frame", hint="pass a path, several of them, or a Spark DataFrame"
        )
    return list(map(str, names))


def _path_input(session: SparkSession, run: object, folder: Path) -> RawRows:
    found = [file for name in _path_names(run) for file in _files_of(session, name, folder)]
    files = list(dict.fromkeys(found))
    tables = {is_table for _, _, is_table, _ in files}
    if len(tables) > 1:
        one, other = (next(name for name, _, is_table, _ in files if is_table is kind) for kind in (True, False))
        raise ShapeError(f"Parquet, but `{other}` is not", source=one, hint="a run on Spark has one kind of file")
    paths = [escaped(key) for _, key, _, _ in files]
    session = _steady(session, sum(file[3] for file in files))
    raw = _table(session, paths) if tables == {True} else _texts(session, paths)
    return RawRows(
        *(raw, tables == {False}, tuple(file[0] for file in files), tuple(file[1] for file in files)),
        sum(file[3] for file in files),
    )


_File = tuple[str, str, bool, int]
"""What the user calls a file, what Hadoop knows it by, whether it is a table, and its bytes."""


def _files_of(session: SparkSession, name: str, folder: Path) -> list[_File]:
    if not _ADDRESS.match(name):
        return _local_files(name, folder)
    with named_failures(name):
        reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
        listed = reader.option("pathGlobFilter", _ENDINGS).load(name).select("path", "length").collect()
    files = sorted((file_key(row.path), row.length) for row in listed)
    if not files:
        raise EmptyInputError("no traces there", source=name, hint=f"expected files like {_ENDINGS}")
    return [(key, key, key.endswith(".parquet"), size) for key, size in files if size]


def _local_files(name: str, folder: Path) -> list[_File]:
    if name == "-" or Path(name).is_fifo():
        what = "standard input" if name == "-" else f"the pipe `{name}`"
        raise UsageError(f"{what} is no run for Spark", hint="name a path that the executors can read")
    return [_local_file(source) for source in find_sources([name], folder)]


def _local_file(source: Source) -> _File:
    if source.kind not in (Kind.LINES, Kind.PARQUET):
        hint = "write it as JSON lines or Parquet, or leave Spark out of it"
        raise UsageError(f"`{source.name}` is {source.kind}, which Spark does not split", hint=hint)
    named_so = source.path.name.lower().endswith(".gz")
    if source.compression == "zstd" or named_so != (source.compression == "gzip"):
        hint = "pack it by gzip with a name in .gz, or not at all"
        raise UsageError(f"`{source.name}` is packed in a way that Spark does not know", hint=hint)
    return source.name, str(source.path.absolute()), source.kind is Kind.PARQUET, source.size_bytes


def _steady(session: SparkSession, size_bytes: int) -> SparkSession:
    """Return a session of the same cluster that cuts files into the same blocks whenever it reads them.

    By itself Spark goes by the number of cores and by the files asked for, and either may be another when rows are read again.
    """
    context = getattr(session, "_sc", None)
    if context is None:
        return session
    steady = session.newSession()
    share = max(_LEAST_BLOCK_BYTES, min(_MOST_BLOCK_BYTES, size_bytes // max(1, context.defaultParallelism)))
    steady.conf.set("spark.sql.files.maxPartitionBytes", str(share))
    steady.conf.set("spark.sql.files.minPartitionNum", "1")
    return steady


def _texts(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    # A lone carriage return ends no line of JSON.
    frame = session.read.option("lineSep", "\n").option("recursiveFileLookup", "true").text(list(paths))
    return frame.selectExpr(
        VALUE,
        f"CAST(NULL AS BIGINT) AS `{LINE}`",
        f"_metadata.file_path AS `{FILE}`",
        f"_metadata.file_block_start AS `{START}`",
    )


def _table(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    # Without the merge Spark takes the schema of one file, and drops the columns that only others have.
    frame = session.read.option("mergeSchema", "true").option("recursiveFileLookup", "true").parquet(*paths)
    return frame.selectExpr(
        "*",
        f"_metadata.row_index + 1 AS `{LINE}`",
        f"_metadata.file_path AS `{FILE}`",
        f"_metadata.file_block_start AS `{START}`",
    )


def _head(given: RawRows, path: Path, name: str) -> Source:
    """Return a file of the first rows, to see by what they are."""
    rows = given.raw.drop(LINE, FILE, START).limit(_HEAD_ROWS)
    if given.lines:
        texts = [row[0] or "" for row in rows.collect()]
        path = path.with_suffix(".jsonl")
        path.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8", errors="replace")
    else:
        path = spool_rows(rows.toArrow(), path)
    return replace(find_sources([str(path)], path.parent)[0], name=name)


def _refuse_order(chosen: str, name: str) -> None:
    if not stands_alone(format_named(chosen).open_reader()):
        hint = "run it without Spark: its files are read from start to end"
        raise UsageError(f"`{name}` is in format {chosen}, whose records need those before them", hint=hint)


def _judged(given: RawRows, judge: RowJudge, head: Source) -> DataFrame:
    schema = judged_schema(judge.port)
    if given.lines:
        return map_arrow(given.raw, judge.lines, schema)
    flat = flat_columns(head, judge.port.fields) if judge.port.format == "flat" else None
    if flat is None:
        return map_arrow(given.raw, judge.records, schema)
    return map_arrow(plain_frame(given.raw, flat, judge.port.fields), judge.columns, schema)


def _counted_rows(judged: DataFrame, fields: Sequence[str]) -> tuple[tuple[Counted, ...], int]:
    """Return what the rows count up to, and how many could not be read."""
    from pyspark.sql import functions as sql

    counts = [sql.count(sql.col(ticked(f"field:{name}"))) for name in fields]
    rows = judged.groupBy("kind", "outcome", "reason", "cause").agg(sql.count("*"), *counts).collect()
    told = tuple(Counted(r[1], r[2], r[3], r[4], tuple(r[5:])) for r in rows if r[0] is None)
    return told, sum(row[4] for row in rows if row[0] == ERROR)


def _marks(
    given: RawRows, judged: DataFrame
) -> tuple[dict[tuple[int, int], tuple[int, int]], tuple[tuple[str, int], ...]]:
    """Return the rows and lines before each block, and what was skipped, most frequent first."""
    notes = judged.where(f"kind IN ('{BLOCK}', '{SKIPPED}')").select("kind", "said", "source", "start", "place", "line")
    skipped: Counter[str] = Counter()
    blocks = []
    for kind, said, *block in notes.collect():
        if kind == SKIPPED:
            skipped[said] += block[2]
        else:
            blocks.append(block)
    marks: dict[tuple[int, int], tuple[int, int]] = {}
    last, row, line = -1, 0, 0
    for source, start, rows, lines in sorted(blocks):
        line = line if source == last else 0
        marks[source, start] = (row, line)
        last, row, line = source, row + rows, line + (lines if given.lines else 0)
    return marks, tuple(sorted(skipped.items(), key=lambda item: -item[1]))


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
        kind, what, hint = msgspec.json.decode(said, type=tuple[str, str, str | None])
        error: InputError = getattr(errors, kind)(what, hint=hint)
        found.append(error.at(given.files[source], given.shown_line(marks[source, start][1], line)))
    return tuple(found)


def _refuse_foreign_tables(session: SparkSession, run: SparkRun) -> None:
    """Raise where a table has no column of answers that the others have: its rows would pass for missing answers."""
    from pyspark.sql import functions as sql

    given = run.given
    if given.lines or len(given.keys) < 2 or not any(each.outcome == "failed" for each in run.counted):  # noqa: PLR2004 — one is not mixed
        return
    answered = sql.sum(((sql.col("cause") == "text") | (sql.col("outcome") == "empty")).cast("int"))
    silent = run.judged.where("kind IS NULL").groupBy("source").agg(answered.alias("n")).where("coalesce(n, 0) = 0")
    for source in sorted(row.source for row in silent.limit(_SILENT_FILES).collect()):
        columns = session.read.parquet(escaped(given.keys[source])).columns
        lacking = [name for name in RESPONSE_FIELDS if name in given.raw.columns and name not in columns]
        if lacking:
            what = f"no column `{lacking[0]}`, which other files of the run have: their schemas are mixed"
            raise ShapeError(
                what, source=given.files[source], hint="name the files apart, or give them the same columns"
            )
