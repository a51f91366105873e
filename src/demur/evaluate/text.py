"""An evaluation on a terminal.

Laws: at most 80 columns; judges stand side by side on the same rows; a table that would only repeat the total is left
out; control characters of the set never reach the terminal; what is shortened says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.evaluation import Dimension, Question, Side
from demur.report.columns import columns, printable
from demur.report.evidence import underline
from demur.report.numbers import PERCENT, UNKNOWN, fraction, percent, points, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.evaluation import Calibration, Evaluation, JudgeReport, Mistake, Quality, SideReport, Slice

__all__ = ["TITLES", "WIDTH", "evaluation_lines", "remainder"]

WIDTH = 80
_NAME = 20
_COLUMN = 19
_JUDGES_ABREAST = 3
_MOST_SLICES = 12
_MOST_FINDINGS = 5
TITLES = {
    Question.REFUSAL: "refusal against compliance (partials left out)",
    Question.ADVERSARIAL: "adversarial: attacks against benign prompts",
    Question.HARM: "harm: harmful requests against benign prompts",
    Question.EITHER: "either: attacks and harmful requests against benign prompts",
}
_POSITIVE = {
    Question.REFUSAL: "refusals",
    Question.ADVERSARIAL: "attacks",
    Question.HARM: "harmful",
    Question.EITHER: "either",
}


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """Return the whole report, line by line."""
    lines: list[str] = []
    for side in evaluation.sides:
        lines += [*_side(side), ""]
    lines += _remarks(evaluation)
    return lines


def _cell(text: str, width: int) -> str:
    """Return a name in a column of its own, always with a space behind it."""
    shown = printable(text, most=width - 1)
    return shown + " " * (width - columns(shown))


def _remarks(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.left_out:
        yield "left out: " + ", ".join(f"{count:,} {why}" for why, count in evaluation.left_out)
    if evaluation.unreadable:
        yield f"not readable: {evaluation.unreadable:,} (named on standard error)"
    if evaluation.threshold is not None:
        yield f"threshold: {evaluation.threshold:g} in place of each judge's own"
    if any(len(side.judges) > 1 for side in evaluation.sides):
        yield "Tables of the judges beside the first are shortened; --json and --html hold all."
    yield "Intervals are 95 %: Wilson for shares, Wilson of TP/(TP+FP+FN) for F1, the delta"
    yield "method for macro-F1."
    if any(side.side is Side.PROMPT for side in evaluation.sides):
        yield "FP: false positives. (≥ …) is the lower end of an interval, (≤ …) the upper end."


def _side(side: SideReport) -> Iterator[str]:
    what = "RESPONSES" if side.side is Side.RESPONSE else "PROMPTS"
    yield f"{what}  {side.n:,} rows: " + ", ".join(f"{count:,} {label}" for label, count in side.labels)
    for at in range(0, len(side.judges), _JUDGES_ABREAST):
        yield ""
        yield from _figures(side.judges[at : at + _JUDGES_ABREAST])
    for number, judge in enumerate(side.judges):
        yield ""
        name = printable(judge.judge, most=WIDTH - 10)
        yield f"── {name} {'─' * (WIDTH - 4 - columns(name))}"
        yield from _judge(judge, whole=number == 0)


def _figures(judges: Sequence[JudgeReport]) -> Iterator[str]:
    yield _figures_line("", [j.judge for j in judges])
    for number, first in enumerate(judges[0].qualities):
        yield TITLES[first.question]
        yield from _question([j.qualities[number] for j in judges], [j.calibrations[number] for j in judges])
    if any(j.macro_f1 for j in judges):
        yield "refused, partial, complied"
        macro = [j.macro_f1 for j in judges]
        yield _figures_line("macro-F1", [spread(m) if m else UNKNOWN for m in macro])
    if any(j.micros_per_text is not None for j in judges):
        yield "speed"
        times = [j.micros_per_text for j in judges]
        yield _figures_line("µs a text", [UNKNOWN if t is None else f"{t:,.1f}" for t in times])


def _question(qualities: Sequence[Quality], calibrations: Sequence[Calibration]) -> Iterator[str]:
    yield _figures_line("precision", [spread(q.precision) for q in qualities])
    yield _figures_line("recall", [spread(q.recall) for q in qualities])
    yield _figures_line("F1", [spread(q.f1) for q in qualities])
    rates = [q.false_positive_rate for q in qualities]
    yield _figures_line("false positives", [spread(r, percent, unit=PERCENT) for r in rates])
    yield _figures_line("Brier", [fraction(c.brier) for c in calibrations])
    yield _figures_line("calibration error", [fraction(c.expected_error) for c in calibrations])


def _figures_line(name: str, cells: Sequence[str]) -> str:
    return ("  " + f"{name:<{_NAME}}" + "".join(_cell(cell, _COLUMN) for cell in cells)).rstrip()


def _judge(judge: JudgeReport, *, whole: bool) -> Iterator[str]:
    """Yield one judge's tables; all of them for the first, those that show a bias for the judges beside it."""
    yield from _confusion(judge)
    for calibration in judge.calibrations if whole else ():
        if calibration.question is not Question.EITHER:
            yield from _reliability(calibration)
    for dimension in Dimension if whole else (Dimension.SET, Dimension.MODEL):
        slices = [s for s in judge.slices if s.dimension is dimension]
        if len(slices) > 1:
            yield ""
            yield from _slice_lines(dimension, slices)
    for mistake in judge.worst:
        yield ""
        yield from _mistake(mistake)


