"""The Spark engine: runs that one machine is too small for, counted by the queries that DuckDB executes.

    demur.cluster.scan(spark.read.parquet("s3a://logs/2026/"), by=["model"]).rate
    demur.cluster.compare("hdfs:///runs/main", "hdfs:///runs/branch", key="id").decision

A run is a Spark DataFrame (with a response column, or of lines of JSON in `value`), a path that the executors can read, or several.
Rows are judged on the executors by the functions that one machine runs; counts and a bounded number of rows come back to the driver. A
session that is open is used and stays open: the views and the cache that counting needs are dropped at the end.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from demur.detect.batch import BatchJudge
from demur.errors import UsageError
from demur.io.files import BOM, input_limits, json_object
from demur.io.records import read_records
from demur.model.comparison import DiffSettings
from demur.runs.api import FLIPS_SHOWN, check_runs, scan_runs, tally_pair
from demur.runs.compare import compare_tally
from demur.runs.ingest import Ingest, exchanges_of, reader_for
from demur.runs.options import CountOptions, ReadOptions, reading_of
from demur.runs.spark.rows import FILE, LINE, START, VALUE, RowPicker, check_local_files, file_key
from demur.runs.spark.runs import load_run
from demur.runs.spark.session import map_arrow, named_failures, open_session, watched
from demur.runs.sql import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from demur.errors import InputError
    from demur.model.columns import ColumnNames
    from demur.model.comparison import Comparison
    from demur.model.run import Scan
    from demur.runs.examples import Excerpt
    from demur.runs.spark.runs import Place, SparkRun
    from demur.wire.fields import JsonObject

__all__ = ["SparkEngine", "compare", "open_spark", "scan"]

_ROW_ID = "struct(source, start, place, line, `within`)"


@contextmanager
def open_spark(runs: Sequence[object], options: ReadOptions, master: str | None) -> Iterator[SparkEngine]:
    """Give an engine for some runs; what can be refused without Spark is refused before it is started."""
    if options.requests:
        hint = "join the prompts of the batch to its answers first, or leave Spark out of it"
        raise UsageError("the requests of a batch are not joined on Spark", hint=hint)
    if options.verify:
        raise UsageError("ids of `.agentlog` records are not verified on Spark", hint="leave Spark out of it")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="demur-")))
        for run in runs:
            check_local_files(run, folder)
        # A frame belongs to a session; paths are read by the one that is active, or by one of our own.
        owner: SparkSession | None = getattr(runs[0], "sparkSession", None) if runs else None
        session = owner or stack.enter_context(open_session(master, options.progress))
        yield SparkEngine(session, folder, stack)


class SparkEngine:
    """A session, a folder of the driver's, and the views that are dropped when `stack` is closed."""

    dialect = SPARK
    # The links are put together on the driver, which must be able to hold them.
    max_links: int | None = 200_000

    def __init__(self, session: SparkSession, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._session = session
        self._stack = stack
        # Views belong to the user's session, in which other comparisons may run.
        self._prefix = f"demur_{uuid.uuid4().hex}"

    def load_run(self, table: str, run: object, *, fields: tuple[str, ...], options: ReadOptions) -> SparkRun:
        """Return a run of a caller, judged: paths that the executors can read, or a frame."""
        name = table
        if isinstance(run, str | Path):
            name = str(run)
        elif isinstance(run, list | tuple):
            name = " ".join(map(str, run))
        found = load_run(
            self._session,
            run,
            table=self.table(table),
            name=name,
            port=Ingest(
                fields=fields, judge=BatchJudge(options.judge), verify=options.verify, named_columns=options.columns
            ),
            limits=input_limits(),
            folder=self.folder,
            format_name=options.format,
            progress=options.progress,
        )
        self._stack.callback(found.judged.unpersist)
        found.check_readable(skip_bad=options.skip_bad)
        verdicts = found.judged.where("kind IS NULL")
        kept = ("id", "prompt", "session", "outcome", "score", "reason", "cause", *map(SPARK.field, fields))
        self._view(table, verdicts.selectExpr(f"{_ROW_ID} AS rowid", *kept))
        return found

    @contextmanager
    def counting(self, runs: Sequence[SparkRun], options: ReadOptions) -> Iterator[None]:
        """Name what fails inside, and tell how far it is."""
        with named_failures(runs[0].name), watched(self._session, options.progress, name="counting"):
            yield

    def table(self, name: str) -> str:
        """Return what a working view of ours is called in SQL."""
        return f"{self._prefix}_{name}"

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query; a row id comes back as a tuple."""
        rows = self._session.sql(query).collect()
        return [tuple(tuple(value) if isinstance(value, tuple) else value for value in row) for row in rows]

    def define(self, name: str, query: str, *, keep: bool = False) -> None:
        """Make the rows of a query a working view; one that is kept is computed once."""
        frame = self._session.sql(query)
        if keep:
            self._stack.callback(frame.persist().unpersist)
        self._view(name, frame)

    def fill(self, name: str, rows: Sequence[tuple[str, str]], columns: tuple[str, str]) -> None:
        """Make a working view of pairs of texts, which every executor gets whole."""
        schema = ", ".join(f"{column} string" for column in columns)
        self._view(name, self._session.createDataFrame(list(rows), schema).hint("broadcast"))

    def _view(self, name: str, frame: DataFrame) -> None:
        if frame.sparkSession is not self._session:
            # A view is known to the session of its frame alone. The files of each run are read by a session with settings of its own
            # (`runs.spark.runs`), and a union takes the session of its first frame.
            frame = self._session.createDataFrame([], frame.schema).union(frame)
        view = self.table(name)
        frame.createOrReplaceTempView(view)
        self._stack.callback(self._session.catalog.dropTempView, view)

    def place_of(self, run: SparkRun, rowid: Place) -> tuple[str, int | None, int]:
        """Return the source of a row, its line where it has one, and its number among the rows of the source."""
        source, start, place, line, _ = rowid
        given = run.given
        row, before = run.marks[source, start]
        shown = given.shown_line(before, line) if given.lines else None
        return given.files[source], shown, line if given.keys and shown is None else row + place + 1

    def field_names(self, run: SparkRun) -> tuple[str, ...]:
        """Return the fields that the first exchanges of a run have, in order of their names."""
        reader = reader_for(run)
        records = (record for _, record in read_records(run.head, input_limits()))
        found = (traced for record in records for traced in exchanges_of(record, reader))
        return tuple(sorted({name for traced in found for name, _ in traced.fields}))

    def excerpts(self, run: SparkRun, rowids: Sequence[Place]) -> Mapping[Place, Excerpt]:
        """Return the exchanges at these rows of a run; only files that hold a wanted row are read again.

        A frame is somebody's query, and may give other rows the second time.
        """
        wanted: dict[tuple[str, int], dict[int, list[Place]]] = {}
        for place in dict.fromkeys(rowids):
            file = run.given.keys[place[0]] if run.given.keys else ""
            wanted.setdefault((file, place[1]), {}).setdefault(place[3], []).append(place)
        if not wanted:
            return {}
        found: dict[Place, Excerpt] = {}
        for file, start, line, record in _picked(run, wanted):
            traced = list(exchanges_of(record, reader_for(run)))
            for place in wanted.get((file, start), {}).get(line, ()):
                if place[4] < len(traced):
                    shown = run.given.shown_line(run.marks[place[0], place[1]][1], line)
                    found[place] = (run.given.files[place[0]], shown, traced[place[4]])
        return found


def _picked(
    run: SparkRun, wanted: Mapping[tuple[str, int], Mapping[int, Sequence[Place]]]
) -> Iterator[tuple[str, int, int, JsonObject | InputError]]:
    import pyarrow as pa
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import to_arrow_schema

    places = [place for lines in wanted.values() for there in lines.values() for place in there]
    raw = run.given.only(sorted({place[0] for place in places}))
    if run.given.keys:
        # What is not wanted is left out before rows are handed to Python: whole blocks, and the rows of a table.
        raw = raw.where(sql.col(f"`{START}`").isin(sorted({place[1] for place in places})))
        if not run.given.lines:
            raw = raw.where(sql.col(f"`{LINE}`").isin(sorted({place[3] for place in places})))
    picker = RowPicker({block: frozenset(lines) for block, lines in wanted.items()})
    rows: pa.Table = map_arrow(raw, picker.pick, to_arrow_schema(raw.schema)).toArrow()
    found = zip(*(rows.column(name).to_pylist() for name in (FILE, START, LINE)), strict=True)
    records: list[JsonObject | InputError]
    if run.given.lines:
        lines = rows.column(VALUE).cast(pa.binary()).to_pylist()
        records = [json_object((line or b"").removeprefix(BOM)) for line in lines]
    else:
        records = rows.drop_columns([FILE, START, LINE]).to_pylist()
    for (file, start, line), record in zip(found, records, strict=True):
        yield file_key(file, encoded=True), start, line, record


def compare(  # noqa: PLR0913 — the library's main function: all but the runs are keywords with defaults
    baseline: object,
    candidate: object,
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: ReadOptions | None = None,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    master: str | None = None,
    **columns: Unpack[ColumnNames],
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, as `demur.compare` does, counted by Spark.

    `master` is where a session is opened if none is open: `local[*]`, `spark://…`, `yarn`, `k8s://…`.
    """
    if unpaired and (by or key or cluster):
        raise UsageError("runs without pairs have no slices, keys or clusters")
    if settings is not None and settings.sequential:
        raise UsageError("Spark does not keep rows in their order", hint="drop --sequential, or --engine spark")
    options, counting = reading_of(reading, columns), CountOptions(by, key, cluster)
    with open_spark((baseline, candidate), options, master) as engine:
        _, tally = tally_pair(
            engine, baseline, candidate, counting=counting, options=options, unpaired=unpaired, show=show
        )
        return compare_tally(tally, settings or DiffSettings())


def scan(
    *runs: object,
    by: Sequence[str] | None = None,
    reading: ReadOptions | None = None,
    master: str | None = None,
    **columns: Unpack[ColumnNames],
) -> Scan:
    """Return how often the models of some runs say no, as `demur.scan` does, counted by Spark."""
    check_runs(runs)
    options = reading_of(reading, columns)
    with open_spark(runs, options, master) as engine:
        return scan_runs(engine, runs, counting=CountOptions(by), options=options)[1]
