"""What does a detector look at? The folded text in which punctuation of every script is plain, and lines are kept.

A view is the fold with three further rules. A line feed stays a line feed. Sentence ends of other scripts become `?` or a line
feed, their commas a comma, bullets a hyphen. Every other character that is not ASCII and neither letter, digit
nor mark (emoji, arrows, box drawing) becomes a space. So the edge of a word can be read off the ASCII characters alone.

Laws: `view(t) == view_of(t).text`; every non-ASCII character of a view is a letter, a digit or a mark; offsets map back as
those of `normalise` do.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from demur.model.text import NormalText
from demur.text.normalise import fold, normalise

__all__ = ["view", "view_of"]

_SYMBOL = re.compile(r"[^\w\x00-\x7f]")
_PLAIN = {"。": "\n", "।": "\n", "॥": "\n", "۔": "\n", "؟": "?", "¿": "?", "¡": "!", "、": ",", "،": ",", "؛": ";"}
_PLAIN |= dict.fromkeys("•·‣▪●○◦■□▶➤‧・✓✔➢", "-")


def view_of(text: str) -> NormalText:
    """Return the view with the way back to the original."""
    folded = normalise(text, lines=True)
    if folded.text.isascii():
        return folded
    return NormalText(text, _SYMBOL.sub(_plain, folded.text), folded.starts, folded.ends)


def view(text: str) -> str:
    """Return the view alone."""
    folded = fold(text, lines=True)
    return folded if folded.isascii() else _SYMBOL.sub(_plain, folded)


def _plain(found: re.Match[str]) -> str:
    return _plain_char(found[0])


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    """Return what stands for a character that `re` calls no word character: a mark is one all the same."""
    return _PLAIN.get(char) or (char if unicodedata.category(char)[0] == "M" else " ")
