"""A view on a terminal.

Laws: no line is wider than asked, wide characters counted; no character of a text controls the terminal, and the only escape
sequences are our colours, where asked for; what is shortened says so; both answers of a flip stand side by side where
there is room.
"""

from __future__ import annotations

from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING

from demur.report.columns import columns, padded, printable, wrapped
from demur.report.evidence import underline
from demur.report.numbers import UNKNOWN, percent, points, points_range
from demur.report.scale import scale_of
from demur.report.view import Facts, Flips, IntervalPlot, Note, NoteKind, SideBySide, Table, Tone, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.report.scale import Scale
    from demur.report.view import Block, Fact, Headline, PlotRow, Shown, View

__all__ = ["terminal_lines"]

_INDENT = "  "
_GAP = 2
_MOST_ROWS = 12
_MOST_SIDE_LINES = 14
_LEAST_ABREAST = 60
_LEAST_CELL = 4
_LEAST_TRACK, _MOST_TRACK = 12, 40
_PLAIN = "\x1b[0m"
_BOLD = "\x1b[1m"
_COLOURS = {Tone.GOOD: "\x1b[1;32m", Tone.BAD: "\x1b[1;31m", Tone.NEUTRAL: "\x1b[1;36m", Tone.UNSURE: "\x1b[1;33m"}


def terminal_lines(view: View, *, width: int = 80, colour: bool = False) -> list[str]:
    """Return the view, line by line."""
    return _Terminal(width, colour=colour).lines(view)


