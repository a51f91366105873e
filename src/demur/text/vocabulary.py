"""Which words does the detector of prompts know, and how does a run of letters fall into them?

Laws: the words are data, derived from the pack (`vocabulary.json`) or the commonest of English (`words.json`); nothing is read
before a text needs it; dividing is linear in the letters, and given up where too many of them belong to no word.
"""

from __future__ import annotations

import json
import pkgutil
from functools import cache

__all__ = ["known_words", "starts_of_words"]

_MOST_LETTERS = 16
_COMMON, _KNOWN, _STRANGE = 8, 10, 20
"""What a word of each kind costs; of strange letters, each."""


@cache
def known_words() -> frozenset[str]:
    """Return all words that a phrase of the detector may hold, and the commonest of English."""
    return frozenset(_shipped_words("vocabulary.json")) | frozenset(_shipped_words("words.json"))


@cache
def _costs() -> dict[str, int]:
    return dict.fromkeys(known_words(), _KNOWN) | dict.fromkeys(_shipped_words("words.json"), _COMMON)


def _shipped_words(name: str) -> list[str]:
    found: list[str] = json.loads(pkgutil.get_data(__package__, name) or b"[]")
    return found


def starts_of_words(letters: str, *, strange_share: float = 0.5) -> frozenset[int]:
    """Return where words begin in a run of lower-case letters, by the cheapest division; none where it makes no sense."""
    best = _best_steps(letters)
    starts, strange, at = set(), 0, len(letters)
    while at:
        length = best[at][1]
        at -= abs(length)
        strange += length < 0
        if not (length < 0 and at and best[at][1] < 0):
            starts.add(at)
    return frozenset(starts) if strange <= strange_share * len(letters) else frozenset()


def _best_steps(letters: str) -> list[tuple[int, int]]:
    """Return for every position the cost of what is before it and the length of the last word, -1 for a strange letter."""
    costs = _costs()
    best = [(0, 0)]
    for end in range(1, len(letters) + 1):
        found = (best[end - 1][0] + _STRANGE, -1)
        for start in range(max(0, end - _MOST_LETTERS), end):
            cost = costs.get(letters[start:end])
            if cost is not None:
                found = min(found, (best[start][0] + cost, end - start))
        best.append(found)
    return best
