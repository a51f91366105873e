"""What kind of answer is arriving from the provider, and what is it as a whole?

Laws: what a client will take for a stream is read as one, whatever its headers say; an answer is gathered only up to its limit,
compressed or not; a coding or a charset that cannot be read is said, never guessed at.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from demur.errors import InputError, SizeLimitError
from demur.http.asgi import HttpProblem
from demur.http.content_coding import body_decoder

if TYPE_CHECKING:
    from demur.http.upstream import UpstreamResponse

__all__ = ["ANSWER_TOO_LARGE", "coding_of", "collected", "is_stream"]

ANSWER_TOO_LARGE = HttpProblem(502, "answer_too_large", "The provider's answer is larger than this gateway reads.")
_OK = 200
_REDIRECTED = 300
_CHARSET = re.compile(rb'charset\s*=\s*"?([^";,\s]*)', re.IGNORECASE)
_LIKE_ASCII = re.compile(rb"|utf-?8|(us-)?ascii|iso-?8859-\d+|latin-?\d|windows-125\d", re.IGNORECASE)
"""Charsets in which our bytes for plain letters are theirs; UTF-7 and EBCDIC are none, and hide any phrase."""


def coding_of(answer: UpstreamResponse) -> str:
    """Return the coding of an answer, empty where it is plain."""
    found = [value for name, value in answer.headers if name == b"content-encoding"]
    if not found:
        return ""
    coding = b",".join(found).decode("latin-1").strip().lower()
    return "" if coding == "identity" else coding


def is_stream(answer: UpstreamResponse, *, asked_for: bool) -> bool:
    """Return whether an answer is to be read as events: it says so, or it was asked for; its client will not look closer."""
    if body_decoder(coding_of(answer), limit_bytes=1) is None or not _is_in_ascii(answer):
        return False
    if asked_for and _OK <= answer.status < _REDIRECTED:
        return True
    kinds = (value.strip().lower() for name, value in answer.headers if name == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


async def collected(answer: UpstreamResponse, *, limit_bytes: int) -> tuple[bytes, bytes | None] | HttpProblem:
    """Return a whole answer, as it came and as it reads; None where its coding cannot be read."""
    decoder = body_decoder(coding_of(answer), limit_bytes=limit_bytes)
    raw: list[bytes] = []
    plain: list[bytes] | None = None if decoder is None else []
    size = 0
    async for piece in answer.body:
        raw.append(piece)
        size += len(piece)
        try:
            if decoder is not None and plain is not None:
                plain.append(decoder.decode(piece))
        except SizeLimitError:
            size = limit_bytes + 1
        except InputError:
            plain = None
        if size > limit_bytes:
            await answer.body.aclose()
            return ANSWER_TOO_LARGE
    return b"".join(raw), None if plain is None or not _is_in_ascii(answer) else _in_utf8(b"".join(plain))


def _is_in_ascii(answer: UpstreamResponse) -> bool:
    """Return whether an answer names no charset that its text would have to be read by."""
    named = [word for name, value in answer.headers if name == b"content-type" for word in _CHARSET.findall(value)]
    return all(_LIKE_ASCII.fullmatch(word) for word in named)


def _in_utf8(plain: bytes) -> bytes | None:
    """Return a text in UTF-8; JSON in UTF-16 or 32, which clients read too, is brought there, None is what cannot be."""
    encoding = json.detect_encoding(plain)
    try:
        text = plain.decode(encoding)
    except UnicodeDecodeError:
        return None
    return plain if encoding == "utf-8" else text.encode("utf-8", errors="surrogatepass")
