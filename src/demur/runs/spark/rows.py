"""What an executor does: Arrow batches of raw rows become judged rows, by the very functions that one machine runs.

A judged row knows its place: the number of its source, where its block begins, and its number there. Beside the verdicts (`kind` null)
there are notes: what could not be read, what was skipped, and how many lines and rows a block had. The same block gives the same rows
wherever and however often it is read, so a lost executor costs time and no result.

The files of a run that Spark reads: paths of this machine and addresses that Hadoop knows, each file once.

What Spark would leave out or misread without a word is an error that names it, before Spark starts where the file is on this machine.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from demur.errors import EmptyInputError, InputError, UsageError
from demur.formats.registry import format_of_all, unknown_format
from demur.io.files import BOM, json_object, too_large
from demur.io.sources import Kind, Source, find_sources
from demur.runs.flat_tables import JUDGED_COLUMNS
from demur.runs.spark.session import named_failures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from demur.io.files import InputLimits
    from demur.runs.ingest import Ingest, Judged
    from demur.wire.fields import JsonObject

__all__ = [
    "BLOCK",
    "ERROR",
    "FILE",
    "LINE",
    "SKIPPED",
    "START",
    "VALUE",
    "RowJudge",
    "RowPicker",
    "RunFile",
    "check_local_files",
    "escaped",
    "file_key",
    "judged_schema",
    "run_files",
]

_READ = (".jsonl", ".ndjson", ".json", ".agentlog", ".parquet", ".gz")
_NOT_READ = (".csv", ".tsv", ".eval", ".zst", ".zstd")
_PATTERN = re.compile(r"([\[\]{}*?\\])")
# What Hadoop finds by itself: `file:`, `hdfs:`, `s3a:`; a drive of Windows has one letter.
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")


@dataclass(frozen=True, slots=True)
class RunFile:
    """What the user calls a file, what Hadoop knows it by, whether it is a table, its bytes, and whether Spark listed it."""

    name: str
    key: str
    is_table: bool
    size_bytes: int
    listed: bool = False


def escaped(path: str) -> str:
    """Return a path as Spark reads it: as itself, and not as a pattern."""
    return _PATTERN.sub(r"\\\1", path)


def check_local_files(run: object, folder: Path) -> None:
    """Raise where a run is none, or its files on this machine are not there or cannot be read; addresses are Spark's to find."""
    if not hasattr(run, "sparkSession"):
        for name in _path_names(run):
            if not _ADDRESS.match(name):
                _local_files(name, folder)


def run_files(session: SparkSession, run: object, folder: Path) -> list[RunFile]:
    """Return the files of a run in their order, each once, however many of its paths lead there."""
    once: dict[str, RunFile] = {}
    for name in _path_names(run):
        for file in _listed(session, name) if _ADDRESS.match(name) else _local_files(name, folder):
            # A folder and a glob may lead to the same file.
            once.setdefault(os.path.realpath(file.key) if file.key.startswith("/") else file.key, file)
    return list(once.values())


def _path_names(run: object) -> list[str]:
    names = [run] if isinstance(run, str | Path) else run
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str | Path) for n in names):
        raise UsageError(
            "a run is neither a path nor a frame", hint="pass a path, several of them, or a Spark DataFrame"
        )
    return list(map(str, names))


def _listed(session: SparkSession, name: str) -> list[RunFile]:
    with named_failures(name):
        reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
        listed = reader.load(name).select("path", "length").collect()
    # Empty files are left out here: Spark itself writes them.
    sizes = {file_key(row.path): row.length for row in listed if row.length}
    # A file that was named itself is read whatever it is called, as `part-00000`.
    itself = len(sizes) == 1 and file_key(name) in sizes
    for key in sorted(sizes):
        if key.lower().removesuffix(".gz").endswith(_NOT_READ):
            hint = "write it as JSON lines or Parquet, or name the other files apart"
            raise UsageError(f"`{key}` is of a kind that Spark does not split", hint=hint)
    found = [key for key in sorted(sizes) if itself or key.lower().endswith(_READ)]
    if not found:
        hint = f"expected files that are not empty, ending in {', '.join(_READ)}"
        raise EmptyInputError("no traces there", source=name, hint=hint)
    return [RunFile(key, key, key.lower().endswith(".parquet"), sizes[key], listed=True) for key in found]


