"""Providers on loopback that answer with exact bytes, and an event loop whose clock a test can put forward."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from demur.http.pool import HttpPool
from demur.http.upstream import UpstreamLimits, UpstreamRequest, UpstreamResponse

T = TypeVar("T")

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CUT = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel"
ASKED = UpstreamRequest("POST", "/v1/chat/completions?a=b", ((b"x-own", b"1"),), b'{"model":"m"}')
GET = UpstreamRequest("GET", "/v1/models")


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop that can be told that time has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def time(self) -> float:
        """Return the time, with what was skipped."""
        return super().time() + self.skipped_s


def run(main: Coroutine[object, object, T]) -> T:
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(main)


def skip(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skipped_s += seconds


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop turn until something holds."""
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to hold")


@dataclass
class Peer:
    """One connection to the provider."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    asked: list[bytes]
    ended: asyncio.Event

    async def request(self) -> bytes:
        """Return the next request whole, and remember it."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        body = b""
        if b"transfer-encoding: chunked" in head:
            while size := int(await self.reader.readuntil(b"\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        elif b"content-length: " in head:
            body = await self.reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        self.asked.append(head + body)
        return head + body

    async def say(self, raw: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(raw)
        await self.writer.drain()


@dataclass
class Provider:
    """Where it listens, what it was asked, and how many connections it had."""

    url: str
    asked: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def provider(
    serve: Callable[[Peer], Awaitable[None]], *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Provider]:
    """Yield a running provider; `serve` has each connection, `ended` is set when a client closed one."""
    writers: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.append(asyncio.current_task())
        peer = Peer(reader, writer, found.connections, found.asked, found.ended)
        found.connections += 1
        try:
            await serve(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            found.ended.set()
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0, ssl=tls)
    shown = f"[{host}]" if ":" in host else host
    found = Provider(f"http{'s' if tls else ''}://{shown}:{server.sockets[0].getsockname()[1]}")
    try:
        yield found
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)
        await server.wait_closed()


def always(raw: bytes, *, close: bool = False) -> Callable[[Peer], Awaitable[None]]:
    """Return a provider's conduct: the same bytes after every request."""

    async def serve(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(raw)
            if close:
                return

    return serve


def certificate(folder: Path, *, name: str = "127.0.0.1") -> tuple[str, ssl.SSLContext]:
    """Return the file of a self-made certificate, and the server's side of it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address(name))
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin.replace(year=2090))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "loopback.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    (folder / "loopback.key").write_bytes(private)
    file.write_bytes(public)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, folder / "loopback.key")
    return str(file), context


async def whole(answer: UpstreamResponse) -> bytes:
    return b"".join([piece async for piece in answer.body])


async def answer_of(pool: HttpPool, request: UpstreamRequest = ASKED) -> bytes:
    return await whole(await pool.send(request))


async def asked_of(
    raw: bytes, request: UpstreamRequest = ASKED, *, close: bool = False, limits: UpstreamLimits | None = None
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the answer in some bytes."""
    async with provider(always(raw, close=close)) as served, pooled(served.url, limits=limits) as pool:
        answer = await pool.send(request)
        return answer.status, dict(answer.headers), await whole(answer)


@asynccontextmanager
async def pooled(
    url: str, *, limits: UpstreamLimits | None = None, tls: ssl.SSLContext | None = None, proxy: str | None = None
) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, limits=limits, tls=tls, proxy=proxy)
    try:
        yield pool
    finally:
        await pool.close()
