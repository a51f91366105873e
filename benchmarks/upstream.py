"""What a request costs through our client pool and through aiohttp, in the same run.

    python benchmarks/upstream.py            # a few thousand requests each, interleaved rounds
    python benchmarks/upstream.py --rounds 9

A provider of raw bytes runs in one process; the client, or uvicorn with the client behind it, in another; the figure is
that process's CPU time a request, in its best round, since others share the machine. The floor is an `asyncio.Protocol`
that writes ready bytes and reads whatever comes: what the kernel and the event loop cost. Goal: aiohttp alone costs
three times as much as the pool alone; behind uvicorn both carry uvicorn's own share.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import uvicorn

from demur.http.pool import HttpPool
from demur.http.upstream import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from demur.http.upstream import Headers

GOAL = 3.0
CONNECTIONS = 32
REQUESTS = 4000
BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 100 + b'"}]}'
ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"' + b"word " * 100 + b'"}}]}'
RAW = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
HEADERS = (
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer none"),
    (b"accept", b"application/json"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"user-agent", b"benchmark"),
)
KINDS = ("floor", "pool", "aiohttp")
ASKED = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


class _Provider(asyncio.Protocol):
    """Answers each whole request with the same bytes; a request here is one head and one body of known length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._left = transport, b""

    def data_received(self, data: bytes) -> None:
        self._left += data
        while (end := self._left.find(b"\r\n\r\n")) >= 0 and len(self._left) >= end + 4 + len(BODY):
            self._left = self._left[end + 4 + len(BODY) :]
            self._transport.write(RAW)  # type: ignore[attr-defined]  # a transport that writes


def _provide(tell: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Provider, "127.0.0.1", 0)
        tell.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


