"""Is a stretch of the text English with its letters turned by thirteen, or written backwards?

Evidence is a short list of common words: each word that is one only when unscrambled counts for, each plain one against,
and the best stretch must reach `_ENOUGH`. The unscrambled text is offered whole: its honest part is
read elsewhere.

Laws: the words come from `words.json`; a word that is common both ways is no evidence; both searches are linear.
"""

from __future__ import annotations

import codecs
import json
import pkgutil
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.text.offsets import Edit

__all__ = ["reversed_edits", "rot13_edits"]

_ENOUGH = 2
_WORD = re.compile(r"[a-z]{3,12}+")
_TURNED_SIGNS = (b"gur ", b"lbh")
_BACKWARD_SIGNS = (b"eht ", b"noit")
_CONSONANTS = bytes(ord("c") if chr(byte) in "bcdfghjklmnpqrstvwxz" else ord(".") for byte in range(256))
_CLUSTER = b"ccccc"


def rot13_edits(text: str, folded: bytes) -> list[Edit]:
    """Return one edit for each letter, if the text (and its lower-case ASCII) seems to be turned by thirteen."""
    # Turned vowels are consonants, so that turned English has clusters which plain English hardly knows.
    suspect = _CLUSTER in folded.translate(_CONSONANTS) or any(sign in folded for sign in _TURNED_SIGNS)
    if not suspect or not _is_scrambled(folded, _turned):
        return []
    return [(at, at + 1, new) for at, (old, new) in enumerate(zip(text, _turned(text), strict=True)) if old != new]


def reversed_edits(text: str, folded: bytes) -> list[Edit]:
    """Return one edit for the whole text, if it (and its lower-case ASCII) seems to be written backwards."""
    suspect = any(sign in folded for sign in _BACKWARD_SIGNS)
    if not suspect or not _is_scrambled(folded, _backwards):
        return []
    return [(0, len(text), _backwards(text))]


def _turned(text: str) -> str:
    return codecs.encode(text, "rot13")


def _backwards(text: str) -> str:
    return text[::-1]


@cache
def _evidence(unscramble: Callable[[str], str]) -> dict[str, int]:
    plain = set(json.loads(pkgutil.get_data(__package__, "words.json") or b"[]"))
    hidden = {unscramble(word) for word in plain}
    return dict.fromkeys(plain - hidden, -1) | dict.fromkeys(hidden - plain, 1)


def _is_scrambled(folded: bytes, unscramble: Callable[[str], str]) -> bool:
    """Return whether some stretch holds `_ENOUGH` more hidden words than plain ones."""
    weigh = _evidence(unscramble).get
    best = 0
    for word in _WORD.findall(folded.decode("ascii")):
        best = max(0, best + weigh(word, 0))
        if best >= _ENOUGH:
            return True
    return False
