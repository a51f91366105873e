"""Who seals a batch: the loop, in turns, or the thread that needs it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from demur.errors import DemurError, ShapeError
from demur.model.passport import Erasure
from demur.record.store.growth import Line
from demur.record.store.loop_sealing import sealed_on

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 100
REFUSED = 7


class Bench:
    """Makes lines in order, and keeps which thread made each."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def lines(self) -> Iterator[Line | DemurError]:
        """Yield the lines."""
        for number in range(COUNT):
            self.threads.append(threading.get_ident())
            if number == REFUSED:
                yield ShapeError("no line")
            else:
                yield Line(b"%d" % number, b"", Erasure("2026-01-31T12:00:00Z", ("d",), "r"), None)

    def check(self, sealed: list[Line | DemurError]) -> None:
        """Assert that all are there, each once, in their order."""
        said = [line.envelope if isinstance(line, Line) else b"refused" for line in sealed]
        assert said == [b"refused" if number == REFUSED else b"%d" % number for number in range(COUNT)]


def test_a_running_loop_seals_in_turns() -> None:
    """A loop that runs seals all of it, and comes to other work in between."""
    bench, rounds = Bench(), []

    async def beside(done: asyncio.Future[list[Line | DemurError]]) -> list[Line | DemurError]:
        while not done.done():
            rounds.append(len(bench.threads))
            await asyncio.sleep(0)
        return await done

    async def work() -> list[Line | DemurError]:
        loop = asyncio.get_running_loop()
        return await beside(loop.run_in_executor(None, lambda: sealed_on(loop, bench.lines(), COUNT, wait_s=20)))

    bench.check(asyncio.run(work()))
    assert set(bench.threads) == {threading.get_ident()}
    assert len(set(rounds) - {0, COUNT}) >= 1


@pytest.mark.parametrize("closed", [True, False])
def test_a_loop_that_does_not_come_is_not_waited_for(*, closed: bool) -> None:
    """Where the loop is closed, or stands still, whoever needs the lines seals them; what comes late finds nothing to do."""
    bench, loop = Bench(), asyncio.new_event_loop()
    if closed:
        loop.close()
    bench.check(sealed_on(loop, bench.lines(), COUNT, wait_s=0))
    if not closed:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert len(bench.threads) == COUNT


def test_without_a_loop_the_thread_seals() -> None:
    """A writer that knows of no loop seals by itself."""
    bench = Bench()
    bench.check(sealed_on(None, bench.lines(), COUNT))
