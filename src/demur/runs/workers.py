"""Work for other processes: the detector keeps one core busy, so many rows go to several."""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from demur.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Workers"]

_T = TypeVar("_T")
_A = TypeVar("_A")
_P = ParamSpec("_P")
# More pieces than this for each process would only wait in memory.
_WAITING_EACH = 2


class Workers:
    """A number of processes, started when they are first needed; `count` of 1 works in this one."""

    def __init__(self, count: int = 1) -> None:
        self.count = max(1, count)
        self._pool: ProcessPoolExecutor | None = None
        self._starting = threading.Lock()

    def grow(self, count: int) -> None:
        """Work with that many processes from now on, where there were fewer."""
        # A pool cannot be resized once it has started.
        if count > self.count and self._pool is None:
            self.count = count

    def close(self) -> None:
        """Stop the processes; what they have not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor | None:
        # An engine's threads may all be the first to ask.
        with self._starting:
            if self.count > 1 and self._pool is None:
                # Fresh interpreters: a fork of a process with an engine's threads can deadlock.
                self._pool = ProcessPoolExecutor(self.count, mp_context=multiprocessing.get_context("spawn"))
            return self._pool

    def call(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return the result of one piece of work; threads may call this at once."""
        pool = self._started()
        return work(*args, **kwargs) if pool is None else _outcome_of(pool.submit(work, *args, **kwargs))

    def ordered(self, work: Callable[[_A], _T], pieces: Iterable[_A]) -> Iterator[_T]:
        """Yield the result of each piece of work, in order."""
        pool = self._started()
        if pool is None:
            yield from map(work, pieces)
            return
        waiting: deque[Future[_T]] = deque()
        for piece in pieces:
            # Results are taken from the front, so that they come back in the order of the work.
            waiting.append(pool.submit(work, piece))
            if len(waiting) > _WAITING_EACH * self.count:
                yield _outcome_of(waiting.popleft())
        while waiting:
            yield _outcome_of(waiting.popleft())


def _outcome_of(future: Future[_T]) -> _T:
    try:
        return future.result()
    # The kernel ends the process that takes most memory, without a word of its own.
    except BrokenProcessPool as exc:
        hint = "there may be too little memory; try --jobs 1"
        raise InputError("a worker process was lost", hint=hint) from exc
