"""An evaluation as one page: tables, plots and the worst errors with their evidence marked.

Laws: one file that loads nothing and runs nothing; light or dark as the reader's machine asks, and fit to print; every
word of the set is escaped; the same evaluation gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.evaluation import Dimension, Question, Side
from demur.report.evaluation_plots import Bar, bars, reliability
from demur.report.markup import escaped
from demur.report.numbers import UNKNOWN, fraction, percent, points, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.model.evaluation import Confusion, Evaluation, JudgeReport, Mistake, Quality, SideReport, Slice
    from demur.model.text import Span

__all__ = ["evaluation_page"]

_OPENING_SHOWN = 400
_CONTEXT_SHOWN = 160
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #6a737d; --line: #d0d7de; --bar: #4f86c6;
  --mark: #ffe08a; --label: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #8b949e; --line: #30363d;
  --bar: #5b9bd5; --mark: #7a5d00; --label: #fb923c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h2 { border-bottom: 1px solid var(--line); } h3 { margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; } caption { text-align: left; color: var(--soft); }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; font-variant-numeric: tabular-nums; vertical-align: top; }
tr { border-bottom: 1px solid var(--line); } .scroll { overflow-x: auto; } .soft { color: var(--soft); }
svg { max-width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--ink); }
.frame { fill: none; stroke: var(--line); } .ideal { stroke: var(--soft); stroke-dasharray: 4 4; }
.bar { fill: var(--bar); opacity: .75; } .dot { fill: var(--bar); } .whisker { stroke: var(--ink); stroke-width: 1.5; }
.label { stroke: var(--label); stroke-width: 2.5; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--line); padding-left: .8rem; }
mark { background: var(--mark); color: inherit; }
figure { display: inline-block; margin: 0 1rem 1rem 0; } article { break-inside: avoid; }
@media print { :root { --ink: #000; --paper: #fff; } body { max-width: none; margin: 0; } }
"""


def evaluation_page(evaluation: Evaluation) -> str:
    """Return the whole page."""
    names = ", ".join(escaped(name) for name in evaluation.sources)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Evaluation of {names}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
            f'<h1>Evaluation</h1>\n<p class="soft">{names}</p>',
            *(part for side in evaluation.sides for part in _side_section(side)),
            *_notes(evaluation),
            "</body>\n</html>\n",
        ]
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
        yield f"<figure>{bars(f1, f'F1, {first.question}')}</figure>"
    for judge in side.judges:
        yield from _judge_section(judge)


def _figures_table(judges: Sequence[JudgeReport], number: int) -> str:
    head = [
        "judge",
        "precision",
        "recall",
        "F1",
        "false positives %",
        "Brier",
        "calibration error",
        "macro-F1",
        "µs a text",
    ]
    rows = []
    for judge in judges:
        q, c = judge.qualities[number], judge.calibrations[number]
        macro = spread(judge.macro_f1) if judge.macro_f1 else UNKNOWN
        micros = UNKNOWN if judge.micros_per_text is None else f"{judge.micros_per_text:,.1f}"
        figures = [*_quality_cells(q), fraction(c.brier), fraction(c.expected_error), macro, micros]
        rows.append([escaped(judge.judge), *figures])
    return _html_table(f"Question: {judges[0].qualities[number].question}", head, rows)


def _quality_cells(quality: Quality) -> list[str]:
    shares = [spread(quality.precision), spread(quality.recall), spread(quality.f1)]
    return [*shares, spread(quality.false_positive_rate, percent)]


def _html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are HTML already."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    caption = f"<caption>{caption}</caption>" if caption else ""
    return f'<div class="scroll"><table>{caption}<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _judge_section(judge: JudgeReport) -> Iterator[str]:
    yield f"<h3>{escaped(judge.judge)}</h3>"
    yield _confusion_table(judge.confusion)
    for c in judge.calibrations:
        if c.bins:
            drawn = reliability(c.bins, f"reliability of the {c.question} score")
            told = f"{c.question}: Brier {fraction(c.brier)}, calibration error {fraction(c.expected_error)}"
            yield f"<figure>{drawn}<figcaption>{told}</figcaption></figure>"
    for dimension in Dimension:
        slices = [s for s in judge.slices if s.dimension is dimension]
        if len(slices) > 1:
            yield from _slices_section(dimension, slices)
    if judge.worst:
        yield "<h4>Worst errors</h4>"
        yield from map(_mistake_article, judge.worst)


