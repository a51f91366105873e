"""All auditors at once: time limits, failure modes, breakers, stages; and no auditor that holds up another."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from demur.audit.breaker import Breaker, BreakerSettings
from demur.audit.chain import LONG_CHARS, MAX_THREADS, Chain, Link
from demur.audit.config import AuditorSettings
from demur.audit.inputs import AuditorInput
from demur.model.claim import Audit, AuditorStatus, Claim, ClaimType, FailureMode, Phase, Problem, Stated, Vocabulary

ASKED = AuditorInput(Phase.REQUEST, given_input={"prompt": "hello"})
OK, TIMEOUT, ERROR, SKIPPED = AuditorStatus.OK, AuditorStatus.TIMEOUT, AuditorStatus.ERROR, AuditorStatus.SKIPPED


def states(name: str) -> Stated:
    return Stated((Claim(name, ClaimType.BOOLEAN, value=True, phase=Phase.REQUEST, auditor=name),))


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@dataclass
class Port:
    """An auditor made of a function: one that answers at once, or a coroutine function."""

    answer: Callable[[AuditorInput], Any]
    version: str = "1"
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    closed: bool = False

    def is_sync(self, _phase: Phase) -> bool:
        """Return whether it answers at once."""
        return not inspect.iscoroutinefunction(self.answer)

    def ask(self, given: AuditorInput) -> Any:
        """Return the answer, or what to wait for."""
        return self.answer(given)

    ask_async = ask

    async def close(self) -> None:
        """Take note."""
        self.closed = True


def taking(clock: Clock, seconds: float) -> Port:
    """An auditor that takes so long by the clock, in place."""

    def slow(_given: AuditorInput) -> Stated:
        clock.now += seconds
        return states("slow")

    return Port(slow)


@pytest.fixture
def blocked() -> Iterator[Port]:
    """An auditor that blocks its thread until the test ends."""
    release = threading.Event()

    def blocks(_given: AuditorInput) -> Stated:
        release.wait()
        return states("b")

    yield Port(blocks)
    release.set()


async def hangs(_given: AuditorInput) -> Stated:
    await asyncio.Event().wait()
    return Stated()


def link(name: str, port: Port, *, breaker: Breaker | None = None, blocking: bool = False, **terms: Any) -> Link:
    settings = AuditorSettings(name, **terms)
    return Link(settings, port, (Phase.REQUEST,), blocking, breaker)


def at_once(name: str, **terms: Any) -> Link:
    return link(name, Port(lambda _: states(name)), **terms)


def audit(*stages: list[Link], clock: Clock | None = None, budget_s: float = 5.0) -> Audit:
    chain = Chain(stages, budget_s=budget_s, clock=clock or Clock())
    return asyncio.run(chain.audit(ASKED))


def statuses(done: Audit) -> dict[str, AuditorStatus]:
    return {run.auditor: run.status for run in done.runs}


def test_in_place_auditors_need_no_event_loop_turn() -> None:
    """A chain of auditors that never wait comes to its end in one step, without a task or a timer."""
    chain = Chain([[at_once("a"), at_once("b")]], clock=Clock())
    with pytest.raises(StopIteration) as done:
        chain.audit(ASKED).send(None)
    assert [c.name for c in done.value.value.claims] == ["a", "b"]


@pytest.mark.parametrize("phase_mode", list(FailureMode))
@pytest.mark.parametrize(
    "answer", [states("a"), Stated(problems=(Problem("auditor_error", "x"),), unsound=(("b", "y"),))]
)
def test_the_short_way_comes_to_what_the_long_one_does(answer: Stated, phase_mode: FailureMode) -> None:
    """An auditor that is asked at once has the same turn as one that a breaker watches."""
    done = [
        audit([link("a", Port(lambda _: answer), breaker=breaker, on_error={Phase.REQUEST: phase_mode})])
        for breaker in (None, Breaker(BreakerSettings()))
    ]
    assert done[0] == done[1]


def test_auditors_of_a_stage_run_together() -> None:
    """Two auditors that each wait for the other both answer, so neither runs before the other."""
    first, second = asyncio.Event(), asyncio.Event()

    async def one(_given: AuditorInput) -> Stated:
        first.set()
        await second.wait()
        return states("one")

    async def two(_given: AuditorInput) -> Stated:
        second.set()
        await first.wait()
        return states("two")

    done = audit([link("one", Port(one)), link("two", Port(two))])
    assert statuses(done) == {"one": OK, "two": OK}


def test_one_that_hangs_costs_its_own_claims_only() -> None:
    """A hanging auditor is timed out; all others are heard, and the turns stand in the chain's order."""

    async def soon(_given: AuditorInput) -> Stated:
        await asyncio.sleep(0)
        return states("soon")

    done = audit([at_once("a"), link("h", Port(hangs), timeout_s=0.01), link("soon", Port(soon))])
    assert statuses(done) == {"a": OK, "h": TIMEOUT, "soon": OK}
    assert [run.auditor for run in done.runs] == ["a", "h", "soon"]
    assert [c.name for c in done.claims] == ["a", "soon"]
    assert done.denials == ("auditor `h`: it did not answer in time",)


