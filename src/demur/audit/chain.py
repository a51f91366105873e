"""How are all auditors asked at once, and none waited for too long?

Auditors of one stage are asked together; those that never wait are asked in place, without a task of their own, unless the
texts are long. Laws: an audit ends within its budget, in-place work aside, whatever the auditors do; every auditor of the phase
has exactly one turn in the result; an auditor that hangs, fails or is passed over costs its own claims only; a call that is
given up is cancelled and not waited for; an answer that is taken after its time is on record as late. The clock is passed in;
timers are the event loop's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, structs

from demur.model.audit import Audit, Problem, Stated, Subject, Turn
from demur.model.claim import Phase, Vocabulary, flat_name
from demur.model.passport import AuditorStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demur.audit.breaker import Breaker
    from demur.audit.config import AuditorSettings
    from demur.model.audit import FailureMode
    from demur.model.claim import ClaimValue

__all__ = ["LONG_CHARS", "MOST_THREADS", "AuditorPort", "Chain", "Conclude", "Link", "in_daemon_thread"]

MOST_THREADS = 16
"""Calls of one blocking auditor that may run at a time, those that were given up included."""
LONG_CHARS = 65_536
"""Of texts that are looked at in a thread: more would hold up every other exchange."""
Conclude = Callable[[Phase, Sequence[Turn]], Audit]
_OK, _ERROR = AuditorStatus.OK, AuditorStatus.ERROR
_T = TypeVar("_T")


class AuditorPort(Protocol):
    """An auditor that can be asked: none of these ever raises for what the auditor does."""

    @property
    def version(self) -> str:
        """Its version, as far as known before it is asked."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What is known of its claims."""

    def straight(self, phase: Phase) -> bool:
        """Return whether it can be asked in a phase without waiting; it is the same for good."""

    def ask_now(self, subject: Subject) -> Stated:
        """Return what it states, at once."""

    def ask_later(self, subject: Subject) -> Coroutine[object, object, Stated]:
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
    threads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_THREADS))

    @property
    def name(self) -> str:
        """The name that it goes on record by."""
        return self.settings.name

    def in_thread(self, phase: Phase, *, long: bool) -> bool:
        """Return whether it is asked in a thread: it may wait, or has long texts to go through without a pause."""
        return self.blocking or (long and self.port.straight(phase))

    def in_place(self, phase: Phase, *, long: bool) -> bool:
        """Return whether it is asked without a task."""
        return not self.blocking and not long and self.port.straight(phase)


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
        self,
        stages: Sequence[Sequence[Link]],
        *,
        conclude: Conclude,
        budget_s: float = 2.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._all = tuple(tuple(stage) for stage in stages)
        self._by_phase = {phase: tuple(_stages_in(phase, self._all)) for phase in Phase}
        self._conclude = conclude
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

    async def audit(self, subject: Subject) -> Audit:
        """Return what the auditors of the subject's phase state, and how each of them fared."""
        end = self._clock() + self._budget_s
        turns: list[Turn] = []
        for stage in self._by_phase[subject.phase]:
            if turns:
                subject = structs.replace(subject, claims=_claims_so_far(turns))
            left_s = end - self._clock()
            if stage.seats and left_s > 0 and not _is_long(subject):
                turns += [self._ask_at_once(seat, subject) for seat in stage.seats]
            else:
                turns += await self._stage(stage.links, subject, left_s=left_s)
        return self._conclude(subject.phase, turns)

    async def close(self) -> None:
        """Let go of connections, and of calls that were given up."""
        for call in self._given_up:
            call.cancel()
        for link in self.links:
            await link.port.close()

    async def _stage(self, stage: tuple[Link, ...], subject: Subject, *, left_s: float) -> list[Turn]:
        """Return the turns of one stage, in the order of its auditors."""
        turns: dict[str, Turn] = {}
        calls: dict[asyncio.Future[Stated], _OpenCall] = {}
        in_place: list[Link] = []
        long = _is_long(subject)
        for link in stage:
            problem = self._passed_over(link, left_s)
            if problem is not None:
                turns[link.name] = _turn_of(link, subject.phase, AuditorStatus.SKIPPED, Stated(problems=(problem,)))
            elif link.in_place(subject.phase, long=long):
                in_place.append(link)
            else:
                self._start(link, subject, left_s=left_s, calls=calls, turns=turns)
        try:
            if calls and in_place:
                # Requests are on their way before this thread is kept busy.
                await asyncio.sleep(0)
            for link in in_place:
                turns[link.name] = self._ask_in_place(link, subject)
            if calls:
                await self._collect(calls, subject.phase, turns)
        finally:
            # Only where the audit itself was cancelled is anything left.
            if len(turns) < len(stage):
                self._give_up(calls, [link for link in stage if link.name not in turns])
        return [turns[link.name] for link in stage]

    def _passed_over(self, link: Link, left_s: float) -> Problem | None:
        if left_s <= 0:
            return Problem("out_of_budget", "the time for all auditors was used up before its turn")
        if link.breaker is not None and not link.breaker.allows(self._clock()):
            return Problem("breaker_open", "it failed too often in a row and is left alone for a while")
        return None

    def _ask_at_once(self, seat: _Seat, subject: Subject) -> Turn:
        """Return the turn of one that has no breaker, sooner where all is well."""
        link, since = seat.link, self._clock()
        stated = link.port.ask_now(subject)
        took_s = self._clock() - since
        if stated.problems or took_s > seat.timeout_s:
            return self._ended(link, subject.phase, stated, took_s)
        version = stated.version or link.port.version
        return Turn(seat.name, version, _OK, round(took_s * 1e6), seat.mode, stated.claims, (), stated.unsound)

    def _ask_in_place(self, link: Link, subject: Subject) -> Turn:
        since = self._clock()
        stated = link.port.ask_now(subject)
        took_s = self._clock() - since
        return self._ended(link, subject.phase, stated, took_s)

    def _start(
        self,
        link: Link,
        subject: Subject,
        *,
        left_s: float,
        calls: dict[asyncio.Future[Stated], _OpenCall],
        turns: dict[str, Turn],
    ) -> None:
        since, loop = self._clock(), asyncio.get_running_loop()
        limit_s = min(link.settings.timeout_s, left_s)
        call = _OpenCall(link, since, loop.time() + limit_s, left_s < link.settings.timeout_s)
        if not link.in_thread(subject.phase, long=_is_long(subject)):
            calls[loop.create_task(link.port.ask_later(subject))] = call
        elif link.threads.acquire(blocking=False):
            calls[_in_thread(link, subject)] = call
        else:
            busy = Problem("busy", f"{MOST_THREADS} of its calls are still running")
            turns[link.name] = self._ended(link, subject.phase, Stated(problems=(busy,), reached=False), 0.0)

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
                if future.done():
                    turns[call.link.name] = self._ended(
                        call.link, phase, _call_result(future), self._clock() - call.since
                    )
                elif call.until <= now:
                    turns[call.link.name] = self._timed_out(future, call, phase)
                else:
                    continue
                del calls[future]

    def _ended(self, link: Link, phase: Phase, stated: Stated, took_s: float) -> Turn:
        if link.breaker is not None:
            if stated.reached:
                link.breaker.succeeded()
            else:
                link.breaker.failed(self._clock())
        if stated.problems:
            return _turn_of(link, phase, _ERROR, stated, took_s)
        if took_s > link.settings.timeout_s:
            # No timer runs while a method keeps the event loop busy, so that such an answer is there before its time is up.
            slow = "it took longer than its time limit; declare what does not await `blocking: true`"
            stated = structs.replace(stated, problems=(Problem("overran", slow),))
        return _turn_of(link, phase, _OK, stated, took_s)

    def _timed_out(self, future: asyncio.Future[Stated], call: _OpenCall, phase: Phase) -> Turn:
        if call.link.breaker is not None:
            call.link.breaker.failed(self._clock())
        self._abandon(future)
        why = "the time for all auditors was used up" if call.out_of_budget else "it did not answer in time"
        code = "out_of_budget" if call.out_of_budget else "timeout"
        stated = Stated(problems=(Problem(code, why),))
        return _turn_of(call.link, phase, AuditorStatus.TIMEOUT, stated, self._clock() - call.since)

    def _give_up(self, calls: Iterable[asyncio.Future[Stated]], links: Iterable[Link]) -> None:
        for future in calls:
            self._abandon(future)
        for link in links:
            if link.breaker is not None:
                link.breaker.given_up()

    def _abandon(self, future: asyncio.Future[Stated]) -> None:
        """Cancel a call without waiting for it: one that ignores cancellation would hold up all others."""
        self._given_up.add(future)
        future.add_done_callback(self._forget)
        future.cancel()

    def _forget(self, future: asyncio.Future[Stated]) -> None:
        self._given_up.discard(future)
        if not future.cancelled():
            future.exception()


