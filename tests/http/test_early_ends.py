"""What becomes of an upload that the provider ends first, on asyncio's event loop and on the one that gateways run on."""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from tests.http.loopback_upstream import Peer, certificate, pooled, provider, until

from demur.errors import UpstreamCutError
from demur.http.pool import HttpPool, upstream_tls
from demur.http.upstream import UpstreamRequest

REFUSED = b'HTTP/1.1 401 Unauthorized\r\ncontent-length: 15\r\n\r\n{"error":"key"}'
PIECE = b"x" * 1000
LOOPS = ("asyncio", "uvloop")
"""A closed transport of asyncio's ignores what is written to it; one of uvloop's raises."""


def run_on(loop: str, main: Coroutine[object, object, None]) -> None:
    pytest.importorskip(loop).run(main)


@asynccontextmanager
async def refusing(said: bytes, *, tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None) -> AsyncIterator[HttpPool]:
    """Yield a pool whose provider reads the head of a request and one piece, says something, and closes."""

    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.reader.readuntil(PIECE)
        await peer.say(said)

    theirs, ours = tls or (None, None)
    async with provider(serve, tls=theirs) as served, pooled(served.url, tls=ours) as pool:
        yield pool


async def outlasting(pool: HttpPool, *, more: int) -> AsyncGenerator[bytes, None]:
    """Yield a piece; once the connection is closed, some more."""
    yield PIECE
    await until(lambda: pool.connections == 0)
    for _ in range(more):
        yield PIECE
        await asyncio.sleep(0)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("more", [0, 1, 5])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("secure", [False, True])
def test_a_refusal_before_the_end_of_an_upload_is_heard(
    tmp_path: Path, loop: str, *, more: int, sized: bool, secure: bool
) -> None:
    """Who refuses a body and closes while its next piece is awaited is heard, and nothing more is written."""
    file, theirs = certificate(tmp_path)
    tls = (theirs, upstream_tls(ca_file=file)) if secure else None

    async def main() -> None:
        async with refusing(REFUSED, tls=tls) as pool, aclosing(outlasting(pool, more=more)) as body:
            size = len(PIECE) * (more + 1) if sized else None
            answer = await pool.send(UpstreamRequest("POST", "/", (), body, size))
            heard = b"".join([piece async for piece in answer.body])
            assert (answer.status, heard, pool.idle) == (401, b'{"error":"key"}', 0)

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("more", [0, 5])
@pytest.mark.parametrize(("said", "received"), [(b"", False), (REFUSED[:20], True)])
def test_an_end_without_an_answer_is_a_cut(loop: str, *, more: int, said: bytes, received: bool) -> None:
    """Who closes in the midst of an upload and has not answered has broken off, and says no more than that."""

    async def main() -> None:
        async with refusing(said) as pool, aclosing(outlasting(pool, more=more)) as body:
            with pytest.raises(UpstreamCutError) as caught:
                await pool.send(UpstreamRequest("POST", "/", (), body))
            assert caught.value.received is received

    run_on(loop, main())


def refusing_server(go: threading.Event, closed: threading.Event) -> int:
    """Serve one request in a thread, and return the port: refuse it when told to, most of its body unread, and close."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(10)
                seen = b""
                while b"\r\n\r\n" not in seen[:-1]:
                    seen += connection.recv(1)
                go.wait(10)
                connection.sendall(REFUSED)
        closed.set()

    threading.Thread(target=serve).start()
    return int(listening.getsockname()[1])


@pytest.mark.skipif(not hasattr(select, "poll"), reason="whether there is something to read cannot be asked here")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("more", [0, 1, 5])
def test_an_answer_that_lies_unread_is_not_lost_to_a_write(loop: str, more: int) -> None:
    """What has come is read before more is sent, for the write would fail and take the answer with it."""
    go, closed = threading.Event(), threading.Event()

    async def pushing() -> AsyncGenerator[bytes, None]:
        yield PIECE
        for _ in range(5):
            await asyncio.sleep(0)
        go.set()
        closed.wait(10)  # the event loop stands still here, so that it cannot take note
        for _ in range(more):
            yield PIECE

    async def main() -> None:
        pool = HttpPool(f"http://127.0.0.1:{refusing_server(go, closed)}")
        async with aclosing(pushing()) as body:
            answer = await pool.send(UpstreamRequest("POST", "/", (), body))
            assert (answer.status, b"".join([piece async for piece in answer.body])) == (401, b'{"error":"key"}')
        await pool.close()

    run_on(loop, main())
