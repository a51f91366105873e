"""The seeds' way to match: is a lower-cased phrase contained in the lower-cased text?

Kept as it was, faults included ("Penguins are not able to fly" is a hit), so that figures from the seed systems can be
reproduced. The order of findings is the order of the phrases in the pack, as the seeds report them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.text import Span
from demur.model.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["contains_any", "find_substrings"]


def contains_any(text: str, patterns: Iterable[str]) -> bool:
    """Return whether any pattern stands in the lower-cased text; patterns are taken as they are, as the seed does."""
    lower = text.lower()
    return any(pattern in lower for pattern in patterns)


def find_substrings(text: str, phrases: Iterable[tuple[str, str]], *, pack: str) -> tuple[Finding, ...]:
    """Return the first hit of each (phrase, category) in the text, with its span in the original."""
    lower = text.lower()
    back = None if len(lower) == len(text) else _offsets_of_lower(text)
    found = []
    for phrase, category in phrases:
        at = lower.find(phrase)
        if at >= 0:
            end = at + len(phrase)
            span = Span(at, end) if back is None else Span(back[at], back[end - 1] + 1)
            found.append(Finding(f"{pack}:{phrase}", category, 1.0, span))
    return tuple(found)


def _offsets_of_lower(text: str) -> list[int]:
    """Return the original offset of each character of `text.lower()`: a few capitals lower to two characters."""
    return [i for i, char in enumerate(text) for _ in char.lower()]