def _confusion_table(table: Confusion) -> str:
    rows = zip(table.labels, table.counts, strict=True)
    cells = [[str(label), *(f"{count:,}" for count in counts)] for label, counts in rows]
    return _html_table("Labelled (rows), said (columns)", ["", *table.answers], cells)


def _slices_section(dimension: Dimension, slices: Sequence[Slice]) -> Iterator[str]:
    yield f"<h4>By {dimension}</h4>"
    for number, first in enumerate(slices[0].qualities):
        if first.question is Question.EITHER:
            continue
        pairs = [(s.value, s.qualities[number]) for s in slices]
        name = f"{first.question}, by {dimension}"
        for title, drawn in _slice_plots(pairs, name):
            yield f"<figure><figcaption>{title}</figcaption>{drawn}</figure>" if drawn else ""
        yield _slices_table(name, pairs)
    head = [
        "",
        *(f"{label}: {answer}" for label in slices[0].confusion.labels for answer in slices[0].confusion.answers),
    ]
    cells = [[escaped(s.value), *(f"{count:,}" for row in s.confusion.counts for count in row)] for s in slices]
    yield f"<details open><summary>Confusion by {dimension}</summary>{_html_table('', head, cells)}</details>"


def _slice_plots(pairs: Sequence[tuple[str, Quality]], name: str) -> Iterator[tuple[str, str]]:
    said = [Bar(value, q.said, q.labelled.value) for value, q in pairs]
    yield (
        "share said to be positive, %; the upright line is the share by label",
        bars(said, f"said, {name}", in_percent=True),
    )
    yield "F1", bars([Bar(value, q.f1) for value, q in pairs], f"F1, {name}")
    alarms = [Bar(value, q.false_positive_rate) for value, q in pairs]
    yield "false positives, %", bars(alarms, f"false positives, {name}", in_percent=True)


def _slices_table(name: str, pairs: Sequence[tuple[str, Quality]]) -> str:
    head = ["", "rows", "labelled %", "said %", "bias, points", "precision", "recall", "F1", "false positives %"]
    rows = []
    for value, q in pairs:
        bias = points(q.bias) + ("*" if q.leans else "")
        shares = [percent(q.labelled.value), spread(q.said, percent), bias]
        rows.append([escaped(value), f"{q.n:,}", *shares, *_quality_cells(q)])
    return _html_table(name, head, rows)


def _mistake_article(mistake: Mistake) -> str:
    row = mistake.row
    facts = f"score {fraction(mistake.score)}, labelled {row.label}, said {mistake.answer}"
    place = f"{escaped(row.id)}, {escaped(row.source)}:{row.line}"
    rules = "".join(f"<li>{f.weight:+.2f} {escaped(f.category)}: {escaped(f.rule)}</li>" for f in mistake.findings)
    text = _marked_text(row.text, [f.span for f in mistake.findings])
    listed = f"<ul>{rules}</ul>" if rules else ""
    return f'<article><p><b>{mistake.kind}</b>, {facts} <span class="soft">({place})</span></p><pre>{text}</pre>{listed}</article>'


def _marked_text(text: str, spans: Sequence[Span]) -> str:
    """Return the opening and what stands around the evidence, which is marked; gaps are shown as […]."""
    marked = bytearray(len(text))
    kept = bytearray(len(text))
    kept[:_OPENING_SHOWN] = b"\x01" * min(_OPENING_SHOWN, len(text))
    for span in spans:
        marked[span.start : span.end] = b"\x01" * (min(span.end, len(text)) - span.start)
        low, high = max(0, span.start - _CONTEXT_SHOWN), min(len(text), span.end + _CONTEXT_SHOWN)
        kept[low:high] = b"\x01" * (high - low)
    parts, start = [], 0
    for at in range(1, len(text) + 1):
        if at == len(text) or (kept[at], marked[at]) != (kept[start], marked[start]):
            shown = escaped(text[start:at])
            parts.append(f"<mark>{shown}</mark>" if marked[start] else shown if kept[start] else " […] ")
            start = at
    return "".join(parts)
