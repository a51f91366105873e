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

from demur.adapters.agentlog_files import write_agentlog_file
from demur.adapters.config import input_limits
from demur.adapters.engine import open_engine
from demur.adapters.excerpts import field_names, read_excerpts
from demur.adapters.labels import read_label_pairs
from demur.adapters.memory import spool_rows
from demur.adapters.pair_stream import draw_pairs, drawn_ids, most_pairs, run_ids, run_rows, stream_pairs
from demur.adapters.requests import join_requests, prompts_of
from demur.adapters.tallies import abstained_of, group_tallies, has_field, pair_runs, refusal_places, run_summary
from demur.adapters.verdict_files import write_pairs, write_verdicts
from demur.errors import UnreadableRowsError, UsageError
from demur.model.comparison import DiffSettings, Direction, Flip, FlipSide, Missing, PairCounts, Pairing, Tally
from demur.model.scan import PhraseCount, ScanTally
from demur.model.verdict import Outcome
from demur.pipeline.axes_asked import axes_asked, gated_axes
from demur.pipeline.axes_comparison import compare_with_axes
from demur.pipeline.batch import BatchJudge
from demur.pipeline.classify import classify_text
from demur.pipeline.compare import compare_tally
from demur.pipeline.ingest import Ingest
from demur.pipeline.scan import scan_tally
from demur.wire.traces import shadow_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.adapters.engine import Engine, LoadedRun
    from demur.adapters.excerpts import Excerpt
    from demur.adapters.ports import Progress
    from demur.adapters.tallies import PairTally
    from demur.model.axes import AxisName
    from demur.model.comparison import Comparison
    from demur.model.run import Traced
    from demur.model.scan import Scan
    from demur.pipeline.axes import AxesSettings
    from demur.pipeline.ports import TextJudge

__all__ = ["Reading", "compare", "scan", "write_run"]

_SLICED_BY_DEFAULT = ("category", "language", "model", "task", "tool")
_FLIPS_SHOWN = 20
_READ_FOR_PHRASES = 2000
_FIELDS_NAMED = 12
_COUNTED = (Outcome.REFUSED, Outcome.FILTERED)


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
    show: int = _FLIPS_SHOWN,
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
    fields = tuple(dict.fromkeys(by if by is not None else _SLICED_BY_DEFAULT))
    kept = _kept_fields([*fields, *_named_fields(key, cluster)])
    if unpaired and (by or key or cluster or labels or out or asked):
        raise UsageError("runs without pairs have no slices, keys, clusters, labels, further axes or pairs to write")
    with open_engine(jobs=reading.jobs) as engine:
        runs = (
            _load(engine, "baseline", baseline, fields=kept, reading=reading),
            _load(engine, "candidate", candidate, fields=kept, reading=reading),
        )
        _refuse_unknown(engine, runs, [*(by or ()), *_named_fields(key, cluster)])
        if unpaired:
            return compare_tally(_unpaired_tally(engine, runs, reading), settings or DiffSettings())
        counted = [str(outcome) for outcome in reading.counted]
        paired = pair_runs(engine, runs, counted=counted, key=key, cluster=cluster, slices=fields, show=show)
        tally = _paired_tally(engine, runs, paired, reading=reading, labels=labels)
        comparison = compare_tally(tally, settings or DiffSettings())
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
    fields = tuple(dict.fromkeys(by if by is not None else _SLICED_BY_DEFAULT))
    kept = _kept_fields(fields)
    with open_engine(jobs=reading.jobs) as engine:
        loaded = [_load(engine, f"run_{i}", run, fields=kept, reading=reading) for i, run in enumerate(runs)]
        _refuse_unknown(engine, loaded, by or ())
        tables = [run.table for run in loaded]
        groups = [group for name in fields for group in group_tallies(engine, tables, name)]
        if by is None:
            values = Counter(group.field for group in groups)
            groups = [group for group in groups if values[group.field] > 1]
        phrases, read = _evidence_of_refusals(engine, loaded, reading)
        summaries = tuple(run_summary(engine, run) for run in loaded)
        found = scan_tally(ScanTally(summaries, tuple(groups), phrases, read, tuple(map(str, reading.counted))))
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
        shown_key=lambda key: _shown_key(key, pairing),
        prompts=prompts_of(engine, reading.requests, ids, limits=limits),
    )
    judged = replace(settings, refusals=settings.refusals or reading.judge)
    return compare_with_axes(comparison, pairs, judged, gated=gated, total=drawn.pairs, read=drawn.read)


def _named_fields(key: str | None, cluster: str | None) -> list[str]:
    said = ("id", "prompt"), ("session", "key", "none")
    return [name for name, words in zip((key, cluster), said, strict=True) if name is not None and name not in words]


def _kept_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the fields that rows are kept with: those named, and the model; the engine's names know no case."""
    kept = dict.fromkeys([*fields, *(["model"] if "model" not in map(str.lower, fields) else [])])
    for name in kept:
        twin = next((other for other in kept if other != name and other.lower() == name.lower()), None)
        if twin is not None:
            raise UsageError(f"the fields `{name}` and `{twin}` differ in case alone", hint="name one of them")
    return tuple(kept)


