"""Text on a terminal: how wide it is, what of it may be printed, and evidence underlined in it.

Control characters, lone surrogates and format characters never get through, every other character takes the columns that are counted
for it, and a shortened text says so with `…` or `[…]`.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.verdict import Span

__all__ = ["columns", "padded", "printable", "shown_char", "underline", "wrapped"]

# Combining marks take no column, so a name or a line of them is bounded by characters as well.
_CHARS_PER_COLUMN = 8
_EMOJI_STYLE = "\ufe0f"
_ELLIPSIS = "[…]"
_CONTEXT_LINES = 1
_LINES_WITHOUT_EVIDENCE = 3


def shown_char(char: str) -> str:
    """Return what is printed for a character: the replacement sign for what could control the terminal."""
    if char.isascii() and char.isprintable():
        return char
    if char == "\t":
        return " "
    category = unicodedata.category(char)
    if category in ("Cc", "Cs", "Cn"):
        return "\ufffd"
    if category[0] == "Z":
        return " " * columns(char)
    # Format characters can reverse what follows them; marks belong to the letter before them and stay. The emoji style
    # widens the sign before it on some terminals only.
    return "" if category == "Cf" or char == _EMOJI_STYLE else char


def columns(text: str) -> int:
    """Return how many columns a text takes: none for marks and invisible characters, two for wide ones (UAX 11)."""
    if text.isascii():
        return len(text)
    taken = 0
    for char in text:
        category = "" if char.isascii() else unicodedata.category(char)
        if category not in ("Mn", "Me", "Cf"):
            taken += 2 if category not in ("", "Cn") and unicodedata.east_asian_width(char) in ("W", "F") else 1
    return taken


def printable(text: str, *, most: int) -> str:
    """Return a name in one line without control characters, shortened in the middle where it is wider than `most`."""
    if most < 1:
        return ""
    reach = _CHARS_PER_COLUMN * most
    ends = text if len(text) <= 2 * reach else text[:reach] + text[-reach:]
    clean = "".join(map(shown_char, ends))
    if len(clean) <= reach and columns(clean) <= most:
        return clean
    # Both ends are kept: names often differ only in their ends, as `…/v1.jsonl` and `…/v2.jsonl` do.
    head, tail = _fitting(clean[: most // 2], most // 2), clean[-most:]
    head = head if columns(head) <= most // 2 else ""
    over = columns(head) + 1 + columns(tail) - most
    start = 0
    while over > 0 and start < len(tail):
        over -= columns(tail[start])
        start += 1
    return f"{head}…{tail[start:]}"


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text filled with spaces to `width` columns, aligned left or right."""
    space = " " * max(0, width - columns(text))
    return space + text if right else text + space


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the words of a text in lines of at most `width` columns; a longer word is broken."""
    line, width = "", max(1, width)
    for word in "".join(" " if c.isspace() else shown_char(c) for c in text).split():
        if line and columns(line) + 1 + columns(word) > width:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
        while columns(line) > width:
            head = _fitting(line, width)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def _fitting(word: str, width: int) -> str:
    """Return the beginning of a word that fits, at least one character."""
    taken = 0
    for at, char in enumerate(word):
        taken += columns(char)
        if taken > width:
            return word[: max(1, at)]
    return word


def underline(text: str, spans: Sequence[Span], *, width: int = 80, whole: bool = False) -> list[str]:
    """Return the text wrapped to `width` columns, with a line of carets below each line that holds evidence.

    Long stretches without evidence are replaced by `[…]`, unless the `whole` text is asked for.
    """
    marked = bytearray(len(text))
    for span in spans:
        marked[span.start : span.end] = b"\x01" * (min(span.end, len(text)) - span.start)
    rows = list(_rows(text, width))
    hits = [number for number, (start, end) in enumerate(rows) if 1 in marked[start:end]]
    near = {hit + d for hit in hits for d in range(-_CONTEXT_LINES, _CONTEXT_LINES + 1)}
    keep = set(range(len(rows))) if whole else near or set(range(_LINES_WITHOUT_EVIDENCE))
    lines: list[str] = []
    last = -1
    for number, (start, end) in enumerate(rows):
        if number not in keep:
            continue
        if number != last + 1:
            lines.append(_ELLIPSIS)
        last = number
        lines.append("".join(map(shown_char, text[start:end])).rstrip())
        if 1 in marked[start:end]:
            # As many carets as the character has columns, so that they stand below it in any script.
            lines.append("".join(("^" if marked[at] else " ") * columns(text[at]) for at in range(start, end)).rstrip())
    if rows and last != len(rows) - 1:
        lines.append(_ELLIPSIS)
    return lines


def _rows(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of lines of at most `width` columns, broken at spaces where there are any."""
    start, taken, space, at = 0, 0, -1, 0
    while at < len(text):
        char = text[at]
        if char == "\n":
            yield start, at
            start, taken, space, at = at + 1, 0, -1, at + 1
            continue
        if (taken + columns(char) > width or at - start >= _CHARS_PER_COLUMN * width) and at > start:
            end = at if char == " " or space <= start else space
            yield start, end
            start = end + 1 if text[end] == " " else end
            at, taken, space = start, 0, -1
            continue
        taken += columns(char)
        space = at if char == " " else space
        at += 1
    if start < len(text):
        yield start, len(text)
