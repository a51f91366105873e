"""An evaluation as one page: tables, plots and the worst errors with their evidence marked.

Laws: one file that loads nothing and runs nothing; light or dark as the reader's machine asks, and fit to print; every
word of the set is escaped; the same evaluation gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.evaluate.plots import Bar, bars, reliability
from demur.evaluate.text import TITLES, remainder
from demur.model.evaluation import Dimension, Question, Side
from demur.report.html.document import document
from demur.report.markup import escaped, marked
from demur.report.numbers import UNKNOWN, bounds, fraction, percent, points

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from demur.model.estimate import Rate
    from demur.model.evaluation import Confusion, Evaluation, JudgeReport, Mistake, Quality, Score, SideReport, Slice

__all__ = ["evaluation_page"]

_MOST_SLICES = 15
_QUALITY_HEAD = ("precision", "recall", "F1", "false positives, %")


def evaluation_page(evaluation: Evaluation) -> str:
    """Return the whole page."""
    names = ", ".join(evaluation.sources)
    return document(
        f"Evaluation of {names}",
        [
            f'<h1>Evaluation</h1>\n<p class="soft">{escaped(names)}</p>',
            *(part for side in evaluation.sides for part in _side_section(side)),
            *_notes(evaluation),
        ],
    )


def _notes(evaluation: Evaluation) -> Iterator[str]:
    yield "<h2>Notes</h2>\n<ul>"
    for why, count in evaluation.left_out:
        yield f"<li>Left out: {count:,} {escaped(why)}.</li>"
    if evaluation.unreadable:
        yield f"<li>Not readable: {evaluation.unreadable:,}.</li>"
    if evaluation.threshold is not None:
        yield f"<li>Threshold {evaluation.threshold:g} in place of each judge's own.</li>"
    yield "<li>Intervals are 95 %: Wilson for shares, Wilson of TP/(TP+FP+FN) mapped to F1, the delta method for macro-F1.</li>"
    yield "<li>A row marked * errs one way beyond chance.</li>\n</ul>"


def _side_section(side: SideReport) -> Iterator[str]:
    yield f"<h2>{'Responses' if side.side is Side.RESPONSE else 'Prompts'}</h2>"
    counts = ", ".join(f"{count:,} {label}" for label, count in side.labels)
    yield f"<p>{side.n:,} rows: {counts}.</p>"
    for number, first in enumerate(side.judges[0].qualities):
        yield _figures_table(side.judges, number)
        f1 = [Bar(j.judge, j.qualities[number].f1) for j in side.judges]
        yield _figure(f"F1 by judge, {first.question}", bars(f1, "F1"), kind="wide")
    for judge in side.judges:
        yield from _judge_section(judge)


def _figure(title: str, drawn: str, *, kind: str = "", note: str = "") -> str:
    """Return a plot below its title, or nothing where nothing is drawn."""
    note = f'<span class="note">{note}</span>' if note else ""
    return f'<figure class="{kind}"><figcaption>{title}{note}</figcaption>{drawn}</figure>' if drawn else ""


def _figures_table(judges: Sequence[JudgeReport], number: int) -> str:
    head = ["judge", *_QUALITY_HEAD, "Brier", "calibration error"]
    three_way = any(judge.macro_f1 for judge in judges)
    timed = any(judge.micros_per_text is not None for judge in judges)
    head += ["macro-F1"] * three_way + ["µs a text"] * timed
    rows = []
    for judge in judges:
        q, c = judge.qualities[number], judge.calibrations[number]
        macro = _with_bounds(judge.macro_f1) if judge.macro_f1 else UNKNOWN
        micros = UNKNOWN if judge.micros_per_text is None else f"{judge.micros_per_text:,.1f}"
        figures = [*_quality_cells(q), fraction(c.brier), fraction(c.expected_error)]
        rows.append([escaped(judge.judge), *figures, *[macro] * three_way, *[micros] * timed])
    title = TITLES[judges[0].qualities[number].question]
    return _html_table(title[0].upper() + title[1:], head, rows)


def _quality_cells(quality: Quality) -> list[str]:
    shares = [_with_bounds(quality.precision), _with_bounds(quality.recall), _with_bounds(quality.f1)]
    return [*shares, _with_bounds(quality.false_positive_rate, percent)]


def _with_bounds(figure: Rate | Score, form: Callable[[float | None], str] = fraction) -> str:
    """Return a figure with its interval on a line of its own."""
    return UNKNOWN if figure.value is None else f"{form(figure.value)} <small>{bounds(figure, form)}</small>"


def _html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], *, above: str = "") -> str:
    """Return a table whose first column holds names; its cells, and the row `above` its head, are HTML already."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "\n".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        for name, *cells in rows
    )
    thead = f"<thead>{above}<tr>{top}</tr></thead>"
    return f'<div class="scroll"><table><caption>{caption}</caption>{thead}\n<tbody>{body}</tbody></table></div>'


