"""The report of `demur scan`, in the order that people read it.

The rate of the whole comes first, then runs, groups, their differences, and the evidence that was found most often.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from demur.report.diff_words import capitalised, counted, counted_words, unread_warning
from demur.report.labels import label_lines, rate_ends
from demur.report.numbers import PERCENT, UNKNOWN, chance, level, percent, points, points_range
from demur.report.view import Column, Fact, Headline, IntervalPlot, Note, NoteKind, PlotRow, Table, Tone, Unit, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.run import GroupDifference, Scan
    from demur.report.view import Block

__all__ = ["scan_view"]

_RUNS_NAMED = 3
# The usual level; a scan has no gate, so this only chooses what is pointed out.
_SIGNIFICANT = 0.05
# Were all of four sessions to move one way, p would be 1/16.
_FEWEST_SESSIONS = 5
_FEW_NAMED = 3
_RATE_COLUMNS = (
    Column("", number=False),
    Column("answers"),
    Column("refused"),
    Column("rate, %"),
    Column("interval, %"),
)
_DIFFERENCE_COLUMNS = (
    Column("", number=False),
    Column("against", number=False),
    Column("answers"),
    Column("difference, points"),
    Column("p", spare=True),
    Column("q"),
)
_PHRASE_COLUMNS = (Column("", number=False), Column("category", number=False), Column("refusals"), Column("%"))
_RUN_COLUMNS = (
    Column("", number=False),
    Column("format", number=False),
    Column("models", number=False, spare=True),
    Column("rows"),
    Column("skipped"),
    Column("not readable"),
)


def scan_view(scan: Scan) -> View:
    """Return what people see of a scan."""
    names, rate = [run.name for run in scan.tally.runs], scan.rate
    more = len(names) - _RUNS_NAMED
    named = ", ".join(names[:_RUNS_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    words = counted_words(scan.tally.counted, " or ")
    ends = rate_ends(rate.interval)
    value = UNKNOWN if rate.value is None else f"{percent(rate.value)}{PERCENT}"
    sentence = f"{rate.count:,} of {counted(rate.n, 'judged answer')} {words}: {value} ({level(rate.interval)} {ends})."
    # n = 0 has no rate; zero percent would be a claim about answers that nobody judged.
    if rate.value is None:
        sentence = "No answer could be judged, so no refusal rate is known (n = 0)."
    differing = [d for d in scan.differences if d.q <= _SIGNIFICANT]
    groups = []
    correction = scan.correction
    if correction is not None:
        groups.append(f"The detector alone: {sentence}")
        people, ends = correction.rate, rate_ends(correction.rate.interval)
        value = f"{percent(people.value)}{PERCENT}"
        sentence = f"By the labels of people, {value} of {counted(people.n, 'judged answer')} {words} ({level(people.interval)} {ends})."
        groups += label_lines(correction)
    if differing:
        first = min(differing, key=lambda d: (d.q, -abs(d.difference.value)))
        size = f"{points(first.difference.value)} points against {first.against}"
        verb = "differs" if len(differing) == 1 else "differ"
        which = f"{first.field} {first.value} most clearly: {size}"
        groups.append(f"{counted(len(differing), 'group')} {verb} beyond chance, {which}.")
    figures = (
        Fact("Refusal rate", value, f"{level(rate.interval)}: {ends}" + (", by labels" if correction else "")),
        Fact(capitalised(words), f"{rate.count:,}", "answers"),
        Fact("Judged", f"{rate.n:,}", "answers; failed, empty and unread ones are left out"),
        Fact("Rows", f"{sum(run.rows for run in scan.tally.runs):,}", counted(len(scan.tally.runs), "run")),
    )
    # Before anything else: a rate over what could be read says nothing of the rest.
    groups = [*filter(None, (unread_warning(run, run.name) for run in scan.tally.runs)), *groups]
    headline = Headline("REFUSALS", sentence, Tone.NEUTRAL, tuple(groups))
    return View("Refusal scan", named, headline, None, figures, tuple(_blocks(scan, words)))


def _blocks(scan: Scan, words: str) -> Iterator[Block]:
    runs = scan.tally.runs
    yield from _shares("Outcomes", "% of rows", [run.outcomes for run in runs])
    # The only row of a single run would repeat the headline.
    if len(runs) > 1:
        yield _rate_plot("By run", [run.name for run in runs], scan.runs, words=words)
    for field in dict.fromkeys(group.field for group in scan.groups):
        groups = [group for group in scan.groups if group.field == field]
        values, rates = [group.value for group in groups], [group.rate for group in groups]
        yield _rate_plot(f"By {field}", values, rates, words=words)
    yield from _difference_plots(scan.differences)
    yield from _shares("Reasons of refusals", "% of those with a reason", [run.reasons for run in runs])
    yield from _shares("Causes", "% of those with a cause", [run.causes for run in runs])
    # Evidence is looked for in a bounded number of refusals, so shares are of those and the note says how many.
    read = scan.tally.read_for_phrases
    if read and scan.tally.phrases:
        title, note = "Most frequent evidence", f"in {counted(read, 'refusal')} read for it"
        phrases = scan.tally.phrases
        cells = tuple((p.phrase, p.category, f"{p.count:,}", percent(p.count / read)) for p in phrases)
        rows = tuple(PlotRow(p.phrase, p.count / read, None, None, p.count) for p in phrases)
        table = Table(title, _PHRASE_COLUMNS, cells, note)
        yield IntervalPlot(title, Unit.PERCENT, rows, "% of refusals read", note, table)
    held, skipped = [], Counter[str]()
    for run in runs:
        skipped.update(dict(run.skipped))
        models, left_out = ", ".join(run.models) or UNKNOWN, sum(count for _, count in run.skipped)
        held.append((run.name, run.format, models, f"{run.rows:,}", f"{left_out:,}", f"{run.unreadable:,}"))
    yield Table("Runs", _RUN_COLUMNS, tuple(held))
    if skipped:
        whys = ", ".join(f"{count:,} × {why}" for why, count in skipped.items())
        yield Note(NoteKind.HINT, "skipped", f"Rows that are no exchange: {whys}.")
    # Skipped rows were never meant to be judged; unreadable ones were, so they make every number less certain.
    unreadable = sum(run.unreadable for run in runs)
    if unreadable:
        yield Note(NoteKind.WARNING, "not readable", f"{counted(unreadable, 'row')}, in no figure.")
    yield from _session_notes(scan)
    interval = scan.rate.interval
    methods = f"Intervals are {level(interval)}, {capitalised(interval.method)}. Refused and filtered answers count as refusals; failed, empty and unread ones count for nothing."
    yield Note(NoteKind.HINT, "methods", methods)


def _session_notes(scan: Scan) -> Iterator[Block]:
    """Yield that sessions are counted where rows come in them, and which groups have too few for a test."""
    tally = scan.tally
    if tally.sums is None or not tally.sums.is_grouped:
        return
    what = tally.clustered_by or "session"
    rows = f"{counted(tally.sums.rows, 'judged answer')} come in {counted(tally.sums.sessions, what)}"
    yield Note(NoteKind.HINT, f"{what}s", f"{rows}: {what}s count, not rows, in intervals, p and q.")
    grouped = [(f"{g.field} {g.value}", g.sums.sessions) for g in tally.groups if g.sums and g.sums.is_grouped]
    few = [(name, sessions) for name, sessions in grouped if sessions < _FEWEST_SESSIONS]
    for name, sessions in few[:_FEW_NAMED]:
        found = f"{name}: {counted(sessions, what)} cannot support a test at 5 %"
        yield Note(NoteKind.WARNING, f"{what}s", f"{found}, so that no difference is claimed.")
    if len(few) > _FEW_NAMED:
        yield Note(
            NoteKind.WARNING, f"{what}s", f"{counted(len(few) - _FEW_NAMED, 'further group')} have too few as well."
        )


def _shares(title: str, axis: str, runs: Sequence[tuple[tuple[str, int], ...]]) -> Iterator[Block]:
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(dict(run))
    total = counts.total()
    if not total:
        return
    # Shares of a count need no interval: they describe these rows, not the model.
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [(name.replace("_", " "), count) for name, count in ordered]
    rows = tuple(PlotRow(name, count / total, None, None, count) for name, count in named)
    head = (Column("", number=False), Column("rows"), Column(axis))
    table = Table(title, head, tuple((name, f"{count:,}", percent(count / total)) for name, count in named))
    yield IntervalPlot(title, Unit.PERCENT, rows, axis, "", table)


def _rate_plot(title: str, names: Sequence[str], rates: Sequence[Rate], *, words: str) -> IntervalPlot:
    named = list(zip(names, rates, strict=True))
    rows = tuple(PlotRow(name, r.value, r.interval.low, r.interval.high, r.n) for name, r in named)
    cells = tuple(
        (name, f"{r.n:,}", f"{r.count:,}", percent(r.value), f"{percent(r.interval.low)} to {percent(r.interval.high)}")
        for name, r in named
    )
    note = f"with {level(rates[0].interval)} intervals"
    table = Table(title, _RATE_COLUMNS, cells, note)
    return IntervalPlot(title, Unit.PERCENT, rows, f"{words}, % of answers", note, table)


def _difference_plots(differences: Sequence[GroupDifference]) -> Iterator[Block]:
    ordered = sorted(differences, key=lambda d: (d.q, d.difference.p, -abs(d.difference.value), d.field, d.value))
    # Groups hold different questions, so that a difference between them may come from those.
    note = f"groups, not pairs (for one set of questions in two runs: demur diff); q is p held against all {counted(len(differences), 'comparison')}"
    for field in dict.fromkeys(d.field for d in ordered):
        cells, rows = [], []
        for part in (d for d in ordered if d.field == field):
            difference, interval = part.difference, part.difference.interval
            ends = points_range(interval.low, interval.high)
            size = f"{points(difference.value)} ({ends})"
            cells.append((part.value, part.against, f"{difference.n:,}", size, chance(difference.p), chance(part.q)))
            label, is_strong = f"{part.value} against {part.against}", part.q <= _SIGNIFICANT
            rows.append(PlotRow(label, difference.value, interval.low, interval.high, difference.n, strong=is_strong))
        title, axis = f"Differences by {field}", "difference of refusal rates, points"
        table = Table(title, _DIFFERENCE_COLUMNS, tuple(cells), note)
        yield IntervalPlot(title, Unit.POINTS, tuple(rows), axis, note, table)