async def test_one_that_ignores_its_cancellation_is_left_behind() -> None:
    """An auditor that swallows its cancellation does not hold up the audit."""
    release = asyncio.Event()

    async def stubborn(_given: AuditorInput) -> Stated:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        return Stated()

    chain = Chain([[link("s", Port(stubborn), timeout_s=0.01)]], clock=Clock())
    done = await chain.audit(ASKED)
    release.set()
    await chain.close()
    assert statuses(done) == {"s": TIMEOUT}


@pytest.mark.parametrize(
    ("mode", "must_deny", "gaps"),
    [(FailureMode.CLOSED, True, 0), (FailureMode.OPEN, False, 1), (FailureMode.WARN, False, 1)],
)
def test_the_failure_mode_of_the_phase_applies(mode: FailureMode, must_deny: bool, gaps: int) -> None:  # noqa: FBT001 — a column of the table
    """What a failure does is said for each auditor and phase; only closed denies, and only the others leave a gap."""
    other = FailureMode.OPEN if mode is FailureMode.CLOSED else FailureMode.CLOSED
    terms: dict[str, Any] = {"timeout_s": 0.01, "on_error": {Phase.REQUEST: mode, Phase.RESPONSE: other}}
    done = audit([link("h", Port(hangs), **terms)])
    assert (done.must_deny, len(done.gaps)) == (must_deny, gaps)
    assert done.runs[0].failure_mode == mode.value


def test_problems_in_an_answer_are_a_failure() -> None:
    """An auditor that answers with a problem has failed; its sound claims are still heard, and the unsound stand by name."""
    problem, unsound = Problem("invalid_claim", "claim `b`: a number too large"), (("b", "a number too large"),)
    bad = Stated(states("a").claims, (problem,), unsound=unsound)
    for mode in (FailureMode.CLOSED, FailureMode.OPEN):
        done = audit([link("a", Port(lambda _: bad), on_error={Phase.REQUEST: mode})])
        assert statuses(done) == {"a": ERROR}
        assert [c.name for c in done.claims] == ["a"]
        assert (done.unsound, done.must_deny) == (unsound, mode is FailureMode.CLOSED)


def test_what_a_port_raises_or_cancels_is_an_error() -> None:
    """An exception, or a cancellation that nobody asked for, ends in a turn with status `error`."""

    async def raises(_given: AuditorInput) -> Stated:
        raise LookupError("secret")

    async def cancels(_given: AuditorInput) -> Stated:
        raise asyncio.CancelledError

    done = audit([link("r", Port(raises)), link("c", Port(cancels))])
    assert statuses(done) == {"r": ERROR, "c": ERROR}
    assert [t.what for t in done.troubles] == ["it raised LookupError", "it cancelled itself"]


def test_stages_follow_each_other_with_what_was_said() -> None:
    """A later stage starts when the earlier one has ended, and is handed its claims."""
    seen: list[dict[str, object]] = []

    def later(given: AuditorInput) -> Stated:
        seen.append(dict(given.claims))
        return states("b")

    done = audit([at_once("a")], [link("b", Port(later))])
    assert seen == [{"a": True}]
    assert [run.auditor for run in done.runs] == ["a", "b"]


def test_a_stage_after_a_failure_still_runs() -> None:
    """`after` orders auditors; it does not make one depend on another's success."""
    done = audit([link("h", Port(hangs), timeout_s=0.01)], [at_once("b")])
    assert statuses(done) == {"h": TIMEOUT, "b": OK}


def test_the_budget_ends_a_call_and_skips_the_rest() -> None:
    """A call is cut off at the budget's end; whoever has not had a turn by then is passed over, by its failure mode."""
    clock = Clock()
    slow = link("slow", taking(clock, 3.0), timeout_s=9.0)
    done = audit([slow], [at_once("late")], clock=clock, budget_s=2.0)
    assert statuses(done) == {"slow": OK, "late": SKIPPED}
    assert done.denials == ("auditor `late`: the time for all auditors was used up before its turn",)
    cut = audit([link("h", Port(hangs), timeout_s=60.0)], budget_s=0.01)
    assert [(t.status, t.code) for t in cut.troubles] == [(TIMEOUT, "out_of_budget")]


def test_an_overrun_in_place_is_said() -> None:
    """An auditor that took too long in place is heard, and the overrun is a trouble."""
    clock = Clock()
    done = audit([link("slow", taking(clock, 1.5), timeout_s=1.0)], clock=clock)
    assert [(t.code, t.mode) for t in done.troubles] == [("overran", None)]
    assert done.runs[0].took_us == 1_500_000
    assert not done.must_deny


