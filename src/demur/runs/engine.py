"""The embedded engine: runs of any size become tables of verdicts in DuckDB, on this machine, in bounded memory.

Tables of people (CSV and Parquet with a response column) are read by DuckDB itself, which calls the batch judge as an Arrow
function; every other format is decoded by its reader in worker processes and arrives as the same judged rows. A run's table has one
row for each exchange, in the order of its files, and no text: the few that are shown are read again from their sources.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter, deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from demur.detect.batch import BatchJudge
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named
from demur.io.files import input_limits
from demur.io.records import line_blocks, lines_at, read_records, sniff
from demur.io.sources import Kind, find_sources
from demur.model.run import Traced
from demur.runs.counting import JudgedRun, OutcomeCount
from demur.runs.flat_tables import flat_table, register_judge
from demur.runs.ingest import Ingest, exchanges_of, key_of_prompt, reader_for
from demur.runs.inputs import read_requests, spool_rows
from demur.runs.sql import DUCKDB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import duckdb
    import pyarrow as pa

    from demur.formats.interface import TraceReader
    from demur.io.files import InputLimits
    from demur.io.records import Record
    from demur.io.sources import Source
    from demur.runs.examples import Excerpt
    from demur.runs.flat_tables import FlatTable
    from demur.runs.options import Progress, ReadOptions

__all__ = ["Engine", "LoadedRun", "Workers", "open_engine", "source_exchanges"]

# DuckDB spills to the folder beyond this; the judging processes need the rest of a gigabyte.
_MEMORY_LIMIT = "400MB"
# Below this a second process costs more than it gives: it takes most of a second to start.
_POOL_FROM_BYTES = 24 << 20
# Enough to see a pattern; the rest is counted.
_ERRORS_KEPT = 1000
_ROWS_FOR_NAMES = 200
_REQUESTS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun(JudgedRun):
    """A run in DuckDB: its sources in order, with the row that each begins at.

    `marks` are, for each source of lines, some of its lines with the bytes at which they begin.
    """

    sources: tuple[Source, ...]
    starts: tuple[int, ...]
    marks: tuple[tuple[tuple[int, int], ...], ...]


class Engine:
    """A DuckDB connection and the workers that judge for it."""

    dialect = DUCKDB
    max_links: int | None = None

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path, *, jobs: int | None) -> None:
        self.connection = connection
        self.folder = folder
        self.workers = Workers(jobs or 1)
        self._jobs = jobs
        self._functions = 0

    def load_run(self, table: str, run: object, *, fields: tuple[str, ...], options: ReadOptions) -> LoadedRun:
        """Return a run of a caller, judged: paths, or rows in memory, which are written to a file first."""
        paths = [run] if isinstance(run, str | Path) else run
        names, shown = [], table
        if isinstance(run, str | Path):
            names, shown = [str(run)], "standard input" if str(run) == "-" else str(run)
        elif isinstance(paths, list | tuple) and paths and all(isinstance(path, Path) for path in paths):
            names = list(map(str, paths))
            shown = " ".join(names)
        found = self.load(
            table,
            names or [str(spool_rows(run, self.folder / table))],
            name=shown,
            port=Ingest(
                fields=fields, judge=BatchJudge(options.judge), verify=options.verify, named_columns=options.columns
            ),
            limits=input_limits(),
            format_name=options.format,
            progress=options.progress,
        )
        if options.verify and found.format != "agentlog":
            what = f"`{found.name}` is in format {found.format}, whose ids cannot be verified"
            raise UsageError(what, hint="drop --verify")
        found.check_readable(skip_bad=options.skip_bad)
        if options.requests:
            self.join_requests(found, options.requests, limits=input_limits())
        return found

    def load(
        self,
        table: str,
        names: Sequence[str],
        *,
        name: str,
        port: Ingest,
        limits: InputLimits,
        format_name: str | None = None,
        progress: Progress | None = None,
    ) -> LoadedRun:
        """Return the run in some files, judged and in a table of that name."""
        # A file that we wrote ourselves is shown under the run's name.
        sources = tuple(
            replace(source, name=name)
            if source.name == str(source.path) and source.path.parent == self.folder
            else source
            for source in find_sources(names, self.folder)
        )
        size_bytes = sum(source.size_bytes for source in sources)
        # `--jobs` was not given, so the size decides.
        if self._jobs is None and size_bytes >= _POOL_FROM_BYTES:
            self.workers.grow(os.cpu_count() or 1)
        given = port.named_columns.format_for(format_name)
        chosen = format_named(given).NAME if given else _one_format(sources, limits)
        port.named_columns.check_format(chosen, name)
        port.named_columns.check_records(record for source in sources for _, record in read_records(source, limits))
        named = bool(given or port.named_columns)
        if progress is not None:
            progress.start(table, size_bytes)
        loading = _Loading(self, table, port.with_format(chosen, named=named), limits=limits, progress=progress)
        starts = []
        for number, source in enumerate(sources):
            starts.append(loading.rows)
            loading.load(number, source)
        if not loading.rows and not loading.unreadable:
            why = ", ".join(f"{count:,} rows skipped: {reason}" for reason, count in loading.skipped.items())
            hint = "an empty run is never a pass"
            raise EmptyInputError(f"no exchanges ({why or 'no rows'})", source=name, hint=hint)
        counts = "".join(f", count({DUCKDB.field(field)})" for field in port.fields)
        query = f"SELECT outcome, reason, cause, count(*){counts} FROM {table} GROUP BY outcome, reason, cause"
        return LoadedRun(
            table=table,
            name=name,
            format=chosen,
            named=named,
            columns=port.named_columns,
            fields=port.fields,
            counted=tuple(OutcomeCount(row[0], row[1], row[2], row[3], row[4:]) for row in self.ask(query)),
            skipped=tuple(sorted(loading.skipped.items(), key=lambda item: -item[1])),
            errors=tuple(loading.errors),
            unreadable=loading.unreadable,
            sources=sources,
            starts=tuple(starts),
            marks=tuple(map(tuple, loading.marks)),
        )

    def join_requests(self, run: LoadedRun, names: Sequence[str], *, limits: InputLimits) -> None:
        """Give the rows of a run that have no prompt of their own the key of what their request in a batch asked.

        Where there are such rows and no request is of any of them, the wrong file was named, and that is an error.
        """
        import pyarrow as pa

        self.ask("CREATE OR REPLACE TEMP TABLE requests (id VARCHAR, prompt BIGINT)")
        schema = pa.schema([("id", pa.string()), ("prompt", pa.int64())])
        requests = read_requests(names, self.folder, limits)
        while rows := [(label, key_of_prompt(asked.prompt)) for label, asked in islice(requests, _REQUESTS_AT_ONCE)]:
            arrays = [
                pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
            ]
            self.insert("requests", pa.RecordBatch.from_arrays(arrays, schema=schema))
        known = "count(*) FILTER (id IN (SELECT id FROM requests))"
        lacking, found = self.ask(f"SELECT count(*), {known} FROM {run.table} WHERE prompt IS NULL")[0]
        if lacking and not found:
            hint = "name the file that was sent to the batch: its `custom_id` pairs with the answers'"
            raise EmptyInputError(f"no request is of a row in `{run.name}`", source=" ".join(names), hint=hint)
        self.ask(
            f"UPDATE {run.table} SET prompt = r.prompt FROM requests r "
            f"WHERE {run.table}.id = r.id AND {run.table}.prompt IS NULL"
        )

    def counting(self, _runs: Sequence[JudgedRun], _options: ReadOptions) -> AbstractContextManager[None]:
        """Give a scope for queries; DuckDB's need none."""
        return nullcontext()

    def table(self, name: str) -> str:
        """Return what a working table of ours is called in SQL: the connection is our own."""
        return name

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query; the names in it are our own or quoted."""
        return self.connection.execute(query).fetchall()

    def define(self, name: str, query: str, *, keep: bool = False) -> None:  # noqa: ARG002 — every table is kept here
        """Make the rows of a query a working table."""
        self.ask(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def fill(self, name: str, rows: Sequence[tuple[str, str]], columns: tuple[str, str]) -> None:
        """Make a working table of pairs of texts."""
        import pyarrow as pa

        self.ask(f"CREATE OR REPLACE TEMP TABLE {name} ({', '.join(f'{column} VARCHAR' for column in columns)})")
        arrays = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
        self.insert(name, pa.RecordBatch.from_arrays(arrays, names=list(columns)))

    def insert(self, table: str, rows: pa.RecordBatch, *, first: str = "") -> None:
        """Append Arrow rows to a table; `first` are columns before theirs."""
        self.connection.register("demur_rows", rows)
        self.ask(f"INSERT INTO {table} SELECT {first}* FROM demur_rows")
        self.connection.unregister("demur_rows")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep all that is written within, or nothing of it where an error ends it."""
        self.ask("BEGIN")
        whole = False
        try:
            yield
            whole = True
        finally:
            self.ask("COMMIT" if whole else "ROLLBACK")

    def function_name(self) -> str:
        """Return a name for a function of this connection that none has yet."""
        self._functions += 1
        return f"demur_verdict_{self._functions}"

    def place_of(self, run: LoadedRun, rowid: int) -> tuple[str, int | None, int]:
        """Return the source of a row, its line where it has one, and its number among the rows of the source."""
        source, line = self.ask(f"SELECT source, line FROM {run.table} WHERE rowid = {rowid}")[0]
        return run.sources[source].name, line, rowid - run.starts[source] + 1

    def field_names(self, run: LoadedRun) -> tuple[str, ...]:
        """Return the fields that the first exchanges of a run have, in order of their names."""
        found = islice(source_exchanges(run.sources[0], reader_for(run), input_limits()), _ROWS_FOR_NAMES)
        return tuple(sorted({name for _, traced in found for name, _ in traced.fields}))

    def excerpts(self, run: LoadedRun, rowids: Sequence[int]) -> Mapping[int, Excerpt]:
        """Return the exchanges at these rows of a run, read again from the sources that hold them, each opened once."""
        if not rowids:
            return {}
        listed = ", ".join(map(str, sorted(set(rowids))))
        wanted: dict[int, list[tuple[int, int | None]]] = {}
        for rowid, source, line in self.ask(f"SELECT rowid, source, line FROM {run.table} WHERE rowid IN ({listed})"):
            wanted.setdefault(source, []).append((rowid, line))
        found: dict[int, Excerpt] = {}
        for number, rows in wanted.items():
            if run.sources[number].kind is Kind.LINES and stands_alone(reader_for(run)):
                found |= self._excerpts_by_line(run, number, {rowid: line or 0 for rowid, line in rows})
            else:
                # The exchanges of other sources are counted from the start, as they were when they were judged.
                source = run.sources[number]
                places = {rowid - run.starts[number]: rowid for rowid, _ in rows}
                exchanges = islice(source_exchanges(source, reader_for(run), input_limits()), max(places) + 1)
                for index, (line, traced) in enumerate(exchanges):
                    if index in places:
                        found[places[index]] = (source.name, line, traced)
        return found

    def _excerpts_by_line(self, run: LoadedRun, number: int, lines: Mapping[int, int]) -> dict[int, Excerpt]:
        """Return the rows of a file whose lines stand alone: only the wanted lines are decoded."""
        source, marks = run.sources[number], run.marks[number]
        reader = reader_for(run)
        rowids: dict[int, list[int]] = {}
        for rowid, at in lines.items():
            rowids.setdefault(at, []).append(rowid)
        wanted = frozenset(rowids)
        seekable = marks and source.compression is None
        records = lines_at(source, wanted, marks) if seekable else read_records(source, input_limits(), only=wanted)
        found: dict[int, Excerpt] = {}
        for line, record in records:
            if line is None:
                continue
            first = self.ask(f"SELECT min(rowid) FROM {run.table} WHERE source = {number} AND line = {line}")[0][0]
            traced = list(exchanges_of(record, reader))
            for rowid in rowids[line]:
                # A file that was rewritten meanwhile has other rows there, or none.
                if rowid - first < len(traced):
                    found[rowid] = (source.name, line, traced[rowid - first])
        return found


