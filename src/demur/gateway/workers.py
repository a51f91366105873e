"""How do several processes serve at one address?

Laws: every worker is started afresh, not forked, so that no thread, lock or connection is shared by accident; one that
dies is replaced, at most so often that a fault at start does not spin; when told to end, all are, and the last record of
each is waited for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Self

from demur.errors import DemurError, UsageError
from demur.http.serve import END_SIGNALS

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from types import FrameType, TracebackType

    from demur.gateway.run import PageMaker
    from demur.gateway.settings import GatewaySettings

__all__ = ["GatewayWorkers"]

_READY_S = 30.0
_SHORTEST_LIFE_S = 2.0
_GRACE_S = 5.0


class GatewayWorkers:
    """The processes of one gateway."""

    def __init__(
        self, settings: GatewaySettings, sock: socket.socket, *, metrics_folder: str, pages: PageMaker | None = None
    ) -> None:
        self._settings, self._sock, self._folder, self._pages = settings, sock, metrics_folder, pages
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[tuple[SpawnProcess, float]] = []
        self._ready: list[Connection] = []
        self._ending = False
        self._told: set[int] = set()
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
        # Those that were told are ending in good order; to tell them again would be a hurry.
        self._tell_all(again=False)
        deadline = time.monotonic() + self._settings.timeouts.shutdown_s + _GRACE_S
        for process, _ in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` itself gave

    def wait_ready(self) -> None:
        """Return once every worker answers; raise where one ended before it did."""
        deadline = time.monotonic() + _READY_S
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
                    time.sleep(max(0.0, _SHORTEST_LIFE_S - (time.monotonic() - since)))
                    self._start()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_work,
            args=(self._settings, self._sock, self._folder, theirs, self._pages),
            name="demur-gateway-worker",
        )
        process.start()
        theirs.close()
        self._processes.append((process, time.monotonic()))
        self._ready.append(ours)

    def _end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True
        self._tell_all()

    def _tell_all(self, *, again: bool = True) -> None:
        for process, _ in self._processes:
            if process.is_alive() and process.pid is not None and (again or process.pid not in self._told):
                self._told.add(process.pid)
                os.kill(process.pid, signal.SIGTERM)


def _work(
    settings: GatewaySettings, sock: socket.socket, folder: str, ready: Connection, pages: PageMaker | None
) -> None:
    """Be one worker."""
    from demur.gateway.run import log_to_stderr, run_on_loop, serve_worker, settle_memory

    log_to_stderr(settings)

    def tell(_stop: Callable[[], None]) -> None:
        settle_memory()
        ready.send("")

    try:
        run_on_loop(serve_worker(settings, sock, metrics_folder=folder, ready=tell, pages=pages))
    except DemurError as exc:
        ready.send(str(exc))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(0)
