"""Who seals a batch? The event loop that most of its records come from, in small turns; the writer's own thread where it cannot.

A signature lets go of the interpreter's lock, and so do many other calls. In a thread beside a busy event loop each of them hands
the lock to the loop, and takes it back at the loop's next system call: two switches between cores a record, which cost more than
the signature. In the loop itself nobody waits for the lock.

Laws: a batch is sealed once, in order, by one thread at a time; the loop is held up by a few records at most; a loop that is
closed, or does not come to it in time, is not waited for.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from demur.errors import DemurError
    from demur.record.store.growth import Line

__all__ = ["sealed_on"]

_FEWEST, _MOST = 8, 32
"""Records a turn: one to three milliseconds, of a round of the loop that takes ten where it is busy enough to matter."""
_TURNS = 4
_WAIT_S = 0.25


class _LentSealing:
    """A batch on its way to be sealed by whoever has a turn."""

    def __init__(self, sealing: Iterator[Line | DemurError], count: int) -> None:
        self._sealing, self._count = sealing, count
        self._a_turn = min(max(_FEWEST, count // _TURNS), _MOST)
        self._turn = threading.Lock()
        self.sealed: list[Line | DemurError] = []
        self.whole = threading.Event()

    def go_on(self, most: int) -> None:
        """Seal at most so many more."""
        with self._turn:
            self.sealed += islice(self._sealing, most)
            if len(self.sealed) == self._count:
                self.whole.set()

    def take_turns(self, loop: asyncio.AbstractEventLoop) -> None:
        """Seal a few, and let the loop come back to the others."""
        if not self.whole.is_set():
            self.go_on(self._a_turn)
            loop.call_soon(self.take_turns, loop)


def sealed_on(
    loop: asyncio.AbstractEventLoop | None,
    sealing: Iterator[Line | DemurError],
    count: int,
    *,
    wait_s: float = _WAIT_S,
) -> list[Line | DemurError]:
    """Return so many records, sealed on an event loop where one is given and comes to it; never called on that loop itself."""
    if loop is None:
        return list(sealing)
    lent = _LentSealing(sealing, count)
    with suppress(RuntimeError):
        # A loop that is closed takes nothing more.
        loop.call_soon_threadsafe(lent.take_turns, loop)
        lent.whole.wait(wait_s)
    lent.go_on(count)
    return lent.sealed