@contextmanager
def open_engine(*, jobs: int | None = 1) -> Iterator[Engine]:
    """Give an engine with a folder of its own, which is removed afterwards.

    `jobs` of None takes as many processes as there are cores once the input is large enough to pay for them.
    """
    import duckdb

    with TemporaryDirectory(prefix="demur-") as name:
        folder = Path(name)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": name,
            # Nothing is fetched from outside, whatever a query would need.
            "autoinstall_known_extensions": False,
        }
        connection = duckdb.connect(str(folder / "runs.duckdb"), config=settings)
        # The file is removed at the end: nothing has to be moved into it from the log of changes.
        connection.execute("PRAGMA disable_checkpoint_on_shutdown").fetchall()
        connection.execute("SET wal_autocheckpoint = '16GB'").fetchall()
        engine = Engine(connection, folder, jobs=jobs)
        try:
            yield engine
        finally:
            engine.workers.close()
            connection.close()


def _one_format(sources: Sequence[Source], limits: InputLimits) -> str:
    """Return the format that all sources of a run are in; two in one run are an error that names both."""
    first = sniff(sources[0], limits)
    for source in sources[1:]:
        found = sniff(source, limits)
        if found != first:
            raise ShapeError(
                f"in format {found}, but `{sources[0].name}` is in format {first}",
                source=source.name,
                hint="a run has one format: name the files apart, or pass --format",
            )
    return first


