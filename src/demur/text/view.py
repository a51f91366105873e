"""The view: the text that detectors scan, folded, with plain punctuation for every script, and with its lines kept.

`view(t) == view_of(t).text`; every non-ASCII character of a view is a letter, a digit or a mark, so the edge of a word can be
read off the ASCII characters alone; offsets map back as those of `normalise` do.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from demur.model.text import NormalText
from demur.text.normalise import fold, normalise
from demur.text.offsets import compose, rewrite

__all__ = ["view", "view_of"]

_STARS = re.compile(r"\*+")
_SYMBOL = re.compile(r"[^\x00-\x7f\w]")
# Ends of sentences in other scripts become `!` or `?`, which end one without a space after them.
_PLAIN = {"。": "!", "।": "!", "॥": "!", "۔": "!", "؟": "?", "¿": "?", "¡": "!", "、": ",", "،": ",", "؛": ";"}
_PLAIN |= dict.fromkeys("•·‣▪●○◦■□▶➤‧・✓✔➢", "-")


def view_of(text: str) -> NormalText:
    """Return the view with offsets in the original."""
    folded = normalise(text, lines=True)
    plain = folded.text if folded.text.isascii() else _SYMBOL.sub(_plain, folded.text)
    folded = NormalText(text, plain, folded.starts, folded.ends)
    if "*" not in plain:
        return folded
    # Markdown's emphasis splits phrases ("I **cannot** help"), a bullet starts an item.
    bulleted = _bulleted(plain)
    bare = rewrite(bulleted, [(found.start(), found.end(), "") for found in _STARS.finditer(bulleted)])
    return compose(folded, NormalText(plain, bare.text, bare.starts, bare.ends))


def view(text: str) -> str:
    """Return the view alone."""
    folded = fold(text, lines=True)
    plain = folded if folded.isascii() else _SYMBOL.sub(_plain, folded)
    return _bulleted(plain).replace("*", "") if "*" in plain else plain


def _bulleted(plain: str) -> str:
    """Return the text with a hyphen for each asterisk that starts a list item."""
    if "* " not in plain:
        return plain
    return ("\n" + plain).replace("\n* ", "\n- ").replace("\n * ", "\n - ")[1:]


def _plain(found: re.Match[str]) -> str:
    return _plain_char(found[0])


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    """Return the replacement of a non-ASCII character outside words."""
    # `\w` leaves out combining marks, which belong to words; emoji, arrows and box drawing become spaces.
    return _PLAIN.get(char) or (char if unicodedata.category(char)[0] == "M" else " ")
