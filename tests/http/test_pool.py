"""The client pool, against providers on loopback that behave and that do not."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.http.loopback_upstream import Peer, always, certificate, provider, run, skip, until

from demur.errors import (
    UpstreamConnectError,
    UpstreamCutError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
    UsageError,
)
from demur.http.pool import HttpPool, upstream_tls
from demur.http.upstream import UpstreamLimits, UpstreamRequest, UpstreamTimeouts

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from demur.http.upstream import UpstreamResponse

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
ASKED = UpstreamRequest("POST", "/v1/chat/completions?a=b", ((b"x-own", b"1"),), b'{"model":"m"}')
GET = UpstreamRequest("GET", "/v1/models")


async def whole(answer: UpstreamResponse) -> bytes:
    return b"".join([piece async for piece in answer.body])


async def asked_of(
    raw: bytes, request: UpstreamRequest = ASKED, *, close: bool = False, limits: UpstreamLimits | None = None
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the answer in some bytes."""
    async with provider(always(raw, close=close)) as served, pooled(served.url, limits=limits) as pool:
        answer = await pool.send(request)
        return answer.status, dict(answer.headers), await whole(answer)


@asynccontextmanager
async def pooled(
    url: str,
    *,
    limits: UpstreamLimits | None = None,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, limits=limits, tls=tls, proxy=proxy)
    try:
        yield pool
    finally:
        await pool.close()


def test_a_request_arrives_as_it_was_sent() -> None:
    """Target, own headers and body go through; the host is the provider's; the next request has the same connection."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(f"{served.url}/base/") as pool:
            for _ in range(3):
                answer = await pool.send(ASKED)
                assert (answer.status, await whole(answer), answer.body.ended) == (200, b"ok", True)
            host = served.url.removeprefix("http://").encode()
            assert served.asked[2] == (
                b"POST /base/v1/chat/completions?a=b HTTP/1.1\r\nhost: " + host + b"\r\nx-own: 1\r\n"
                b'content-length: 13\r\n\r\n{"model":"m"}'
            )
            assert (served.connections, pool.connections, pool.idle) == (1, 1, 1)

    run(main())


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


@pytest.mark.parametrize(("raw", "close"), BODIES.values(), ids=BODIES)
def test_bodies_of_every_framing_are_read(raw: bytes, *, close: bool) -> None:
    """A body is the same however its end is told, and neither framing nor trailers nor interim headers are left."""
    status, headers, body = run(asked_of(raw, close=close))
    assert (status, body) == (200, b"hello")
    assert set(headers) <= {b"content-length"}


@pytest.mark.parametrize(("raw", "close"), BODIES.values(), ids=BODIES)
def test_an_answer_may_come_byte_by_byte(raw: bytes, *, close: bool) -> None:
    """How the network cuts an answer into pieces changes nothing."""

    async def serve(peer: Peer) -> None:
        await peer.request()
        for index in range(len(raw)):
            await peer.say(raw[index : index + 1])
            await asyncio.sleep(0)
        if not close:
            await peer.request()

    async def main() -> bytes:
        async with provider(serve) as served, pooled(served.url) as pool:
            return await whole(await pool.send(ASKED))

    assert run(main()) == b"hello"


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", b"200 OK"), ("GET", b"204 No Content"), ("GET", b"304 Not Modified")]
)
def test_answers_without_a_body_end_with_their_headers(method: str, status: bytes) -> None:
    """HEAD, 204 and 304 have no body, whatever length they speak of, and the next request is answered as well."""

    async def main() -> None:
        raw = b"HTTP/1.1 " + status + b"\r\ncontent-length: 500\r\netag: x\r\n\r\n"
        async with provider(always(raw)) as served, pooled(served.url) as pool:
            for _ in range(2):
                answer = await pool.send(UpstreamRequest(method, "/"))
                assert (await whole(answer), dict(answer.headers)[b"etag"]) == (b"", b"x")

    run(main())


def test_redirects_are_answers() -> None:
    """A redirect is handed out, not followed."""
    status, headers, _ = run(asked_of(b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n"))
    assert (status, headers[b"location"]) == (302, b"/x")


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


def test_a_broken_chunk_ends_the_answer_with_an_error() -> None:
    """What came before a broken chunk can be read, and then the error is raised."""

    async def main() -> None:
        raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nZZ\r\n"
        async with provider(always(raw)) as served, pooled(served.url) as pool:
            answer = await pool.send(ASKED)
            assert await anext(answer.body) == b"ok"
            with pytest.raises(UpstreamProtocolError, match="not HTTP"):
                await anext(answer.body)
            await until(lambda: pool.connections == 0)

    run(main())


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 2000 + b"\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 300 + b"content-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 8000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    ],
    ids=["one long", "many", "endless", "endless interim"],
)
def test_headers_have_a_limit(raw: bytes) -> None:
    """Headers larger than the limit are refused, however they are made up."""
    with pytest.raises(UpstreamProtocolError, match="larger than 1000 bytes"):
        run(asked_of(raw, limits=UpstreamLimits(header_bytes=1000)))


def test_trailers_have_the_same_limit() -> None:
    """Trailers count as headers do."""
    raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: a\r\n" * 300 + b"\r\n"
    with pytest.raises(UpstreamProtocolError, match="larger than"):
        run(asked_of(raw, limits=UpstreamLimits(header_bytes=1000)))


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n",
    ],
)
def test_an_answer_that_is_cut_off_is_said_to_be(raw: bytes) -> None:
    """A body that ends too early gives what came, then an error, never a quiet end."""

    async def main() -> None:
        async with provider(always(raw, close=True)) as served, pooled(served.url) as pool:
            answer = await pool.send(ASKED)
            assert await anext(answer.body) == b"hel"
            with pytest.raises(UpstreamCutError) as caught:
                await anext(answer.body)
            assert caught.value.received
            with pytest.raises(UpstreamCutError):
                await anext(answer.body)

    run(main())


def test_nobody_there_is_a_connect_error() -> None:
    """A port on which nobody listens is a connect error with the address in it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(UpstreamConnectError, match=f"`127.0.0.1:{port}`: connect call failed|refused"):
            run(HttpPool(f"http://127.0.0.1:{port}").send(ASKED))


