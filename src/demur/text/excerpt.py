"""The part of a long text that is judged: the answer without the thoughts before it, its beginning and its end.

Nearly every text is judged whole, and is then its own excerpt.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["READ_CHARS", "Excerpt", "excerpt_of"]

READ_CHARS = 100_000  # how much of a response is judged: a model that has written a book first has not declined
_TAIL_CHARS = 20_000  # of these at the end, where a model that has thought aloud says what it does
_HEAD_CHARS = READ_CHARS - _TAIL_CHARS - 1
_INVISIBLE = " \t\n\r\f\v\u00a0\u00ad\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\u3000\ufeff"
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is judged of a text, and where it stands there."""

    text: str
    start: int = 0
    """How many characters are skipped at the beginning."""
    left_out: int = 0
    """How many are left out between head and tail."""

    def offset(self, at: int) -> int:
        """Return where a character of the excerpt stands in the whole text."""
        return at + self.start + (self.left_out if at > _HEAD_CHARS else 0)


def excerpt_of(text: str) -> Excerpt:
    """Return what is judged of a text."""
    shown = text.lstrip(_INVISIBLE)
    # Open models write their thoughts into the answer; one that never closes them has not answered.
    thinks = shown[: len(_OPEN)].lower() == _OPEN
    if not thinks and len(text) <= READ_CHARS:
        return Excerpt(text)
    if thinks:
        end = shown.lower().find(_CLOSE) if shown.isascii() else shown.find(_CLOSE)
        shown = "" if end < 0 else shown[end + len(_CLOSE) :].lstrip(_INVISIBLE)
    start = len(text) - len(shown)
    if len(shown) <= READ_CHARS:
        return Excerpt(shown, start)
    whole = shown[:_HEAD_CHARS] + "\n" + shown[-_TAIL_CHARS:]
    return Excerpt(whole, start, len(shown) - READ_CHARS)
