"""One connection to a provider on loopback that behaves, or does not: framing, limits, timeouts, sending in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import pytest
from tests.http.loopback_upstream import (
    ASKED,
    CUT,
    OK,
    Peer,
    SkippingLoop,
    always,
    answer_of,
    asked_of,
    pooled,
    provider,
    run,
    skip,
    until,
    whole,
)

from demur.errors import UpstreamCutError, UpstreamProtocolError, UpstreamTimeoutError
from demur.http.upstream import UpstreamLimits, UpstreamRequest

LOOP = SkippingLoop
BODIES = {
    "length": (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nt: 1\r\n\r\n",
        False,
    ),
    "until the end": (b"HTTP/1.1 200 OK\r\n\r\nhello", True),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", True),
    "after interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        False,
    ),
    "offering an upgrade": (
        b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\ncontent-length: 5\r\n\r\nhello",
        False,
    ),
}


@pytest.mark.parametrize("size", [1, 1000], ids=["byte by byte", "at once"])
@pytest.mark.parametrize(("raw", "close"), BODIES.values(), ids=BODIES)
async def test_bodies_of_every_framing_are_read(raw: bytes, size: int, *, close: bool) -> None:
    """A body is the same however its end is told and the network cuts it; no framing, trailer or interim header is left."""

    async def serve(peer: Peer) -> None:
        await peer.request()
        for at in range(0, len(raw), size):
            await peer.say(raw[at : at + size])
            await asyncio.sleep(0)
        if not close:
            await peer.request()

    async with provider(serve) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        assert (answer.status, await whole(answer)) == (200, b"hello")
        assert set(dict(answer.headers)) <= {b"content-length"}


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", b"200 OK"), ("GET", b"204 No Content"), ("GET", b"304 Not Modified")]
)
async def test_answers_without_a_body_end_with_their_headers(method: str, status: bytes) -> None:
    """HEAD, 204 and 304 have no body, whatever length they speak of, and the next request is answered as well."""
    raw = b"HTTP/1.1 " + status + b"\r\ncontent-length: 500\r\netag: x\r\n\r\n"
    async with provider(always(raw)) as served, pooled(served.url) as pool:
        for _ in range(2):
            answer = await pool.send(UpstreamRequest(method, "/"))
            assert (await whole(answer), dict(answer.headers)[b"etag"]) == (b"", b"x")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: a\r\n b\x00\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
)
def test_what_is_no_sound_http_is_refused(raw: bytes) -> None:
    """Garbage, conflicting lengths, strange codings and an unasked change of protocol are protocol errors."""
    with pytest.raises(UpstreamProtocolError):
        run(asked_of(raw))


async def test_a_broken_chunk_ends_the_answer_with_an_error() -> None:
    """What came before a broken chunk can be read, and then the error is raised."""
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nZZ\r\n"
    async with provider(always(raw)) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        assert await anext(answer.body) == b"ok"
        with pytest.raises(UpstreamProtocolError, match="not HTTP"):
            await anext(answer.body)
        await until(lambda: pool.connections == 0)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 2000 + b"\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 300 + b"content-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 8000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: a\r\n" * 300 + b"\r\n",
    ],
    ids=["one long", "many", "endless", "endless interim", "trailers"],
)
def test_headers_have_a_limit(raw: bytes) -> None:
    """Headers larger than the limit are refused, however they are made up, and trailers count as headers do."""
    with pytest.raises(UpstreamProtocolError, match="larger than 1000 bytes"):
        run(asked_of(raw, limits=UpstreamLimits(header_bytes=1000)))


@pytest.mark.parametrize("raw", [CUT, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n"])
async def test_an_answer_that_is_cut_off_is_said_to_be(raw: bytes) -> None:
    """A body that ends too early gives what came, then an error, never a quiet end."""
    async with provider(always(raw, close=True)) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        assert await anext(answer.body) == b"hel"
        with pytest.raises(UpstreamCutError) as caught:
            await anext(answer.body)
        assert caught.value.received
        with pytest.raises(UpstreamCutError):
            await anext(answer.body)


async def timed_out(serve: Callable[[Peer], Awaitable[None]], skips: float) -> UpstreamTimeoutError:
    """Return the timeout that strikes when a provider has the request and time passes."""
    async with provider(serve) as served, pooled(served.url) as pool:
        task = asyncio.create_task(answer_of(pool))
        await until(lambda: bool(served.asked))
        skip(skips)
        with pytest.raises(UpstreamTimeoutError) as caught:
            await task
        await served.ended.wait()
        return caught.value


@pytest.mark.parametrize("said", [b"", CUT], ids=["before the headers", "within the body"])
def test_silence_runs_into_the_read_timeout(said: bytes) -> None:
    """A provider that takes the request and says nothing, or stops within the body, is given up and its connection closed."""

    async def serve(peer: Peer) -> None:
        await peer.say(said)
        await peer.request()
        await peer.request()

    error = run(timed_out(serve, 301))
    assert (error.which, error.fault) == ("read", "timeout")


def test_a_dripping_answer_runs_into_the_total_timeout() -> None:
    """An answer that always goes on, but too long, is given up."""

    async def serve(peer: Peer) -> None:
        await peer.say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await peer.request()
        while not peer.reader.at_eof():
            skip(100)
            await peer.say(b"1\r\nx\r\n")
            await asyncio.sleep(0)
        peer.ended.set()

    assert run(timed_out(serve, 0)).which == "total"


async def test_a_slow_reader_of_ours_is_no_silence_of_the_provider() -> None:
    """The read timeout counts only while somebody waits for the provider."""
    async with provider(always(OK[:-1])) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        skip(1000)
        assert await anext(answer.body) == b"o"
        skip(900)
        with pytest.raises(UpstreamTimeoutError, match="total timeout"):
            await anext(answer.body)


async def test_an_unused_connection_is_closed_in_time() -> None:
    """An idle connection is kept for the idle timeout and no longer."""
    async with provider(always(OK)) as served, pooled(served.url) as pool:
        await answer_of(pool)
        skip(29)
        await answer_of(pool)
        assert (served.connections, pool.idle) == (1, 1)
        skip(31)
        await served.ended.wait()
        await until(lambda: pool.connections == pool.idle == 0)


@pytest.mark.parametrize("said", [b"", CUT], ids=["for the headers", "for a piece"])
async def test_to_be_cancelled_closes_the_connection(said: bytes) -> None:
    """Whoever is cancelled while waiting, for the headers or for a piece, leaves no connection behind."""
    async with provider(always(said)) as served, pooled(served.url) as pool:
        task = asyncio.create_task(answer_of(pool))
        await until(lambda: bool(served.asked))
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await served.ended.wait()
        await until(lambda: pool.connections == 0)


async def test_to_close_an_answer_early_closes_the_connection() -> None:
    """The rest of an answer that is given up can never be taken for the next answer."""
    async with provider(always(OK[:-1])) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        await answer.body.aclose()
        await served.ended.wait()
        assert (pool.idle, answer.body.ended) == (0, False)
        with pytest.raises(UpstreamCutError):
            await anext(answer.body)


async def test_nothing_is_read_while_too_much_is_held() -> None:
    """A provider that is faster than the client is held back, and no byte is lost."""
    size, piece = 64 * 1024 * 1024, b"x" * 65536

    said = 0

    async def serve(peer: Peer) -> None:
        nonlocal said
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while said < size:
            await peer.say(piece)
            said += len(piece)
        await peer.request()

    async with provider(serve) as served, pooled(served.url) as pool:
        answer = await pool.send(ASKED)
        stalled = -1
        while stalled != said:
            stalled = said
            for _ in range(200):
                await asyncio.sleep(0)
        assert said < size / 2
        assert sum([len(part) async for part in answer.body]) == size
        assert pool.idle == 1


@pytest.mark.parametrize("surplus", [b"HTTP/1.1 200 OK\r\n", b"garbage", OK])
async def test_what_comes_unasked_ends_the_connection_and_not_the_answer(surplus: bytes) -> None:
    """Bytes after an answer can never be read as the answer to somebody else's request."""
    async with provider(always(OK + surplus)) as served, pooled(served.url) as pool:
        for count in (1, 2):
            assert await answer_of(pool) == b"ok"
            await until(lambda: pool.connections == 0)
            assert (pool.idle, served.connections) == (0, count)


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