async def timed_out(serve: Callable[[Peer], Awaitable[None]], skips: float) -> UpstreamTimeoutError:
    """Return the timeout that strikes when a provider has the request and time passes."""
    async with provider(serve) as served, pooled(served.url) as pool:

        async def ask() -> None:
            await whole(await pool.send(ASKED))

        task = asyncio.create_task(ask())
        await until(lambda: bool(served.asked))
        skip(skips)
        with pytest.raises(UpstreamTimeoutError) as caught:
            await task
        await served.ended.wait()
        return caught.value


def test_silence_before_the_headers_runs_into_the_read_timeout() -> None:
    """A provider that takes the request and says nothing is given up, and its connection closed."""

    async def serve(peer: Peer) -> None:
        await peer.request()
        await peer.request()

    error = run(timed_out(serve, 301))
    assert (error.which, error.fault) == ("read", "timeout")


def test_silence_within_the_body_runs_into_the_read_timeout() -> None:
    """A body that stops coming is given up as well."""

    async def serve(peer: Peer) -> None:
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel")
        await peer.request()
        await peer.request()

    assert run(timed_out(serve, 301)).which == "read"


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


def test_a_handshake_that_never_ends_runs_into_the_connect_timeout() -> None:
    """TLS is part of connecting."""

    async def main() -> None:
        reached = asyncio.Event()

        async def serve(peer: Peer) -> None:
            await peer.reader.readexactly(1)
            reached.set()
            await peer.reader.read()

        async with provider(serve) as served, pooled(served.url.replace("http", "https")) as pool:
            task = asyncio.create_task(pool.send(ASKED))
            await reached.wait()
            skip(11)
            with pytest.raises(UpstreamTimeoutError, match="connect timeout") as caught:
                await task
            assert caught.value.which == "connect"

    run(main())


def test_a_slow_reader_of_ours_is_no_silence_of_the_provider() -> None:
    """The read timeout counts only while somebody waits for the provider."""

    async def main() -> None:
        async with provider(always(OK[:-1])) as served, pooled(served.url) as pool:
            answer = await pool.send(ASKED)
            skip(1000)
            assert await anext(answer.body) == b"o"
            skip(900)
            with pytest.raises(UpstreamTimeoutError, match="total timeout"):
                await anext(answer.body)

    run(main())


