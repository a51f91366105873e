"""A view on a terminal.

No line is wider than asked for, counted in columns; no character of a text controls the terminal, and the only escape sequences are our
colours, where asked for. What is shortened says so.
"""

from __future__ import annotations

from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING, assert_never

from demur.report.charts import row_words, scale_of
from demur.report.columns import columns, padded, printable, underline, wrapped
from demur.report.numbers import PERCENT, UNKNOWN
from demur.report.view import (
    Column,
    Excerpt,
    Facts,
    Flips,
    Heading,
    IntervalPlot,
    Note,
    NoteKind,
    Plots,
    Reliability,
    SideBySide,
    Table,
    Tone,
    Unit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.report.charts import Scale
    from demur.report.view import Block, PlotRow, View

__all__ = ["terminal_lines"]

_INDENT = "  "
_GAP = 2
_MAX_ROWS = 12
# A long text with evidence everywhere would push the next flip off the screen.
_MAX_TEXT_LINES = 14
_MAX_EVIDENCE = 5
_MAX_FACT_LABEL = 30
# On a narrower terminal two texts side by side have too few words on a line.
_MIN_SIDE_BY_SIDE = 60
_MIN_CELL = 4
_MIN_TRACK, _MAX_TRACK = 12, 40
_RESET, _BOLD = "\x1b[0m", "\x1b[1m"
_COLOURS = {Tone.GOOD: "\x1b[1;32m", Tone.BAD: "\x1b[1;31m", Tone.NEUTRAL: "\x1b[1;36m", Tone.UNSURE: "\x1b[1;33m"}
_PART, _CHAPTER = 2, 3


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
        lines = [self._title(f"{view.title}: {view.subtitle}"), *([""] if view.headlines else [])]
        # The words in one column, their sentences in another beside it.
        indent = max((len(head.word) for head in view.headlines), default=0) + _GAP
        for head in view.headlines:
            texts = (head.sentence, *head.more)
            sentences = [line for text in texts for line in wrapped(text, self._width - indent)]
            for number, line in enumerate(sentences or [""]):
                word = "" if number else head.word
                lines.append(self._painted(word, _COLOURS[head.tone]) + " " * (indent - len(word)) + line)
        last: type[Block] | None = None
        for block in view.blocks:
            if isinstance(block, Table | Plots | Reliability) and block.spare:
                continue
            # Notes that follow each other make one list; everything else is set apart.
            lines += [] if isinstance(block, Note) and last is Note else [""]
            if isinstance(block, SideBySide) and last is not SideBySide:
                lines += [self._painted("Flipped exchanges, worst first", _BOLD), ""]
            lines += self._block(block)
            last = type(block)
        return [line.rstrip() for line in lines]

    def _painted(self, text: str, code: str) -> str:
        return f"{code}{text}{_RESET}" if self._colour and text else text

    def _title(self, text: str) -> str:
        return self._painted(_flat(text, self._width), _BOLD)

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Facts():
                yield from self._facts(block)
            case Table():
                yield from self._table(block)
            case IntervalPlot():
                yield from self._table(block.table, block) if block.table else self._plot(block)
            case Plots() | Reliability():
                yield from self._table(block.table)
            case Flips():
                heads = (Column("", number=False), Column("candidate refused"), Column("candidate answered"))
                rows = (
                    ("baseline refused", f"{block.both:,}", f"{block.baseline_only:,}"),
                    ("baseline answered", f"{block.candidate_only:,}", f"{block.neither:,}"),
                )
                yield from self._table(Table(block.title, heads, rows, block.note))
            case SideBySide():
                yield from self._side_by_side(block)
            case Excerpt():
                yield from (_INDENT + line for line in _excerpt_lines(block, self._inner))
            case Heading():
                yield from self._heading(block)
            case Note():
                yield from self._note(block)
            case _:
                assert_never(block)

    def _heading(self, heading: Heading) -> Iterator[str]:
        if heading.level == _PART:
            title = f"{heading.title.upper()}  "
            yield self._painted(title + _flat(heading.text, self._width - len(title)), _BOLD)
        elif heading.level == _CHAPTER:
            name = _flat(heading.title, self._width - 10)
            yield self._painted(f"── {name} {'─' * (self._width - 4 - columns(name))}", _BOLD)
        else:
            yield self._title(heading.title)

    def _facts(self, facts: Facts) -> Iterator[str]:
        yield self._title(facts.title)
        width = min(_MAX_FACT_LABEL, max((columns(row.label) for row in facts.rows), default=0))
        for row in facts.rows:
            text = f"{row.value}  ({row.note})" if row.note else row.value
            label = padded(_flat(row.label, width), width)
            for number, line in enumerate(wrapped(text, self._inner - width - _GAP)):
                yield _INDENT + (label if not number else " " * width) + " " * _GAP + line

    def _note(self, note: Note) -> Iterator[str]:
        name = f"{note.name.replace('_', ' ')}:"
        tone = Tone.UNSURE if note.kind is not NoteKind.HINT else Tone.NEUTRAL
        for number, line in enumerate(wrapped(f"{name} {note.text}", self._inner)):
            # A name that is wider than the line was broken, and stays without a colour.
            is_whole = number == 0 and line.startswith(name)
            yield _INDENT + (self._painted(name, _COLOURS[tone]) + line[len(name) :] if is_whole else line)

    def _table(self, table: Table, plot: IntervalPlot | None = None) -> Iterator[str]:
        """Yield the table without its spare columns, and the rows of its plot behind it where there is room."""
        kept = [at for at, column in enumerate(table.columns) if not column.spare]
        rows = [[row[at] for at in kept] for row in table.rows[:_MAX_ROWS]]
        heads = [table.columns[at].name for at in kept]
        numbers = [table.columns[at].number for at in kept]
        widths = self._widths([heads, *rows], numbers)
        tracks = self._tracks(plot, widths) if plot else [""] * len(rows)
        yield self._title(table.title)
        if any(heads):
            yield self._row(heads, widths, numbers)
        for row, track in zip(rows, tracks, strict=True):
            yield self._row(row, widths, numbers) + track
        if len(table.rows) > _MAX_ROWS:
            yield from self._remark(f"… and {len(table.rows) - _MAX_ROWS:,} more (in the JSON and the page)")
        yield from self._remark(table.note)

    def _tracks(self, plot: IntervalPlot, widths: Sequence[int]) -> list[str]:
        """Return what is drawn behind each row, or nothing where there is no room."""
        rows = plot.rows[:_MAX_ROWS]
        room = min(self._inner - sum(widths) - _GAP * len(widths), _MAX_TRACK)
        if room < _MIN_TRACK:
            return [""] * len(rows)
        scale = scale_of(plot)
        return [" " * _GAP + _track_of(row, scale, room) for row in rows]

    def _remark(self, text: str) -> Iterator[str]:
        return (_INDENT + line for line in wrapped(text, self._inner))

    def _widths(self, rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> list[int]:
        """Return how wide each column is, shortened where all would not fit."""
        widths = [max(columns(_flat(cell, self._inner)) for cell in column) for column in zip(*rows, strict=True)]
        room = self._inner - _GAP * (len(widths) - 1)
        # Words give way before numbers: a shortened name is still a name, a shortened number is wrong.
        for giving in (False, True):
            at = [k for k, number in enumerate(numbers) if number is giving]
            while at and sum(widths) > room and max(widths[k] for k in at) > _MIN_CELL:
                widths[max(at, key=widths.__getitem__)] -= 1
        return widths

    def _row(self, cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
        fitted = zip(cells, widths, numbers, strict=True)
        shown = (padded(_flat(cell, width), width, right=number) for cell, width, number in fitted)
        return _INDENT + (" " * _GAP).join(shown)

    def _plot(self, plot: IntervalPlot) -> Iterator[str]:
        yield self._title(f"{plot.title}, {plot.note}" if plot.note else plot.title)
        cells = []
        for row in plot.rows[:_MAX_ROWS]:
            value, interval = row_words(row, plot.unit)
            value += PERCENT if plot.unit is Unit.PERCENT else ""
            cells.append([row.label, UNKNOWN if row.value is None else f"{value} {interval}".rstrip(), f"n {row.n:,}"])
        widths = self._widths(cells, (False, True, True))
        for cell, track in zip(cells, self._tracks(plot, widths), strict=True):
            yield self._row(cell, widths, (False, False, False)) + track

    def _side_by_side(self, flip: SideBySide) -> Iterator[str]:
        title = _flat(f"{flip.title.upper()}  {flip.key}", self._inner)
        yield _INDENT + self._painted(title, _COLOURS[Tone.NEUTRAL])
        if flip.fields:
            yield _INDENT + _flat(", ".join(f"{name} {value}" for name, value in flip.fields), self._inner)
        if flip.prompt is not None:
            yield from (f"{_INDENT}> {line}" for line in underline(flip.prompt, (), width=self._inner - 2))
        # Below each other on a narrow terminal, baseline first as everywhere else.
        if self._width < _MIN_SIDE_BY_SIDE:
            for side in (flip.baseline, flip.candidate):
                yield from (_INDENT + line for line in _excerpt_lines(side, self._inner))
            return
        half = (self._inner - 3) // 2
        sides = (_excerpt_lines(side, half) for side in (flip.baseline, flip.candidate))
        for left, right in zip_longest(*sides, fillvalue=""):
            yield f"{_INDENT}{padded(left, half)} │ {right}".rstrip()


def _excerpt_lines(excerpt: Excerpt, width: int) -> Iterator[str]:
    """Yield a judged text in a column: its verdict, where it comes from, and the text with the evidence underlined."""
    for line in (f"{excerpt.name}: {excerpt.word.upper()}", excerpt.facts, excerpt.where):
        yield _flat(line, width)
    if excerpt.text is None:
        yield "(text not kept)"
    else:
        lines = underline(excerpt.text, excerpt.spans, width=width) or ["(empty)"]
        yield from lines[:_MAX_TEXT_LINES]
        if len(lines) > _MAX_TEXT_LINES:
            yield "[…]"
    yield from (_flat(line, width) for line in excerpt.evidence[:_MAX_EVIDENCE])
    if len(excerpt.evidence) > _MAX_EVIDENCE:
        yield f"… and {len(excerpt.evidence) - _MAX_EVIDENCE} more findings"


def _flat(text: str, limit: int) -> str:
    """Return a text in one line, shortened where it is wider than `limit`."""
    return printable(" ".join(text.split()), most=limit)


def _track_of(row: PlotRow, scale: Scale, track: int) -> str:
    """Return the interval as a line with its value on it, and the zero line where it is inside the scale."""
    # Nothing is drawn for a value that is not known: a mark would put it somewhere.
    if row.value is None or not row.n:
        return ""
    if not all(isfinite(value) for value in (row.value, row.low, row.high) if value is not None):
        return ""

    def at(value: float) -> int:
        return round(scale.along(value) * (track - 1))

    cells = [" "] * track
    # A share of a count has no interval and is a bar from zero.
    if row.low is None or row.high is None:
        return "█" * at(row.value)
    cells[at(row.low) : at(row.high) + 1] = "─" * (at(row.high) - at(row.low) + 1)
    cells[at(row.low)], cells[at(row.high)] = "├", "┤"
    cells[at(0.0)] = "│" if cells[at(0.0)] == " " else cells[at(0.0)]
    cells[at(row.value)] = "●"
    return "".join(cells)
