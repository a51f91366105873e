"""How does whoever submitted a record learn what became of it? By a receipt, made for who asks; on event loops, all at once.

Laws: what became of a record is said once, and is the same whenever it is asked for; an answer that must wait goes on only
after its record is durable, or fails as the record did; nobody is told while a lock is held.
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

__all__ = ["Bell", "Receipt", "Submission"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a record stands, once it is durable."""

    index: int
    leaf: str
    seq: int | None


class Bell:
    """Wakes those who wait on event loops, once a batch and loop: a wake-up each would cost more than the record does."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        """Held while a submission is settled or asked for its receipt, never while anybody is told."""
        self._due: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}

    def note(self, waiter: asyncio.Future[None]) -> None:
        """Take note of one whose record is settled; called by whoever settles it."""
        loop = waiter.get_loop()
        if _is_running_here(loop):
            _wake([waiter])
        else:
            self._due.setdefault(loop, []).append(waiter)

    def ring(self) -> None:
        """Wake all that were noted."""
        due, self._due = self._due, {}
        for loop, waiters in due.items():
            # A loop that was closed meanwhile has nobody left to wake.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake, waiters)


class Submission:
    """A record on its way: when it is durable, and whether the answer must wait for that."""

    __slots__ = ("_bell", "_outcome", "_receipt", "must_wait")

    def __init__(self, *, must_wait: bool, bell: Bell) -> None:
        self.must_wait = must_wait
        self._bell = bell
        self._receipt: Future[Receipt] | None = None
        self._outcome: Receipt | DemurError | None = None

    @property
    def receipt(self) -> Future[Receipt]:
        """Where the record stands, to be waited for from any thread; made for who asks, since for most records nobody does."""
        with self._bell.turn:
            if self._receipt is None:
                self._receipt = Future()
                self._receipt.set_running_or_notify_cancel()
                if self._outcome is not None:
                    _tell(self._receipt, self._outcome)
            return self._receipt

    @property
    def settled(self) -> bool:
        """Whether the record is durable, or given up."""
        return self._outcome is not None

    def settle(self, outcome: Receipt | DemurError) -> None:
        """Say once what became of the record."""
        with self._bell.turn:
            self._outcome, receipt = outcome, self._receipt
        if receipt is not None:
            _tell(receipt, outcome)

    async def acknowledged(self) -> None:
        """Return once the answer may be given; raise where the record cannot be kept."""
        if self.must_wait:
            waiter = asyncio.get_running_loop().create_future()
            receipt = self.receipt
            receipt.add_done_callback(lambda _: self._bell.note(waiter))
            await waiter
            receipt.result()


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _wake(waiters: Sequence[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _tell(receipt: Future[Receipt], outcome: Receipt | DemurError) -> None:
    if isinstance(outcome, DemurError):
        receipt.set_exception(outcome)
    else:
        receipt.set_result(outcome)