class _Loading:
    """One run on its way into its table."""

    def __init__(
        self, engine: Engine, table: str, port: Ingest, *, limits: InputLimits, progress: Progress | None
    ) -> None:
        self._engine = engine
        self._connection = engine.connection
        self._table = table
        self._port = port
        self._limits = limits
        self._progress = progress
        self._marks: list[tuple[int, int]] = []
        self.marks: list[list[tuple[int, int]]] = []
        self.rows = 0
        self.unreadable = 0
        self.errors: list[InputError] = []
        self.skipped: Counter[str] = Counter()
        self._connection.register("demur_rows", port.schema().empty_table())
        engine.ask(f"CREATE TABLE {table} AS SELECT 0::INTEGER AS source, * FROM demur_rows")
        self._connection.unregister("demur_rows")

    def load(self, number: int, source: Source) -> None:
        """Read one source into the table."""
        self._marks = []
        self.marks.append(self._marks)
        readable = self._port.format == "flat" and source.kind in (Kind.CSV, Kind.PARQUET)
        table = flat_table(source, self._port.fields, self._port.named_columns) if readable else None
        if table is not None and self._load_table(number, source, table):
            return
        if source.kind is Kind.LINES and stands_alone(self._port.open_reader()):
            batches = self._engine.workers.ordered(self._port.lines, self._blocks(source))
        else:
            batches = self._port.records(self._records(source))
        # One transaction: a commit for every batch of rows would wait for the disk each time.
        with self._engine.transaction():
            for judged in batches:
                self.rows += judged.rows.num_rows
                self._engine.insert(self._table, judged.rows, first=f"{number}::INTEGER, ")
                self.skipped.update(judged.skipped)
                for error in judged.errors:
                    self._fail(error, source)

    def _load_table(self, number: int, source: Source, table: FlatTable) -> bool:
        """Let DuckDB read a table; False where it cannot, and the exact reader must say what is wrong."""
        import duckdb

        name = self._engine.function_name()
        raised = register_judge(self._connection, name, self._judge_columns)
        query = table.duckdb_query(source, name, number=number)
        try:
            self._engine.ask(f"INSERT INTO {self._table} {query}")
        # What DuckDB cannot read, the exact reader names by its line.
        except duckdb.Error as exc:
            if raised:
                raise raised[0] from exc
            return False
        finally:
            self._connection.remove_function(name)
        self.rows = self._engine.ask(f"SELECT count(*) FROM {self._table}")[0][0]
        return True

    def _blocks(self, source: Source) -> Iterator[tuple[int, bytes]]:
        for block in line_blocks(source, self._limits):
            # Where a block begins is kept, to find the few rows that are shown without reading the file again.
            self._marks.append((block.first, block.offset))
            if isinstance(block.lines, InputError):
                self._fail(block.lines.at(source.name, block.first), source)
                continue
            if self._progress is not None:
                self._progress.read(len(block.lines) + 1)
            yield block.first, block.lines

    def _records(self, source: Source) -> Iterator[Record]:
        for record in read_records(source, self._limits):
            if self._progress is not None:
                self._progress.rows(1)
            yield record

    def _judge_columns(self, batch: pa.RecordBatch) -> pa.StructArray:
        if self._progress is not None:
            self._progress.rows(batch.num_rows)
        return self._engine.workers.call(self._port.columns, batch)

    def _fail(self, error: InputError, source: Source) -> None:
        self.unreadable += 1
        if len(self.errors) < _ERRORS_KEPT:
            self.errors.append(error if error.source else error.at(source.name, error.line))