def _local_files(name: str, folder: Path) -> list[RunFile]:
    if name == "-" or Path(name).is_fifo():
        what = "standard input" if name == "-" else f"the pipe `{name}`"
        raise UsageError(f"{what} is no run for Spark", hint="name a path that the executors can read")
    return [_local_file(source) for source in find_sources([name], folder)]


def _local_file(source: Source) -> RunFile:
    """Return a file of this machine; one that Spark would leave out or misread without a word is an error."""
    name, again = source.path.name, "leave Spark out of it"
    if name.startswith(".") or (name.startswith("_") and "=" not in name):
        what = f"`{source.name}` is hidden to Spark, which leaves out names that begin with `{name[0]}`"
        raise UsageError(what, hint=f"rename it, or {again}")
    if ":" in name:
        raise UsageError(f"`{source.name}` has a colon in its name, which Hadoop cannot spell", hint="rename it")
    if source.kind not in (Kind.LINES, Kind.PARQUET):
        hint = f"write it as JSON lines or Parquet, or {again}"
        raise UsageError(f"`{source.name}` is {source.kind}, which Spark does not split", hint=hint)
    # Spark knows a compressed file by its name alone.
    if source.compression == "zstd" or name.lower().endswith(".gz") != (source.compression == "gzip"):
        hint = "pack it by gzip with a name in .gz, or not at all"
        raise UsageError(f"`{source.name}` is packed in a way that Spark does not know", hint=hint)
    path = source.path.absolute()
    # Hadoop takes `a/../b` for `b`, and would know the file by another name than we do.
    path = path.resolve() if ".." in path.parts else path
    return RunFile(source.name, str(path), source.kind is Kind.PARQUET, source.size_bytes)


FILE, START, LINE, VALUE = "demur:file", "demur:start", "demur:line", "value"
"""Columns of raw rows: the file, where the block begins, the line where the reader knows it, and a line of text."""
BLOCK, ERROR, SKIPPED = "block", "error", "skipped"
# As many as the embedded engine looks at to tell a format.
_HEAD_RECORDS = 50

Batches = Iterator["pa.RecordBatch"]
Stretch = tuple[str, int, "pa.RecordBatch"]


def judged_schema(port: Ingest) -> pa.Schema:
    """Return the columns of judged rows with their places: those of the port, and ours before them."""
    import pyarrow as pa

    place = [("start", pa.int64()), ("place", pa.int64()), ("within", pa.int32())]
    ours = pa.schema([("kind", pa.string()), ("said", pa.string()), ("source", pa.int32()), *place])
    return pa.schema([*ours, *port.schema()])


def file_key(path: str, *, encoded: bool = False) -> str:
    """Return what a file is known by, however Hadoop spells its address."""
    plain = unquote(path) if encoded else path
    # Hadoop writes `file:/a`, `file:///a` and `/a` for one file.
    return "/" + plain.removeprefix("file:").lstrip("/") if plain.startswith("file:") else plain


@dataclass(frozen=True, slots=True)
class RowJudge:
    """Judges the rows of a run; it is sent to the executors.

    `sources` gives the number of each file (one file where it is empty), `sniffed` says that a file is to be asked for the format
    that it is in.
    """

    port: Ingest
    sources: Mapping[str, int]
    limits: InputLimits
    sniffed: bool = False

    def lines(self, batches: Batches) -> Batches:
        """Yield the judged rows in lines of JSON."""
        return self._through(batches, _LineBlock)

    def records(self, batches: Batches) -> Batches:
        """Yield the judged rows in records, a column for each of their fields."""
        return self._through(batches, _RecordBlock)

    def columns(self, batches: Batches) -> Batches:
        """Yield the judged rows of a table whose columns were sorted out before."""
        return self._through(batches, _ColumnBlock)

    def _through(self, batches: Batches, kind: type[_RowBlock]) -> Batches:
        block: _RowBlock | None = None
        # One worker reads a block in order, so that its lines can be counted.
        for file, start, rows in _stretches(batches):
            if block is None or block.at != (file, start):
                if block is not None:
                    yield block.end()
                block = kind(self, file, start)
            yield from block.take(rows)
        if block is not None:
            yield block.end()


