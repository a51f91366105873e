"""What does a reader of `demur scan` see, and in which order?

Laws: the rate of the whole comes first; a plot or table with a single row that repeats the whole is left out; phrases say of how many
refusals they were read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.diff_words import capitalised, counted, counted_words
from demur.report.numbers import PERCENT, UNKNOWN, chance, level, percent, points, points_range
from demur.report.view import Column, Fact, Headline, IntervalPlot, Note, NoteKind, PlotRow, Table, Tone, Unit, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.run import GroupDifference, Scan
    from demur.report.view import Block

__all__ = ["scan_view"]

_RUNS_NAMED = 3
_SIGNIFICANT = 0.05
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


def scan_view(scan: Scan) -> View:
    """Return what people see of a scan."""
    names = [run.name for run in scan.tally.runs]
    more = len(names) - _RUNS_NAMED
    named = ", ".join(names[:_RUNS_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    headline = Headline(
        "REFUSALS",
        _sentence(scan.rate, counted_words(scan.tally.counted, " or ")),
        Tone.NEUTRAL,
        tuple(_told_of_groups(scan)),
    )
    return View("Refusal scan", named, headline, None, tuple(_figures_of(scan)), tuple(_scan_blocks(scan)))


def _sentence(rate: Rate, words: str) -> str:
    if rate.value is None:
        return "No answer could be judged, so no refusal rate is known (n = 0)."
    ends = f"{percent(rate.interval.low)} to {percent(rate.interval.high)}"
    return f"{rate.count:,} of {counted(rate.n, 'judged answer')} {words}: {percent(rate.value)}{PERCENT} ({level(rate.interval)} {ends})."


def _told_of_groups(scan: Scan) -> Iterator[str]:
    differing = [d for d in scan.differences if d.q <= _SIGNIFICANT]
    if differing:
        first = min(differing, key=lambda d: (d.q, -abs(d.difference.value)))
        size = f"{points(first.difference.value)} points against {first.against}"
        verb = "differs" if len(differing) == 1 else "differ"
        yield f"{counted(len(differing), 'group')} {verb} beyond chance, {first.field} {first.value} most clearly: {size}."


def _figures_of(scan: Scan) -> Iterator[Fact]:
    rate = scan.rate
    ends = f"{level(rate.interval)}: {percent(rate.interval.low)} to {percent(rate.interval.high)}"
    yield Fact("Refusal rate", UNKNOWN if rate.value is None else f"{percent(rate.value)}{PERCENT}", ends)
    yield Fact(capitalised(counted_words(scan.tally.counted, " or ")), f"{rate.count:,}", "answers")
    yield Fact("Judged", f"{rate.n:,}", "answers, failed ones left out")
    yield Fact("Rows", f"{sum(run.rows for run in scan.tally.runs):,}", counted(len(scan.tally.runs), "run"))


def _scan_blocks(scan: Scan) -> Iterator[Block]:
    runs, words = scan.tally.runs, counted_words(scan.tally.counted, " or ")
    yield from _shares("Outcomes", "% of rows", [run.outcomes for run in runs])
    if len(runs) > 1:
        names = [run.name for run in runs]
        yield _rate_plot("By run", names, scan.runs, words=words)
    for field in dict.fromkeys(group.field for group in scan.groups):
        of_field = [group for group in scan.groups if group.field == field]
        values, rates = [group.value for group in of_field], [group.rate for group in of_field]
        yield _rate_plot(f"By {field}", values, rates, words=words)
    yield from _difference_plots(scan.differences)
    yield from _shares("Reasons of refusals", "% of those with a reason", [run.reasons for run in runs])
    yield from _shares("Causes", "% of those with a cause", [run.causes for run in runs])
    yield from _phrase_plot(scan)
    yield _run_rows(scan)
    yield from _scan_notes(scan)


def _shares(title: str, axis: str, runs: Sequence[tuple[tuple[str, int], ...]]) -> Iterator[Block]:
    counts: dict[str, int] = {}
    for run in runs:
        for name, count in run:
            counts[name] = counts.get(name, 0) + count
    total = sum(counts.values())
    if not total:
        return
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
    return IntervalPlot(
        title, Unit.PERCENT, rows, f"{words}, % of answers", note, Table(title, _RATE_COLUMNS, cells, note)
    )


def _difference_plots(differences: Sequence[GroupDifference]) -> Iterator[Block]:
    ordered = sorted(differences, key=lambda d: (d.q, d.difference.p, -abs(d.difference.value), d.field, d.value))
    for field in dict.fromkeys(d.field for d in ordered):
        of_field = [d for d in ordered if d.field == field]
        title = f"Differences by {field}"
        note = f"groups, not pairs (for one set of questions in two runs: demur diff); q is p held against all {counted(len(differences), 'comparison')}"
        table = Table(title, _DIFFERENCE_COLUMNS, tuple(map(_difference_cells, of_field)), note)
        rows = tuple(map(_difference_mark, of_field))
        yield IntervalPlot(title, Unit.POINTS, rows, "difference of refusal rates, points", note, table)


def _difference_cells(d: GroupDifference) -> tuple[str, ...]:
    ends = points_range(d.difference.interval.low, d.difference.interval.high)
    figures = (f"{d.difference.n:,}", f"{points(d.difference.value)} ({ends})", chance(d.difference.p), chance(d.q))
    return (d.value, d.against, *figures)


def _difference_mark(d: GroupDifference) -> PlotRow:
    interval, label = d.difference.interval, f"{d.value} against {d.against}"
    strong = d.q <= _SIGNIFICANT
    return PlotRow(label, d.difference.value, interval.low, interval.high, d.difference.n, strong=strong)


def _phrase_plot(scan: Scan) -> Iterator[Block]:
    read = scan.tally.read_for_phrases
    if not (read and scan.tally.phrases):
        return
    title, note = "Most frequent evidence", f"in {counted(read, 'refusal')} read for it"
    head = (Column("", number=False), Column("category", number=False), Column("refusals"), Column("%"))
    phrases = [(p.phrase, p.category, p.count, p.count / read) for p in scan.tally.phrases]
    cells = tuple((phrase, category, f"{count:,}", percent(share)) for phrase, category, count, share in phrases)
    rows = tuple(PlotRow(phrase, share, None, None, count) for phrase, _, count, share in phrases)
    yield IntervalPlot(title, Unit.PERCENT, rows, "% of refusals read", note, Table(title, head, cells, note))


def _run_rows(scan: Scan) -> Table:
    head = (
        Column("", number=False),
        Column("format", number=False),
        Column("models", number=False, spare=True),
        Column("rows"),
        Column("skipped"),
        Column("not readable"),
    )
    rows = tuple(
        (
            run.name,
            run.format,
            ", ".join(run.models) or UNKNOWN,
            f"{run.rows:,}",
            f"{sum(count for _, count in run.skipped):,}",
            f"{run.unreadable:,}",
        )
        for run in scan.tally.runs
    )
    return Table("Runs", head, rows)


def _scan_notes(scan: Scan) -> Iterator[Note]:
    skipped: dict[str, int] = {}
    for run in scan.tally.runs:
        for why, count in run.skipped:
            skipped[why] = skipped.get(why, 0) + count
    if skipped:
        told = ", ".join(f"{count:,} × {why}" for why, count in skipped.items())
        yield Note(NoteKind.HINT, "skipped", f"Rows that are no exchange: {told}.")
    unreadable = sum(run.unreadable for run in scan.tally.runs)
    if unreadable:
        yield Note(NoteKind.WARNING, "not readable", f"{counted(unreadable, 'row')}, in no figure.")
    told = f"Intervals are {level(scan.rate.interval)}, {capitalised(scan.rate.interval.method)}. Refused and filtered answers count as refusals, failed ones as neither."
    yield Note(NoteKind.HINT, "methods", told)
