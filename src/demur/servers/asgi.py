"""What every server here needs of ASGI: a bounded body, a JSON answer, a listening socket, an orderly end.

Laws: a body is refused as soon as it is known to be too long, before the rest is read; nothing of a body or a query is
logged; port 0 is any free port, and whoever starts a server is told the real one; a client that does not send its request in
time is cut off; SIGTERM and SIGINT let running requests end, within a limit, and then end the server in good order: one that
has not been sent whole by then is not running.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from demur.errors import SizeLimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

__all__ = [
    "END_SIGNALS",
    "App",
    "ClientGoneError",
    "HttpAnswer",
    "LateBodyError",
    "Receive",
    "Scope",
    "Send",
    "Started",
    "body_too_long",
    "error_answer",
    "handle_end_signals",
    "header",
    "is_json",
    "json_answer",
    "listening_socket",
    "read_body",
    "run_app",
    "send_answer",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Started: TypeAlias = Callable[[str], None]
"""Is told the address, once the server listens."""

END_SIGNALS: tuple[signal.Signals, ...] = tuple(
    # Windows has no SIGHUP, which a closed terminal sends elsewhere.
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)
"""The signals that ask a server to shut down in order, as far as this system has them."""

_GRACE_S = 5
_BACKLOG = 512
_HEADER_BYTES = 64 * 1024
_HEADER_S = 10.0


class ClientGoneError(ConnectionError):
    """The client went away before its request was whole: there is nobody to answer."""


class LateBodyError(ClientGoneError):
    """The body did not come in time: the client is told, should it still be there."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer: status, body, headers beside its length."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


def json_answer(status: int, value: object, *, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """Return the answer with a value as JSON."""
    more = tuple((name.lower().encode(), text.encode()) for name, text in (headers or {}).items())
    return HttpAnswer(status, msgspec.json.encode(value), ((b"content-type", b"application/json"), *more))


def error_answer(status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    """Return the answer that says what is wrong with a request."""
    body = {"status": "error", "error": {"code": code, "message": message}}
    return json_answer(status, body, headers=headers)


async def send_answer(send: Send, answer: HttpAnswer, *, body: bool = True) -> None:
    """Send a whole answer; without its body where only the head was asked for."""
    length = (b"content-length", str(len(answer.body)).encode())
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers, length]})
    await send({"type": "http.response.body", "body": answer.body if body else b""})


async def read_body(scope: Scope, receive: Receive, *, limit: int, limit_s: float | None = None) -> bytes:
    """Return the body of a request; raise where it is too long (`SizeLimitError`), late or never ends (`ClientGoneError`)."""
    told = header(scope, b"content-length")
    if told.isdecimal() and int(told) > limit:
        raise body_too_long(limit)
    timer = asyncio.timeout(limit_s)
    try:
        async with timer:
            return await _whole_body(receive, limit)
    except TimeoutError as exc:
        if timer.expired():
            raise LateBodyError from exc
        raise


async def _whole_body(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise body_too_long(limit)
        if not message.get("more_body", False):
            return bytes(body)


def header(scope: Scope, name: bytes) -> str:
    """Return a header of the request, empty where it has none; names are lower case in ASGI."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def is_json(scope: Scope) -> bool:
    """Return whether the request says that its body is JSON, or says nothing."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    return kind in ("", "application/json") or (kind.startswith("application/") and kind.endswith("+json"))


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        # Accepted sockets inherit it; without it a small answer waits 40 ms for the client's delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as exc:
        why = (getattr(exc, "strerror", None) or "no such address").lower()
        raise UsageError(f"cannot listen at `{host}:{port}`: {why}", hint="choose another port, or 0 for any") from exc
    return sock


def run_app(
    app: App,
    *,
    host: str,
    port: int,
    started: Started,
    header_s: float = _HEADER_S,
    grace_s: int = _GRACE_S,
    dated: bool = True,
) -> None:
    """Serve until the process is told to end; tell `started` the address first; answers are `dated` by a header."""
    import uvicorn

    sock = listening_socket(host, port)
    # A handler that does nothing: without any, what uvicorn says of a request that is cut off at the end, with the lines of
    # code it was in, would be written to the standard error.
    logging.getLogger("uvicorn.error").addHandler(logging.NullHandler())
    config = uvicorn.Config(
        app,
        http=_protocol(header_s),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=dated,
        timeout_graceful_shutdown=grace_s,
    )
    server = uvicorn.Server(config)
    with contextlib.closing(sock), _ended_by_signals(server):
        started(_address(sock))
        server.run(sockets=[sock])


def _protocol(header_s: float) -> Any:  # noqa: ANN401 — a class of uvicorn's, or its word for one
    """Return how connections are held: as the gateway's, and at the end without those whose request is not here yet."""
    try:
        from demur.servers.gateway_http import gateway_protocol
    except ModuleNotFoundError:
        # Uvicorn alone, without the parser of the gateway's: enough for a simulator.
        return "auto"
    base: Any = gateway_protocol(header_bytes=_HEADER_BYTES, header_s=header_s)

    def shutdown(self: Any) -> None:  # noqa: ANN401 — uvicorn is imported where it is needed
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self.transport.close()
        else:
            base.shutdown(self)

    return type("ServerProtocol", (base,), {"shutdown": shutdown})


def handle_end_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` in the loop whenever the process is asked to shut down; for the main thread only."""
    for number in END_SIGNALS:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:
            # The event loops of Windows have no signal handlers: the interpreter's own handler wakes the loop.
            signal.signal(number, lambda _signal, _frame: loop.call_soon_threadsafe(stop))


@contextlib.contextmanager
def _ended_by_signals(server: Any) -> Iterator[None]:  # noqa: ANN401 — uvicorn is imported where it is needed
    """Turn a signal into an orderly end, with a good exit code: uvicorn would raise it once more after the end."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        # The second signal is somebody in a hurry.
        server.force_exit = server.should_exit
        server.should_exit = True

    server.capture_signals = contextlib.nullcontext
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if sock.family == socket.AF_INET6 else f"http://{host}:{port}"


def body_too_long(limit: int) -> SizeLimitError:
    """Return what is wrong with a body beyond the limit."""
    return SizeLimitError(f"the body is longer than {limit} bytes", hint="send less at a time")
