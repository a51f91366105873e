"""How is a gateway started, in one process or several, and ended in good order?

Laws: the socket listens before anybody is told of it, and every worker takes from the same one; a worker is ready once its log
is open, its policy parsed and its auditors loaded; SIGTERM, SIGINT and SIGHUP end the taking of requests, let running ones end within
their time, write what is left, and then end the process; a worker that dies is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING

from demur.errors import DemurError, UsageError
from demur.gateway.app import GatewayApp
from demur.gateway.rejections import RejectionDesk
from demur.gateway.worker import open_parts
from demur.http.serve import BACKLOG, ServerLimits, handle_end_signals, http_server, listening_socket, socket_url
from demur.io.log import LogEvent, log_event, set_up_log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from demur.gateway.settings import GatewaySettings
    from demur.gateway.worker import GatewayParts
    from demur.http.asgi import App

    PageMaker = Callable[[GatewayParts], App]
    """Makes the pages for people of one worker; it is handed to workers, so it can be pickled."""

__all__ = ["gateway_socket", "run_on_loop", "running_gateway", "serve_gateway", "serve_worker"]

_ONE_TELLING_S = 1.0
_START_S = 30
_KEEP_ALIVE_S = 75
_COLLECT_EVERY = 10_000
"""Objects; an exchange makes some thousands, nearly all of which go without a collection."""
_YOUNG_A_MIDDLE, _MIDDLES_A_WHOLE = 10, 2
"""Few: what is frozen costs a whole collection nothing, and what was left to it for long grew by 50 MB in the meantime."""


def gateway_socket(settings: GatewaySettings) -> tuple[socket.socket, str]:
    """Return a socket that listens, and its address for people."""
    listen = settings.listen
    if not listen.uds:
        sock = listening_socket(listen.host, listen.port)
        return sock, socket_url(sock)
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("this system has no Unix sockets", hint="set `listen.host` and `listen.port` instead")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(listen.uds)  # noqa: PTH108 — a name, as users write it
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(listen.uds)
    except OSError as exc:
        sock.close()
        why = (exc.strerror or "no such place").lower()
        raise UsageError(f"cannot listen at `{listen.uds}`: {why}", hint="see `listen.uds`") from exc
    sock.listen(BACKLOG)
    return sock, f"unix:{listen.uds}"


async def serve_worker(
    settings: GatewaySettings,
    sock: socket.socket,
    *,
    metrics_folder: str,
    ready: Callable[[Callable[[], None]], None],
    signals: bool = True,
    pages: PageMaker | None = None,
) -> None:
    """Serve until told to end; `ready` is told, once requests are answered, how to do that."""
    parts = await open_parts(settings, metrics_folder=metrics_folder)
    if signals:
        log_to_stderr(settings, names=_operators_names(parts))
    desk = RejectionDesk(parts)
    try:
        await parts.start()
        limits = ServerLimits(
            settings.limits.header_bytes,
            settings.timeouts.slow_client_s,
            keep_alive_s=_KEEP_ALIVE_S,
            grace_s=max(1, round(settings.timeouts.shutdown_s)),
        )
        server = http_server(GatewayApp(parts, pages), limits, rejected=desk.take, close_unfinished=False)
        first: list[float] = []

        def stop() -> None:
            # The second time is somebody in a hurry, unless one event was told by two: a terminal, or the system, and our keeper.
            now = time.monotonic()
            first.append(now)
            server.force_exit = now - first[0] > _ONE_TELLING_S
            parts.draining = server.should_exit = True

        if signals:
            handle_end_signals(asyncio.get_running_loop(), stop)
        ready(stop)
        await server.serve(sockets=[sock])
        await desk.settled()
    finally:
        await parts.close()
    log_event(LogEvent.STOPPED, worker=os.getpid())


@contextlib.contextmanager
def running_gateway(settings: GatewaySettings, *, pages: PageMaker | None = None) -> Iterator[str]:
    """Yield the address of a gateway that runs in a thread of this process."""
    sock, url = gateway_socket(settings)
    started, failed, stops = threading.Event(), [], []

    def ready(stop: Callable[[], None]) -> None:
        stops.append((asyncio.get_running_loop(), stop))
        started.set()

    def work() -> None:
        try:
            with _figures_folder(settings) as folder:
                serving = serve_worker(settings, sock, metrics_folder=folder, ready=ready, signals=False, pages=pages)
                run_on_loop(serving)
        except DemurError as exc:
            failed.append(exc)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="demur-gateway", daemon=True)
    thread.start()
    try:
        started.wait(_START_S)
        if failed:
            raise failed[0]
        yield url
    finally:
        for loop, stop in stops:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop)
        thread.join(_START_S)
        sock.close()


def serve_gateway(settings: GatewaySettings, *, started: Callable[[str], None], pages: PageMaker | None = None) -> None:
    """Serve until the process is told to end, with as many workers as the settings say."""
    if settings.listen.workers > 1 and sys.platform == "win32":
        # Windows ends a process without telling it first, so a worker could not finish its streams and records.
        raise UsageError("several workers need signals, which Windows lacks", hint="set `listen.workers` to 1")
    sock, url = gateway_socket(settings)
    with contextlib.closing(sock):
        if settings.listen.workers == 1:

            def ready(_stop: Callable[[], None]) -> None:
                settle_memory()
                _announced(started, url, 1)

            with _figures_folder(settings) as folder:
                run_on_loop(serve_worker(settings, sock, metrics_folder=folder, ready=ready, pages=pages))
            return
        from demur.gateway.workers import GatewayWorkers

        with (
            _figures_folder(settings) as folder,
            GatewayWorkers(settings, sock, metrics_folder=folder, pages=pages) as workers,
        ):
            workers.wait_ready()
            _announced(started, url, settings.listen.workers)
            workers.wait()


@contextlib.contextmanager
def _figures_folder(settings: GatewaySettings) -> Iterator[str]:
    """Yield where figures are kept: the folder of the settings, which stays, or one that is gone afterwards."""
    if settings.metrics.folder:
        yield settings.metrics.folder
        return
    with tempfile.TemporaryDirectory(prefix="demur-figures-", ignore_cleanup_errors=True) as folder:
        yield folder


def run_on_loop(serving: Coroutine[None, None, None]) -> None:
    """Run a worker to its end, on the event loop that costs least of those that are installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        # There is none for Windows.
        asyncio.run(serving)
    else:
        uvloop.run(serving)


def settle_memory() -> None:
    """Keep what was loaded at the start out of every later collection: it lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, _YOUNG_A_MIDDLE, _MIDDLES_A_WHOLE)


def log_to_stderr(settings: GatewaySettings, *, names: frozenset[str] = frozenset()) -> None:
    """Send the log of this process to where operators look for it; `names` may stand in it."""
    part = settings.log
    set_up_log(sys.stderr, level=part.level.value, as_json=part.format.value == "json", names=names)


def _operators_names(parts: GatewayParts) -> frozenset[str]:
    """Return the names from the operator's own files."""
    rules = (rule.id for rule in parts.policy.gate.rules)
    auditors = (link.name for link in parts.chain.links)
    return frozenset((*rules, *auditors, *(parts.keys.names if parts.keys else ())))


def _announced(started: Callable[[str], None], url: str, workers: int) -> None:
    log_event(LogEvent.STARTED, workers=workers)
    started(url)
