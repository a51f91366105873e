"""Starts a gateway in one process or several, and ends it in order.

The socket listens before its address is announced, and every worker takes from the same one. SIGTERM, SIGINT and SIGHUP end
the taking of requests, let running ones end within their time, write what is left, and then end the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Self

from demur.errors import DemurError, UsageError
from demur.gateway.app import GatewayApp, RejectionLog
from demur.gateway.opening import open_worker
from demur.http.serve import (
    BACKLOG,
    END_SIGNALS,
    ServerLimits,
    handle_end_signals,
    http_server,
    listening_socket,
    socket_url,
)
from demur.io.log import LogEvent, log_event, set_up_log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from types import FrameType, TracebackType

    from demur.gateway.settings import GatewaySettings
    from demur.gateway.worker import Worker
    from demur.http.asgi import App

    DashboardMaker = Callable[[Worker], App]
    """Makes the dashboard of one worker; it is handed to worker processes, so it can be pickled."""

__all__ = ["WorkerPool", "gateway_socket", "running_gateway", "serve_gateway"]

_SAME_SIGNAL_S = 1.0
_START_S = 30
_MIN_LIFE_S = 2.0
_GRACE_S = 5.0
_KEEP_ALIVE_S = 75
# Objects; an exchange makes some thousands, nearly all of which go without a collection.
_COLLECT_EVERY = 10_000
_YOUNG_PER_MIDDLE, _MIDDLE_PER_WHOLE = 10, 2
"""Few: what is frozen costs a whole collection nothing, and with longer pauses memory grew by 50 MB in between."""


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


async def _serve_worker(
    settings: GatewaySettings,
    sock: socket.socket,
    *,
    metrics_folder: str,
    ready: Callable[[Callable[[], None]], None],
    signals: bool = True,
    dashboard: DashboardMaker | None = None,
) -> None:
    """Serve until told to end; `ready` is told, once requests are answered, how to do that."""
    worker = await open_worker(settings, metrics_folder=metrics_folder)
    if signals:
        # Names from the operator's own files may be logged; whatever clients name may not.
        rules = (rule.id for rule in worker.policy.gate.rules)
        auditors = (link.name for link in worker.chain.links)
        _log_to_stderr(settings, names=frozenset((*rules, *auditors, *(worker.keys.names if worker.keys else ()))))
    rejections = RejectionLog(worker)
    try:
        await worker.start()
        limits = ServerLimits(
            settings.limits.header_bytes,
            settings.timeouts.slow_client_s,
            keep_alive_s=_KEEP_ALIVE_S,
            grace_s=max(1, round(settings.timeouts.shutdown_s)),
        )
        app = GatewayApp(worker, dashboard)
        server = http_server(app, limits, rejected=rejections.record, close_unfinished=False)
        first: list[float] = []

        def stop() -> None:
            # A second signal forces an immediate exit, unless one event was told twice: by the terminal and by our parent.
            now = time.monotonic()
            first.append(now)
            server.force_exit = now - first[0] > _SAME_SIGNAL_S
            worker.draining = server.should_exit = True

        if signals:
            handle_end_signals(asyncio.get_running_loop(), stop)
        ready(stop)
        await server.serve(sockets=[sock])
        await rejections.settle()
    finally:
        await worker.close()
    log_event(LogEvent.STOPPED, worker=os.getpid())


@contextlib.contextmanager
def running_gateway(settings: GatewaySettings, *, dashboard: DashboardMaker | None = None) -> Iterator[str]:
    """Yield the address of a gateway that runs in a thread of this process."""
    sock, url = gateway_socket(settings)
    started, failed, stops = threading.Event(), [], []

    def ready(stop: Callable[[], None]) -> None:
        stops.append((asyncio.get_running_loop(), stop))
        started.set()

    def work() -> None:
        try:
            with _metrics_folder(settings) as folder:
                serving = _serve_worker(
                    settings, sock, metrics_folder=folder, ready=ready, signals=False, dashboard=dashboard
                )
                _run_on_loop(serving)
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


def serve_gateway(
    settings: GatewaySettings, *, started: Callable[[str], None], dashboard: DashboardMaker | None = None
) -> None:
    """Serve until the process is told to end, with as many workers as the settings say."""
    if settings.listen.workers > 1 and sys.platform == "win32":
        # Windows ends a process without telling it first, so a worker could not finish its streams and records.
        raise UsageError("several workers need signals, which Windows lacks", hint="set `listen.workers` to 1")
    sock, url = gateway_socket(settings)
    with contextlib.closing(sock):
        if settings.listen.workers == 1:

            def ready(_stop: Callable[[], None]) -> None:
                _settle_memory()
                log_event(LogEvent.STARTED, workers=1)
                started(url)

            with _metrics_folder(settings) as folder:
                _run_on_loop(_serve_worker(settings, sock, metrics_folder=folder, ready=ready, dashboard=dashboard))
            return
        with (
            _metrics_folder(settings) as folder,
            WorkerPool(settings, sock, metrics_folder=folder, dashboard=dashboard) as workers,
        ):
            workers.wait_ready()
            log_event(LogEvent.STARTED, workers=settings.listen.workers)
            started(url)
            workers.wait()


@contextlib.contextmanager
def _metrics_folder(settings: GatewaySettings) -> Iterator[str]:
    """Yield where metrics are kept: the folder of the settings, which stays, or one that is gone afterwards."""
    if settings.metrics.folder:
        yield settings.metrics.folder
        return
    with tempfile.TemporaryDirectory(prefix="demur-figures-", ignore_cleanup_errors=True) as folder:
        yield folder


def _run_on_loop(serving: Coroutine[None, None, None]) -> None:
    """Run a worker to its end, on the event loop that costs least of those that are installed."""
    try:
        import uvloop
    except ModuleNotFoundError:
        # There is none for Windows.
        asyncio.run(serving)
    else:
        uvloop.run(serving)


def _settle_memory() -> None:
    # What was loaded at the start lives as long as the process: no later collection needs to walk it.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, _YOUNG_PER_MIDDLE, _MIDDLE_PER_WHOLE)


def _log_to_stderr(settings: GatewaySettings, *, names: frozenset[str] = frozenset()) -> None:
    """Send the log of this process to where operators look for it; `names` may stand in it."""
    part = settings.log
    set_up_log(sys.stderr, level=part.level.value, as_json=part.format.value == "json", names=names)


class WorkerPool:
    """The worker processes of one gateway; one that dies is replaced."""

    def __init__(
        self,
        settings: GatewaySettings,
        sock: socket.socket,
        *,
        metrics_folder: str,
        dashboard: DashboardMaker | None = None,
    ) -> None:
        self._settings, self._sock, self._folder, self._dashboard = settings, sock, metrics_folder, dashboard
        # Started afresh, not forked: no thread, lock or connection is shared by accident.
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[tuple[SpawnProcess, float]] = []
        self._ready: list[Connection] = []
        self._ending = False
        self._signalled: set[int] = set()
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Start them."""
        for number in END_SIGNALS:
            self._before[number] = signal.signal(number, self._end)
        for _ in range(self._settings.listen.workers):
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """End those that are left."""
        # Those that have their signal are ending in order; a second one would force an immediate exit.
        self._signal_all(again=False)
        deadline = time.monotonic() + self._settings.timeouts.shutdown_s + _GRACE_S
        for process, _ in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` itself gave

    def wait_ready(self) -> None:
        """Return once every worker answers; raise where one ended before it did."""
        deadline = time.monotonic() + _START_S
        for connection in self._ready:
            try:
                said = connection.recv() if connection.poll(max(0.0, deadline - time.monotonic())) else "it is too slow"
            except EOFError:
                said = "it ended"
            if said and not self._ending:
                raise UsageError(f"a worker did not start: {said}", hint="try with one worker to see why")

    def wait(self) -> None:
        """Replace workers that die, until the process is told to end."""
        while not self._ending:
            ended = wait([process.sentinel for process, _ in self._processes], timeout=1.0)
            for process, since in [each for each in self._processes if each[0].sentinel in ended]:
                self._processes.remove((process, since))
                if not self._ending:
                    # One that dies at once would die at once again.
                    time.sleep(max(0.0, _MIN_LIFE_S - (time.monotonic() - since)))
                    self._start()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_run_worker,
            args=(self._settings, self._sock, self._folder, theirs, self._dashboard),
            name="demur-gateway-worker",
        )
        process.start()
        theirs.close()
        self._processes.append((process, time.monotonic()))
        self._ready.append(ours)

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True
        self._signal_all()

    def _signal_all(self, *, again: bool = True) -> None:
        for process, _ in self._processes:
            if process.is_alive() and process.pid is not None and (again or process.pid not in self._signalled):
                self._signalled.add(process.pid)
                os.kill(process.pid, signal.SIGTERM)


def _run_worker(
    settings: GatewaySettings, sock: socket.socket, folder: str, ready: Connection, dashboard: DashboardMaker | None
) -> None:
    """Be one worker process."""
    _log_to_stderr(settings)

    def announce(_stop: Callable[[], None]) -> None:
        _settle_memory()
        ready.send("")

    try:
        _run_on_loop(_serve_worker(settings, sock, metrics_folder=folder, ready=announce, dashboard=dashboard))
    except DemurError as exc:
        ready.send(str(exc))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(0)
