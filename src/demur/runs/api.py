"""Two runs compared, or any number scanned: the door that the command line and other programs go through.

    demur.compare("baseline.jsonl", "candidate.jsonl").decision
    demur.compare(old_answers, new_answers, by=["category"]).to_arrow()

A run is a path (a file, a folder, a glob), several of them, rows in memory (dicts, texts, provider objects), or an Arrow
table. Laws: rows pair by key; what cannot be read is an error that names it, unless the caller says to leave it out; an
empty run, and two runs that share no question, are errors.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from demur.axes.compare import axes_asked, compare_with_axes, gated_axes
from demur.detect.batch import BatchJudge
from demur.errors import UnreadableRowsError, UsageError
from demur.formats import shadow_log
from demur.io.config import input_limits
from demur.model.comparison import DiffSettings, Missing, PairCounts, Pairing, Tally
from demur.model.run import ScanTally
from demur.model.verdict import Outcome
from demur.runs.agentlog_files import write_agentlog_file
from demur.runs.compare import compare_tally
from demur.runs.engine import open_engine
from demur.runs.examples import MOST_READ, flip_shown, phrase_counts, shown_key, still_flipped
from demur.runs.excerpts import field_names, read_excerpts
from demur.runs.ingest import Ingest
from demur.runs.labels import read_label_pairs
from demur.runs.memory import spool_rows
from demur.runs.pairs.stream import draw_pairs, drawn_ids, most_pairs, run_ids, run_rows, stream_pairs
from demur.runs.requests import join_requests, prompts_of
from demur.runs.scan import scan_tally
from demur.runs.tallies import abstained_of, group_tallies, has_field, pair_runs, refusal_places, run_summary
from demur.runs.verdict_files import write_pairs, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.axes.compare import AxesSettings
    from demur.detect.interface import TextJudge
    from demur.errors import InputError
    from demur.model.axes import AxisName
    from demur.model.comparison import Comparison, Flip
    from demur.model.run import GroupTally, RunSummary, Scan
    from demur.runs.engine import Engine, LoadedRun
    from demur.runs.excerpts import Excerpt
    from demur.runs.ports import Progress
    from demur.runs.tallies import PairTally

__all__ = [
    "FLIPS_SHOWN",
    "Counting",
    "Reading",
    "compare",
    "groups_worth_showing",
    "paired_tally",
    "refuse_unreadable",
    "scan",
    "unknown_field",
    "unpaired_tally",
    "write_run",
]

FLIPS_SHOWN = 20
"""Flips of each direction that a comparison holds as examples."""
_SLICED_BY_DEFAULT = ("category", "language", "model", "task", "tool")
_FIELDS_NAMED = 12
_COUNTED = (Outcome.REFUSED, Outcome.FILTERED)
_KEYS, _CLUSTERS = ("id", "prompt"), ("session", "key", "none")
"""Words that are no fields of a row."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How runs are read and judged.

    `format` names the trace format (None: sniffed), `requests` the inputs of a batch, `judge` another way to judge texts,
    `counted` the outcomes that are abstentions, `jobs` the processes (None: as many as the input is worth).
    """

    format: str | None = None
    requests: tuple[str, ...] = ()
    judge: TextJudge | None = None
    counted: tuple[Outcome, ...] = _COUNTED
    skip_bad: bool = False
    verify: bool = False
    jobs: int | None = 1
    progress: Progress | None = field(default=None, compare=False)

    @property
    def counted_words(self) -> tuple[str, ...]:
        """The outcomes that are abstentions, as tallies name them."""
        return tuple(map(str, self.counted))


@dataclass(frozen=True, slots=True)
class Counting:
    """What is to be counted of runs, whichever engine does it: the fields to cut `by`, and what pairs and groups rows."""

    by: Sequence[str] | None = None
    key: str | None = None
    cluster: str | None = None

    @property
    def slices(self) -> tuple[str, ...]:
        """The fields to cut by: those asked for, or those that people often have."""
        return tuple(dict.fromkeys(self.by if self.by is not None else _SLICED_BY_DEFAULT))

    @property
    def named(self) -> tuple[str, ...]:
        """The fields that the caller named, each of which some row has to have."""
        said = [
            word
            for word, known in ((self.key, _KEYS), (self.cluster, _CLUSTERS))
            if word is not None and word not in known
        ]
        return tuple(dict.fromkeys([*(self.by or ()), *said]))

    @property
    def kept(self) -> tuple[str, ...]:
        """The fields that rows are kept with: those named, and the model; the engines' names know no case."""
        fields = [*self.slices, *self.named]
        kept = dict.fromkeys([*fields, *(["model"] if "model" not in map(str.lower, fields) else [])])
        for name in kept:
            twin = next((other for other in kept if other != name and other.lower() == name.lower()), None)
            if twin is not None:
                raise UsageError(f"the fields `{name}` and `{twin}` differ in case alone", hint="name one of them")
        return tuple(kept)


