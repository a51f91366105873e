"""Asks all auditors of a phase at once, and waits for none of them too long.

An audit ends within its budget, in-place work aside, whatever the auditors do; every auditor of the phase has exactly one
turn in the result; one that hangs, fails or is passed over costs its own claims only. The clock is passed in.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, structs

from demur.audit.claims import conclude
from demur.model.claim import AuditorStatus, Phase, Problem, Stated, Turn, Vocabulary, flat_name

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from demur.audit.breaker import Breaker
    from demur.audit.config import AuditorSettings
    from demur.audit.inputs import AuditorInput
    from demur.model.claim import Audit, FailureMode

__all__ = ["LONG_CHARS", "MAX_THREADS", "AuditorPort", "Chain", "Link", "in_daemon_thread"]

MAX_THREADS = 16
"""Calls of one blocking auditor that may run at a time, those that were given up included."""
LONG_CHARS = 65_536
"""Of texts that are looked at in a thread: more would hold up every other exchange."""
_OK = AuditorStatus.OK
_T = TypeVar("_T")


class AuditorPort(Protocol):
    """An auditor that can be asked: none of these ever raises for what the auditor does."""

    @property
    def version(self) -> str:
        """Its version, as far as known before it is asked."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What is known of its claims."""

    def is_sync(self, phase: Phase) -> bool:
        """Return whether it can be asked in a phase without waiting; it is the same for good."""

    def ask(self, given: AuditorInput) -> Stated:
        """Return what it states, at once."""

    def ask_async(self, given: AuditorInput) -> Coroutine[object, object, Stated]:
        """Return what it states, in its own time."""

    async def close(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True, slots=True)
class Link:
    """An auditor in its place in the chain."""

    settings: AuditorSettings
    port: AuditorPort
    phases: tuple[Phase, ...]
    blocking: bool = False
    breaker: Breaker | None = None
    threads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MAX_THREADS))

    @property
    def name(self) -> str:
        """The name that it goes on record by."""
        return self.settings.name

    def in_place(self, phase: Phase, *, long: bool) -> bool:
        """Return whether it is asked without a task."""
        return not self.blocking and not long and self.port.is_sync(phase)


class _Seat(Struct, frozen=True):
    """What is the same of an auditor's turn in a phase, whatever it states."""

    link: Link
    name: str
    mode: FailureMode
    timeout_s: float