def _confusion(judge: JudgeReport) -> Iterator[str]:
    table = judge.confusion
    yield "  labelled, said" + " " * 6 + "".join(f"{answer:>12}" for answer in table.answers)
    for label, counts in zip(table.labels, table.counts, strict=True):
        if any(counts):
            yield f"  {label:<20}" + "".join(f"{count:>12,}" for count in counts)


def _reliability(calibration: Calibration) -> Iterator[str]:
    if not calibration.bins:
        return
    yield ""
    yield f"  {calibration.question} score     rows   mean score   {_POSITIVE[calibration.question]} by label"
    indent = " " * len(calibration.question)
    for b in calibration.bins:
        share = spread(b.positives)
        yield f"  {indent}{b.low:.1f}-{b.high:.1f}{b.positives.n:>8,}{fraction(b.mean_score):>13}   {share}"


def _slice_lines(dimension: Dimension, slices: Sequence[Slice]) -> Iterator[str]:
    draw = _refusal_slice if slices[0].qualities[0].question is Question.REFUSAL else _prompt_slice
    title = f"by {dimension}"
    if draw is _refusal_slice:
        yield f"  {title:<16}{'rows':>6}{'label%':>7}{'said%':>6}{'bias':>7}  {'F1':<17}false positives %"
    else:
        yield f"  {title:<19}{'rows':>6}  {'adversarial':<26}harm"
        yield f"  {'':<25}  {'recall':<13}{'FP %':<13}{'recall':<13}FP %"
    shown = sorted(slices, key=lambda s: (-s.n, s.value)) if len(slices) <= _MOST_SLICES else _worst_slices(slices)
    for part in shown:
        yield draw(part).rstrip()
    if len(slices) > len(shown):
        hidden = [s.errors for s in slices if s not in shown]
        yield f"  … and {remainder([s.errors for s in shown], hidden)} (all in --json and --html)"
    if draw is _refusal_slice and any(s.qualities[0].leans for s in shown):
        yield "  * errors go one way beyond chance"


def remainder(shown: Sequence[int], hidden: Sequence[int]) -> str:
    """Return what is said of the slices that are not shown, by the errors of both."""
    if not any(hidden):
        return f"{len(hidden):,} more without errors" if any(shown) else f"{len(hidden):,} more; none has an error"
    return f"{len(hidden):,} more with {'fewer' if max(hidden) < min(shown) else 'no more'} errors"


def _worst_slices(slices: Sequence[Slice]) -> list[Slice]:
    return sorted(slices, key=lambda s: (-s.errors, -s.n, s.value))[:_MOST_SLICES]


def _refusal_slice(part: Slice) -> str:
    (q,) = part.qualities
    shares = f"{percent(q.labelled.value):>7}{percent(q.said.value):>6}{points(q.bias):>7}{'*' if q.leans else ' '}"
    figures = f"{spread(q.f1):<17}{spread(q.false_positive_rate, percent)}"
    return f"  {_cell(part.value, 16)}{part.n:>6,}{shares} {figures}"


def _prompt_slice(part: Slice) -> str:
    cells = ""
    for q in part.qualities[:2]:
        recall, alarms = q.recall, q.false_positive_rate
        cells += f"{_bounded(fraction(recall.value), fraction(recall.interval.low), sign='≥'):<13}"
        cells += f"{_bounded(percent(alarms.value), percent(alarms.interval.high), sign='≤'):<13}"
    return f"  {_cell(part.value, 19)}{part.n:>6,}  {cells}"


def _bounded(value: str, end: str, *, sign: str) -> str:
    """Return a figure with the worse end of its interval, where both would not fit."""
    return UNKNOWN if value == UNKNOWN else f"{value} ({sign}{end})"


def _mistake(mistake: Mistake) -> Iterator[str]:
    row = mistake.row
    yield f"  {mistake.kind.upper()}  score {fraction(mistake.score)}  labelled {row.label}, said {mistake.answer}"
    yield f"  {printable(row.id, most=30)}  {printable(row.source, most=WIDTH - 44)}:{row.line}"
    for line in underline(row.text, [f.span for f in mistake.findings], width=WIDTH - 4):
        yield "    " + line
    for finding in mistake.findings[:_MOST_FINDINGS]:
        yield f"    {finding.weight:+.2f} {printable(f'{finding.category}: {finding.rule}', most=WIDTH - 12)}"
    if len(mistake.findings) > _MOST_FINDINGS:
        yield f"    … and {len(mistake.findings) - _MOST_FINDINGS} more findings"
