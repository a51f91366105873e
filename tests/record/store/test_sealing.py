"""Which thread seals a batch: the loop's, in turns, or the one that needs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from demur.errors import DemurError, ShapeError
from demur.model.passport import Erasure
from demur.record.interface import SealedEntry
from demur.record.store.sealing import seal_on_loop

COUNT = 100
REFUSED = 7


class Bench:
    """Seals entries in order, and keeps which thread sealed each."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def entries(self) -> Iterator[SealedEntry | DemurError]:
        """Yield the entries."""
        for number in range(COUNT):
            self.threads.append(threading.get_ident())
            if number == REFUSED:
                yield ShapeError("no entry")
            else:
                erasure = Erasure("2026-01-31T12:00:00Z", ("d",), "r")
                yield SealedEntry(erasure, b"%d" % number, b"", None, signature=b"", leaf=b"")

    def check(self, sealed: list[SealedEntry | DemurError]) -> None:
        """Assert that all are there, each once, in their order."""
        said = [each.envelope if isinstance(each, SealedEntry) else b"refused" for each in sealed]
        assert said == [b"refused" if number == REFUSED else b"%d" % number for number in range(COUNT)]


def test_a_running_loop_seals_in_turns() -> None:
    """A loop that runs seals all of it, and comes to other work in between."""
    bench, rounds = Bench(), []

    async def beside(done: asyncio.Future[list[SealedEntry | DemurError]]) -> list[SealedEntry | DemurError]:
        while not done.done():
            rounds.append(len(bench.threads))
            await asyncio.sleep(0)
        return await done

    async def work() -> list[SealedEntry | DemurError]:
        loop = asyncio.get_running_loop()
        return await beside(loop.run_in_executor(None, lambda: seal_on_loop(loop, bench.entries(), COUNT, wait_s=20)))

    bench.check(asyncio.run(work()))
    assert set(bench.threads) == {threading.get_ident()}
    assert len(set(rounds) - {0, COUNT}) >= 1


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_does_not_come_is_not_waited_for(*, closed: bool) -> None:
    """Where the loop is closed, or stands still, the thread that needs the entries seals them; what comes late finds nothing to do."""
    bench, loop = Bench(), asyncio.new_event_loop()
    if closed:
        loop.close()
    bench.check(seal_on_loop(loop, bench.entries(), COUNT, wait_s=0))
    if not closed:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert len(bench.threads) == COUNT


def test_without_a_loop_the_thread_seals() -> None:
    """A writer that knows of no loop seals by itself."""
    bench = Bench()
    bench.check(seal_on_loop(None, bench.entries(), COUNT))