def _refuse_unknown(engine: Engine, runs: Sequence[LoadedRun], named: Sequence[str]) -> None:
    """Raise where no row of any run has a field that the caller named: a slip of the pen would give no slices."""
    for name in dict.fromkeys(named):
        if any(has_field(engine, run, name) for run in runs):
            continue
        known = sorted({other for run in runs for other in field_names(run, limits=input_limits())})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        listed = ", ".join(f"`{other}`" for other in known[:_FIELDS_NAMED]) or "none"
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"no row has a field `{name}`", hint=f"{hint}there are {listed}")


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
    if loaded.errors and (not reading.skip_bad or not loaded.rows):
        hint = "mend them, or pass --skip-bad to leave them out and count them"
        raise UnreadableRowsError(
            loaded.errors, loaded.unreadable, hint=hint if loaded.rows else "no row of the run can be read"
        )
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


def _paired_tally(
    engine: Engine, runs: tuple[LoadedRun, LoadedRun], paired: PairTally, *, reading: Reading, labels: str | None
) -> Tally:
    return Tally(
        run_summary(engine, runs[0]),
        run_summary(engine, runs[1]),
        paired.pairing,
        paired.counts,
        missing=paired.missing,
        clusters=paired.clusters,
        cluster_field=paired.cluster_field,
        repeats=paired.repeats,
        prompts_changed=paired.prompts_changed,
        slices=paired.slices,
        values_left_out=paired.values_left_out,
        counted=tuple(map(str, reading.counted)),
        flips=_flips(engine, runs, paired, reading),
        labelled=read_label_pairs(engine, labels, limits=input_limits()) if labels else (),
    )


def _unpaired_tally(engine: Engine, runs: tuple[LoadedRun, LoadedRun], reading: Reading) -> Tally:
    counted = [str(outcome) for outcome in reading.counted]
    before, after = (abstained_of(engine, run, counted) for run in runs)
    return Tally(
        run_summary(engine, runs[0]),
        run_summary(engine, runs[1]),
        Pairing.NONE,
        PairCounts(0, 0, 0, 0),
        missing=Missing(baseline_failed=runs[0].rows - before[1], candidate_failed=runs[1].rows - after[1]),
        unpaired_baseline=before,
        unpaired_candidate=after,
        counted=tuple(map(str, reading.counted)),
    )


def _flips(engine: Engine, runs: tuple[LoadedRun, LoadedRun], paired: PairTally, reading: Reading) -> tuple[Flip, ...]:
    limits, places = input_limits(), paired.flips
    before = read_excerpts(engine, runs[0], [place.baseline for place in places], limits=limits)
    after = read_excerpts(engine, runs[1], [place.candidate for place in places], limits=limits)
    ids = {e[2].exchange.id for e in before.values() if e[2].exchange.id}
    asked = prompts_of(engine, reading.requests, ids, limits=limits)
    flips = (
        _flip(
            _shown_key(place.key, paired.pairing),
            place.direction,
            before[place.baseline],
            after[place.candidate],
            reading=reading,
            asked=asked,
            fields=runs[0].fields,
        )
        for place in places
        if place.baseline in before and place.candidate in after
    )
    return tuple(flip for flip in flips if _still_flipped(flip, reading.counted))


def _still_flipped(flip: Flip, counted: Sequence[Outcome]) -> bool:
    """Return whether what is read now is what was judged: a file rewritten meanwhile would show other texts."""
    now = (flip.baseline.verdict.outcome in counted, flip.candidate.verdict.outcome in counted)
    return now == (flip.direction is Direction.DECREASE, flip.direction is Direction.INCREASE)


def _shown_key(key: str, pairing: Pairing) -> str:
    """Return what a pair is called: a hash of a prompt is shown as one."""
    return f"prompt {int(key) & (2**64 - 1):016x}" if pairing is Pairing.PROMPT else key


def _flip(
    key: str,
    direction: Direction,
    before: Excerpt,
    after: Excerpt,
    *,
    reading: Reading,
    asked: Mapping[str, str],
    fields: Sequence[str],
) -> Flip:
    request = before[2].exchange.request or after[2].exchange.request
    prompt = request.prompt if request else asked.get(before[2].exchange.id or "")
    sides = _side(before, reading.judge), _side(after, reading.judge)
    return Flip(key, prompt, direction, *sides, _changed_fields(before[2], after[2], fields))


def _changed_fields(before: Traced, after: Traced, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a pair that people cut by; one that differs between the runs shows both values."""
    old, new = dict(before.fields), dict(after.fields)
    values = ((name, dict.fromkeys(v for v in (old.get(name), new.get(name)) if v)) for name in names)
    return tuple((name, " → ".join(both)) for name, both in values if both)


def _side(excerpt: Excerpt, judge: TextJudge | None) -> FlipSide:
    source, line, traced = excerpt
    verdict, text = classify_text(traced.exchange.response, judge=judge)
    return FlipSide(text, verdict, source, line)


def _evidence_of_refusals(
    engine: Engine, runs: Sequence[LoadedRun], reading: Reading
) -> tuple[tuple[PhraseCount, ...], int]:
    """Return what made some of the refusals so, most frequent first, and how many were read for it."""
    counts: Counter[tuple[str, str]] = Counter()
    read = 0
    for run in runs:
        places = refusal_places(engine, run, most=_READ_FOR_PHRASES // len(runs))
        for _, _, traced in read_excerpts(engine, run, places, limits=input_limits()).values():
            verdict, _ = classify_text(traced.exchange.response, judge=reading.judge)
            read += 1
            raising = {(f.rule, f.category) for f in verdict.findings if f.weight > 0}
            said = {(f"{s.path} = {s.value}", str(s.kind)) for s in verdict.signals if s.blocked}
            counts.update(raising | said)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(PhraseCount(phrase, category, count) for (phrase, category), count in ordered[:20]), read