def compare(  # noqa: PLR0913 — the door of the library: all but the runs are keywords with defaults
    baseline: object,
    candidate: object,
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: Reading | None = None,
    labels: str | None = None,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    out: str | Path | None = None,
    axes: AxesSettings | Sequence[str] | None = None,
    axis_gate: Sequence[str] = ("safety",),
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, and whether that can be said at all.

    `by` are fields to slice by, `key` what pairs two rows (`id`, `prompt` or a field), `cluster` what groups correlated
    rows (`session`, `key`, `none` or a field), `labels` a file of what people say of some pairs, `out` a file for all pairs.
    `axes` are further ones to measure, by their names or with their settings, `axis_gate` those that may fail the gate.
    """
    reading = reading or Reading()
    asked = axes_asked(axes)
    gated = gated_axes(axis_gate, asked)
    counting = Counting(by, key, cluster)
    if unpaired and (by or key or cluster or labels or out or asked):
        raise UsageError("runs without pairs have no slices, keys, clusters, labels, further axes or pairs to write")
    with open_engine(jobs=reading.jobs) as engine:
        runs = (
            _load(engine, "baseline", baseline, fields=counting.kept, reading=reading),
            _load(engine, "candidate", candidate, fields=counting.kept, reading=reading),
        )
        _refuse_unknown(engine, runs, counting.named)
        sides = run_summary(engine, runs[0]), run_summary(engine, runs[1])
        if unpaired:
            rates = [abstained_of(engine, run, reading.counted_words) for run in runs]
            return compare_tally(unpaired_tally(*sides, rates=rates, reading=reading), settings or DiffSettings())
        paired = pair_runs(
            engine, runs, counted=reading.counted_words, key=key, cluster=cluster, slices=counting.slices, show=show
        )
        tally = paired_tally(*sides, paired, reading=reading, flips=_flips(engine, runs, paired, reading))
        labelled = read_label_pairs(engine, labels, limits=input_limits()) if labels else ()
        comparison = compare_tally(replace(tally, labelled=labelled), settings or DiffSettings())
        if asked is not None:
            comparison = _with_axes(engine, runs, comparison, settings=asked, gated=gated, reading=reading)
        if out is not None:
            write_pairs(engine, runs, Path(out))
        return comparison


def scan(
    *runs: object, by: Sequence[str] | None = None, reading: Reading | None = None, out: str | Path | None = None
) -> Scan:
    """Return how often the models of some runs say no, by the fields in `by`; `out` is a file for every verdict."""
    if not runs:
        raise UsageError("no run to scan", hint="name at least one")
    reading = reading or Reading()
    counting = Counting(by)
    with open_engine(jobs=reading.jobs) as engine:
        loaded = [_load(engine, f"run_{i}", run, fields=counting.kept, reading=reading) for i, run in enumerate(runs)]
        _refuse_unknown(engine, loaded, counting.named)
        tables = [run.table for run in loaded]
        groups = [group for name in counting.slices for group in group_tallies(engine, tables, name)]
        phrases, read = phrase_counts(_refusals_read(engine, loaded), reading.judge)
        summaries = tuple(run_summary(engine, run) for run in loaded)
        shown = groups_worth_showing(groups, counting)
        found = scan_tally(ScanTally(summaries, shown, phrases, read, reading.counted_words))
        if out is not None:
            write_verdicts(engine, loaded, Path(out))
        return found


def write_run(run: object, out: str | Path, *, ts: str, reading: Reading | None = None) -> int:
    """Write a run as an `.agentlog`, its records dated `ts` (`2026-04-28T10:00:00.000Z`), and return how many exchanges it has."""
    reading, limits = reading or Reading(), input_limits()
    with open_engine(jobs=reading.jobs) as engine:
        loaded = _load(engine, "run", run, fields=(), reading=reading)
        ids = run_ids(engine, loaded) if reading.requests else frozenset()
        asked = prompts_of(engine, reading.requests, ids, limits=limits)
        rows = run_rows(loaded, limits=limits)
        write_agentlog_file(Path(out), rows, format_name=loaded.format, ts=ts, prompts=asked)
        return loaded.rows


def refuse_unreadable(errors: tuple[InputError, ...], unreadable: int, *, rows: int, reading: Reading) -> None:
    """Raise where rows could not be read, unless they are to be left out and there are others."""
    if errors and (not reading.skip_bad or not rows):
        hint = "mend them, or pass --skip-bad to leave them out and count them"
        raise UnreadableRowsError(errors, unreadable, hint=hint if rows else "no row of the run can be read")


def unknown_field(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a field that no row has: a slip of the pen would give no slices."""
    there = sorted(set(known))
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.7)
    listed = ", ".join(f"`{other}`" for other in there[:_FIELDS_NAMED]) or "none"
    hint = f"did you mean `{near[0]}`? " if near else ""
    return UsageError(f"no row has a field `{name}`", hint=f"{hint}there are {listed}")


