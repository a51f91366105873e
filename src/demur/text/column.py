"""The views of a whole column in one buffer, for scans that take many texts at once.

`text(i)` is `view(texts[i])`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from demur.text.normalise import translate_ascii_lines, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["ViewColumn", "view_column"]

_SPACE, _STAR, _LINE, _HYPHEN = ord(" "), ord("*"), ord("\n"), ord("-")
_MARGIN = b"\0\0\0\0"  # enough that a look at a neighbour never leaves the buffer


@dataclass(frozen=True)
class ViewColumn:
    """Views side by side: row i is `buffer[starts[i]:ends[i]]`, as UTF-8; NUL, which no view contains, separates them."""

    buffer: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def text(self, row: int) -> str:
        """Return the view of one row."""
        return self.buffer[self.starts[row] : self.ends[row]].decode()

    def rows_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that hold any of these positions, each once."""
        return np.unique(np.searchsorted(self.starts, positions, side="right") - 1)


def view_column(texts: Sequence[str]) -> ViewColumn:
    """Return the views of all texts."""
    # ASCII texts, nearly all of most columns, are folded together by a table look-up for each byte.
    plain = "\0".join([text if text.isascii() else "" for text in texts])
    folded = translate_ascii_lines(plain)
    if not texts or folded.count(b"\0") != len(texts) - 1:
        # A control character has become NUL, so rows can no longer be told apart.
        return _column_of("\0".join([view(text) for text in texts]).encode())
    folded_rows = _drop_marks(b"\0\0" + folded + _MARGIN)
    if all(map(str.isascii, texts)):
        return _column_of(folded_rows)
    rows = folded_rows.split(b"\0")
    return _column_of(
        b"\0".join([row if text.isascii() else view(text).encode() for row, text in zip(rows, texts, strict=True)])
    )


def _column_of(joined: bytes) -> ViewColumn:
    buffer = b"\0" + joined + _MARGIN
    bounds = np.flatnonzero(np.frombuffer(buffer, dtype=np.uint8) == 0)[: -len(_MARGIN) + 1]
    return ViewColumn(buffer, bounds[:-1] + 1, bounds[1:])


def _drop_marks(padded: bytes) -> bytes:
    """Return the rows without doubled spaces and asterisks; an asterisk that is a bullet becomes a hyphen."""
    chars = np.frombuffer(padded, dtype=np.uint8)
    space = chars == _SPACE
    double = space[1:] & space[:-1]
    if double.any():
        chars = chars[1:][~double]
        chars = np.concatenate([[np.uint8(0)], chars])
    stars = np.flatnonzero(chars == _STAR)
    if len(stars):
        chars = chars.copy()
        before = np.where(chars[stars - 1] == _SPACE, chars[stars - 2], chars[stars - 1])
        bullet = ((before == _LINE) | (before == 0)) & (chars[stars + 1] == _SPACE)
        chars[stars[bullet]] = _HYPHEN
        chars = np.delete(chars, stars[~bullet])
    return chars[2 : -len(_MARGIN)].tobytes()