def source_exchanges(source: Source, reader: TraceReader, limits: InputLimits) -> Iterator[tuple[int | None, Traced]]:
    """Yield every exchange of a source that can be read, with its line, in the order in which they were judged."""
    line: int | None = None
    for line, record in read_records(source, limits):
        yield from ((line, traced) for traced in exchanges_of(record, reader))
    yield from ((line, item) for item in reader.close() if isinstance(item, Traced))


_T = TypeVar("_T")
_A = TypeVar("_A")
_P = ParamSpec("_P")
# More pieces than this for each process would only wait in memory.
_WAITING_EACH = 2


class Workers:
    """A number of processes, started when they are first needed; `count` of 1 works in this one."""

    def __init__(self, count: int = 1) -> None:
        self.count = max(1, count)
        self._pool: ProcessPoolExecutor | None = None
        self._starting = threading.Lock()

    def grow(self, count: int) -> None:
        """Work with that many processes from now on, where there were fewer."""
        # A pool cannot be resized once it has started.
        if count > self.count and self._pool is None:
            self.count = count

    def close(self) -> None:
        """Stop the processes; what they have not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor | None:
        # An engine's threads may all be the first to ask.
        with self._starting:
            if self.count > 1 and self._pool is None:
                # Fresh interpreters: a fork of a process with an engine's threads can deadlock.
                self._pool = ProcessPoolExecutor(self.count, mp_context=multiprocessing.get_context("spawn"))
            return self._pool

    def call(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return the result of one piece of work; threads may call this at once."""
        pool = self._started()
        return work(*args, **kwargs) if pool is None else _outcome_of(pool.submit(work, *args, **kwargs))

    def ordered(self, work: Callable[[_A], _T], pieces: Iterable[_A]) -> Iterator[_T]:
        """Yield the result of each piece of work, in order."""
        pool = self._started()
        if pool is None:
            yield from map(work, pieces)
            return
        waiting: deque[Future[_T]] = deque()
        for piece in pieces:
            # Results are taken from the front, so that they come back in the order of the work.
            waiting.append(pool.submit(work, piece))
            if len(waiting) > _WAITING_EACH * self.count:
                yield _outcome_of(waiting.popleft())
        while waiting:
            yield _outcome_of(waiting.popleft())


def _outcome_of(future: Future[_T]) -> _T:
    try:
        return future.result()
    # The kernel ends the process that takes most memory, without a word of its own.
    except BrokenProcessPool as exc:
        hint = "there may be too little memory; try --jobs 1"
        raise InputError("a worker process was lost", hint=hint) from exc