class _RowBlock:
    """A stretch of one source on its way through a worker."""

    def __init__(self, judge: RowJudge, file: str, start: int) -> None:
        self.at = (file, start)
        self._judge = judge
        self._port = judge.port
        self._schema = judged_schema(judge.port)
        self._source = judge.sources[file_key(file, encoded=True)] if judge.sources else 0
        self._lines = 0
        self._rows = 0
        self._skipped: Counter[str] = Counter()
        self._first: list[JsonObject | InputError] = []
        self._is_asked = judge.sniffed and bool(judge.sources) and start == 0

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the judged rows of the next raw ones."""
        raise NotImplementedError

    def end(self) -> pa.RecordBatch:
        """Return what is to be said of the whole block."""
        notes = [(SKIPPED, why, count, None) for why, count in self._skipped.items()]
        return self._notes([(BLOCK, self._format(), self._rows, self._lines), *notes])

    def _look_at(self, records: Iterable[JsonObject | InputError]) -> None:
        """Keep the first records of a file, by which its format is known."""
        if self._is_asked:
            self._first += islice(records, max(0, _HEAD_RECORDS - len(self._first)))

    def _format(self) -> str | None:
        """Return the format of a file, or the error that there is none; None where another block holds its beginning."""
        seen = [record for record in self._first if isinstance(record, dict)]
        if seen:
            known = format_of_all(seen)
            return known.NAME if known else _told(unknown_format(seen[0]))
        bad = [record for record in self._first if isinstance(record, InputError)]
        return _told(bad[0]) if bad else None

    def _numbers(self, batch: pa.RecordBatch) -> list[int]:
        """Return the line of each raw row: what the reader says, or else its place in the block."""
        told: list[int | None] = batch.column(LINE).to_pylist()
        first = self._lines + 1
        self._lines += batch.num_rows
        return [first + i if line is None else line for i, line in enumerate(told)]

    def _placed(self, judged: Judged) -> Iterator[pa.RecordBatch]:
        if judged.rows.num_rows:
            yield self._with_places(judged.rows)
        if judged.errors:
            yield self._notes([(ERROR, _told(error), None, error.line) for error in judged.errors])
        self._skipped.update(judged.skipped)

    def _with_places(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        count = rows.num_rows
        nothing = pa.nulls(count, pa.string())
        lines = rows.column("line").to_numpy(zero_copy_only=False)
        # A line of several exchanges is rare: most lines differ from the one before.
        index = np.arange(count)
        begins = np.concatenate([[True], lines[1:] != lines[:-1]])
        within = index - np.maximum.accumulate(np.where(begins, index, 0))
        places = np.arange(self._rows, self._rows + count)
        self._rows += count
        ours = [
            *(nothing, nothing, pa.array(np.full(count, self._source, np.int32))),
            *(pa.array(np.full(count, self.at[1], np.int64)), pa.array(places), pa.array(within.astype(np.int32))),
        ]
        return pa.RecordBatch.from_arrays([*ours, *rows.columns], schema=self._schema)

    def _notes(self, notes: Sequence[tuple[str, str | None, int | None, int | None]]) -> pa.RecordBatch:
        import pyarrow as pa

        source, start = self._source, self.at[1]
        rows = [
            {"kind": kind, "said": said, "source": source, "start": start, "place": place, "line": line}
            for kind, said, place, line in notes
        ]
        return pa.RecordBatch.from_pylist(rows, schema=self._schema)


class _LineBlock(_RowBlock):
    """Lines of JSON, as the file has them."""

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the judged rows of the next lines."""
        import pyarrow as pa

        lines = [line or b"" for line in batch.column(VALUE).cast(pa.binary()).to_pylist()]
        first = self._lines + 1
        self._lines += len(lines)
        limit = self._judge.limits.line_bytes
        long = [i for i, line in enumerate(lines) if len(line) > limit]
        for i in long:
            # An empty line keeps its number, and is no record.
            lines[i] = b""
            error = too_large("line", limit, "DEMUR_MAX_LINE_BYTES")
            yield self._notes([(ERROR, _told(error), None, first + i)])
        # A byte order mark begins the file, not every block.
        if first == 1 and self.at[1] == 0:
            lines[0] = lines[0].removeprefix(BOM)
        self._look_at(json_object(line) for line in lines if line.strip())
        block = b"\n".join(lines)
        if block.count(b"\n") >= len(lines):
            # A frame of texts may hold a document in a cell; a line break is white space to JSON.
            block = b"\n".join(line.replace(b"\n", b" ") for line in lines)
        yield from self._placed(self._port.lines((first, block)))


