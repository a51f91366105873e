"""Is a stretch of the text English with its letters turned by thirteen, or written backwards?

Evidence is the words that a detector knows: each that is one only when unscrambled counts for, each plain one against,
and the best stretch must reach `_ENOUGH`, to which one long word is enough. The unscrambled text is offered whole: its honest
part is read elsewhere.

Laws: the words come from the vocabulary; a word that is known both ways is no evidence; a long text without a sign of its
commonest words is not looked at further; both searches are linear.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import TYPE_CHECKING

from demur.text.vocabulary import known_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.text.offsets import Edit

__all__ = ["scrambles"]

_ENOUGH = 2
_LONG_WORD = 8
_SHORT_TEXT = 256
# Letters between digits and signs are code, in which anything may be read.
_WORD = re.compile(r"(?<![a-z0-9+/=_])[a-z]{3,20}+(?![a-z0-9+/=_])")


def scrambles(text: str, folded: bytes) -> Iterator[tuple[str, list[Edit]]]:
    """Yield `rot13`, `reversed` or both with their edits, if the text (and its lower-case ASCII) seems to be that."""
    if len(folded) > _SHORT_TEXT:
        # Spelt out, since this is what a long honest text costs.
        turned = b"gur " in folded or b"lbh" in folded or b"ubj " in folded or b" gb " in folded
        backwards = b"eht " in folded or b"noit" in folded or b" ot " in folded or b"uoy" in folded
    else:
        turned = backwards = not _hidden_words().isdisjoint(folded.split())
    if turned and _is_scrambled(folded, _turned):
        other = _turned(text)
        yield "rot13", [(at, at + 1, new) for at, (old, new) in enumerate(zip(text, other, strict=True)) if old != new]
    if backwards and _is_scrambled(folded, _backwards):
        yield "reversed", [(0, len(text), _backwards(text))]


def _turned(text: str) -> str:
    return codecs.encode(text, "rot13")


def _backwards(text: str) -> str:
    return text[::-1]


@cache
def _evidence(unscramble: Callable[[str], str]) -> dict[str, int]:
    plain = known_words()
    hidden = {unscramble(word) for word in plain}
    weights = {word: _ENOUGH if len(word) >= _LONG_WORD else 1 for word in hidden - plain}
    return dict.fromkeys(plain - hidden, -1) | weights


@cache
def _hidden_words() -> frozenset[bytes]:
    weights = [*_evidence(_turned).items(), *_evidence(_backwards).items()]
    return frozenset(word.encode() for word, weight in weights if weight > 0)


def _is_scrambled(folded: bytes, unscramble: Callable[[str], str]) -> bool:
    """Return whether some stretch holds `_ENOUGH` more hidden words than plain ones."""
    weigh = _evidence(unscramble).get
    best = 0
    for word in _WORD.findall(folded.decode("ascii")):
        best = max(0, best + weigh(word, 0))
        if best >= _ENOUGH:
            return True
    return False