def _judge_section(judge: JudgeReport) -> Iterator[str]:
    yield f'<h3>{escaped(judge.judge)}</h3>\n<div class="beside">'
    yield _confusion_table(judge.confusion)
    yield '<div class="beside">'
    for c in judge.calibrations:
        if c.bins:
            title = f"Reliability of the {c.question} score"
            note = f"Brier {fraction(c.brier)}, calibration error {fraction(c.expected_error)}"
            yield _figure(title, reliability(c.bins, title), note=note)
    yield "</div>\n</div>"
    for dimension in Dimension:
        slices = [s for s in judge.slices if s.dimension is dimension]
        if len(slices) > 1:
            yield f"<h4>By {dimension}</h4>"
            yield from _slices_section(dimension, slices)
    if judge.worst:
        yield "<h4>Worst errors</h4>"
        yield from map(_mistake_article, judge.worst)


def _confusion_table(table: Confusion) -> str:
    rows = zip(table.labels, table.counts, strict=True)
    cells = [[str(label), *map(_count, counts)] for label, counts in rows]
    return _html_table("Confusion: rows by label, columns as said", ["", *table.answers], cells)


def _count(count: int) -> str:
    return f"{count:,}" if count else '<span class="soft">0</span>'


def _slices_section(dimension: Dimension, slices: Sequence[Slice]) -> Iterator[str]:
    """Yield the plots and tables of a dimension; beyond a screenful, the worst are shown and the others folded away."""
    if len(slices) > _MOST_SLICES:
        slices = sorted(slices, key=lambda s: (-s.errors, -s.n, s.value))
    shown, folded = slices[:_MOST_SLICES], slices[_MOST_SLICES:]
    yield from _slices_block(dimension, shown)
    if folded:
        told = remainder([s.errors for s in shown], [s.errors for s in folded])
        yield f"<details><summary>{told}</summary>"
        yield from _slices_block(dimension, folded)
        yield "</details>"


def _slices_block(dimension: Dimension, slices: Sequence[Slice]) -> Iterator[str]:
    for number, first in enumerate(slices[0].qualities):
        if first.question is Question.EITHER:
            continue
        pairs = [(s.value, s.qualities[number]) for s in slices if s.qualities[number].n]
        if not pairs:
            continue
        yield f'<div class="abreast">{"".join(_slice_plots(pairs, first.question))}</div>'
        yield _slices_table(f"{first.question.capitalize()}, by {dimension}", pairs)
    yield f"<details><summary>Confusion by {dimension}</summary>{_slices_confusion(slices)}</details>"


def _slices_confusion(slices: Sequence[Slice]) -> str:
    """Return one row a slice, with the answers below each label; an answer that was never given has no column."""
    table = slices[0].confusion
    given = [at for at in range(len(table.answers)) if any(row[at] for s in slices for row in s.confusion.counts)]
    groups = "".join(f'<th scope="colgroup" colspan="{len(given)}">{label}</th>' for label in table.labels)
    rows = [[escaped(s.value), *(_count(row[at]) for row in s.confusion.counts for at in given)] for s in slices]
    head = ["", *(table.answers[at] for _ in table.labels for at in given)]
    caption = "Upper head: by label; lower head: as said"
    return _html_table(caption, head, rows, above=f'<tr class="groups"><td></td>{groups}</tr>')


def _slice_plots(pairs: Sequence[tuple[str, Quality]], question: Question) -> Iterator[str]:
    said = [Bar(value, q.said, q.labelled.value) for value, q in pairs]
    key = '<i class="key"></i>share by label, where the bar should end'
    yield _figure(f"Said to be positive, {question}", bars(said, "% of rows", in_percent=True), note=key)
    yield _figure(f"F1, {question}", bars([Bar(value, q.f1) for value, q in pairs], "F1"), note="higher is better")
    alarms = [Bar(value, q.false_positive_rate) for value, q in pairs]
    drawn = bars(alarms, "% of negative rows", in_percent=True)
    yield _figure(f"False positives, {question}", drawn, note="lower is better")


def _slices_table(name: str, pairs: Sequence[tuple[str, Quality]]) -> str:
    head = ["", "rows", "labelled, %", "said, %", "bias, points", *_QUALITY_HEAD]
    rows = []
    for value, q in pairs:
        bias = points(q.bias) + ('<span class="star">*</span>' if q.leans else "")
        shares = [percent(q.labelled.value), _with_bounds(q.said, percent), bias]
        rows.append([escaped(value), f"{q.n:,}", *shares, *_quality_cells(q)])
    return _html_table(name, head, rows)


def _mistake_article(mistake: Mistake) -> str:
    row = mistake.row
    facts = f"score {fraction(mistake.score)}, labelled {row.label}, said {mistake.answer}"
    place = f"{escaped(row.id)}, {escaped(row.source)}:{row.line}"
    rules = "".join(f"<li>{f.weight:+.2f} {escaped(f.category)}: {escaped(f.rule)}</li>" for f in mistake.findings)
    text = marked(row.text, [f.span for f in mistake.findings])
    listed = f"<ul>{rules}</ul>" if rules else ""
    return f'<article><p><b>{mistake.kind}</b>, {facts} <span class="soft">({place})</span></p><pre>{text}</pre>{listed}</article>'
