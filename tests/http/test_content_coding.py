"""Compressed answers are read for auditing, within bounds."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import EncodingError, SizeLimitError
from demur.http.content_coding import body_decoder

RAW = zlib.compressobj(wbits=-15)
BODY = b"a piece of an answer " * 50
CODED = {
    "gzip": gzip.compress(BODY, mtime=0),
    "x-gzip": gzip.compress(BODY[:100], mtime=0) + gzip.compress(BODY[100:], mtime=0) + bytes(9),
    "deflate": zlib.compress(BODY),
    " Deflate ": RAW.compress(BODY) + RAW.flush(),
    "identity": BODY,
    "": BODY,
}


@given(st.sampled_from(sorted(CODED)), st.lists(st.integers(0, 400), max_size=8))
def test_a_body_is_decoded_however_it_is_cut(coding: str, cuts: list[int]) -> None:
    """Gzip of one member or several, and deflate with its header or without, give the text whatever the pieces."""
    decoder = body_decoder(coding, limit_bytes=len(BODY))
    assert decoder is not None
    places = [0, *sorted(cuts), len(CODED[coding])]
    pieces = [CODED[coding][begin:end] for begin, end in pairwise(places)]
    assert b"".join(map(decoder.decode, pieces)) + decoder.finish() == BODY


@pytest.mark.parametrize("coding", sorted(CODED))
def test_what_is_larger_than_may_be_is_refused(coding: str) -> None:
    """One byte above the limit is too much, before it is held."""
    decoder = body_decoder(coding, limit_bytes=len(BODY) - 1)
    assert decoder is not None
    with pytest.raises(SizeLimitError):
        decoder.decode(CODED[coding])


def test_a_bomb_is_stopped_early() -> None:
    """A small answer that stands for a large one is refused, having taken no more than the limit."""
    decoder = body_decoder("gzip", limit_bytes=1000)
    assert decoder is not None
    with pytest.raises(SizeLimitError):
        decoder.decode(gzip.compress(bytes(50_000_000), mtime=0))


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip, gzip"])
def test_a_coding_that_we_cannot_decode_is_said(coding: str) -> None:
    """There is no decoder, so that nobody reads the bytes as text."""
    assert body_decoder(coding, limit_bytes=10) is None


def test_what_is_not_in_its_coding_is_an_error() -> None:
    """Garbage and a body that ends too early are errors, not empty texts."""
    decoder = body_decoder("gzip", limit_bytes=1000)
    assert decoder is not None
    with pytest.raises(EncodingError):
        decoder.decode(b"no gzip at all")
    for cut in (1, 20):
        half = body_decoder("gzip", limit_bytes=10_000)
        assert half is not None
        half.decode(CODED["gzip"][:cut])
        with pytest.raises(EncodingError, match="not whole"):
            half.finish()
