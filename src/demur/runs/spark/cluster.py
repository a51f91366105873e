"""The same scan and the same comparison on Spark: the door for notebooks, and for runs that one machine is too small for.

    demur.runs.spark.cluster.scan(spark.read.parquet("s3a://logs/2026/"), by=["model"]).rate
    demur.runs.spark.cluster.compare("hdfs:///runs/main", "hdfs:///runs/branch", key="id").decision

A run is a Spark DataFrame (with a response column, or of lines of JSON in `value`), a path that the executors can read, or
several. Laws: a session that is open is used, and stays open; rows are judged on the executors by the functions that one machine
runs; counts and a bounded number of examples come back to the driver, and the statistics over them are those of `demur.runs.api`, so
that the same input gives the same answer.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from demur.detect.batch import BatchJudge
from demur.errors import UsageError
from demur.io.config import input_limits
from demur.model.comparison import DiffSettings
from demur.model.run import ScanTally
from demur.runs.api import (
    FLIPS_SHOWN,
    Counting,
    Reading,
    groups_worth_showing,
    paired_tally,
    refuse_unreadable,
    unknown_field,
    unpaired_tally,
)
from demur.runs.compare import compare_tally
from demur.runs.engine import LoadedRun
from demur.runs.examples import MOST_READ, flip_shown, phrase_counts, shown_key
from demur.runs.excerpts import field_names
from demur.runs.ingest import Ingest
from demur.runs.scan import scan_tally
from demur.runs.spark.excerpts import excerpts_at
from demur.runs.spark.failures import named_failures
from demur.runs.spark.files import refuse_local
from demur.runs.spark.progress import watched
from demur.runs.spark.runs import load_run
from demur.runs.spark.session import open_session
from demur.runs.spark.tallies import abstained_rows, group_rows, pair_frames, refusal_rows, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from demur.model.comparison import Comparison, Flip
    from demur.model.run import Scan
    from demur.runs.excerpts import Excerpt
    from demur.runs.spark.runs import SparkRun
    from demur.runs.spark.tallies import PairedRuns

__all__ = ["compare", "scan"]

_FRAMES_SESSION = "sparkSession"


def compare(  # noqa: PLR0913 — the door of the library: all but the runs are keywords with defaults
    baseline: object,
    candidate: object,
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: Reading | None = None,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    master: str | None = None,
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, as `demur.compare` does, counted by Spark.

    `master` is where a session is opened if none is open: `local[*]`, `spark://…`, `yarn`, `k8s://…`.
    """
    reading, counting = reading or Reading(), Counting(by, key, cluster)
    if unpaired and (by or key or cluster):
        raise UsageError("runs without pairs have no slices, keys or clusters")
    with _Cluster(master, reading, counting.kept) as spark:
        runs = spark.load(baseline=baseline, candidate=candidate)
        _refuse_unnamed(runs, counting.named)
        with spark.counting(runs):
            pair = runs[0], runs[1]
            sides = summary_of(runs[0]), summary_of(runs[1])
            if unpaired:
                rates = [abstained_rows(run, reading.counted_words) for run in runs]
                tally = unpaired_tally(*sides, rates=rates, reading=reading)
            else:
                counted, slices = reading.counted_words, counting.slices
                paired = pair_frames(pair, counted=counted, key=key, cluster=cluster, slices=slices, show=show)
                flips = _flips_read(pair, paired, reading)
                tally = paired_tally(*sides, paired.tally, reading=reading, flips=flips)
        return compare_tally(tally, settings or DiffSettings())


def scan(
    *runs: object, by: Sequence[str] | None = None, reading: Reading | None = None, master: str | None = None
) -> Scan:
    """Return how often the models of some runs say no, as `demur.scan` does, counted by Spark."""
    if not runs:
        raise UsageError("no run to scan", hint="name at least one")
    reading, counting = reading or Reading(), Counting(by)
    with _Cluster(master, reading, counting.kept) as spark:
        loaded = spark.load(**{f"run_{i}": run for i, run in enumerate(runs)})
        _refuse_unnamed(loaded, counting.named)
        with spark.counting(loaded):
            groups = [group for name in counting.slices for group in group_rows(loaded, name)]
            phrases, read = phrase_counts(_refusals_read(loaded), reading.judge)
            summaries = tuple(map(summary_of, loaded))
    shown = groups_worth_showing(groups, counting)
    return scan_tally(ScanTally(summaries, shown, phrases, read, reading.counted_words))