def test_an_unused_connection_is_closed_in_time() -> None:
    """An idle connection is kept for the idle timeout and no longer."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            await whole(await pool.send(ASKED))
            skip(29)
            await whole(await pool.send(ASKED))
            assert (served.connections, pool.idle) == (1, 1)
            skip(31)
            await served.ended.wait()
            await until(lambda: pool.connections == pool.idle == 0)

    run(main())


def test_to_be_cancelled_closes_the_connection() -> None:
    """Whoever is cancelled while waiting, for the headers or for a piece, leaves no connection behind."""

    async def main(said: bytes) -> None:
        async def serve(peer: Peer) -> None:
            await peer.request()
            await peer.say(said)
            await peer.request()

        async with provider(serve) as served, pooled(served.url) as pool:

            async def ask() -> None:
                await whole(await pool.send(ASKED))

            task = asyncio.create_task(ask())
            await until(lambda: bool(served.asked))
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await served.ended.wait()
            await until(lambda: pool.connections == 0)

    run(main(b""))
    run(main(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"))


def test_to_close_an_answer_early_closes_the_connection() -> None:
    """The rest of an answer that is given up can never be taken for the next answer."""

    async def main() -> None:
        async with provider(always(OK[:-1])) as served, pooled(served.url) as pool:
            answer = await pool.send(ASKED)
            await answer.body.aclose()
            await served.ended.wait()
            assert (pool.idle, answer.body.ended) == (0, False)
            with pytest.raises(UpstreamCutError):
                await anext(answer.body)

    run(main())


def test_nothing_is_read_while_too_much_is_held() -> None:
    """A provider that is faster than the client is held back, and no byte is lost."""
    size, piece = 64 * 1024 * 1024, b"x" * 65536

    async def main() -> None:
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

    run(main())


def closing_server(
    ready: threading.Event, close_now: threading.Event, closed: threading.Event
) -> tuple[int, list[bytes]]:
    """Serve, in a thread: one answer and then the end on the first connection, one answer on the second."""
    listening = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        with listening:
            first, _ = listening.accept()
            with first:
                seen.append(first.recv(65536))
                first.sendall(OK)
                ready.set()
                close_now.wait(10)
            closed.set()
            second, _ = listening.accept()
            with second:
                seen.append(second.recv(65536))
                second.sendall(OK)
                second.recv(1)

    threading.Thread(target=serve).start()
    return listening.getsockname()[1], seen


def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    """An end that the event loop has not yet seen is seen before anything is sent: even a POST goes to a new one."""

    async def main() -> None:
        ready, close_now, closed = threading.Event(), threading.Event(), threading.Event()
        port, seen = closing_server(ready, close_now, closed)
        async with pooled(f"http://127.0.0.1:{port}") as pool:
            await whole(await pool.send(ASKED))
            close_now.set()
            closed.wait(10)  # the event loop stands still here, so that it cannot take note
            assert await whole(await pool.send(ASKED)) == b"ok"
        assert len(seen) == 2

    run(main())


KEYED = UpstreamRequest("POST", "/", ((b"Idempotency-Key", b"k"),), b"{}")


@pytest.mark.parametrize(
    ("request_", "dies", "sent"),
    [(GET, 1, 3), (KEYED, 1, 3), (GET, 2, 3), (ASKED, 1, 2)],
    ids=["get", "keyed", "twice", "post"],
)
def test_only_what_is_safe_is_sent_again_and_once(request_: UpstreamRequest, dies: int, sent: int) -> None:
    """Where a used connection ends before any answer, a safe request is sent again once, another never."""

    async def main() -> None:
        async def serve(peer: Peer) -> None:
            if peer.number == 0:
                await peer.request()
                await peer.say(OK)
            await peer.request()
            if peer.number > 0 and dies == 1:
                await peer.say(OK)

        async with provider(serve) as served, pooled(served.url) as pool:
            await whole(await pool.send(request_))
            if sent == 3 and dies == 1:
                assert await whole(await pool.send(request_)) == b"ok"
            else:
                with pytest.raises(UpstreamCutError) as caught:
                    await pool.send(request_)
                assert not caught.value.received
            assert len(served.asked) == sent

    run(main())


def test_a_new_connection_that_dies_is_not_tried_again() -> None:
    """A provider that ends a new connection without a word has refused, and is not asked again."""

    async def serve(peer: Peer) -> None:
        await peer.request()

    async def main() -> None:
        async with provider(serve) as served, pooled(served.url) as pool:
            with pytest.raises(UpstreamCutError):
                await pool.send(GET)
            assert len(served.asked) == 1

    run(main())


@pytest.mark.parametrize("surplus", [b"HTTP/1.1 200 OK\r\n", b"garbage", OK])
def test_what_comes_unasked_ends_the_connection_and_not_the_answer(surplus: bytes) -> None:
    """Bytes after an answer can never be read as the answer to somebody else's request."""

    async def main() -> None:
        async with provider(always(OK + surplus)) as served, pooled(served.url) as pool:
            for count in (1, 2):
                assert await whole(await pool.send(ASKED)) == b"ok"
                await until(lambda: pool.connections == 0)
                assert (pool.idle, served.connections) == (0, count)

    run(main())


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    """A self-made certificate is refused, unless its file is named or checking is turned off."""
    file, server = certificate(tmp_path)

    async def ask(tls: ssl.SSLContext) -> bytes:
        async with provider(always(OK), tls=server) as served, pooled(served.url, tls=tls) as pool:
            assert await whole(await pool.send(ASKED)) == b"ok"
            return await whole(await pool.send(ASKED))

    with pytest.raises(UpstreamConnectError, match=r"is not trusted: self.signed certificate"):
        run(ask(upstream_tls()))
    assert run(ask(upstream_tls(ca_file=file))) == b"ok"
    assert run(ask(upstream_tls(verify=False))) == b"ok"