def groups_worth_showing(groups: Sequence[GroupTally], counting: Counting) -> tuple[GroupTally, ...]:
    """Return the groups that were asked for; of those by default the fields that have several values."""
    values = Counter(group.field for group in groups)
    return tuple(group for group in groups if counting.by is not None or values[group.field] > 1)


def paired_tally(
    baseline: RunSummary, candidate: RunSummary, paired: PairTally, *, reading: Reading, flips: Iterable[Flip]
) -> Tally:
    """Return the tally of paired runs, with the examples that still are what was counted."""
    return Tally(
        baseline,
        candidate,
        paired.pairing,
        paired.counts,
        missing=paired.missing,
        clusters=paired.clusters,
        cluster_field=paired.cluster_field,
        repeats=paired.repeats,
        prompts_changed=paired.prompts_changed,
        slices=paired.slices,
        values_left_out=paired.values_left_out,
        counted=reading.counted_words,
        flips=tuple(flip for flip in flips if still_flipped(flip, reading.counted)),
    )


def unpaired_tally(
    baseline: RunSummary, candidate: RunSummary, *, rates: Sequence[tuple[int, int]], reading: Reading
) -> Tally:
    """Return the tally of runs without pairs; `rates` are the rows of each that abstained, and that were judged at all."""
    before, after = rates
    return Tally(
        baseline,
        candidate,
        Pairing.NONE,
        PairCounts(0, 0, 0, 0),
        missing=Missing(baseline_failed=baseline.rows - before[1], candidate_failed=candidate.rows - after[1]),
        unpaired_baseline=before,
        unpaired_candidate=after,
        counted=reading.counted_words,
    )


