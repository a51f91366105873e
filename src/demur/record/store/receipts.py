"""Receipts: how a submitter learns, from a thread or an event loop, that its entry is durable or cannot be kept.

An outcome is set once and does not change. Nobody is notified while a lock is held.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import DemurError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LoopNotifier", "Receipt", "Submission"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where an entry is in the log, once it is durable."""

    index: int
    leaf: str
    seq: int | None


class LoopNotifier:
    """Wakes those who wait on event loops, once per batch and loop: one wake-up per entry would cost more than the entry."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while a submission is settled or asked for its receipt."""
        self._due: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}

    def add(self, waiter: asyncio.Future[None]) -> None:
        """Add one whose entry is settled; called by the thread that settles it, or by the loop where it already is."""
        loop = waiter.get_loop()
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            _wake([waiter])
        else:
            self._due.setdefault(loop, []).append(waiter)

    def flush(self) -> None:
        """Wake all that were added."""
        due, self._due = self._due, {}
        for loop, waiters in due.items():
            # A loop that was closed meanwhile raises, and nobody on it is waiting any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, waiters)


class Submission:
    """An entry on its way into the log, and whether the response must wait for it."""

    __slots__ = ("_notifier", "_outcome", "_receipt", "must_wait")

    def __init__(self, *, must_wait: bool, notifier: LoopNotifier) -> None:
        self.must_wait = must_wait
        self._notifier = notifier
        self._receipt: Future[Receipt] | None = None
        self._outcome: Receipt | DemurError | None = None

    @property
    def receipt(self) -> Future[Receipt]:
        """The outcome, to be waited for from any thread."""
        # Created on request: a Future costs a lock and a condition, and for most entries nobody asks.
        with self._notifier.lock:
            if self._receipt is None:
                self._receipt = Future()
                self._receipt.set_running_or_notify_cancel()
                if self._outcome is not None:
                    _resolve(self._receipt, self._outcome)
            return self._receipt

    @property
    def settled(self) -> bool:
        """Whether the entry is durable, or given up."""
        return self._outcome is not None

    def settle(self, outcome: Receipt | DemurError) -> None:
        """Set the outcome, once."""
        with self._notifier.lock:
            self._outcome, receipt = outcome, self._receipt
        # Outside of the lock: a callback of the future may ask for another receipt.
        if receipt is not None:
            _resolve(receipt, outcome)

    async def acknowledged(self) -> None:
        """Wait until the entry is durable, where the response must wait for that; raise where it cannot be kept."""
        if self.must_wait:
            waiter = asyncio.get_running_loop().create_future()
            receipt = self.receipt
            receipt.add_done_callback(lambda _: self._notifier.add(waiter))
            await waiter
            receipt.result()


def _wake(waiters: Sequence[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        # One whose client has disconnected is cancelled by now.
        if not waiter.done():
            waiter.set_result(None)


def _resolve(receipt: Future[Receipt], outcome: Receipt | DemurError) -> None:
    if isinstance(outcome, DemurError):
        receipt.set_exception(outcome)
    else:
        receipt.set_result(outcome)