def test_a_certificate_for_another_is_refused(tmp_path: Path) -> None:
    """A trusted certificate still has to be that of the host."""
    file, server = certificate(tmp_path, name="127.0.0.2")

    async def ask() -> None:
        async with (
            provider(always(OK), tls=server) as served,
            pooled(served.url, tls=upstream_tls(ca_file=file)) as pool,
        ):
            await pool.send(ASKED)

    with pytest.raises(UpstreamConnectError, match="is not trusted: ip address mismatch"):
        run(ask())


def test_a_proxy_is_given_the_whole_address() -> None:
    """Without TLS the proxy gets the URL in absolute form, with its own authorisation."""

    async def main() -> list[bytes]:
        async with provider(always(OK)) as served:
            proxy = served.url.replace("://", "://me:secret@")
            async with pooled("http://api.invalid/base", proxy=proxy) as pool:
                assert await whole(await pool.send(ASKED)) == b"ok"
            return served.asked

    (asked,) = run(main())
    assert asked.startswith(b"POST http://api.invalid/base/v1/chat/completions?a=b HTTP/1.1\r\nhost: api.invalid\r\n")
    assert b"\r\nproxy-authorization: Basic bWU6c2VjcmV0\r\n" in asked


def forwarding(status: bytes) -> Callable[[Peer], Awaitable[None]]:
    """Return a proxy's conduct: it answers CONNECT with a status, and forwards bytes if that is 200."""

    async def serve(peer: Peer) -> None:
        asked = await peer.request()
        await peer.say(b"HTTP/1.1 %b\r\n\r\n" % status)
        if not status.startswith(b"200"):
            return
        host, _, port = asked.split(b" ")[1].decode().rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while piece := await source.read(65536):
                target.write(piece)
            target.close()

        await asyncio.gather(copy(peer.reader, writer), copy(reader, peer.writer))

    return serve


def test_tls_goes_through_a_proxy(tmp_path: Path) -> None:
    """With TLS the proxy is asked for a tunnel, and the certificate checked is that of the provider."""
    file, server = certificate(tmp_path)

    async def ask(status: bytes) -> bytes:
        async with (
            provider(always(OK), tls=server) as served,
            provider(forwarding(status)) as proxy,
            pooled(served.url, tls=upstream_tls(ca_file=file), proxy=proxy.url) as pool,
        ):
            got = await whole(await pool.send(ASKED))
            assert proxy.asked[0].startswith(b"CONNECT " + served.url.removeprefix("https://").encode() + b" HTTP/1.1")
            return got

    assert run(ask(b"200 Connection established")) == b"ok"
    with pytest.raises(UpstreamConnectError, match="the proxy does not connect"):
        run(ask(b"403 Forbidden"))


def test_a_proxy_without_a_host_is_a_usage_error() -> None:
    """What is no address is said, without the password that may be in it."""
    with pytest.raises(UsageError, match="the proxy's URL cannot be read"):
        HttpPool("http://x", proxy="http://me:secret@:99999")


def test_a_file_without_certificates_is_a_usage_error(tmp_path: Path) -> None:
    """The file's name is in the message."""
    (tmp_path / "ca.pem").write_text("none")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(UsageError, match=name):
            upstream_tls(ca_file=str(tmp_path / name))


