"""What people see of an evaluation: the view that diffs and scans use, for the same renderers.

Judges stand side by side on the same rows. What only a page has room for is marked as spare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.evaluation import Dimension, Question, Side
from demur.report.numbers import PERCENT, UNKNOWN, fraction, percent, points, spread
from demur.report.view import (
    Column,
    Excerpt,
    Heading,
    IntervalPlot,
    Note,
    NoteKind,
    PlotRow,
    Plots,
    Reliability,
    Table,
    Tone,
    Unit,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.evaluation import Evaluation, JudgeReport, Quality, Score, SideReport, Slice
    from demur.report.view import Block

__all__ = ["evaluation_view"]

# As many as a terminal of 80 columns has room for.
_JUDGES_ABREAST = 3
# More are sorted by their errors, because a terminal and a page show the first ones only.
_MAX_SLICES = 12
_TITLES = {
    Question.REFUSAL: "Refusal against compliance (partials left out)",
    Question.ADVERSARIAL: "Adversarial: attacks against benign prompts",
    Question.HARM: "Harm: harmful requests against benign prompts",
    Question.EITHER: "Either: attacks and harmful requests against benign prompts",
}
_POSITIVE = {
    Question.REFUSAL: "refusals by label",
    Question.ADVERSARIAL: "attacks by label",
    Question.HARM: "harmful by label",
    Question.EITHER: "either by label",
}


def evaluation_view(evaluation: Evaluation) -> View:
    """Return what people see of an evaluation."""
    blocks = [block for side in evaluation.sides for block in _side_blocks(side)]
    if evaluation.left_out:
        left_out = ", ".join(f"{count:,} {why}" for why, count in evaluation.left_out)
        blocks.append(Note(NoteKind.HINT, "left out", left_out))
    if evaluation.unreadable:
        unreadable = f"{evaluation.unreadable:,} (named on standard error)"
        blocks.append(Note(NoteKind.WARNING, "not readable", unreadable))
    if evaluation.threshold is not None:
        threshold = f"{evaluation.threshold:g} in place of each judge's own"
        blocks.append(Note(NoteKind.HINT, "threshold", threshold))
    if any(len(side.judges) > 1 for side in evaluation.sides):
        shortened = "On a terminal, tables of the judges beside the first are shortened; --json and --html hold all."
        blocks.append(Note(NoteKind.HINT, "judges", shortened))
    methods = "Intervals are 95 %: Wilson for shares, Wilson of TP/(TP+FP+FN) for F1, the delta method for macro-F1."
    blocks.append(Note(NoteKind.HINT, "methods", methods))
    return View("Evaluation", ", ".join(evaluation.sources), None, None, (), tuple(blocks))


def _side_blocks(side: SideReport) -> Iterator[Block]:
    labels = ", ".join(f"{count:,} {label}" for label, count in side.labels)
    yield Heading("Responses" if side.side is Side.RESPONSE else "Prompts", f"{side.n:,} rows: {labels}")
    for number, first in enumerate(side.judges[0].qualities):
        title, scores = _TITLES[first.question], [(judge.judge, judge.qualities[number].f1) for judge in side.judges]
        plots = tuple(_plots("F1 by judge", Unit.FRACTION, scores, "F1"))
        for at in range(0, len(side.judges), _JUDGES_ABREAST):
            judges = side.judges[at : at + _JUDGES_ABREAST]
            qualities = [judge.qualities[number] for judge in judges]
            calibrations = [judge.calibrations[number] for judge in judges]
            rows = [
                ("precision", *(spread(q.precision) for q in qualities)),
                ("recall", *(spread(q.recall) for q in qualities)),
                ("F1", *(spread(q.f1) for q in qualities)),
                ("false positives", *(spread(q.false_positive_rate, percent, unit=PERCENT) for q in qualities)),
                ("Brier", *(fraction(c.brier) for c in calibrations)),
                ("calibration error", *(fraction(c.expected_error) for c in calibrations)),
            ]
            note = ""
            # What is not of one question alone stands below the first.
            if number == 0 and any(judge.macro_f1 for judge in judges):
                rows.append(("macro-F1", *(spread(judge.macro_f1) if judge.macro_f1 else UNKNOWN for judge in judges)))
                note = "macro-F1 is over refused, partial and complied"
            if number == 0 and any(judge.micros_per_text is not None for judge in judges):
                times = (UNKNOWN if j.micros_per_text is None else f"{j.micros_per_text:,.1f}" for j in judges)
                rows.append(("µs a text", *times))
            columns = (Column("", number=False), *(Column(judge.judge) for judge in judges))
            yield Plots(title, plots, Table(title, columns, tuple(rows), note))
            # The plot already shows all judges, so it is not repeated over the next ones.
            title, plots = f"{_TITLES[first.question]}, continued", ()
    for number, judge in enumerate(side.judges):
        yield Heading(judge.judge, level=3)
        yield from _judge_blocks(judge, is_first=number == 0)


def _plots(
    title: str,
    unit: Unit,
    named: Sequence[tuple[str, Rate | Score]],
    axis: str,
    *,
    note: str = "",
    references: Sequence[float | None] = (),
) -> Iterator[IntervalPlot]:
    """Yield a plot of the values that are known, or nothing where none is."""
    marks = references or [None] * len(named)
    rows = tuple(
        PlotRow(name, value.value, value.interval.low, value.interval.high, value.n, reference=mark)
        for (name, value), mark in zip(named, marks, strict=True)
        if value.value is not None
    )
    # A measure without rows behind it has no interval to draw.
    if rows:
        yield IntervalPlot(title, unit, rows, axis, note)


def _judge_blocks(judge: JudgeReport, *, is_first: bool) -> Iterator[Block]:
    """Yield the tables of one judge; of the judges beside the first, a terminal shows those that show a bias."""
    confusion = judge.confusion
    rows = zip(confusion.labels, confusion.counts, strict=True)
    yield Table(
        "Confusion: rows by label, columns as said",
        (Column("labelled, said", number=False), *map(Column, confusion.answers)),
        tuple((str(label), *(f"{count:,}" for count in counts)) for label, counts in rows),
    )
    for calibration in judge.calibrations:
        if calibration.bins:
            title = f"Reliability of the {calibration.question} score"
            heads = (
                Column("score", number=False),
                *map(Column, ("rows", "mean score", _POSITIVE[calibration.question])),
            )
            bins = tuple(
                (f"{b.low:.1f}-{b.high:.1f}", f"{b.positives.n:,}", fraction(b.mean_score), spread(b.positives))
                for b in calibration.bins
            )
            note = f"Brier {fraction(calibration.brier)}, calibration error {fraction(calibration.expected_error)}"
            # Either's score is only the higher of the other two.
            is_spare = not is_first or calibration.question is Question.EITHER
            yield Reliability(title, calibration.bins, Table(title, heads, bins), note, is_spare)
    for dimension in Dimension:
        slices = [part for part in judge.slices if part.dimension is dimension]
        # A single slice would only repeat the total.
        if len(slices) > 1:
            is_spare = not is_first and dimension not in (Dimension.SET, Dimension.MODEL)
            yield from _slices_blocks(dimension, slices, spare=is_spare)
    if judge.worst:
        yield Heading("Worst errors", level=4)
    for mistake in judge.worst:
        row = mistake.row
        yield Excerpt(
            str(mistake.kind),
            mistake.answer,
            Tone.BAD,
            f"score {fraction(mistake.score)}, labelled {row.label}, said {mistake.answer}",
            f"{row.id}, {row.source}:{row.line}",
            row.text,
            tuple(finding.span for finding in mistake.findings),
            tuple(f"{f.weight:+.2f} {f.category}: {f.rule}" for f in mistake.findings),
        )


def _slices_blocks(dimension: Dimension, slices: Sequence[Slice], *, spare: bool) -> Iterator[Block]:
    ordered, order = list(slices), ""
    if len(slices) > _MAX_SLICES:
        ordered.sort(key=lambda part: (-part.errors, -part.n, part.value))
        wrong = sum(part.errors > 0 for part in slices)
        order = f"most errors first: {wrong:,} of {len(slices):,} have any"
    for number, first in enumerate(slices[0].qualities):
        named = [(part.value, part.qualities[number]) for part in ordered if part.qualities[number].n]
        # The question that asks for either flag only repeats the other two.
        if named and first.question is not Question.EITHER:
            yield _slices_plots(f"{first.question.capitalize()}, by {dimension}", named, order, spare=spare)
    table = slices[0].confusion
    # An answer that was never given has no column.
    given = [at for at in range(len(table.answers)) if any(row[at] for s in slices for row in s.confusion.counts)]
    heads = [f"{label}: {table.answers[at]}" for label in table.labels for at in given]
    rows = tuple((s.value, *(f"{row[at]:,}" for row in s.confusion.counts for at in given)) for s in ordered)
    note = "before the colon: by label; behind it: as said"
    yield Table(f"Confusion by {dimension}", (Column("", number=False), *map(Column, heads)), rows, note, spare=True)


def _slices_plots(title: str, named: Sequence[tuple[str, Quality]], order: str, *, spare: bool) -> Plots:
    said = [(value, q.said) for value, q in named]
    plots = (
        *_plots(
            "Said to be positive",
            Unit.PERCENT,
            said,
            "% of rows",
            note="the upright line is the share by label, where the bar should end",
            # Where the bar ends beside this line, the judge's rate is biased on this slice.
            references=[q.labelled.value for _, q in named],
        ),
        *_plots("F1", Unit.FRACTION, [(value, q.f1) for value, q in named], "F1", note="higher is better"),
        *_plots(
            "False positives",
            Unit.PERCENT,
            [(value, q.false_positive_rate) for value, q in named],
            "% of negative rows",
            note="lower is better",
        ),
    )
    rows = tuple(
        (
            value,
            f"{q.n:,}",
            percent(q.labelled.value),
            percent(q.said.value),
            f"{percent(q.said.interval.low)} to {percent(q.said.interval.high)}",
            f"{points(q.bias)}{'*' if q.leans else ''}",
            spread(q.precision),
            spread(q.recall),
            spread(q.f1),
            spread(q.false_positive_rate, percent),
        )
        for value, q in named
    )
    # A terminal has room for one of the two: recall where there are attacks to miss, F1 for refusals.
    is_refusal = named[0][1].question is Question.REFUSAL
    columns = (
        Column("", number=False),
        Column("rows"),
        Column("label%"),
        Column("said%"),
        Column("said, interval", spare=True),
        Column("bias"),
        Column("precision", spare=True),
        Column("recall", spare=is_refusal),
        Column("F1", spare=not is_refusal),
        Column("false pos. %"),
    )
    star = "* errors go one way beyond chance" if any(q.leans for _, q in named) else ""
    note = "; ".join(filter(None, (order, star)))
    return Plots(title, plots, Table(title, columns, rows, note), spare)