async def test_a_body_may_be_sent_in_pieces() -> None:
    """A body in pieces arrives whole, with its length where that is known and in chunks where it is not."""
    async with provider(always(OK)) as served, pooled(served.url) as pool:
        for size in (5, None):
            request = UpstreamRequest("POST", "/", (), pieces(b"he", b"", b"llo"), size)
            assert await whole(await pool.send(request)) == b"ok"
        assert [asked.endswith(b"hello") for asked in served.asked] == [True, True]
        assert (b"chunked" in served.asked[0], b"chunked" in served.asked[1]) == (False, True)
        assert served.connections == 1


@pytest.mark.parametrize("count", [1, 50], ids=["whole", "in pieces"])
async def test_a_large_body_arrives_as_it_was(count: int) -> None:
    """A body that is larger than one write arrives whole; one in pieces is sent no faster than the provider takes it."""
    async with provider(always(OK)) as served, pooled(served.url) as pool:
        body = bytes(range(256)) * 4000
        await whole(await pool.send(UpstreamRequest("POST", "/", (), pieces(*[body] * count) if count > 1 else body)))
        assert served.asked[0].partition(b"\r\n\r\n")[2] == body * count


async def test_sending_that_never_gets_on_runs_into_the_read_timeout() -> None:
    """A provider that does not take the body is given up as one that does not answer."""
    stuck = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for number in range(10_000):
            if number == 500:
                stuck.set()
            yield b"x" * 100_000

    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a transport that reads
        await peer.ended.wait()

    async with provider(serve) as served, pooled(served.url) as pool:
        task = asyncio.create_task(pool.send(UpstreamRequest("POST", "/", (), endless())))
        for _ in range(3000):
            await asyncio.sleep(0)
        assert not stuck.is_set()
        skip(301)
        with pytest.raises(UpstreamTimeoutError, match="read timeout"):
            await task
        served.ended.set()


async def test_a_body_of_another_length_than_it_says_is_not_sent_as_if() -> None:
    """A length that is not kept ends the exchange with an error, since the rest would be read as another request."""
    async with provider(always(OK)) as served, pooled(served.url) as pool:
        with pytest.raises(UpstreamProtocolError, match="not as long as it says"):
            await pool.send(UpstreamRequest("POST", "/", (), pieces(b"he"), 5))
        await until(lambda: pool.connections == 0)


async def test_an_answer_before_the_end_of_the_body_is_taken() -> None:
    """A provider that refuses a body while it is sent is heard, and the connection not used again."""

    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await peer.reader.read()

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async with provider(serve) as served, pooled(served.url) as pool, aclosing(endless()) as body:
        answer = await pool.send(UpstreamRequest("POST", "/", (), body))
        assert (answer.status, await whole(answer), pool.idle) == (413, b"no", 0)


async def test_a_body_that_fails_closes_the_connection() -> None:
    """An error of the client's own body is raised as it is, and half a request is never left open."""

    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionAbortedError

    async with provider(always(OK)) as served, pooled(served.url) as pool:
        with pytest.raises(ConnectionAbortedError):
            await pool.send(UpstreamRequest("POST", "/", (), failing()))
        await served.ended.wait()
