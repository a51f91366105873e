"""Which classes of phrases a text contains: phrases by themselves, and pairs of them side by side.

A class has phrases of its own, and frames: any phrase of one group directly before any of another ("i cannot" before "help").
Hits are sorted and unique; one text gives the same hits alone and inside a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from demur.detect.matcher import Matcher

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from demur.detect.matcher import Phrase

    Ints = NDArray[np.int64]

__all__ = ["ClassHit", "Frame", "Lexicon"]

_LENGTH_BITS, _START_BITS = 10, 26
_CLASS_MASK, _LENGTH_MASK = (1 << _LENGTH_BITS) - 1, (1 << (_START_BITS - _LENGTH_BITS)) - 1

ClassHit = tuple[int, int, int]  # where a phrase or pair starts and ends, and the index of its class


@dataclass(frozen=True, slots=True)
class Frame:
    """A phrase of the left group and, directly after it, one of the right group: together they belong to a class."""

    left: int
    right: int
    of: int


@dataclass(frozen=True)
class Lexicon:
    """Phrases in groups, the class that each group stands for by itself (-1: none), and the frames."""

    phrases: tuple[Phrase, ...]
    group_of: tuple[int, ...]
    class_of_group: tuple[int, ...]
    # A thousand combinations cost two short lists, in the pack and in the automaton.
    frames: tuple[Frame, ...]

    def find(self, view: str) -> list[ClassHit]:
        """Return the hits in a view, in characters, in the order of the text."""
        found: set[ClassHit] = set()
        lefts: dict[int, list[tuple[int, int]]] = {}
        group_of, class_of, is_left, by_right = self.group_of, self.class_of_group, self._is_left, self._by_right
        # Hits come in the order of their ends, so a left half has been seen when the right one behind it is.
        for index, start, end in self.matcher.find(view):
            group = group_of[index]
            if class_of[group] >= 0:
                found.add((start, end, class_of[group]))
            if is_left[group]:
                lefts.setdefault(end, []).append((group, start))
            # Halves must touch: the space between two words is part of the right one.
            if start in lefts and (makes := by_right[group]):
                for left, left_start in lefts[start]:
                    if left in makes:
                        found.update([(left_start, end, of) for of in makes[left]])
        return sorted(found)

    def find_in_buffer(self, buffer: bytes) -> tuple[Ints, Ints, Ints]:
        """Return starts, ends and classes of the hits in a buffer of views, in bytes, in its order."""
        import numpy as np

        ids, starts, ends = self.matcher.find_in_buffer(buffer)
        groups = self._arrays[0][ids]
        of = self._arrays[1][groups]
        own = of >= 0
        # Pairs: right halves joined to the left ones that end where they start, then pairs of groups to classes.
        left, right = self._arrays[2][groups], self._arrays[3][groups]
        order = np.argsort(ends[left], kind="stable")
        left_ends, left_starts, left_groups = ends[left][order], starts[left][order], groups[left][order]
        wanted = starts[right]
        low, high = np.searchsorted(left_ends, wanted, "left"), np.searchsorted(left_ends, wanted, "right")
        at, which = _spread(low, high - low)
        first, classes, count = self._table
        pair = left_groups[at] * len(self.class_of_group) + groups[right][which]
        entry, hit = _spread(first[pair], count[pair])
        pairs = left_starts[at][hit], ends[right][which][hit], classes[entry]
        pieces = [(starts[own], ends[own], of[own]), pairs]
        start, end, kind = (np.concatenate(column) for column in zip(*pieces, strict=True))
        # One number per hit, so that sorting and removing duplicates is one pass.
        keys = np.unique((start << _START_BITS) | ((end - start) << _LENGTH_BITS) | kind)
        start = keys >> _START_BITS
        return start, start + ((keys >> _LENGTH_BITS) & _LENGTH_MASK), keys & _CLASS_MASK

    @cached_property
    def matcher(self) -> Matcher:
        """The automaton over all phrases."""
        return Matcher(self.phrases)

    @cached_property
    def _is_left(self) -> list[bool]:
        lefts = {frame.left for frame in self.frames}
        return [group in lefts for group in range(len(self.class_of_group))]

    @cached_property
    def _by_right(self) -> list[dict[int, list[int]]]:
        """For each group, the classes that each left group makes with it."""
        found: list[dict[int, list[int]]] = [{} for _ in self.class_of_group]
        for frame in self.frames:
            found[frame.right].setdefault(frame.left, []).append(frame.of)
        return found

    @cached_property
    def _arrays(self) -> tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.bool_]]:
        import numpy as np

        return (
            np.array(self.group_of, dtype=np.int64),
            np.array(self.class_of_group, dtype=np.int64),
            np.array(self._is_left),
            np.array([bool(lefts) for lefts in self._by_right]),
        )

    @cached_property
    def _table(self) -> tuple[Ints, Ints, Ints]:
        """The classes of every (left, right): where they start in one list, the list, and how many there are."""
        import numpy as np

        size = len(self.class_of_group)
        pairs = np.array([frame.left * size + frame.right for frame in self.frames], dtype=np.int64)
        classes = np.array([frame.of for frame in self.frames], dtype=np.int64)
        order = np.argsort(pairs, kind="stable")
        count = np.bincount(pairs, minlength=size * size)
        return np.cumsum(count) - count, classes[order], count


def _spread(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return first, first + 1, … for each count, and the index that each of these came from."""
    import numpy as np

    which = np.repeat(np.arange(len(count)), count)
    return np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which], which
