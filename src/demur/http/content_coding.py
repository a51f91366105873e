"""Decoding of compressed responses for our own reading; the client gets the upstream's bytes.

The decoded length is bounded, so that a small response cannot fill the memory. A coding that we cannot decode is None, never text.
"""

from __future__ import annotations

import zlib
from typing import Protocol

from demur.errors import EncodingError, SizeLimitError

__all__ = ["READABLE_CODINGS", "BodyDecoder", "body_decoder"]

READABLE_CODINGS = frozenset(("gzip", "x-gzip", "deflate", "identity"))
_GZIP = 16 + zlib.MAX_WBITS
_FIRST_BYTES = 2


class BodyDecoder(Protocol):
    """Decodes the pieces of a body."""

    def decode(self, piece: bytes) -> bytes:
        """Return what a piece decodes to; raise if it is not in this coding, or too much."""

    def finish(self) -> bytes:
        """Return what was left; raise if the body is incomplete."""


def body_decoder(content_encoding: str, *, limit_bytes: int) -> BodyDecoder | None:
    """Return the decoder for a `Content-Encoding`, None for one that we cannot decode (or several)."""
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        return _PlainBody(limit_bytes)
    return _InflatedBody(coding, limit_bytes) if coding in READABLE_CODINGS else None


class _PlainBody:
    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes

    def decode(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise SizeLimitError("the answer is larger than may be read", hint="raise `limits.decoded_bytes`")
        return piece

    def finish(self) -> bytes:
        return b""


class _InflatedBody:
    """gzip, of one member or several, and deflate, with the zlib header that RFC 9110 asks for or without it."""

    def __init__(self, coding: str, limit_bytes: int) -> None:
        self._bits = zlib.MAX_WBITS if coding == "deflate" else _GZIP
        self._left = limit_bytes
        self._begun = b""
        self._stream: zlib._Decompress | None = None

    def decode(self, piece: bytes) -> bytes:
        data = self._begun + piece
        if self._stream is None and len(data) < _FIRST_BYTES:
            self._begun = data
            return b""
        self._begun = b""
        if self._stream is not None and self._stream.eof:
            data = data.lstrip(b"\0")
        found = []
        while data:
            stream = self._stream_for(data)
            try:
                # One byte more than is left: reaching the limit is allowed, passing it is not.
                found.append(stream.decompress(data, self._left + 1))
            except zlib.error as exc:
                raise EncodingError("the answer is not in the coding that its headers name") from exc
            self._left -= len(found[-1])
            if self._left < 0:
                raise SizeLimitError("the answer is larger than may be read", hint="raise `limits.decoded_bytes`")
            # After a gzip member comes another one (RFC 1952, section 2.2), or padding.
            data = stream.unused_data.lstrip(b"\0") if self._bits == _GZIP and stream.eof else b""
        return b"".join(found)

    def _stream_for(self, data: bytes) -> zlib._Decompress:
        if self._stream is None:
            header = int.from_bytes(data[:_FIRST_BYTES])
            # Some servers send raw DEFLATE without the zlib wrapper of RFC 1950: its header is a multiple of 31.
            zlib_header = data[0] & 0x0F == zlib.DEFLATED and header % 31 == 0
            raw = self._bits != _GZIP and not zlib_header
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS if raw else self._bits)
        elif self._stream.eof and self._bits == _GZIP:
            self._stream = zlib.decompressobj(self._bits)
        return self._stream

    def finish(self) -> bytes:
        if self._begun or (self._stream is not None and not self._stream.eof):
            raise EncodingError("the compressed answer is not whole")
        return b""