class _Stage(Struct, frozen=True):
    """The auditors of a phase that are asked together; `seats` where none of them ever waits or is left alone."""

    links: tuple[Link, ...]
    seats: tuple[_Seat, ...] = ()


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call under way: since when, by the clock; until when, by the loop."""

    link: Link
    since: float
    until: float
    out_of_budget: bool


class Chain:
    """All auditors, ready to be asked."""

    def __init__(
        self, stages: Sequence[Sequence[Link]], *, budget_s: float = 2.0, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._all = tuple(tuple(stage) for stage in stages)
        self._by_phase: dict[Phase, list[_Stage]] = {phase: [] for phase in Phase}
        for phase, stage in product(Phase, self._all):
            links = tuple(link for link in stage if phase in link.phases)
            if links and all(link.breaker is None and link.in_place(phase, long=False) for link in links):
                seats = tuple(_Seat(k, k.name, k.settings.mode(phase), k.settings.timeout_s) for k in links)
                self._by_phase[phase].append(_Stage(links, seats))
            elif links:
                self._by_phase[phase].append(_Stage(links))
        self._budget_s = budget_s
        self._clock = clock
        self._given_up: set[asyncio.Future[Stated]] = set()

    @property
    def links(self) -> tuple[Link, ...]:
        """All auditors, in the order in which they are asked."""
        return tuple(link for stage in self._all for link in stage)

    @property
    def vocabulary(self) -> Vocabulary:
        """What is known of the claims of all auditors."""
        return Vocabulary(tuple(spec for link in self.links for spec in link.port.vocabulary.specs))

    async def audit(self, given: AuditorInput) -> Audit:
        """Return what the auditors of the input's phase state, and how each of them fared."""
        # One budget for all stages: a client waits for their sum.
        end = self._clock() + self._budget_s
        # Only the two texts count: what else a provider's own body holds is not looked at.
        long = len(given.prompt) + len(given.content) > LONG_CHARS
        turns: list[Turn] = []
        for stage in self._by_phase[given.phase]:
            if turns:
                so_far = {flat_name(claim.name): claim.value for turn in turns for claim in turn.claims}
                given = structs.replace(given, claims=so_far)
            left_s = end - self._clock()
            if stage.seats and left_s > 0 and not long:
                turns += [self._ask_seat(seat, given) for seat in stage.seats]
            else:
                turns += await self._ask_stage(stage.links, given, left_s=left_s, long=long)
        return conclude(given.phase, turns)

    async def close(self) -> None:
        """Let go of connections, and of calls that were given up."""
        for call in self._given_up:
            call.cancel()
        for link in self.links:
            await link.port.close()

    def _ask_seat(self, seat: _Seat, given: AuditorInput) -> Turn:
        """Return the turn of one that has no breaker, sooner where all is well."""
        link, since = seat.link, self._clock()
        stated = link.port.ask(given)
        took_s = self._clock() - since
        if stated.problems or took_s > seat.timeout_s:
            return self._end_turn(link, given.phase, stated, took_s)
        version = stated.version or link.port.version
        return Turn(seat.name, version, _OK, round(took_s * 1e6), seat.mode, stated.claims, (), stated.unsound)

    async def _ask_stage(
        self, stage: tuple[Link, ...], given: AuditorInput, *, left_s: float, long: bool
    ) -> list[Turn]:
        """Return the turns of one stage, in the order of its auditors."""
        phase = given.phase
        turns: dict[str, Turn] = {}
        calls: dict[asyncio.Future[Stated], _OpenCall] = {}
        in_place: list[Link] = []
        for link in stage:
            problem = self._reason_to_skip(link, left_s)
            if problem is not None:
                turns[link.name] = _turn_of(link, phase, AuditorStatus.SKIPPED, Stated(problems=(problem,)))
            elif link.in_place(phase, long=long):
                in_place.append(link)
            else:
                turn = self._start(link, given, left_s=left_s, long=long, calls=calls)
                turns |= {link.name: turn} if turn else {}
        try:
            if calls and in_place:
                # Requests are on their way before this thread is kept busy.
                await asyncio.sleep(0)
            for link in in_place:
                since = self._clock()
                stated = link.port.ask(given)
                turns[link.name] = self._end_turn(link, phase, stated, self._clock() - since)
            if calls:
                await self._collect(calls, phase, turns)
        finally:
            # Only where the audit itself was cancelled is anything left.
            if len(turns) < len(stage):
                self._give_up(calls, [link for link in stage if link.name not in turns])
        return [turns[link.name] for link in stage]

    def _reason_to_skip(self, link: Link, left_s: float) -> Problem | None:
        if left_s <= 0:
            return Problem("out_of_budget", "the time for all auditors was used up before its turn")
        if link.breaker is not None and not link.breaker.allows(self._clock()):
            return Problem("breaker_open", "it failed too often in a row and is left alone for a while")
        return None

    def _start(
        self,
        link: Link,
        given: AuditorInput,
        *,
        left_s: float,
        long: bool,
        calls: dict[asyncio.Future[Stated], _OpenCall],
    ) -> Turn | None:
        """Start a call and add it to `calls`; return the turn of one that cannot be started."""
        since, loop = self._clock(), asyncio.get_running_loop()
        limit_s = min(link.settings.timeout_s, left_s)
        call = _OpenCall(link, since, loop.time() + limit_s, left_s < link.settings.timeout_s)
        is_sync = link.port.is_sync(given.phase)
        if not (link.blocking or (long and is_sync)):
            calls[loop.create_task(link.port.ask_async(given))] = call
            return None
        if not link.threads.acquire(blocking=False):
            busy = Problem("busy", f"{MAX_THREADS} of its calls are still running")
            return self._end_turn(link, given.phase, Stated(problems=(busy,), reached=False), 0.0)

        def ask() -> Stated:
            try:
                return link.port.ask(given) if is_sync else asyncio.run(link.port.ask_async(given))
            finally:
                link.threads.release()

        lost = Stated(problems=(Problem("auditor_error", "its thread ended without an answer"),))
        calls[in_daemon_thread(ask, name=f"demur-auditor-{link.name}", lost=lost)] = call
        return None

    async def _collect(
        self, calls: dict[asyncio.Future[Stated], _OpenCall], phase: Phase, turns: dict[str, Turn]
    ) -> None:
        """Wait for each call until its own time is up, and take it from `calls`."""
        loop = asyncio.get_running_loop()
        while calls:
            nearest = min(call.until for call in calls.values())
            await asyncio.wait(calls, timeout=max(0.0, nearest - loop.time()), return_when=asyncio.FIRST_COMPLETED)
            now = loop.time()
            for future, call in list(calls.items()):
                link, took_s = call.link, self._clock() - call.since
                if future.done():
                    turns[link.name] = self._end_turn(link, phase, _call_result(future), took_s)
                elif call.until <= now:
                    if link.breaker is not None:
                        link.breaker.failed(self._clock())
                    self._abandon(future)
                    why = "the time for all auditors was used up" if call.out_of_budget else "it did not answer in time"
                    problem = Problem("out_of_budget" if call.out_of_budget else "timeout", why)
                    turns[link.name] = _turn_of(link, phase, AuditorStatus.TIMEOUT, Stated(problems=(problem,)), took_s)
                else:
                    continue
                del calls[future]

    def _end_turn(self, link: Link, phase: Phase, stated: Stated, took_s: float) -> Turn:
        if link.breaker is not None:
            # An auditor that answers with an error is there; the breaker is for those that are not.
            if stated.reached:
                link.breaker.succeeded()
            else:
                link.breaker.failed(self._clock())
        if stated.problems:
            return _turn_of(link, phase, AuditorStatus.ERROR, stated, took_s)
        if took_s > link.settings.timeout_s:
            # No timer runs while a method keeps the event loop busy, so its answer may come late and still be taken.
            slow = "it took longer than its time limit; declare what does not await `blocking: true`"
            stated = structs.replace(stated, problems=(Problem("overran", slow),))
        return _turn_of(link, phase, _OK, stated, took_s)

    def _give_up(self, calls: Iterable[asyncio.Future[Stated]], links: Iterable[Link]) -> None:
        for future in calls:
            self._abandon(future)
        for link in links:
            if link.breaker is not None:
                link.breaker.given_up()

    def _abandon(self, future: asyncio.Future[Stated]) -> None:
        """Cancel a call without waiting for it: one that ignores cancellation would hold up all others."""

        def forget(ended: asyncio.Future[Stated]) -> None:
            self._given_up.discard(ended)
            if not ended.cancelled():
                # Retrieved, so that asyncio does not report it as never retrieved.
                ended.exception()

        self._given_up.add(future)
        future.add_done_callback(forget)
        future.cancel()


