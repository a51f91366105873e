"""A text with its evidence underlined, at any width, in any script.

Laws: nothing is cut off at the right edge, lines wrap; an underline stands below exactly the characters it marks, wide
ones (Chinese, Korean, emoji) included; control characters of the text never reach the terminal; long stretches
without evidence are left out and replaced by `[…]`, unless everything is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.report.columns import columns, shown_char

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.text import Span

__all__ = ["underline"]

_GAP = "[…]"
_CHARS_PER_COLUMN = 8
"""Marks take no column: a row of them ends all the same."""
_CONTEXT_LINES = 1
_LINES_WITHOUT_EVIDENCE = 3


@dataclass(frozen=True, slots=True)
class _Row:
    """One wrapped line: the code points of the text that stand on it."""

    start: int
    end: int


def underline(text: str, spans: Sequence[Span], *, width: int = 80, whole: bool = False) -> list[str]:
    """Return the text wrapped to `width` columns, with a line of carets below each line that holds evidence."""
    marked = _marked(len(text), spans)
    rows = list(_rows(text, width))
    keep = set(range(len(rows))) if whole else _kept(rows, marked)
    lines: list[str] = []
    last = -1
    for number, row in enumerate(rows):
        if number not in keep:
            continue
        if number != last + 1:
            lines.append(_GAP)
        last = number
        lines.extend(_render(text, row, marked))
    if rows and last != len(rows) - 1:
        lines.append(_GAP)
    return lines


def _marked(size: int, spans: Sequence[Span]) -> bytearray:
    marked = bytearray(size)
    for span in spans:
        marked[span.start : span.end] = b"\x01" * (min(span.end, size) - span.start)
    return marked


def _kept(rows: Sequence[_Row], marked: bytearray) -> set[int]:
    """Return the rows worth showing: those with evidence and their neighbours, or the first few."""
    hits = [i for i, row in enumerate(rows) if 1 in marked[row.start : row.end]]
    if not hits:
        return set(range(_LINES_WITHOUT_EVIDENCE))
    return {i + d for i in hits for d in range(-_CONTEXT_LINES, _CONTEXT_LINES + 1)}


def _rows(text: str, width: int) -> Iterator[_Row]:
    """Yield lines of at most `width` columns, broken at spaces where there are any."""
    start, taken, space, at = 0, 0, -1, 0
    while at < len(text):
        char = text[at]
        if char == "\n":
            yield _Row(start, at)
            start, taken, space, at = at + 1, 0, -1, at + 1
            continue
        if (taken + columns(char) > width or at - start >= _CHARS_PER_COLUMN * width) and at > start:
            end = at if char == " " or space <= start else space
            yield _Row(start, end)
            start = end + 1 if text[end] == " " else end
            at, taken, space = start, 0, -1
            continue
        taken += columns(char)
        space = at if char == " " else space
        at += 1
    if start < len(text):
        yield _Row(start, len(text))


def _render(text: str, row: _Row, marked: bytearray) -> Iterator[str]:
    yield "".join(shown_char(char) for char in text[row.start : row.end]).rstrip()
    if 1 in marked[row.start : row.end]:
        marks = (("^" if marked[i] else " ") * columns(text[i]) for i in range(row.start, row.end))
        yield "".join(marks).rstrip()
