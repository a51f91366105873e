"""The client pool: which connection is used, what is sent again, certificates and proxies."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.http.loopback_upstream import (
    ASKED,
    GET,
    OK,
    Peer,
    SkippingLoop,
    always,
    answer_of,
    asked_of,
    certificate,
    pooled,
    provider,
    run,
    skip,
    until,
    whole,
)

from demur.errors import UpstreamConnectError, UpstreamCutError, UpstreamError, UpstreamTimeoutError, UsageError
from demur.http.pool import HttpPool, upstream_tls
from demur.http.upstream import UpstreamLimits, UpstreamRequest, UpstreamTimeouts

LOOP = SkippingLoop


async def test_a_request_arrives_as_it_was_sent() -> None:
    """Target, own headers and body go through; the host is the provider's; the next request has the same connection."""
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


def test_redirects_are_answers() -> None:
    """A redirect is handed out, not followed."""
    status, headers, _ = run(asked_of(b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n"))
    assert (status, headers[b"location"]) == (302, b"/x")


def test_nobody_there_is_a_connect_error() -> None:
    """A port on which nobody listens is a connect error with the address in it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(UpstreamConnectError, match=f"`127.0.0.1:{port}`: connect call failed|refused"):
            run(HttpPool(f"http://127.0.0.1:{port}").send(ASKED))


async def test_a_handshake_that_never_ends_runs_into_the_connect_timeout() -> None:
    """TLS is part of connecting."""
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


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    """An end that the event loop has not yet seen is seen before anything is sent: even a POST goes to a new one."""
    ready, close_now, closed = threading.Event(), threading.Event(), threading.Event()
    port, seen = closing_server(ready, close_now, closed)
    async with pooled(f"http://127.0.0.1:{port}") as pool:
        await answer_of(pool)
        close_now.set()
        closed.wait(10)  # the event loop stands still here, so that it cannot take note
        assert await answer_of(pool) == b"ok"
    assert len(seen) == 2


KEYED = UpstreamRequest("POST", "/", ((b"Idempotency-Key", b"k"),), b"{}")


@pytest.mark.parametrize(
    ("request_", "dies", "sent"),
    [(GET, 1, 3), (KEYED, 1, 3), (GET, 2, 3), (ASKED, 1, 2)],
    ids=["get", "keyed", "twice", "post"],
)
async def test_only_what_is_safe_is_sent_again_and_once(request_: UpstreamRequest, dies: int, sent: int) -> None:
    """Where a used connection ends before any answer, a safe request is sent again once, another never."""

    async def serve(peer: Peer) -> None:
        if peer.number == 0:
            await peer.request()
            await peer.say(OK)
        await peer.request()
        if peer.number > 0 and dies == 1:
            await peer.say(OK)

    async with provider(serve) as served, pooled(served.url) as pool:
        await answer_of(pool, request_)
        if sent == 3 and dies == 1:
            assert await answer_of(pool, request_) == b"ok"
        else:
            with pytest.raises(UpstreamCutError) as caught:
                await pool.send(request_)
            assert not caught.value.received
        assert len(served.asked) == sent


async def test_a_new_connection_that_dies_is_not_tried_again() -> None:
    """A provider that ends a new connection without a word has refused, and is not asked again."""

    async def serve(peer: Peer) -> None:
        await peer.request()

    async with provider(serve) as served, pooled(served.url) as pool:
        with pytest.raises(UpstreamCutError):
            await pool.send(GET)
        assert len(served.asked) == 1


def test_a_certificate_must_be_trusted(tmp_path: Path) -> None:
    """A self-made certificate is refused, unless its file is named or checking is turned off."""
    file, server = certificate(tmp_path)

    async def ask(tls: ssl.SSLContext) -> bytes:
        async with provider(always(OK), tls=server) as served, pooled(served.url, tls=tls) as pool:
            assert await answer_of(pool) == b"ok"
            return await answer_of(pool)

    with pytest.raises(UpstreamConnectError, match=r"is not trusted: self.signed certificate"):
        run(ask(upstream_tls()))
    assert run(ask(upstream_tls(ca_file=file))) == b"ok"
    assert run(ask(upstream_tls(verify=False))) == b"ok"


async def test_a_certificate_for_another_is_refused(tmp_path: Path) -> None:
    """A trusted certificate still has to be that of the host."""
    file, server = certificate(tmp_path, name="127.0.0.2")
    tls = upstream_tls(ca_file=file)
    async with provider(always(OK), tls=server) as served, pooled(served.url, tls=tls) as pool:
        with pytest.raises(UpstreamConnectError, match="is not trusted: ip address mismatch"):
            await pool.send(ASKED)


async def test_a_proxy_is_given_the_whole_address() -> None:
    """Without TLS the proxy gets the URL in absolute form, with its own authorisation."""
    async with provider(always(OK)) as served:
        async with pooled("http://api.invalid/base", proxy=served.url.replace("://", "://me:secret@")) as pool:
            assert await answer_of(pool) == b"ok"
        (asked,) = served.asked
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
            got = await answer_of(pool)
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


async def test_ipv6_hosts_are_reached() -> None:
    """An address in brackets is an address, and stands in brackets in the `Host` header."""
    try:
        async with provider(always(OK), host="::1") as served, pooled(served.url) as pool:
            assert await answer_of(pool) == b"ok"
            assert b"host: [::1]:" in served.asked[0]
    except OSError:
        pytest.skip("no IPv6 here")


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of the settings is asked, whatever proxies are named elsewhere."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert run(asked_of(OK))[2] == b"ok"


async def test_many_at_once_are_each_answered_with_their_own() -> None:
    """A hundred requests at once get their own answers, and no more connections are kept than may be."""

    async def serve(peer: Peer) -> None:
        while True:
            body = (await peer.request()).partition(b"\r\n\r\n")[2]
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async with provider(serve) as served, pooled(served.url, limits=UpstreamLimits(idle_connections=7)) as pool:

        async def ask(number: int) -> bool:
            body = b"%d" % number * 1000
            return await whole(await pool.send(UpstreamRequest("POST", "/", (), body))) == body

        assert all(await asyncio.gather(*map(ask, range(100))))
        assert pool.idle == 7


async def test_to_close_the_pool_cuts_what_is_arriving() -> None:
    """After closing there is no connection, and none is made."""
    async with provider(always(OK[:-1])) as served:
        pool = HttpPool(served.url, timeouts=UpstreamTimeouts(idle_s=1))
        answer = await pool.send(ASKED)
        await pool.close()
        await until(lambda: pool.connections == 0)
        with pytest.raises(UpstreamError):
            await whole(answer)
        with pytest.raises(UpstreamConnectError, match="shutting down"):
            await pool.send(ASKED)
