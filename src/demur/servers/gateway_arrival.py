"""What kind of answer is arriving from the provider, and what is it as a whole?

Laws: what a client will take for a stream is read as one, whatever its headers say; an answer is gathered only up to its limit,
compressed or not; a coding that cannot be read is said, never guessed at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.adapters.content_coding import body_decoder
from demur.errors import InputError, SizeLimitError
from demur.servers.gateway_answers import Rebuff

if TYPE_CHECKING:
    from demur.adapters.upstream import UpstreamAnswer

__all__ = ["ANSWER_TOO_LARGE", "coding_of", "collected", "is_stream"]

ANSWER_TOO_LARGE = Rebuff(502, "answer_too_large", "The provider's answer is larger than this gateway reads.")
_OK = 200


def coding_of(answer: UpstreamAnswer) -> str:
    """Return the coding of an answer, empty where it is plain."""
    named = b",".join(value for name, value in answer.headers if name == b"content-encoding")
    coding = named.decode("latin-1").strip().lower()
    return "" if coding == "identity" else coding


def is_stream(answer: UpstreamAnswer, *, asked_for: bool) -> bool:
    """Return whether an answer is to be read as events: it says so, or it was asked for; its client will not look closer."""
    if body_decoder(coding_of(answer), limit_bytes=1) is None:
        return False
    if asked_for and answer.status == _OK:
        return True
    kind = next((value for name, value in answer.headers if name == b"content-type"), b"")
    return kind.strip().lower().startswith(b"text/event-stream")


async def collected(answer: UpstreamAnswer, *, limit_bytes: int) -> tuple[bytes, bytes | None] | Rebuff:
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
    return b"".join(raw), None if plain is None else b"".join(plain)