class _Terminal:
    """A terminal of one width, with or without colours."""

    def __init__(self, width: int, *, colour: bool) -> None:
        self._width = width
        self._inner = width - len(_INDENT)
        self._colour = colour

    def lines(self, view: View) -> list[str]:
        lines = [self._painted(_flat(f"{view.title}: {view.subtitle}", most=self._width), _BOLD), ""]
        heads = [head for head in (view.headline, view.gate) if head]
        for head in heads:
            lines += self._headline(head, max(len(h.word) for h in heads))
        last: type[Block] | None = None
        for block in view.blocks:
            lines += [] if isinstance(block, Note) and last is Note else [""]
            if isinstance(block, SideBySide) and last is not SideBySide:
                lines += [self._painted("Flipped exchanges, worst first", _BOLD), ""]
            lines += self._block(block)
            last = type(block)
        return [line.rstrip() for line in lines]

    def _painted(self, text: str, code: str) -> str:
        return f"{code}{text}{_PLAIN}" if self._colour and text else text

    def _title(self, text: str) -> str:
        return self._painted(_flat(text, most=self._width), _BOLD)

    def _headline(self, head: Headline, longest: int) -> Iterator[str]:
        """Yield the word and its sentences in a column beside it."""
        indent = longest + _GAP
        sentences = [line for text in (head.sentence, *head.more) for line in wrapped(text, self._width - indent)]
        for number, line in enumerate(sentences or [""]):
            word = "" if number else head.word
            yield self._painted(word, _COLOURS[head.tone]) + " " * (indent - len(word)) + line

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Facts():
                yield from self._facts(block)
            case Table():
                yield from self._table(block)
            case IntervalPlot():
                yield from self._table(block.table, block) if block.table else self._plot(block)
            case Flips():
                yield from self._flips(block)
            case SideBySide():
                yield from self._side_by_side(block)
            case Note():
                yield from self._note(block)

    def _facts(self, facts: Facts) -> Iterator[str]:
        yield self._title(facts.title)
        name = min(30, max((columns(row.label) for row in facts.rows), default=0))
        for row in facts.rows:
            yield from self._fact(row, name)

    def _fact(self, fact: Fact, name: int) -> Iterator[str]:
        told = f"{fact.value}  ({fact.note})" if fact.note else fact.value
        label = padded(_flat(fact.label, most=name), name)
        for number, line in enumerate(wrapped(told, self._inner - name - _GAP)):
            yield _INDENT + (label if not number else " " * name) + " " * _GAP + line

    def _note(self, note: Note) -> Iterator[str]:
        lead = f"{note.name.replace('_', ' ')}: "
        tone = Tone.UNSURE if note.kind is not NoteKind.HINT else Tone.NEUTRAL
        for number, line in enumerate(wrapped(lead + note.text, self._inner)):
            coloured = number == 0 and line.startswith(lead.rstrip())
            shown = self._painted(lead.rstrip(), _COLOURS[tone]) + line[len(lead.rstrip()) :] if coloured else line
            yield _INDENT + shown

    def _table(self, table: Table, plot: IntervalPlot | None = None) -> Iterator[str]:
        """Yield the table, its widest cells shortened where it would not fit, spare columns left out.

        The rows of its plot are drawn behind it where there is room.
        """
        kept = [at for at, column in enumerate(table.columns) if not column.spare]
        rows = [[row[at] for at in kept] for row in table.rows[:_MOST_ROWS]]
        heads = [table.columns[at].name for at in kept]
        numbers = [table.columns[at].number for at in kept]
        widths = self._widths([heads, *rows], numbers)
        drawn = self._tracks(plot, widths) if plot else [""] * len(rows)
        yield self._title(table.title)
        if any(heads):
            yield self._row(heads, widths, numbers)
        for row, track in zip(rows, drawn, strict=True):
            yield self._row(row, widths, numbers) + track
        if len(table.rows) > _MOST_ROWS:
            yield from self._remark(f"… and {len(table.rows) - _MOST_ROWS:,} more (in the JSON and the page)")
        yield from self._remark(table.note)

    def _tracks(self, plot: IntervalPlot, widths: Sequence[int]) -> list[str]:
        """Return what stands behind each row: its figure on the axis, or nothing where there is no room."""
        rows = plot.rows[:_MOST_ROWS]
        room = min(self._inner - sum(widths) - _GAP * len(widths), _MOST_TRACK)
        if room < _LEAST_TRACK:
            return [""] * len(rows)
        scale = scale_of(plot)
        return [" " * _GAP + _drawn(row, scale, room) for row in rows]

    def _remark(self, text: str) -> Iterator[str]:
        for line in wrapped(text, self._inner):
            yield _INDENT + line

    def _widths(self, rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[int]:
        """Return how wide each column is: words give way before numbers where all would not fit."""
        widths = [max(columns(_flat(cell, most=self._inner)) for cell in column) for column in zip(*rows, strict=True)]
        room = self._inner - _GAP * (len(widths) - 1)
        for giving in (False, True):
            at = [k for k, number in enumerate(numbers) if number is giving]
            while at and sum(widths) > room and max(widths[k] for k in at) > _LEAST_CELL:
                widths[max(at, key=widths.__getitem__)] -= 1
        return widths

    def _row(self, cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
        shown = (
            padded(_flat(cell, most=width), width, right=number)
            for cell, width, number in zip(cells, widths, numbers, strict=True)
        )
        return _INDENT + (" " * _GAP).join(shown)

    def _plot(self, plot: IntervalPlot) -> Iterator[str]:
        yield self._title(f"{plot.title}, {plot.note}" if plot.note else plot.title)
        cells = [[row.label, _told(row, plot.unit), f"n {row.n:,}"] for row in plot.rows[:_MOST_ROWS]]
        widths = self._widths(cells, (False, True, True))
        for cell, track in zip(cells, self._tracks(plot, widths), strict=True):
            yield self._row(cell, widths, (False, False, False)) + track

    def _flips(self, flips: Flips) -> Iterator[str]:
        rows = (
            ("baseline refused", f"{flips.both:,}", f"{flips.baseline_only:,}"),
            ("baseline answered", f"{flips.candidate_only:,}", f"{flips.neither:,}"),
        )
        heads = ("", "candidate refused", "candidate answered")
        widths = self._widths([heads, *rows], (False, True, True))
        yield self._title(flips.title)
        for row in (heads, *rows):
            yield self._row(row, widths, (False, True, True))
        yield from self._remark(flips.note)

    def _side_by_side(self, flip: SideBySide) -> Iterator[str]:
        yield _INDENT + self._painted(
            _flat(f"{flip.title.upper()}  {flip.key}", most=self._inner), _COLOURS[Tone.NEUTRAL]
        )
        fields = ", ".join(f"{name} {value}" for name, value in flip.fields)
        if fields:
            yield _INDENT + _flat(fields, most=self._inner)
        if flip.prompt is not None:
            for line in underline(flip.prompt, (), width=self._inner - 2):
                yield f"{_INDENT}> {line}"
        if self._width < _LEAST_ABREAST:
            for side in (flip.baseline, flip.candidate):
                yield from (_INDENT + line for line in _side_lines(side, self._inner))
            return
        half = (self._inner - 3) // 2
        sides = (list(_side_lines(side, half)) for side in (flip.baseline, flip.candidate))
        for left, right in zip_longest(*sides, fillvalue=""):
            yield f"{_INDENT}{padded(left, half)} │ {right}".rstrip()


def _side_lines(side: Shown, width: int) -> Iterator[str]:
    """Yield one answer in a column: its verdict, where it stands, its text with the evidence underlined."""
    yield _flat(f"{side.name}: {side.word.upper()}", most=width)
    yield _flat(side.facts, most=width)
    yield _flat(side.where, most=width)
    if side.text is None:
        yield "(text not kept)"
    else:
        lines = underline(side.text, side.spans, width=width) or ["(empty)"]
        yield from lines[:_MOST_SIDE_LINES]
        if len(lines) > _MOST_SIDE_LINES:
            yield "[…]"
    for line in side.evidence:
        yield _flat(line, most=width)


def _flat(text: str, *, most: int) -> str:
    return printable(" ".join(text.split()), most=most)


def _told(row: PlotRow, unit: Unit) -> str:
    if row.value is None:
        return UNKNOWN
    if unit is Unit.POINTS:
        value = points(row.value)
        return value if row.low is None or row.high is None else f"{value} ({points_range(row.low, row.high)})"
    value = f"{percent(row.value)} %"
    return value if row.low is None or row.high is None else f"{value} ({percent(row.low)} to {percent(row.high)})"


def _drawn(row: PlotRow, scale: Scale, track: int) -> str:
    """Return the interval as a line with its value on it, and the zero line where it is inside the scale."""
    if row.value is None or not row.n:
        return ""
    if not all(isfinite(value) for value in (row.value, row.low, row.high) if value is not None):
        return ""

    def at(value: float) -> int:
        return round(scale.along(value) * (track - 1))

    cells = [" "] * track
    if row.low is None or row.high is None:
        return "█" * at(row.value)
    cells[at(row.low) : at(row.high) + 1] = "─" * (at(row.high) - at(row.low) + 1)
    cells[at(row.low)], cells[at(row.high)] = "├", "┤"
    cells[at(0.0)] = "│" if cells[at(0.0)] == " " else cells[at(0.0)]
    cells[at(row.value)] = "●"
    return "".join(cells)