def test_a_blocking_auditor_stalls_nobody(blocked: Port) -> None:
    """One that blocks its thread is timed out while the others are heard; one that answers in its thread is heard."""

    async def in_its_thread(_given: AuditorInput) -> Stated:
        return states(threading.current_thread().name.replace("-", "_"))

    late = link("b", blocked, blocking=True, timeout_s=0.05)
    done = audit([late, at_once("ok", blocking=True), link("own", Port(in_its_thread), blocking=True)])
    assert statuses(done) == {"b": TIMEOUT, "ok": OK, "own": OK}
    assert [c.name for c in done.claims] == ["demur_auditor_own", "ok"]


async def test_threads_that_never_end_are_bounded(blocked: Port) -> None:
    """Once so many calls of a blocking auditor hang, no further thread is started for it."""
    chain = Chain([[link("b", blocked, blocking=True, timeout_s=0.01)]], clock=Clock())
    await asyncio.gather(*(chain.audit(ASKED) for _ in range(MAX_THREADS)))
    assert [t.code for t in (await chain.audit(ASKED)).troubles] == ["busy"]


def test_the_breaker_opens_tries_and_closes() -> None:
    """After so many failures an auditor is passed over; once the time is up one call tries it, and its success counts."""
    clock = Clock()
    answers = [Stated(problems=(Problem("unreachable", "nobody"),), reached=False)] * 2 + [states("a")]

    async def next_answer(_given: AuditorInput) -> Stated:
        return answers.pop(0)

    one = link("a", Port(next_answer), breaker=Breaker(BreakerSettings(2, 10.0)))
    seen = []
    for moment in (0.0, 1.0, 2.0, 10.9, 11.0):
        clock.now = moment
        seen.append(audit([one], clock=clock).runs[0].status)
    assert seen == [ERROR, ERROR, SKIPPED, SKIPPED, OK]


def test_timeouts_open_the_breaker() -> None:
    """An auditor that hangs is soon passed over, which costs no time."""
    one = link("h", Port(hangs), timeout_s=0.01, breaker=Breaker(BreakerSettings(1, 10.0)))
    assert [audit([one]).troubles[0].code for _ in range(2)] == ["timeout", "breaker_open"]


def test_a_problem_that_a_prompt_can_cause_does_not_open_the_breaker() -> None:
    """Errors of an auditor that was reached do not open it: else an attacker could switch an auditor off for others."""
    bad = Stated(problems=(Problem("auditor_error", "it raised"),))
    one = link("a", Port(lambda _: bad), breaker=Breaker(BreakerSettings(1, 10.0)))
    assert [audit([one]).runs[0].status for _ in range(3)] == [ERROR] * 3


async def test_a_cancelled_audit_cancels_its_calls() -> None:
    """When the caller goes away its calls are cancelled, and a breaker's try is given back."""
    ended: list[str] = []

    async def waits(_given: AuditorInput) -> Stated:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return Stated()

    breaker = Breaker(BreakerSettings(1, 0.0))
    breaker.failed(0.0)

    chain = Chain([[link("w", Port(waits), breaker=breaker)]], clock=Clock())
    task = asyncio.create_task(chain.audit(ASKED))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert ended == ["cancelled"]
    assert breaker.allows(1.0)


def test_only_auditors_of_the_phase_are_asked() -> None:
    """A phase without auditors has no turns and denies nothing."""
    chain = Chain([[at_once("a")]], clock=Clock())
    done = asyncio.run(chain.audit(AuditorInput(Phase.RESPONSE)))
    assert (done.runs, done.must_deny) == ((), False)


def test_closing_closes_every_port() -> None:
    """Closing the chain lets every auditor go."""
    ports = [Port(lambda _: Stated()), Port(lambda _: Stated())]
    chain = Chain([[link("a", ports[0])], [link("b", ports[1])]])
    asyncio.run(chain.close())
    assert [port.closed for port in ports] == [True, True]


def test_an_async_auditor_that_keeps_the_loop_busy_is_on_record_as_late() -> None:
    """An answer that was there only because no timer could run is taken, and is a trouble as for one asked in place."""
    clock = Clock()

    async def busy(_given: AuditorInput) -> Stated:
        await asyncio.sleep(0)
        clock.now += 3
        return states("b")

    done = audit([link("b", Port(busy), timeout_s=0.2)], clock=clock)
    assert statuses(done) == {"b": OK}
    assert [(t.code, t.mode) for t in done.troubles] == [("overran", None)]


def test_long_texts_are_looked_at_in_a_thread() -> None:
    """An auditor that never waits is asked in place about short texts only."""
    threads: list[bool] = []

    def look(_given: AuditorInput) -> Stated:
        threads.append(threading.current_thread() is threading.main_thread())
        return states("a")

    chain = Chain([[link("a", Port(look))]], clock=Clock())
    for length in (LONG_CHARS, LONG_CHARS + 1):
        done = asyncio.run(chain.audit(AuditorInput(Phase.REQUEST, given_input={"prompt": "x" * length})))
        assert statuses(done) == {"a": OK}
    assert threads == [True, False]
