"""Whole words of a pack in the view of a text: how packs match that are not a seed's.

Laws: a phrase is found whatever its case, quotes, spacing or look-alike letters, and only as whole words where it is
written in a script with spaces; the first hit of each phrase is told, in the order of the pack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.detect.matcher import Matcher, Phrase
from demur.model.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.text import NormalText

__all__ = ["find_words", "words_matcher"]

_UNSPACED_FROM = "\u0e00"


def words_matcher(views: Sequence[str]) -> Matcher:
    """Return a matcher for phrases that have been folded to views."""
    return Matcher(tuple(_phrase(view) for view in views))


def _phrase(view: str) -> Phrase:
    """Return the phrase with its edges: Thai, Chinese, Japanese and Korean do not part words by spaces."""
    left, right = view[0] < _UNSPACED_FROM, view[-1] < _UNSPACED_FROM
    return Phrase(view, left=left and view[0].isalnum(), right=right and view[-1].isalnum())


def find_words(
    view: NormalText, matcher: Matcher, *, phrases: Sequence[tuple[str, str]], pack: str
) -> tuple[Finding, ...]:
    """Return the first hit of each (phrase, category); the matcher holds the same phrases in the same order."""
    first: dict[int, tuple[int, int]] = {}
    for index, start, end in matcher.find(view.text.replace("\n", " ")):
        first.setdefault(index, (start, end))
    return tuple(
        Finding(f"{pack}:{phrases[index][0]}", phrases[index][1], 1.0, view.span(*first[index]))
        for index in sorted(first)
    )