def _turn_of(link: Link, phase: Phase, status: AuditorStatus, stated: Stated, took_s: float = 0.0) -> Turn:
    return Turn(
        link.name,
        stated.version or link.port.version,
        status,
        round(took_s * 1e6),
        link.settings.mode(phase),
        stated.claims,
        stated.problems,
        stated.unsound,
    )


def _call_result(future: asyncio.Future[Stated]) -> Stated:
    """Return what a call that has ended states; one that was cancelled from within, or raised, states nothing."""
    if future.cancelled():
        return Stated(problems=(Problem("auditor_error", "it cancelled itself"),))
    raised = future.exception()
    if raised is not None:
        return Stated(problems=(Problem("auditor_error", f"it raised {type(raised).__name__}"),))
    return future.result()


def in_daemon_thread(call: Callable[[], _T], *, name: str, lost: _T) -> asyncio.Future[_T]:
    """Return what a call in a thread of its own returns, `lost` where it raises.

    The thread is a daemon and belongs to no pool: one that never ends neither starves others nor keeps the process from
    ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def deliver(made: _T) -> None:
        if not future.done():
            future.set_result(made)

    def work() -> None:
        made = lost
        try:
            made = call()
        finally:
            with suppress(RuntimeError):
                # The loop may be closed by now: then nobody is waiting.
                loop.call_soon_threadsafe(deliver, made)

    # A daemon outside any pool: one that never ends neither starves others nor keeps the process from ending.
    threading.Thread(target=work, name=name, daemon=True).start()
    return future
