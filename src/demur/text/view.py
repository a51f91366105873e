"""What does a detector look at? The folded text in which punctuation of every script is plain, and lines are kept.

A view is the fold with four further rules. A line feed stays a line feed. Sentence ends of other scripts become `?` or a line
feed, their commas a comma, bullets a hyphen. Markdown's asterisks are gone, a bullet among them is a hyphen. Every other
character that is not ASCII and neither letter, digit nor mark (emoji, arrows, box drawing) becomes a space. So the
edge of a word can be read off the ASCII characters alone.

Laws: `view(t) == view_of(t).text`; `views(ts) == [view(t) for t in ts]`, in a fraction of the time; every non-ASCII character of a view is a letter, a digit or a mark; offsets map back as
those of `normalise` do.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from demur.model.text import NormalText
from demur.text.normalise import fold, fold_ascii_lines, normalise
from demur.text.offsets import compose, rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["view", "view_of", "views"]

_STARS = re.compile(r"\*+")
_OTHER = re.compile(r"[^\x00-\x7f]+")
_SYMBOL = re.compile(r"[^\w\x00-\x7f]")
_PLAIN = {"。": "\n", "।": "\n", "॥": "\n", "۔": "\n", "؟": "?", "¿": "?", "¡": "!", "、": ",", "،": ",", "؛": ";"}
_PLAIN |= dict.fromkeys("•·‣▪●○◦■□▶➤‧・✓✔➢", "-")


def view_of(text: str) -> NormalText:
    """Return the view with the way back to the original."""
    folded = normalise(text, lines=True)
    plain = folded.text if folded.text.isascii() else _OTHER.sub(_plain_run, folded.text)
    folded = NormalText(text, plain, folded.starts, folded.ends)
    if "*" not in plain:
        return folded
    bulleted = _bulleted(plain)
    bare = rewrite(bulleted, [(found.start(), found.end(), "") for found in _STARS.finditer(bulleted)])
    return compose(folded, NormalText(plain, bare.text, bare.starts, bare.ends))


def view(text: str) -> str:
    """Return the view alone."""
    folded = fold(text, lines=True)
    plain = folded if folded.isascii() else _OTHER.sub(_plain_run, folded)
    return _bulleted(plain).replace("*", "") if "*" in plain else plain


def views(texts: Sequence[str]) -> list[str]:
    """Return the view of each text; plain ASCII ones are folded all at once."""
    plain = [i for i, text in enumerate(texts) if text.isascii()]
    folded = _fold_together([texts[i] for i in plain])
    if folded is None:
        return [view(text) for text in texts]
    if len(plain) == len(texts):
        return folded
    found = dict(zip(plain, folded, strict=True))
    return [found[i] if i in found else view(text) for i, text in enumerate(texts)]


def _fold_together(texts: Sequence[str]) -> list[str] | None:
    """Return the views of ASCII texts, or None where one holds a control character and needs more care."""
    joined = fold_ascii_lines("\0".join(texts))
    if joined.count("\0") != max(len(texts) - 1, 0):
        return None
    if "*" in joined:
        if "* " in joined:
            for line in ("\n", "\0"):
                joined = joined.replace(f"{line}* ", f"{line}- ").replace(f"{line} * ", f"{line} - ")
            joined = _bulleted(joined)
        joined = joined.replace("*", "")
    return joined.split("\0") if texts else []


def _bulleted(plain: str) -> str:
    """Return the text with a hyphen for each asterisk that starts a list item."""
    if "* " not in plain:
        return plain
    return ("\n" + plain).replace("\n* ", "\n- ").replace("\n * ", "\n - ")[1:]


def _plain_run(found: re.Match[str]) -> str:
    return _SYMBOL.sub(_plain, found[0])


def _plain(found: re.Match[str]) -> str:
    return _plain_char(found[0])


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    """Return what stands for a character that `re` calls no word character: a mark is one all the same."""
    return _PLAIN.get(char) or (char if unicodedata.category(char)[0] == "M" else " ")