class _RecordBlock(_RowBlock):
    """Rows of a table whose cells say more than plain columns."""

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the judged rows of the next records."""
        names = [name for name in batch.schema.names if name not in (FILE, START, LINE)]
        rows = batch.select(names).to_pylist()
        self._look_at(rows)
        for judged in self._port.records(zip(self._numbers(batch), rows, strict=True)):
            yield from self._placed(judged)


class _ColumnBlock(_RowBlock):
    """Rows of a table of plain columns, all under the names that a port asks for."""

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the judged rows of the next ones."""
        import pyarrow as pa

        verdicts = self._port.columns(batch.select(list(JUDGED_COLUMNS)))
        told = {name: verdicts.field(name) for name in ("prompt", "outcome", "score", "reason", "cause")}
        schema = self._port.schema()
        told["line"] = pa.array(self._numbers(batch), pa.int64())
        arrays = [told[name] if name in told else batch.column(name) for name in schema.names]
        yield self._with_places(pa.RecordBatch.from_arrays(arrays, schema=schema))


@dataclass(frozen=True, slots=True)
class RowPicker:
    """Picks raw rows by file, block and line, to read their texts again; it is sent to the executors."""

    wanted: Mapping[tuple[str, int], AbstractSet[int]]

    def pick(self, batches: Batches) -> Batches:
        """Yield the wanted rows, with their lines."""
        import pyarrow as pa

        at, seen = ("", -1), 0
        for file, start, rows in _stretches(batches):
            seen = seen if at == (file, start) else 0
            at = (file, start)
            told = rows.column(LINE).to_pylist()
            lines = [seen + 1 + i if line is None else line for i, line in enumerate(told)]
            seen += rows.num_rows
            wanted = self.wanted.get((file_key(file, encoded=True), start), frozenset())
            chosen = [i for i, line in enumerate(lines) if line in wanted]
            if chosen:
                picked = rows.take(pa.array(chosen))
                numbers = pa.array([lines[i] for i in chosen], pa.int64())
                yield picked.set_column(picked.schema.names.index(LINE), LINE, numbers)


def _stretches(batches: Iterable[pa.RecordBatch]) -> Iterator[Stretch]:
    """Yield the batches cut at the borders of blocks."""
    for batch in batches:
        if not batch.num_rows:
            continue
        files, starts = batch.column(FILE), batch.column(START)
        last = batch.num_rows - 1
        if (files[0], starts[0]) == (files[last], starts[last]):
            yield files[0].as_py(), starts[0].as_py(), batch
            continue
        pairs: Iterable[tuple[Any, Any]] = zip(files.to_pylist(), starts.to_pylist(), strict=True)
        offset = 0
        for (file, start), same in groupby(pairs):
            count = sum(1 for _ in same)
            yield file, start, batch.slice(offset, count)
            offset += count


def _told(error: InputError) -> str:
    return msgspec.json.encode((type(error).__name__, error.what, error.hint)).decode()
