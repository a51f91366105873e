"""How wide is a text on a terminal, and what of it may reach one?

Laws: control characters, halves of surrogate pairs and format characters (which can reverse or hide what follows) never pass;
every other character takes the columns that are counted for it; a shortened text says so with `…`.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["columns", "padded", "printable", "shown_char", "wrapped"]

_MARKS_PER_COLUMN = 8
"""Marks take no column: a name of them ends all the same."""
_EMOJI_STYLE = "\ufe0f"


def shown_char(char: str) -> str:
    """Return what stands for a character on a terminal: the replacement sign for what could control it."""
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
    """Return how many columns a text takes: none for marks and invisible characters, two for wide ones."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of_char, text))


def _columns_of_char(char: str) -> int:
    if char.isascii():
        return 1
    category = unicodedata.category(char)
    if category in ("Mn", "Me", "Cf"):
        return 0
    if category == "Cn":
        return 1
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def printable(text: str, *, most: int) -> str:
    """Return a name in one line without control characters, shortened in the middle where it is wider than `most`."""
    if most < 1:
        return ""
    reach = _MARKS_PER_COLUMN * most
    ends = text if len(text) <= 2 * reach else text[:reach] + text[-reach:]
    clean = "".join(map(shown_char, ends))
    if len(clean) <= reach and columns(clean) <= most:
        return clean
    return "…".join(_shortened(clean[: most // 2], clean[-most:], most=most))


def _shortened(head: str, tail: str, *, most: int) -> tuple[str, str]:
    kept = _fitting(head, most // 2)
    kept = kept if columns(kept) <= most // 2 else ""
    over = columns(kept) + 1 + columns(tail) - most
    start = 0
    while over > 0 and start < len(tail):
        over -= columns(tail[start])
        start += 1
    return kept, tail[start:]


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text filled with spaces to `width` columns, at its right end or its left."""
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
    taken = 0
    for at, char in enumerate(word):
        taken += columns(char)
        if taken > width:
            return word[: max(1, at)]
    return word