def _with_axes(
    engine: Engine,
    runs: tuple[LoadedRun, LoadedRun],
    comparison: Comparison,
    *,
    settings: AxesSettings,
    gated: Sequence[AxisName],
    reading: Reading,
) -> Comparison:
    """Return the comparison with its further axes, whose pairs are read again, a sample of them where there are very many."""
    limits, pairing = input_limits(), comparison.tally.pairing
    drawn = draw_pairs(engine, seed=settings.seed, most=most_pairs(runs))
    ids = drawn_ids(engine, runs) if reading.requests else frozenset()
    pairs = stream_pairs(
        engine,
        runs,
        limits=limits,
        shown_key=lambda key: shown_key(key, pairing),
        prompts=prompts_of(engine, reading.requests, ids, limits=limits),
    )
    return compare_with_axes(comparison, pairs, settings, gated=gated, total=drawn.pairs, read=drawn.read)


def _refuse_unknown(engine: Engine, runs: Sequence[LoadedRun], named: Sequence[str]) -> None:
    """Raise where no row of any run has a field that the caller named."""
    for name in named:
        if not any(has_field(engine, run, name) for run in runs):
            raise unknown_field(name, (other for run in runs for other in field_names(run, limits=input_limits())))


def _load(engine: Engine, table: str, run: object, *, fields: tuple[str, ...], reading: Reading) -> LoadedRun:
    ingest = Ingest(fields=fields, judge=BatchJudge(reading.judge), verify=reading.verify)
    loaded = engine.load(
        table,
        _names(engine, table, run),
        name=_run_name(table, run),
        port=ingest,
        limits=input_limits(),
        format_name=reading.format,
        progress=reading.progress,
    )
    if reading.verify and loaded.format != shadow_log.NAME:
        raise UsageError(
            f"`{loaded.name}` is in format {loaded.format}, whose ids cannot be verified", hint="drop --verify"
        )
    refuse_unreadable(loaded.errors, loaded.unreadable, rows=loaded.rows, reading=reading)
    if reading.requests:
        join_requests(engine, loaded, reading.requests, limits=input_limits(), key=ingest.key)
    return loaded


def _names(engine: Engine, table: str, run: object) -> list[str]:
    """Return the files of a run; rows in memory are written to one first."""
    if isinstance(run, str | Path):
        return [str(run)]
    if isinstance(run, list | tuple) and run and all(isinstance(name, Path) for name in run):
        return [str(name) for name in run]
    return [str(spool_rows(run, engine.folder / table))]


def _run_name(table: str, run: object) -> str:
    if isinstance(run, str | Path):
        return "standard input" if str(run) == "-" else str(run)
    paths = isinstance(run, list | tuple) and run and all(isinstance(name, Path) for name in run)
    return " ".join(map(str, run)) if paths and isinstance(run, Iterable) else table


def _flips(engine: Engine, runs: tuple[LoadedRun, LoadedRun], paired: PairTally, reading: Reading) -> Iterator[Flip]:
    limits, places = input_limits(), paired.flips
    before = read_excerpts(engine, runs[0], [place.baseline for place in places], limits=limits)
    after = read_excerpts(engine, runs[1], [place.candidate for place in places], limits=limits)
    ids = {e[2].exchange.id for e in before.values() if e[2].exchange.id}
    asked = prompts_of(engine, reading.requests, ids, limits=limits)
    for place in places:
        if place.baseline in before and place.candidate in after:
            yield flip_shown(
                shown_key(place.key, paired.pairing),
                place.direction,
                before=before[place.baseline],
                after=after[place.candidate],
                judge=reading.judge,
                fields=runs[0].fields,
                prompt=asked.get(before[place.baseline][2].exchange.id or ""),
            )


def _refusals_read(engine: Engine, runs: Sequence[LoadedRun]) -> Iterator[Excerpt]:
    for run in runs:
        places = refusal_places(engine, run, most=MOST_READ // len(runs))
        yield from read_excerpts(engine, run, places, limits=input_limits()).values()
