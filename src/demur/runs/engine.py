"""The embedded engine: runs of any size become tables of verdicts in DuckDB, on this machine, in bounded memory.

Tables of people (CSV and Parquet with a response column) are read by DuckDB itself, which calls the batch judge as an Arrow
function; every other format is decoded by its reader in worker processes and arrives as the same judged rows.

Laws: a run's table has one row an exchange, in the order of its files; texts never enter it; nothing is fetched from outside
and no extension is installed; what could not be read is counted and named, never dropped in silence.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demur.errors import EmptyInputError, InputError, ShapeError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named
from demur.io.records import line_blocks, read_records, sniff
from demur.io.sources import Kind, find_sources
from demur.runs.flat_tables import flat_table, register_judge
from demur.runs.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    import pyarrow as pa

    from demur.io.config import InputLimits
    from demur.io.records import Record
    from demur.io.sources import Source
    from demur.runs.flat_tables import FlatTable
    from demur.runs.ports import IngestPort, JudgedPort, Progress

__all__ = ["Engine", "LoadedRun", "open_engine"]

_MEMORY_LIMIT = "400MB"
_POOL_FROM_BYTES = 24 << 20
"""Below this a second process costs more than it gives: it takes most of a second to start."""
_ERRORS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run in the engine: its table, its sources in order with the row each begins at, and what could not be read.

    `marks` are, for each source of lines, some of its lines with the bytes at which they begin.
    """

    table: str
    name: str
    format: str
    sources: tuple[Source, ...]
    starts: tuple[int, ...]
    marks: tuple[tuple[tuple[int, int], ...], ...]
    fields: tuple[str, ...]
    rows: int
    skipped: tuple[tuple[str, int], ...]
    errors: tuple[InputError, ...]
    unreadable: int


class Engine:
    """A DuckDB connection and the workers that judge for it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path, *, jobs: int | None) -> None:
        self.connection = connection
        self.folder = folder
        self._workers = Workers(jobs or 1)
        self._jobs = jobs
        self._functions = 0

    def load(
        self,
        table: str,
        names: Sequence[str],
        *,
        name: str,
        port: IngestPort,
        limits: InputLimits,
        format_name: str | None = None,
        progress: Progress | None = None,
    ) -> LoadedRun:
        """Return a run, judged and in a table of that name."""
        sources = tuple(self._shown(source, name) for source in find_sources(names, self.folder))
        if self._jobs is None and sum(source.size_bytes for source in sources) >= _POOL_FROM_BYTES:
            self._workers.grow(os.cpu_count() or 1)
        chosen = format_named(format_name).NAME if format_name else _one_format(sources, limits)
        if progress is not None:
            progress.start(table, sum(source.size_bytes for source in sources))
        loading = _Loading(self, table, port.with_format(chosen), limits=limits, progress=progress)
        loading.create()
        starts = []
        for number, source in enumerate(sources):
            starts.append(loading.rows)
            loading.load(number, source)
        if not loading.rows and not loading.unreadable:
            why = ", ".join(f"{count:,} rows skipped: {reason}" for reason, count in loading.skipped.items())
            raise EmptyInputError(
                f"no exchanges ({why or 'no rows'})", source=name, hint="an empty run is never a pass"
            )
        skipped = tuple(sorted(loading.skipped.items(), key=lambda item: -item[1]))
        return LoadedRun(
            table,
            name,
            chosen,
            sources,
            tuple(starts),
            tuple(map(tuple, loading.marks)),
            port.fields,
            loading.rows,
            skipped,
            tuple(loading.errors),
            loading.unreadable,
        )

    def _shown(self, source: Source, name: str) -> Source:
        """Return a source under a name that a reader knows: rows in memory stand in a file of ours under the run's name."""
        return replace(source, name=name) if source.name == str(source.path) and self._owns(source.path) else source

    def _owns(self, path: Path) -> bool:
        return path.parent == self.folder

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query; the names in it are our own or quoted."""
        return self.connection.execute(query).fetchall()

    def insert(self, table: str, rows: pa.RecordBatch | pa.Table, *, first: str = "") -> None:
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

    @property
    def workers(self) -> Workers:
        """The processes that judge."""
        return self._workers


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
        self, engine: Engine, table: str, port: IngestPort, *, limits: InputLimits, progress: Progress | None
    ) -> None:
        self._engine = engine
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

    def create(self) -> None:
        """Create the run's table, empty."""
        schema = self._port.schema()
        self._connection.register("demur_rows", schema.empty_table())
        self._engine.ask(f"CREATE TABLE {self._table} AS SELECT 0::INTEGER AS source, * FROM demur_rows")
        self._connection.unregister("demur_rows")

    def load(self, number: int, source: Source) -> None:
        """Read one source into the table."""
        self._marks = []
        self.marks.append(self._marks)
        table = flat_table(source, self._port.fields) if self._port.format == "flat" else None
        if table is not None and self._load_table(number, source, table):
            return
        # One transaction: a commit for every batch of rows would wait for the disk each time.
        with self._engine.transaction():
            for judged in self._judged(source):
                self._insert(number, judged.rows)
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
        except duckdb.Error as exc:
            if raised:
                raise raised[0] from exc
            return False
        finally:
            self._connection.remove_function(name)
        counted = self._engine.ask(f"SELECT count(*) FROM {self._table}")
        self.rows = counted[0][0]
        return True

    def _judged(self, source: Source) -> Iterator[JudgedPort]:
        reader = format_named(self._port.format).open_reader()
        if source.kind is Kind.LINES and stands_alone(reader):
            yield from self._engine.workers.ordered(self._port.lines, self._blocks(source))
        else:
            records = read_records(source, self._limits)
            yield from self._port.records(self._watched(records))

    def _blocks(self, source: Source) -> Iterator[tuple[int, bytes]]:
        for block in line_blocks(source, self._limits):
            self._marks.append((block.first, block.offset))
            if isinstance(block.lines, InputError):
                self._fail(block.lines.at(source.name, block.first), source)
                continue
            if self._progress is not None:
                self._progress.read(len(block.lines) + 1)
            yield block.first, block.lines

    def _watched(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            if self._progress is not None:
                self._progress.rows(1)
            yield record

    def _judge_columns(self, batch: pa.RecordBatch) -> pa.StructArray:
        if self._progress is not None:
            self._progress.rows(batch.num_rows)
        return self._engine.workers.call(self._port.columns, batch)

    def _insert(self, number: int, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        self._engine.insert(self._table, rows, first=f"{number}::INTEGER, ")

    def _fail(self, error: InputError, source: Source) -> None:
        self.unreadable += 1
        if len(self.errors) < _ERRORS_KEPT:
            self.errors.append(error if error.source else error.at(source.name, error.line))

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._engine.connection
