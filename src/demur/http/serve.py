"""Start a server on a socket and stop it in good order.

Port 0 means any free port, and the caller is told the real one. SIGTERM and SIGINT let running requests finish within a limit; a
request that has not been sent in full by then does not count as running.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from demur.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

    from demur.http.asgi import App

__all__ = ["END_SIGNALS", "Started", "handle_end_signals", "listening_socket", "run_app"]

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
        from demur.http.protocol import gateway_protocol
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