def test_ipv6_hosts_are_reached() -> None:
    """An address in brackets is an address, and stands in brackets in the `Host` header."""

    async def main() -> None:
        try:
            async with provider(always(OK), host="::1") as served, pooled(served.url) as pool:
                assert await whole(await pool.send(ASKED)) == b"ok"
                assert b"host: [::1]:" in served.asked[0]
        except OSError:
            pytest.skip("no IPv6 here")

    run(main())


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of the settings is asked, whatever proxies are named elsewhere."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert run(asked_of(OK))[2] == b"ok"


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


def test_a_body_may_be_sent_in_pieces() -> None:
    """A body in pieces arrives whole, with its length where that is known and in chunks where it is not."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            for size in (5, None):
                request = UpstreamRequest("POST", "/", (), pieces(b"he", b"", b"llo"), size)
                assert await whole(await pool.send(request)) == b"ok"
            assert [asked.endswith(b"hello") for asked in served.asked] == [True, True]
            assert (b"chunked" in served.asked[0], b"chunked" in served.asked[1]) == (False, True)
            assert served.connections == 1

    run(main())


def test_a_large_body_arrives_whole() -> None:
    """A body that is larger than one write arrives as it was."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            body = bytes(range(256)) * 4000
            await whole(await pool.send(UpstreamRequest("POST", "/", (), body)))
            assert served.asked[0].partition(b"\r\n\r\n")[2] == body

    run(main())


def test_sending_that_never_gets_on_runs_into_the_read_timeout() -> None:
    """A provider that does not take the body is given up as one that does not answer."""

    async def main() -> None:
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

    run(main())


def test_a_large_body_in_pieces_is_sent_no_faster_than_it_is_taken() -> None:
    """Sending waits where the provider does, and every byte arrives."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            given = [b"x" * 100_000] * 50
            await whole(await pool.send(UpstreamRequest("POST", "/", (), pieces(*given))))
            assert served.asked[0].count(b"x") >= 5_000_000

    run(main())


def test_a_body_of_another_length_than_it_says_is_not_sent_as_if() -> None:
    """A length that is not kept ends the exchange with an error, since the rest would be read as another request."""

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            with pytest.raises(UpstreamProtocolError, match="not as long as it says"):
                await pool.send(UpstreamRequest("POST", "/", (), pieces(b"he"), 5))
            await until(lambda: pool.connections == 0)

    run(main())


def test_an_answer_before_the_end_of_the_body_is_taken() -> None:
    """A provider that refuses a body while it is sent is heard, and the connection not used again."""

    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await peer.reader.read()

    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async def main() -> None:
        async with provider(serve) as served, pooled(served.url) as pool, aclosing(endless()) as body:
            answer = await pool.send(UpstreamRequest("POST", "/", (), body))
            assert (answer.status, await whole(answer), pool.idle) == (413, b"no", 0)

    run(main())


def test_a_body_that_fails_closes_the_connection() -> None:
    """An error of the client's own body is raised as it is, and half a request is never left open."""

    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionAbortedError

    async def main() -> None:
        async with provider(always(OK)) as served, pooled(served.url) as pool:
            with pytest.raises(ConnectionAbortedError):
                await pool.send(UpstreamRequest("POST", "/", (), failing()))
            await served.ended.wait()

    run(main())


def test_many_at_once_are_each_answered_with_their_own() -> None:
    """A hundred requests at once get their own answers, and no more connections are kept than may be."""

    async def serve(peer: Peer) -> None:
        while True:
            body = (await peer.request()).partition(b"\r\n\r\n")[2]
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async def main() -> None:
        async with (
            provider(serve) as served,
            pooled(served.url, limits=UpstreamLimits(idle_connections=7)) as pool,
        ):

            async def ask(number: int) -> bool:
                body = b"%d" % number * 1000
                return await whole(await pool.send(UpstreamRequest("POST", "/", (), body))) == body

            assert all(await asyncio.gather(*map(ask, range(100))))
            assert pool.idle == 7

    run(main())


def test_to_close_the_pool_cuts_what_is_arriving() -> None:
    """After closing there is no connection, and none is made."""

    async def main() -> None:
        async with provider(always(OK[:-1])) as served:
            pool = HttpPool(served.url, timeouts=UpstreamTimeouts(idle_s=1))
            answer = await pool.send(ASKED)
            await pool.close()
            await until(lambda: pool.connections == 0)
            with pytest.raises(UpstreamError):
                await whole(answer)
            with pytest.raises(UpstreamConnectError, match="shutting down"):
                await pool.send(ASKED)

    run(main())
