"""The same scan and the same comparison on Spark: the door for notebooks, and for runs that one machine is too small for.

    demur.cluster.scan(spark.read.parquet("s3a://logs/2026/"), by=["model"]).rate
    demur.cluster.compare("hdfs:///runs/main", "hdfs:///runs/branch", key="id").decision

A run is a Spark DataFrame (with a response column, or of lines of JSON in `value`), a path that the executors can read, or
several. Laws: a session that is open is used, and stays open; rows are judged on the executors by the functions that one machine
runs; counts and a bounded number of examples come back to the driver, and the statistics over them are those of `demur.runs`, so
that the same input gives the same answer.
"""

from __future__ import annotations

import difflib
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from demur.adapters.config import input_limits
from demur.adapters.engine import LoadedRun
from demur.adapters.excerpts import field_names
from demur.adapters.spark_excerpts import excerpts_at
from demur.adapters.spark_runs import load_run
from demur.adapters.spark_session import named_failures, open_session, watched
from demur.adapters.spark_tallies import abstained_rows, group_rows, pair_frames, refusal_rows, summary_of
from demur.errors import UnreadableRowsError, UsageError
from demur.model.comparison import DiffSettings, Direction, Missing, PairCounts, Pairing, Tally
from demur.model.scan import PhraseCount, ScanTally
from demur.pipeline.batch import BatchJudge
from demur.pipeline.classify import classify_text
from demur.pipeline.compare import compare_tally
from demur.pipeline.ingest import Ingest
from demur.pipeline.scan import scan_tally
from demur.runs import (
    _FIELDS_NAMED,
    _FLIPS_SHOWN,
    _READ_FOR_PHRASES,
    _SLICED_BY_DEFAULT,
    Reading,
    _flip,
    _kept_fields,
    _named_fields,
    _shown_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from demur.adapters.spark_runs import SparkRun
    from demur.adapters.spark_tallies import PairedRuns
    from demur.model.comparison import Comparison, Flip
    from demur.model.scan import Scan

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
    show: int = _FLIPS_SHOWN,
    master: str | None = None,
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, as `demur.compare` does, counted by Spark.

    `master` is where a session is opened if none is open: `local[*]`, `spark://…`, `yarn`, `k8s://…`.
    """
    reading = reading or Reading()
    fields = tuple(dict.fromkeys(by if by is not None else _SLICED_BY_DEFAULT))
    named = _named_fields(key, cluster)
    if unpaired and (by or key or cluster):
        raise UsageError("runs without pairs have no slices, keys or clusters")
    with _Cluster(master, reading, _kept_fields([*fields, *named])) as spark:
        runs = spark.load("baseline", baseline), spark.load("candidate", candidate)
        _refuse_unnamed(runs, [*(by or ()), *named])
        if unpaired:
            return compare_tally(_rates_tally(runs, reading), settings or DiffSettings())
        counted = [str(outcome) for outcome in reading.counted]
        with spark.counting(runs):
            paired = pair_frames(runs, counted=counted, key=key, cluster=cluster, slices=fields, show=show)
            tally = _pairs_tally(runs, paired, reading)
        return compare_tally(tally, settings or DiffSettings())


def scan(
    *runs: object, by: Sequence[str] | None = None, reading: Reading | None = None, master: str | None = None
) -> Scan:
    """Return how often the models of some runs say no, as `demur.scan` does, counted by Spark."""
    if not runs:
        raise UsageError("no run to scan", hint="name at least one")
    reading = reading or Reading()
    fields = tuple(dict.fromkeys(by if by is not None else _SLICED_BY_DEFAULT))
    with _Cluster(master, reading, _kept_fields(fields)) as spark:
        loaded = [spark.load(f"run_{i}", run) for i, run in enumerate(runs)]
        _refuse_unnamed(loaded, by or ())
        with spark.counting(loaded):
            groups = [group for name in fields for group in group_rows(loaded, name)]
            if by is None:
                groups = [g for g in groups if sum(other.field == g.field for other in groups) > 1]
            phrases, read = _evidence_read(loaded, reading)
            summaries = tuple(map(summary_of, loaded))
    return scan_tally(ScanTally(summaries, tuple(groups), phrases, read, tuple(map(str, reading.counted))))


class _Cluster:
    """A session, a folder of the driver's, and the runs that Spark keeps as long as both are open."""

    def __init__(self, master: str | None, reading: Reading, fields: tuple[str, ...]) -> None:
        if reading.requests:
            hint = "join the prompts of the batch to its answers first, or leave Spark out of it"
            raise UsageError("the requests of a batch are not joined on Spark", hint=hint)
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

    def load(self, name: str, run: object) -> SparkRun:
        """Return a judged run; rows that cannot be read are an error, unless they are to be left out."""
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
        if found.errors and (not reading.skip_bad or not found.rows):
            hint = "mend them, or pass --skip-bad to leave them out and count them"
            raise UnreadableRowsError(
                found.errors, found.unreadable, hint=hint if found.rows else "no row of the run can be read"
            )
        return found

    @contextmanager
    def counting(self, runs: Sequence[SparkRun]) -> Iterator[None]:
        """Name what fails inside, and tell how far it is."""
        session = runs[0].given.raw.sparkSession
        size = sum(run.given.size_bytes for run in runs)
        with named_failures(runs[0].name), watched(session, self._reading.progress, name="counting", size_bytes=size):
            yield

    def _session_of(self, run: object) -> SparkSession:
        if self._session is None:
            owner: SparkSession | None = getattr(run, _FRAMES_SESSION, None)
            self._session = owner or self._open.enter_context(open_session(self._master))
        return self._session


def _called(table: str, run: object) -> str:
    if isinstance(run, str | Path):
        return str(run)
    return " ".join(map(str, run)) if isinstance(run, list | tuple) else table


def _refuse_unnamed(runs: Sequence[SparkRun], named: Sequence[str]) -> None:
    """Raise where no row of any run has a field that the caller named: a slip of the pen would give no slices."""
    there = {name for run in runs for name in run.filled()}
    for name in dict.fromkeys(named):
        if name in there:
            continue
        known = sorted({other for run in runs for other in field_names(_head_run(run), limits=input_limits())})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        listed = ", ".join(f"`{other}`" for other in known[:_FIELDS_NAMED]) or "none"
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"no row has a field `{name}`", hint=f"{hint}there are {listed}")


