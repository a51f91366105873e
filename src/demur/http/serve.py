"""Start an HTTP server on a socket and stop it in order; every server of the product is set up here.

Port 0 means any free port, and the caller is told the real one. SIGTERM and SIGINT let running requests finish within a limit.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from demur.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

    import uvicorn

    from demur.http.asgi import App
    from demur.http.protocol import HttpRejection

__all__ = [
    "BACKLOG",
    "END_SIGNALS",
    "ServerLimits",
    "Started",
    "handle_end_signals",
    "http_server",
    "listening_socket",
    "run_app",
    "serve_in_thread",
    "socket_url",
]

Started: TypeAlias = Callable[[str], None]
"""Called with the URL once the server listens."""

END_SIGNALS: tuple[signal.Signals, ...] = tuple(
    # Windows has no SIGHUP, which a closed terminal sends elsewhere.
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)
"""The signals that ask a server to shut down in order, as far as this system has them."""

BACKLOG = 512
"""How many connections may wait to be accepted."""

_JOIN_S = 10


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Accepted sockets inherit it; without it a small response waits 40 ms for the client's delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as exc:
        why = (getattr(exc, "strerror", None) or "no such address").lower()
        raise UsageError(f"cannot listen at `{host}:{port}`: {why}", hint="choose another port, or 0 for any") from exc
    return sock


def socket_url(sock: socket.socket) -> str:
    """Return the URL of a listening TCP socket."""
    host, port = sock.getsockname()[:2]
    # An IPv6 address stands in brackets (RFC 3986, section 3.2.2).
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How much a client may send before its request begins, and how long is waited for it."""

    header_bytes: int = 64 * 1024
    header_s: float = 10.0
    keep_alive_s: int = 5
    """How long an idle connection is kept."""
    grace_s: int = 5
    """How long running requests may go on after the server was told to stop."""


def http_server(
    app: App,
    limits: ServerLimits,
    *,
    dated: bool = False,
    behind_proxy: bool = False,
    close_unfinished: bool = True,
    rejected: Callable[[HttpRejection], None] | None = None,
) -> uvicorn.Server:
    """Return a server that is set up but not started; signals are the caller's.

    `dated` sends a Date header, `behind_proxy` trusts a local proxy's `X-Forwarded-*`, `close_unfinished` closes requests at
    shutdown that have not been received completely.
    """
    try:
        import uvicorn
    except ModuleNotFoundError as exc:
        raise UsageError("a server needs `uvicorn`", hint="pip install 'demur[gateway]'") from exc
    try:
        from demur.http.protocol import server_protocol
    except ModuleNotFoundError:
        # Uvicorn alone, without httptools: its own protocol is enough for a simulator.
        protocol: Any = "auto"
    else:
        protocol = server_protocol(
            header_bytes=limits.header_bytes,
            header_s=limits.header_s,
            rejected=rejected,
            close_unfinished=close_unfinished,
        )
    logger = logging.getLogger("uvicorn.error")
    if not logger.handlers:
        # Without any handler, what uvicorn says of a request that is cut off at the end, with lines of code, goes to stderr.
        logger.addHandler(logging.NullHandler())
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            # Uvicorn's log would quote paths and tracebacks, which may hold what clients sent.
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=dated,
            proxy_headers=behind_proxy,
            timeout_keep_alive=limits.keep_alive_s,
            timeout_graceful_shutdown=limits.grace_s,
        )
    )
    # Uvicorn would install handlers of its own and raise the signal once more after the end, which spoils the exit code.
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
    return server


def run_app(
    app: App, *, host: str, port: int, started: Started, header_s: float = 10.0, grace_s: int = 5, dated: bool = True
) -> None:
    """Serve until the process is told to end; `started` is called with the URL first."""
    limits = ServerLimits(header_s=header_s, grace_s=grace_s)
    server = http_server(app, limits, dated=dated, behind_proxy=True)
    with contextlib.closing(listening_socket(host, port)) as sock, _stopped_by_signals(server):
        started(socket_url(sock))
        server.run(sockets=[sock])


@contextlib.contextmanager
def serve_in_thread(app: App, *, host: str = "127.0.0.1", port: int = 0, grace_s: int = 1) -> Iterator[str]:
    """Yield the URL of an application that is served by a thread of this process."""
    server = http_server(app, ServerLimits(grace_s=grace_s))
    with contextlib.closing(listening_socket(host, port)) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True, name="demur-server")
        thread.start()
        try:
            # The socket listens already: a client that comes before the event loop runs waits in its queue.
            yield socket_url(sock)
        finally:
            server.should_exit = True
            thread.join(_JOIN_S)


def handle_end_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` in the loop whenever the process is asked to shut down; for the main thread only."""
    for number in END_SIGNALS:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:
            # The event loops of Windows have no signal handlers: the interpreter's own handler wakes the loop.
            signal.signal(number, lambda _signal, _frame: loop.call_soon_threadsafe(stop))


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Turn a signal into an orderly end with exit code 0."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        # A second signal forces an immediate exit.
        server.force_exit = server.should_exit
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set signal handlers.
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
