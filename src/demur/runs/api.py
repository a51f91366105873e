"""Two runs compared, or any number scanned: what the command line and other programs call.

    demur.compare("baseline.jsonl", "candidate.jsonl").decision
    demur.compare(old_responses, new_responses, by=["category"]).to_arrow()

A run is a path (a file, a folder, a glob), several of them, rows in memory (dicts, texts, provider objects), or an Arrow table. What
cannot be read is an error that names it, unless the caller says to leave it out; an empty run, and two runs that share no question, are
errors. `tally_pair` and `scan_runs` are the same for every engine.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from demur.errors import UsageError
from demur.io.files import input_limits
from demur.model.axes import AxisName
from demur.model.columns import unknown_name
from demur.model.comparison import DiffSettings, Missing, PairCounts, Pairing, Tally
from demur.model.run import ScanTally
from demur.model.verdict import Outcome
from demur.runs.compare import compare_tally, scan_tally
from demur.runs.counting import CountingEngine, abstained_of, group_tallies, pair_runs, places_of, run_summary
from demur.runs.engine import open_engine
from demur.runs.examples import (
    MAX_REFUSALS_READ,
    MAX_UNREAD_SHOWN,
    flip_of,
    phrase_counts,
    shown_key,
    still_flipped,
    unread_example,
)
from demur.runs.inputs import prompts_of
from demur.runs.options import CountOptions, ReadOptions, reading_of
from demur.runs.sequential import check_sequential, read_evidence
from demur.runs.sessions import row_groups, run_session_sums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from demur.axes.compare import AxesSettings
    from demur.model.columns import ColumnNames, Columns
    from demur.model.comparison import Comparison, Flip
    from demur.model.labels import LabelSample
    from demur.model.run import GroupTally, RunSummary, Scan
    from demur.runs.counting import JudgedRun, PairTally
    from demur.runs.engine import Engine, LoadedRun
    from demur.runs.examples import Excerpt
    from demur.runs.pairs import DrawnPairs, StreamedPairs

__all__ = [
    "FLIPS_SHOWN",
    "Reading",
    "RunsEngine",
    "check_fields",
    "check_runs",
    "compare",
    "groups_worth_showing",
    "scan",
    "scan_runs",
    "tally_pair",
    "tally_runs",
    "write_run",
]

FLIPS_SHOWN = 20
"""Flips of each direction that a comparison holds as examples."""
Reading = ReadOptions
"""The public name of the options: `demur.Reading`."""
_WITH_EVIDENCE = (Outcome.REFUSED, Outcome.FILTERED)


class RunsEngine(CountingEngine, Protocol):
    """What reads, judges and counts runs: DuckDB on this machine, or Spark."""

    folder: Path

    def load_run(self, table: str, run: object, *, fields: tuple[str, ...], options: ReadOptions) -> Any:  # noqa: ANN401 — a `JudgedRun` of the engine's own kind
        """Return a run of a caller, judged."""

    def counting(self, runs: Sequence[Any], options: ReadOptions, /) -> AbstractContextManager[None]:
        """Give a scope for queries in which failures are named and progress is shown."""

    def field_names(self, run: Any) -> tuple[str, ...]:  # noqa: ANN401 — as above
        """Return the fields that the first rows of a run have."""

    def excerpts(self, run: Any, rowids: Sequence[Any]) -> Mapping[Any, Excerpt]:  # noqa: ANN401 — as above
        """Return the exchanges at these rows of a run, read again."""


def compare(  # noqa: PLR0913 — the library's main function: all but the runs are keywords with defaults
    baseline: object,
    candidate: object,
    *,
    by: Sequence[str] | None = None,
    key: str | None = None,
    cluster: str | None = None,
    settings: DiffSettings | None = None,
    reading: ReadOptions | None = None,
    labels: str | None = None,
    labels_are_random: bool = False,
    unpaired: bool = False,
    show: int = FLIPS_SHOWN,
    out: str | Path | None = None,
    axes: AxesSettings | Sequence[str] | None = None,
    axis_gate: Sequence[str] = ("safety",),
    **columns: Unpack[ColumnNames],
) -> Comparison:
    """Return how the candidate's refusals differ from the baseline's, and whether that can be said at all.

    `by` are fields to slice by, `key` what pairs two rows (`id`, `prompt` or a field), `cluster` what groups correlated
    rows (`session`, `key`, `none` or a field), `labels` a file of what people say of some pairs, `out` a file for all pairs.
    `labels_are_random` vouches for labels that `demur label` did not draw.
    `axes` are further ones to measure, by their names or with their settings, `axis_gate` those that may fail the gate.
    `response_field`, `prompt_field`, `id_field`, `session_field`, `label_field` and `label_map` name the columns of rows of your own.
    """
    options, label_columns = _for_labels(reading_of(reading, columns), labels)
    counting = CountOptions(by, key, cluster)
    asked: AxesSettings | None = None
    gated: tuple[AxisName, ...] = (AxisName.SAFETY,)
    # Most comparisons are of refusals alone, and need none of the axes' modules.
    if axes is not None or tuple(axis_gate) != gated:
        from demur.axes.compare import axes_asked, gated_axes

        asked = axes_asked(axes)
        gated = gated_axes(axis_gate, asked)
    if unpaired and (by or key or cluster or labels or out or asked):
        raise UsageError("runs without pairs have no slices, keys, clusters, labels, further axes or pairs to write")
    if settings is not None and settings.sequential:
        check_sequential(settings, labels=bool(labels), axes=asked is not None, unpaired=unpaired)
    with open_engine(jobs=options.jobs) as engine:
        runs, tally = tally_pair(
            engine, baseline, candidate, counting=counting, options=options, unpaired=unpaired, show=show
        )
        if labels:
            of_labels = replace(options, columns=label_columns)
            tally = replace(tally, labels=_pair_labels(engine, labels, of_labels, labels_are_random=labels_are_random))
        if settings is not None and settings.sequential:
            tally = replace(tally, evidence=read_evidence(engine, tally, alpha=settings.alpha))
        comparison = compare_tally(tally, settings or DiffSettings())
        if asked is not None:
            with _floor_pairs(baseline, asked, counting=counting, options=options) as floor:
                comparison = _with_axes(
                    engine, runs, comparison, settings=asked, gated=gated, options=options, floor=floor
                )
        if out is not None:
            from demur.runs.outputs import write_pairs

            write_pairs(engine, runs, Path(out))
        return comparison


def _pair_labels(engine: Engine, labels: str, options: ReadOptions, *, labels_are_random: bool) -> LabelSample:
    """Return what people say of pairs in the engine, by a file of theirs."""
    from demur.model.labels import PAIR_SIDES
    from demur.runs.label import label_sample, pair_units
    from demur.runs.label_file import read_labels

    pair_units(engine)
    given = read_labels(labels, engine.folder, counted=options.counted, columns=options.columns)
    return label_sample(engine, given, sides=PAIR_SIDES, source=labels, labels_are_random=labels_are_random)


def scan(
    *runs: object,
    by: Sequence[str] | None = None,
    reading: ReadOptions | None = None,
    labels: str | None = None,
    labels_are_random: bool = False,
    out: str | Path | None = None,
    **columns: Unpack[ColumnNames],
) -> Scan:
    """Return how often the models of some runs say no, by the fields in `by`; `out` is a file for every verdict.

    `labels` is a file of what people say of some rows of one run; `labels_are_random` vouches for those that `demur label` did not draw.
    `response_field`, `prompt_field`, `id_field`, `session_field`, `label_field` and `label_map` name the columns of rows of your own.
    """
    check_runs(runs)
    if labels and len(runs) > 1:
        raise UsageError(
            f"labels of one run, and {len(runs)} runs to scan", hint="scan the run that was labelled alone"
        )
    options, label_columns = _for_labels(reading_of(reading, columns), labels)
    with open_engine(jobs=options.jobs) as engine:
        loaded, found = scan_runs(engine, runs, counting=CountOptions(by), options=options)
        if labels:
            from demur.measure.labels import corrected_rate
            from demur.model.labels import ROW_SIDES
            from demur.runs.label import label_sample, row_units
            from demur.runs.label_file import read_labels

            row_units(engine, loaded[0], options)
            given = read_labels(labels, engine.folder, counted=options.counted, columns=label_columns)
            sample = label_sample(engine, given, sides=ROW_SIDES, source=labels, labels_are_random=labels_are_random)
            # Rows of a session move together, whoever judges them.
            effect = 1.0 if found.tally.sums is None else found.tally.sums.design_effect
            found = replace(found, correction=corrected_rate(sample, design_effect=effect))
        if out is not None:
            from demur.runs.outputs import write_verdicts

            write_verdicts(engine, loaded, Path(out))
        return found


def _for_labels(options: ReadOptions, labels: str | None) -> tuple[ReadOptions, Columns]:
    """Return how runs are read, and how the file of labels: where there is one, the named column of labels is in it."""
    if labels is None:
        return options, options.columns
    return replace(options, columns=replace(options.columns, label_field=None, label_map=())), options.columns


def write_run(run: object, out: str | Path, *, ts: str, reading: ReadOptions | None = None) -> int:
    """Write a run as an `.agentlog`, its records dated `ts` (`2026-04-28T10:00:00.000Z`), and return how many exchanges it has."""
    from demur.runs.outputs import write_agentlog_file
    from demur.runs.pairs import run_ids, run_rows

    options, limits = reading or ReadOptions(), input_limits()
    with open_engine(jobs=options.jobs) as engine:
        loaded = engine.load_run("run", run, fields=(), options=options)
        ids = run_ids(engine, loaded) if options.requests else frozenset()
        asked = prompts_of(options.requests, engine.folder, ids, limits=limits)
        rows = run_rows(loaded, limits=limits)
        write_agentlog_file(Path(out), rows, format_name=loaded.format, ts=ts, prompts=asked)
        return loaded.rows


def tally_pair(
    engine: RunsEngine,
    baseline: object,
    candidate: object,
    *,
    counting: CountOptions,
    options: ReadOptions,
    unpaired: bool,
    show: int,
) -> tuple[tuple[Any, Any], Tally]:
    """Return two runs, judged, and what they count up to, with the flips that are shown."""
    runs = (
        engine.load_run("baseline", baseline, fields=counting.kept, options=options),
        engine.load_run("candidate", candidate, fields=counting.kept, options=options),
    )
    check_fields(engine, runs, counting.named)
    return runs, tally_runs(engine, runs, counting=counting, options=options, unpaired=unpaired, show=show)


def tally_runs(
    engine: RunsEngine,
    runs: tuple[Any, Any],
    *,
    counting: CountOptions,
    options: ReadOptions,
    unpaired: bool,
    show: int,
) -> Tally:
    """Return what two judged runs count up to, with the flips that are shown."""
    with engine.counting(runs, options):
        sides = _summary(engine, runs[0], options), _summary(engine, runs[1], options)
        counted = options.counted_words
        if unpaired:
            before, after = (abstained_of(run, counted) for run in runs)
            clustered_by, sums = row_groups(engine, runs), None
            if clustered_by is not None:
                _, (first, second) = run_session_sums(engine, runs, clustered_by, counted=counted)
                sums = first, second
            return Tally(
                *sides,
                Pairing.NONE,
                PairCounts(0, 0, 0, 0),
                # Of runs without pairs nothing is missing but the rows without a verdict.
                missing=Missing(baseline_failed=sides[0].rows - before[1], candidate_failed=sides[1].rows - after[1]),
                unpaired_baseline=before,
                unpaired_candidate=after,
                unpaired_sums=sums,
                cluster_field=clustered_by,
                counted=counted,
            )
        paired = pair_runs(
            engine, runs, counted=counted, key=counting.key, cluster=counting.cluster, slices=counting.slices, show=show
        )
        # A file that was rewritten meanwhile, or a query that gave other rows, would show other texts than were counted.
        flips = tuple(flip for flip in _flips(engine, runs, paired, options) if still_flipped(flip, options.counted))
        return Tally(
            *sides,
            paired.pairing,
            paired.counts,
            missing=paired.missing,
            clusters=paired.clusters,
            cluster_field=paired.cluster_field,
            repeats=paired.repeats,
            prompts_changed=paired.prompts_changed,
            slices=paired.slices,
            values_left_out=paired.values_left_out,
            counted=counted,
            flips=flips,
        )


def scan_runs(
    engine: RunsEngine, runs: Sequence[object], *, counting: CountOptions, options: ReadOptions
) -> tuple[list[Any], Scan]:
    """Return some runs, judged, and their rates."""
    loaded = [engine.load_run(f"run_{i}", run, fields=counting.kept, options=options) for i, run in enumerate(runs)]
    check_fields(engine, loaded, counting.named)
    with engine.counting(loaded, options):
        counted, clustered_by = options.counted_words, row_groups(engine, loaded)
        groups = [
            group
            for name in counting.slices
            for group in group_tallies(engine, loaded, name, clustered_by=clustered_by, counted=counted)
        ]
        whole, each = (
            (None, ()) if clustered_by is None else run_session_sums(engine, loaded, clustered_by, counted=counted)
        )
        # Only some refusals are read again, an equal part of each run: all of them would cost as much as the scan itself.
        most = MAX_REFUSALS_READ // max(1, len(loaded))
        # Only these have a phrase or a signal to show.
        places = ((run, places_of(engine, run, _WITH_EVIDENCE, most=most)) for run in loaded)
        refusals = (excerpt for run, rows in places for excerpt in engine.excerpts(run, rows).values())
        phrases, read = phrase_counts(refusals, options.judge)
        summaries = tuple(_summary(engine, run, options) for run in loaded)
    shown = groups_worth_showing(groups, counting)
    return loaded, scan_tally(ScanTally(summaries, shown, phrases, read, counted, clustered_by, whole, each))


def _summary(engine: RunsEngine, run: Any, options: ReadOptions) -> RunSummary:  # noqa: ANN401 — each engine has runs of its own
    """Return what a run held, with some examples of what could not be read."""
    summary = run_summary(engine, run)
    if not summary.share(Outcome.UNREAD):
        return summary
    places = places_of(engine, run, (Outcome.UNREAD,), most=MAX_UNREAD_SHOWN)
    found = engine.excerpts(run, places)
    return replace(summary, unread=tuple(unread_example(found[at], options.judge) for at in places if at in found))


def check_runs(runs: Sequence[object]) -> None:
    """Raise where there is no run, before an engine is started."""
    if not runs:
        raise UsageError("no run to scan", hint="name at least one")


def groups_worth_showing(groups: Sequence[GroupTally], counting: CountOptions) -> tuple[GroupTally, ...]:
    """Return the groups that were asked for; of those by default the fields that have several values."""
    values = Counter(group.field for group in groups)
    return tuple(group for group in groups if counting.by is not None or values[group.field] > 1)


def check_fields(engine: RunsEngine, runs: Sequence[JudgedRun], named: Sequence[str]) -> None:
    """Raise where no row of any run has a field that the caller named: a misspelled name would give no slices."""
    filled = {name for run in runs for name in run.filled}
    for name in named:
        if name not in filled:
            known = sorted({other for run in runs for other in engine.field_names(run)})
            raise unknown_name(name, known, what="no row has a field")


def _flips(
    engine: RunsEngine, runs: tuple[JudgedRun, JudgedRun], paired: PairTally, options: ReadOptions
) -> Iterator[Flip]:
    places = paired.flips
    before = engine.excerpts(runs[0], [place.baseline for place in places])
    after = engine.excerpts(runs[1], [place.candidate for place in places])
    ids = {excerpt[2].exchange.id for excerpt in before.values() if excerpt[2].exchange.id}
    asked = prompts_of(options.requests, engine.folder, ids, limits=input_limits()) if options.requests else {}
    for place in places:
        if place.baseline in before and place.candidate in after:
            yield flip_of(
                shown_key(place.key, paired.pairing),
                place.direction,
                before=before[place.baseline],
                after=after[place.candidate],
                judge=options.judge,
                fields=runs[0].fields,
                prompt=asked.get(before[place.baseline][2].exchange.id or ""),
            )


def _with_axes(
    engine: Engine,
    runs: tuple[LoadedRun, LoadedRun],
    comparison: Comparison,
    *,
    settings: AxesSettings,
    gated: Sequence[AxisName],
    options: ReadOptions,
    floor: StreamedPairs | None,
) -> Comparison:
    """Return the comparison with its further axes, whose pairs are read again, a sample of them where there are very many."""
    from demur.axes.compare import compare_with_axes

    pairs, drawn = _drawn_pairs(engine, runs, pairing=comparison.tally.pairing, settings=settings, options=options)
    return compare_with_axes(comparison, pairs, settings, gated=gated, total=drawn.pairs, read=drawn.read, floor=floor)


@contextmanager
def _floor_pairs(
    baseline: object, settings: AxesSettings, *, counting: CountOptions, options: ReadOptions
) -> Iterator[StreamedPairs | None]:
    """Give the pairs of the baseline with a second run of its agent, None where there is no such run."""
    if settings.floor is None or AxisName.TRAJECTORY not in settings.axes:
        yield None
        return
    asked = CountOptions((), counting.key, counting.cluster)
    with open_engine(jobs=options.jobs) as engine:
        runs, tally = tally_pair(
            engine, baseline, settings.floor, counting=asked, options=options, unpaired=False, show=0
        )
        yield _drawn_pairs(engine, runs, pairing=tally.pairing, settings=settings, options=options)[0]


def _drawn_pairs(
    engine: Engine, runs: tuple[LoadedRun, LoadedRun], *, pairing: Pairing, settings: AxesSettings, options: ReadOptions
) -> tuple[StreamedPairs, DrawnPairs]:
    from demur.runs.pairs import draw_pairs, drawn_ids, max_pairs, stream_pairs

    limits = input_limits()
    drawn = draw_pairs(engine, seed=settings.seed, most=max_pairs(runs))
    ids = drawn_ids(engine, runs) if options.requests else frozenset()
    pairs = stream_pairs(
        engine,
        runs,
        limits=limits,
        shown_key=lambda key: shown_key(key, pairing),
        prompts=prompts_of(options.requests, engine.folder, ids, limits=limits),
    )
    return pairs, drawn
