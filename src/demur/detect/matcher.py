"""Which phrases a text contains, in one pass of an automaton for any number of phrases.

The text is a *view* (see `demur.text.normalise`): folded, and every non-ASCII character in it is a letter, a digit or a mark.
Hits come in the order of their ends, and one text gives the same hits alone and inside a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING

import ahocorasick_rs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Hit", "Matcher", "Phrase", "Screen"]

Hit = tuple[int, int, int]  # the index of a phrase, and where it starts and ends

# From this many texts on, the faster automaton is worth the tenth of a second and the 20 MB that it takes.
_WORTH_A_DFA = 1000
_LEFT, _RIGHT = 1, 2
_APOSTROPHE, _NINE = ord("'"), ord("9")
# Every non-ASCII character of a view belongs to a word, so these ASCII ones decide where a word ends, and the same byte
# table serves one text and a whole column.
_WORD = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in folded form, and whether its ends must be the edges of words."""

    text: str
    left: bool = True
    right: bool = True


@dataclass(frozen=True)
class Screen:
    """Excludes cheaply the texts that contain none of many phrases, by the short phrases that the others contain.

    False positives are possible, since word edges are not checked; false negatives are not.
    """

    phrases: tuple[str, ...]

    def passes(self, view: str) -> bool:
        """Return whether a view may contain a phrase."""
        # A phrase with a non-ASCII letter cannot be in plain ASCII; a DFA of all phrases would take 140 MB.
        fast = view.isascii() and next(self._uses) >= _WORTH_A_DFA
        return bool((self._ascii_fast if fast else self._quickly_built).find_matches_as_indexes(view))

    def positions(self, buffer: bytes) -> NDArray[np.int64]:
        """Return where hits start in a buffer of views, in bytes; the GIL is released."""
        import numpy as np

        hits = (self._ascii_bytes if buffer.isascii() else self._all_bytes).find_matches_as_indexes(buffer)
        return np.array([hit[1] for hit in hits], dtype=np.int64)

    # Automata cannot be pickled and are rebuilt from the phrases.
    def __reduce__(self) -> tuple[type[Screen], tuple[tuple[str, ...]]]:
        return Screen, (self.phrases,)

    @cached_property
    def _uses(self) -> Iterator[int]:
        return count()

    @cached_property
    def _quickly_built(self) -> ahocorasick_rs.AhoCorasick:
        return ahocorasick_rs.AhoCorasick(self.phrases, implementation=ahocorasick_rs.Implementation.ContiguousNFA)

    @cached_property
    def _ascii_fast(self) -> ahocorasick_rs.AhoCorasick:
        plain = [phrase for phrase in self.phrases if phrase.isascii()]
        return ahocorasick_rs.AhoCorasick(plain, implementation=ahocorasick_rs.Implementation.DFA)

    @cached_property
    def _all_bytes(self) -> ahocorasick_rs.BytesAhoCorasick:
        kind = ahocorasick_rs.Implementation.ContiguousNFA
        return ahocorasick_rs.BytesAhoCorasick([phrase.encode() for phrase in self.phrases], implementation=kind)

    @cached_property
    def _ascii_bytes(self) -> ahocorasick_rs.BytesAhoCorasick:
        return _bytes_automaton([phrase for phrase in self.phrases if phrase.isascii()])


def _bytes_automaton(phrases: Sequence[str]) -> ahocorasick_rs.BytesAhoCorasick:
    kind = ahocorasick_rs.Implementation.DFA
    return ahocorasick_rs.BytesAhoCorasick([phrase.encode() for phrase in phrases], implementation=kind)


@dataclass(frozen=True)
class Matcher:
    """Finds any of its phrases in a view."""

    phrases: tuple[Phrase, ...]

    def find(self, view: str) -> list[Hit]:
        """Return the hits in a view, in characters."""
        last = len(view)
        edges = self._edges
        # One expression without calls: this runs for every hit. An apostrophe before a letter continues the word, so that
        # "but i can" is not found in "but i can't".
        return [
            hit
            for hit in self._automaton.find_matches_as_indexes(view, overlapping=True)
            if not (
                ((edge := edges[hit[0]]) & _LEFT and hit[1] and ((char := view[hit[1] - 1]) in _WORD or char > "\x7f"))
                or (
                    edge & _RIGHT
                    and hit[2] < last
                    and (
                        (char := view[hit[2]]) in _WORD
                        or char > "\x7f"
                        or (char == "'" and view[hit[2] + 1 : hit[2] + 2] > "9")
                    )
                )
            )
        ]

    def find_in_buffer(self, buffer: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return phrase indexes, starts and ends of the hits in a buffer of views, in bytes; the GIL is released.

        The buffer starts with a byte that is no part of a word and ends with two, as do the views in it.
        """
        import numpy as np

        # A phrase with a non-ASCII letter cannot be in plain ASCII, and a small automaton stays in the cache.
        plain = buffer.isascii()
        automaton = self._ascii_bytes if plain else self._all_bytes
        raw = automaton.find_matches_as_indexes(buffer, overlapping=True)
        flat = np.fromiter(chain.from_iterable(raw), dtype=np.int64, count=3 * len(raw)).reshape(-1, 3)
        ids, starts, ends = self._ascii_ids[flat[:, 0]] if plain else flat[:, 0], flat[:, 1], flat[:, 2]
        around = np.frombuffer(buffer, dtype=np.uint8)
        left, right, word = self._edge_arrays
        after = around[ends]
        goes_on = word[after] | ((after == _APOSTROPHE) & (around[ends + 1] > _NINE))
        kept = ~((left[ids] & word[around[starts - 1]]) | (right[ids] & goes_on))
        return ids[kept], starts[kept], ends[kept]

    def __reduce__(self) -> tuple[type[Matcher], tuple[tuple[Phrase, ...]]]:
        return Matcher, (self.phrases,)

    @cached_property
    def _automaton(self) -> ahocorasick_rs.AhoCorasick:
        # At tens of thousands of phrases the contiguous automaton scans as fast as the DFA and is built six times faster.
        kind = ahocorasick_rs.Implementation.ContiguousNFA
        return ahocorasick_rs.AhoCorasick([p.text for p in self.phrases], implementation=kind)

    @cached_property
    def _all_bytes(self) -> ahocorasick_rs.BytesAhoCorasick:
        return _bytes_automaton([p.text for p in self.phrases])

    @cached_property
    def _ascii_bytes(self) -> ahocorasick_rs.BytesAhoCorasick:
        return _bytes_automaton([p.text for p in self.phrases if p.text.isascii()])

    @cached_property
    def _ascii_ids(self) -> NDArray[np.int64]:
        import numpy as np

        return np.array([i for i, p in enumerate(self.phrases) if p.text.isascii()], dtype=np.int64)

    @cached_property
    def _edges(self) -> bytes:
        """A byte for each phrase: which of its ends must be the edges of words; small enough to stay in the cache."""
        return bytes([p.left * _LEFT | p.right * _RIGHT for p in self.phrases])

    @cached_property
    def _edge_arrays(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        import numpy as np

        word = np.zeros(256, dtype=np.bool_)
        word[[ord(c) for c in _WORD]] = True
        word[128:] = True
        edges = np.frombuffer(self._edges, dtype=np.uint8)
        return (edges & _LEFT) > 0, (edges & _RIGHT) > 0, word