def _head_run(run: SparkRun) -> LoadedRun:
    """Return the first rows of a run as a run of this machine."""
    return LoadedRun("", run.name, run.format, (run.head,), (0,), ((),), run.fields, 0, (), (), 0)


def _pairs_tally(runs: tuple[SparkRun, SparkRun], paired: PairedRuns, reading: Reading) -> Tally:
    counts = paired.tally
    return Tally(
        summary_of(runs[0]),
        summary_of(runs[1]),
        counts.pairing,
        counts.counts,
        missing=counts.missing,
        clusters=counts.clusters,
        cluster_field=counts.cluster_field,
        repeats=counts.repeats,
        prompts_changed=counts.prompts_changed,
        slices=counts.slices,
        values_left_out=counts.values_left_out,
        counted=tuple(map(str, reading.counted)),
        flips=tuple(_flips_read(runs, paired, reading)),
    )


def _rates_tally(runs: tuple[SparkRun, SparkRun], reading: Reading) -> Tally:
    counted = [str(outcome) for outcome in reading.counted]
    before, after = (abstained_rows(run, counted) for run in runs)
    return Tally(
        summary_of(runs[0]),
        summary_of(runs[1]),
        Pairing.NONE,
        PairCounts(0, 0, 0, 0),
        missing=Missing(baseline_failed=runs[0].rows - before[1], candidate_failed=runs[1].rows - after[1]),
        unpaired_baseline=before,
        unpaired_candidate=after,
        counted=tuple(map(str, reading.counted)),
    )


def _flips_read(runs: tuple[SparkRun, SparkRun], paired: PairedRuns, reading: Reading) -> Iterator[Flip]:
    before = excerpts_at(runs[0], [flip[2] for flip in paired.flips])
    after = excerpts_at(runs[1], [flip[3] for flip in paired.flips])
    for key, direction, base, cand in paired.flips:
        if base in before and cand in after:
            shown = _shown_key(key, paired.tally.pairing)
            sides = before[base], after[cand]
            flip = _flip(shown, direction, *sides, reading=reading, asked={}, fields=runs[0].fields)
            said_no = [side.verdict.outcome in reading.counted for side in (flip.baseline, flip.candidate)]
            # A frame may give other rows the second time; then there is no example to show.
            if said_no == [direction is Direction.DECREASE, direction is Direction.INCREASE]:
                yield flip


def _evidence_read(runs: Sequence[SparkRun], reading: Reading) -> tuple[tuple[PhraseCount, ...], int]:
    """Return what made some of the refusals so, most frequent first, and how many were read for it."""
    counts: Counter[tuple[str, str]] = Counter()
    read = 0
    for run in runs:
        places = refusal_rows(run, most=_READ_FOR_PHRASES // len(runs))
        for _, _, traced in excerpts_at(run, places).values():
            verdict, _ = classify_text(traced.exchange.response, judge=reading.judge)
            read += 1
            raising = {(f.rule, f.category) for f in verdict.findings if f.weight > 0}
            said = {(f"{s.path} = {s.value}", str(s.kind)) for s in verdict.signals if s.blocked}
            counts.update(raising | said)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(PhraseCount(phrase, category, count) for (phrase, category), count in ordered[:20]), read