class _Bare(asyncio.Protocol):
    """Hands over whatever comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.waiter.set_result(data)

    async def ask(self) -> bytes:
        self.waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.transport.write(ASKED)
        return await self.waiter


def _forwards(kind: str, url: str) -> tuple[Any, Any]:
    """Return how a body is forwarded by a client, and how the client is closed."""
    return {"floor": _by_bare_bytes, "pool": _by_pool, "aiohttp": _by_aiohttp}[kind](url)


def _by_bare_bytes(url: str) -> tuple[Any, Any]:
    idle: list[_Bare] = []

    async def forward(_body: bytes, _headers: Headers) -> tuple[int, Headers, bytes]:
        if idle:
            bare = idle.pop()
        else:
            port = int(url.rpartition(":")[2])
            _, bare = await asyncio.get_running_loop().create_connection(_Bare, "127.0.0.1", port)
        answer = await bare.ask()
        idle.append(bare)
        return 200, (), answer[-len(ANSWER) :]

    async def close() -> None:
        for bare in idle:
            bare.transport.abort()

    return forward, close


def _by_pool(url: str) -> tuple[Any, Any]:
    pool = HttpPool(url)

    async def forward(body: bytes, headers: Headers) -> tuple[int, Headers, bytes]:
        answer = await pool.send(UpstreamRequest("POST", "/v1/chat/completions", headers, body))
        return answer.status, answer.headers, b"".join([piece async for piece in answer.body])

    return forward, pool.close


def _by_aiohttp(url: str) -> tuple[Any, Any]:
    import aiohttp

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, skip_auto_headers=("User-Agent",)
    )

    async def forward(body: bytes, headers: Headers) -> tuple[int, Headers, bytes]:
        named = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers if name != b"host"]
        async with session.post(f"{url}/v1/chat/completions", data=body, headers=named) as answer:
            return answer.status, answer.raw_headers, await answer.read()

    return forward, session.close


def _client(kind: str, url: str, tell: Connection) -> None:
    """Send requests when told to, and say what each took of this process's CPU."""

    async def rounds() -> None:
        forward, close = _forwards(kind, url)

        async def one_after_another(count: int) -> None:
            for _ in range(count):
                status, _, body = await forward(BODY, HEADERS)
                assert status == 200  # noqa: S101 — a benchmark of failures would flatter
                assert body == ANSWER  # noqa: S101 — as above

        while (count := await asyncio.to_thread(tell.recv)) is not None:
            begin = time.process_time()
            await asyncio.gather(*(one_after_another(count // CONNECTIONS) for _ in range(CONNECTIONS)))
            tell.send((time.process_time() - begin) / (count // CONNECTIONS * CONNECTIONS))
        await close()

    asyncio.run(rounds())


def _proxy(kind: str, url: str, tell: Connection) -> None:
    """Serve a proxy on uvicorn; a GET is answered with this process's CPU time."""
    held: list[Any] = []

    async def app(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[object], Any]) -> None:
        if not held:
            held.extend(_forwards(kind, url))
        if scope["method"] == "GET":
            status, headers, body = 200, [], str(time.process_time()).encode()
        else:
            body, more = b"", True
            while more:
                event = await receive()
                body, more = body + event["body"], event["more_body"]
            status, headers, body = await held[0](body, tuple(scope["headers"]))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    tell.send(bound.getsockname()[1])
    config = uvicorn.Config(
        app, http="httptools", loop="asyncio", log_level="critical", access_log=False, lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[bound])


async def _load(port: int, count: int) -> float:
    """Return the CPU seconds that a proxy spends on one request."""
    pool = HttpPool(f"http://127.0.0.1:{port}")

    async def cpu() -> float:
        answer = await pool.send(UpstreamRequest("GET", "/"))
        return float(b"".join([piece async for piece in answer.body]))

    async def one_after_another() -> None:
        for _ in range(count // CONNECTIONS):
            answer = await pool.send(UpstreamRequest("POST", "/v1/chat/completions", HEADERS, BODY))
            assert b"".join([piece async for piece in answer.body]) == ANSWER  # noqa: S101 — as above

    begin = await cpu()
    await asyncio.gather(*(one_after_another() for _ in range(CONNECTIONS)))
    spent = await cpu() - begin
    await pool.close()
    return spent / (count // CONNECTIONS * CONNECTIONS)


def _started(target: Callable[..., None], *args: object) -> tuple[multiprocessing.Process, Connection]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=target, args=(*args, theirs), daemon=True)
    process.start()
    return process, ours


def main() -> int:
    """Print the figures and return 1 where the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    provider, said = _started(_provide)
    url = f"http://127.0.0.1:{said.recv()}"
    clients = {kind: _started(_client, kind, url) for kind in KINDS}
    proxies = {kind: _started(_proxy, kind, url) for kind in KINDS}
    ports = {kind: pipe.recv() for kind, (_, pipe) in proxies.items()}
    best = {(kind, part): float("inf") for kind in clients for part in ("client", "proxy")}
    for _ in range(rounds):
        for kind, (_, pipe) in clients.items():
            pipe.send(REQUESTS)
            best[kind, "client"] = min(best[kind, "client"], pipe.recv())
            best[kind, "proxy"] = min(best[kind, "proxy"], asyncio.run(_load(ports[kind], REQUESTS)))
    for process, _ in (*clients.values(), *proxies.values(), (provider, said)):
        process.terminate()
    print(f"{CONNECTIONS} connections, best of {rounds} rounds of {REQUESTS} requests, CPU µs a request")
    print(f"{'':>16} {'floor':>6} {'pool':>6} {'aiohttp':>8} {'aiohttp / pool':>15} {'above the floor':>16}")
    ratios = {}
    for part, words in (("client", "client alone"), ("proxy", "behind uvicorn")):
        floor, ours, theirs = (best[kind, part] * 1e6 for kind in KINDS)
        ratios[part] = theirs / ours
        above = (theirs - floor) / (ours - floor)
        print(f"{words:>16} {floor:6.0f} {ours:6.0f} {theirs:8.0f} {ratios[part]:15.2f} {above:16.2f}")
    missed = ratios["client"] < GOAL
    print(f"goal, client alone: {GOAL:g}{'  missed' * missed}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
