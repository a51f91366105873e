"""Which original characters stand behind each character of a rewritten text?

An `Edit` replaces one stretch of a text; `rewrite` makes all edits of a text at once and keeps the way back. The map is
stored as pieces, not as a number for each character: between two edits an offset is a shift, inside one it is the
whole stretch. So a map costs as much as there are edits, and a look-up is one bisection.

Laws: edits are sorted and do not overlap; both maps are monotone; one character replaced by one character needs no piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from demur.model.text import NormalText

__all__ = ["Edit", "Offsets", "Through", "compose", "rewrite"]

Edit = tuple[int, int, str]


class _Indexed(Sequence[int]):
    """A read-only sequence that is told only how to find one offset."""

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
    """Offsets in pieces: piece `k` begins at index `at[k]` with `base[k]` and climbs by one, or stays where `flat[k]`."""

    length: int
    at: tuple[int, ...]
    base: tuple[int, ...]
    flat: tuple[bool, ...]

    def __len__(self) -> int:
        return self.length

    def _find(self, index: int) -> int:
        piece = bisect_right(self.at, index) - 1
        return self.base[piece] if self.flat[piece] else self.base[piece] + index - self.at[piece]


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
    """A text after its edits; both maps are None where every character stands where it stood."""

    text: str
    starts: Offsets | None
    ends: Offsets | None


def rewrite(text: str, edits: Sequence[Edit]) -> Rewritten:
    """Return the text with all edits made, and its maps."""
    parts: list[str] = []
    at, starts, ends, flat = [0], [0], [1], [False]
    done = size = 0
    for start, end, new in edits:
        parts.append(text[done:start])
        parts.append(new)
        size += start - done
        done = end
        if len(new) == end - start == 1:
            size += 1
            continue
        if at[-1] == size:
            del at[-1], starts[-1], ends[-1], flat[-1]
        if new:
            at.append(size), starts.append(start), ends.append(end), flat.append(True)
        size += len(new)
        at.append(size), starts.append(end), ends.append(end + 1), flat.append(False)
    parts.append(text[done:])
    whole = "".join(parts)
    if len(at) == 1 and starts[0] == 0:
        return Rewritten(whole, None, None)
    pieces, level = tuple(at), tuple(flat)
    length = len(whole)
    return Rewritten(whole, Offsets(length, pieces, tuple(starts), level), Offsets(length, pieces, tuple(ends), level))


def compose(outer: NormalText, inner: NormalText) -> NormalText:
    """Return `inner`, a rewriting of `outer.text`, as a rewriting of `outer.original`."""
    if outer.starts is None or outer.ends is None:
        return NormalText(outer.original, inner.text, inner.starts, inner.ends)
    if inner.starts is None or inner.ends is None:
        return NormalText(outer.original, inner.text, outer.starts, outer.ends)
    starts, ends = Through(inner.starts, outer.starts), Through(inner.ends, outer.ends, 1)
    return NormalText(outer.original, inner.text, starts, ends)
