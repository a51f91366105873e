"""Which original characters are behind each character of a rewritten text.

The map is the edits themselves, not a number for each character: between two edits an offset is a shift, inside one it is
the whole span. So a map costs as much as there are edits, and a look-up is one bisection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

from demur.model.verdict import NormalText

__all__ = ["Edit", "Offsets", "Rewritten", "Through", "compose", "rewrite"]

Edit = tuple[int, int, str]  # start and end of a span, and its replacement; edits are sorted and do not overlap

_NOTHING: Edit = (0, 0, "")  # first of all edits, so that every index has one at or before it


class _Indexed(Sequence[int]):
    """A read-only sequence whose subclasses only say how to find one offset."""

    __slots__ = ()

    def _find(self, index: int) -> int:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[int, ...]: ...
    def __getitem__(self, index: int | slice) -> int | tuple[int, ...]:
        if isinstance(index, slice):
            return tuple(self._find(i) for i in range(*index.indices(len(self))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self._find(at)

    def __iter__(self) -> Iterator[int]:
        return map(self._find, range(len(self)))


@dataclass(frozen=True, slots=True)
class Offsets(_Indexed):
    """Original starts, or ends, by index of the new text: `at[k]` is where the replacement of `edits[k]` begins in it."""

    length: int
    at: tuple[int, ...]
    edits: tuple[Edit, ...]
    side: Literal["start", "end"]

    def __len__(self) -> int:
        return self.length

    def _find(self, index: int) -> int:
        nearest = bisect_right(self.at, index) - 1
        start, end, new = self.edits[nearest]
        beyond = index - self.at[nearest] - len(new)
        if self.side == "start":
            return start if beyond < 0 else end + beyond
        return end if beyond < 0 else end + beyond + 1


@dataclass(frozen=True, slots=True)
class Through(_Indexed):
    """Offsets found by going through two maps; `back` is 1 for ends, which name the character before them."""

    inner: Sequence[int]
    outer: Sequence[int]
    back: int = 0

    def __len__(self) -> int:
        return len(self.inner)

    def _find(self, index: int) -> int:
        return self.outer[self.inner[index] - self.back]


class Rewritten(NamedTuple):
    """A text after its edits; both maps are None where no character has moved."""

    text: str
    starts: Offsets | None
    ends: Offsets | None


def rewrite(text: str, edits: Sequence[Edit]) -> Rewritten:
    """Return the text with all edits made, and its maps."""
    parts: list[str] = []
    at = [0]
    done = size = 0
    moved = False
    for start, end, new in edits:
        parts.append(text[done:start])
        parts.append(new)
        size += start - done
        at.append(size)
        size += len(new)
        # Edits of one character to one need no map, which is nearly every text that needs edits at all.
        moved = moved or len(new) != 1 or end - start != 1
        done = end
    parts.append(text[done:])
    whole = "".join(parts)
    if not moved:
        return Rewritten(whole, None, None)
    begins, made = tuple(at), (_NOTHING, *edits)
    length = len(whole)
    return Rewritten(whole, Offsets(length, begins, made, "start"), Offsets(length, begins, made, "end"))


def compose(outer: NormalText, inner: NormalText) -> NormalText:
    """Return `inner`, a rewriting of `outer.text`, as a rewriting of `outer.original`."""
    if outer.starts is None or outer.ends is None:
        return NormalText(outer.original, inner.text, inner.starts, inner.ends)
    if inner.starts is None or inner.ends is None:
        return NormalText(outer.original, inner.text, outer.starts, outer.ends)
    starts, ends = Through(inner.starts, outer.starts), Through(inner.ends, outer.ends, 1)
    return NormalText(outer.original, inner.text, starts, ends)
