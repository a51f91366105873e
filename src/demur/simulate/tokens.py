"""How many tokens would a model have counted?

An estimate, not a tokeniser: about four letters of an alphabet a token, a token for each sign of Chinese, Japanese or Korean
and for each run of other characters. Law: nothing has no tokens, anything else at least one; more text never has fewer.
"""

from __future__ import annotations

import re

__all__ = ["TOKENS_PER_MESSAGE", "count_tokens", "first_tokens"]

TOKENS_PER_MESSAGE = 4
"""What chat formats add around each message."""

_PIECE = re.compile(r"[぀-ヿ㐀-鿿가-힯]|\w{1,4}|[^\w\s]{1,3}")


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return max(1, sum(1 for _ in _PIECE.finditer(text))) if text else 0


def first_tokens(text: str, limit: int) -> str:
    """Return as much of a text as `limit` tokens hold."""
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number >= limit:
            return text[: piece.start()].rstrip()
    return text