def _stages_in(phase: Phase, stages: Iterable[Iterable[Link]]) -> Iterator[_Stage]:
    """Yield the stages that have an auditor of the phase."""
    for stage in stages:
        links = tuple(link for link in stage if phase in link.phases)
        if links and all(link.breaker is None and link.in_place(phase, long=False) for link in links):
            yield _Stage(links, tuple(_Seat(k, k.name, k.settings.mode(phase), k.settings.timeout_s) for k in links))
        elif links:
            yield _Stage(links)


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


def _in_thread(link: Link, subject: Subject) -> asyncio.Future[Stated]:
    """Return the answer of an auditor that is asked in a thread of its own."""

    def ask() -> Stated:
        try:
            straight = link.port.straight(subject.phase)
            return link.port.ask_now(subject) if straight else asyncio.run(link.port.ask_later(subject))
        finally:
            link.threads.release()

    lost = Stated(problems=(Problem("auditor_error", "its thread ended without an answer"),))
    return in_daemon_thread(ask, name=f"demur-auditor-{link.name}", lost=lost)


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

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


def _is_long(subject: Subject) -> bool:
    """Return whether the texts put to auditors are long; what else a provider's own body holds is not looked at."""
    prompt = subject.input.get("prompt") if subject.input else None
    content = subject.output.get("content") if subject.output else None
    long = len(prompt) if isinstance(prompt, str) else 0
    return long + (len(content) if isinstance(content, str) else 0) > LONG_CHARS


def _claims_so_far(turns: Iterable[Turn]) -> dict[str, ClaimValue]:
    return {flat_name(claim.name): claim.value for turn in turns for claim in turn.claims}