class _Cluster:
    """A session, a folder of the driver's, and the runs that Spark keeps as long as both are open."""

    def __init__(self, master: str | None, reading: Reading, fields: tuple[str, ...]) -> None:
        if reading.requests:
            hint = "join the prompts of the batch to its answers first, or leave Spark out of it"
            raise UsageError("the requests of a batch are not joined on Spark", hint=hint)
        if reading.verify:
            raise UsageError("ids of `.agentlog` records are not verified on Spark", hint="leave Spark out of it")
        self._master = master
        self._reading = reading
        self._port = Ingest(fields=fields, judge=BatchJudge(reading.judge), verify=reading.verify)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._folder = Path(self._open.enter_context(TemporaryDirectory(prefix="demur-")))
        self._session: SparkSession | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def load(self, **runs: object) -> list[SparkRun]:
        """Return the runs, judged; what can be refused without Spark is refused before it is started."""
        for run in runs.values():
            refuse_local(run, self._folder)
        return [self._loaded(name, run) for name, run in runs.items()]

    def _loaded(self, name: str, run: object) -> SparkRun:
        reading = self._reading
        found = load_run(
            self._session_of(run),
            run,
            name=_called(name, run),
            port=self._port,
            limits=input_limits(),
            folder=self._folder,
            format_name=reading.format,
            progress=reading.progress,
        )
        self._open.callback(found.judged.unpersist)
        refuse_unreadable(found.errors, found.unreadable, rows=found.rows, reading=reading)
        return found

    @contextmanager
    def counting(self, runs: Sequence[SparkRun]) -> Iterator[None]:
        """Name what fails inside, and tell how far it is."""
        session = runs[0].given.raw.sparkSession
        with named_failures(runs[0].name), watched(session, self._reading.progress, name="counting"):
            yield

    def _session_of(self, run: object) -> SparkSession:
        if self._session is None:
            owner: SparkSession | None = getattr(run, _FRAMES_SESSION, None)
            self._session = owner or self._open.enter_context(open_session(self._master, self._reading.progress))
        return self._session


def _called(table: str, run: object) -> str:
    if isinstance(run, str | Path):
        return str(run)
    return " ".join(map(str, run)) if isinstance(run, list | tuple) else table


def _refuse_unnamed(runs: Sequence[SparkRun], named: Sequence[str]) -> None:
    """Raise where no row of any run has a field that the caller named."""
    there = {name for run in runs for name in run.filled()}
    for name in named:
        if name not in there:
            limits = input_limits()
            raise unknown_field(name, (other for run in runs for other in field_names(_head_run(run), limits=limits)))


def _head_run(run: SparkRun) -> LoadedRun:
    """Return the first rows of a run as a run of this machine."""
    return LoadedRun("", run.name, run.format, (run.head,), (0,), ((),), run.fields, 0, (), (), 0)


def _flips_read(runs: tuple[SparkRun, SparkRun], paired: PairedRuns, reading: Reading) -> Iterator[Flip]:
    before = excerpts_at(runs[0], [flip[2] for flip in paired.flips])
    after = excerpts_at(runs[1], [flip[3] for flip in paired.flips])
    for key, direction, base, cand in paired.flips:
        if base in before and cand in after:
            yield flip_shown(
                shown_key(key, paired.tally.pairing),
                direction,
                before=before[base],
                after=after[cand],
                judge=reading.judge,
                fields=runs[0].fields,
            )


def _refusals_read(runs: Sequence[SparkRun]) -> Iterator[Excerpt]:
    for run in runs:
        yield from excerpts_at(run, refusal_rows(run, most=MOST_READ // len(runs))).values()
