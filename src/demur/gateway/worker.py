"""What one worker holds from its start to its end: auditors, policy, log, connections, metrics.

What was opened is closed in the reverse order, the log last, so that every record of a running exchange is still written.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from demur.errors import DemurError, StoreError
from demur.gateway.settings import OnFailure
from demur.gateway.state import (
    ExchangeState,
    count_exchange,
    decide,
    enforces_on,
    issue_passport,
    log_exchange,
    unasked,
)
from demur.io.log import LogEvent, log_event
from demur.model.claim import Phase, Vocabulary
from demur.model.passport import Erasure
from demur.policy.files import PolicyFolder
from demur.record.commit import commit
from demur.record.store.location import LogPlace, log_place
from demur.record.store.sealing import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.audit.chain import Chain
    from demur.audit.inputs import AuditorInput
    from demur.gateway.keys import ClientKey, ClientKeys
    from demur.gateway.metrics import GatewayMetrics
    from demur.gateway.request import AuditedRoute, SessionNamer
    from demur.gateway.settings import GatewaySettings, RoutePart, UpstreamPart
    from demur.gateway.upstream import Provider
    from demur.model.claim import Audit
    from demur.policy.gate import PolicyGate
    from demur.record.interface import DisclosureStore
    from demur.record.replay import Replay
    from demur.record.store.log_store import LogStore
    from demur.record.store.writer import LogWriter

__all__ = ["PolicyWatch", "Worker", "draw_salts", "erase_before"]

_SALT_BYTES = 16
_SALTS_PER_DRAW = 256
_ERASE_EVERY_S = 3600.0
_MAX_REPLAYS = 8


@dataclass(slots=True)
class Worker:
    """All that an exchange needs."""

    settings: GatewaySettings
    config_digest: str
    chain: Chain
    policy: PolicyWatch
    store: LogStore
    writer: LogWriter
    disclosures: DisclosureStore | None
    metrics: GatewayMetrics
    providers: dict[UpstreamPart | RoutePart, Provider]
    keys: ClientKeys | None
    sessions: SessionNamer
    salts: Iterator[bytes]
    trace_exchange: Callable[[ExchangeState, int], None] | None = None
    """Writes the trace of a finished exchange, where tracing is on; the second argument is the time it ended in ns."""
    draining: bool = False
    store_hangs: bool = False
    """Whether a record was waited for in vain, and none was written since."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def provider_of(self, path: str) -> Provider:
        """Return the provider for a path."""
        return self.providers[self.settings.provider_of(path)]

    def open_exchange(
        self, route: AuditedRoute, body: bytes, *, client: ClientKey | None, traceparent: str | None = None
    ) -> ExchangeState:
        """Return the state of an exchange that begins with this body."""
        asked, behind = commit(body, next(self.salts))
        kept = [behind] if self.disclosures is not None else []
        # The policy may be swapped while the exchange goes on: both phases are decided by the one in force now.
        gate, holds = self.policy.gate, self.policy.holds
        began = (time.perf_counter(), time.time_ns())
        return ExchangeState(route, gate, holds, client, body, asked, kept, *began, traceparent=traceparent)

    async def audit(self, given: AuditorInput) -> Audit:
        """Return what the auditors state; where they cannot be asked as a whole, what the settings make of that."""
        try:
            return await self.chain.audit(given)
        except (DemurError, RuntimeError, OSError) as exc:
            # Where no thread can be started and no file opened, nobody can be asked.
            log_event(LogEvent.AUDITOR_FAILED, part="auditors", error=exc)
            return unasked(given.phase, closed=self.settings.failure.auditors is OnFailure.CLOSED)

    async def record(self, state: ExchangeState, *, durable: bool) -> bool:
        """Put an exchange on record; return whether the store took it: the caller decides by the settings what follows."""
        state.passport, behind = issue_passport(state, config_digest=self.config_digest, salts=self.salts)
        kept = (*state.disclosures, *behind) if self.disclosures is not None else ()
        try:
            submission = self.writer.submit(state.passport, disclosures=kept, durable=durable)
            if submission.must_wait:
                async with asyncio.timeout(self.settings.timeouts.record_s):
                    await submission.acknowledged()
        except (TimeoutError, DemurError) as exc:
            # What the store rejects and what cannot be sealed are lost alike; a store that hangs may still take the record.
            in_store = isinstance(exc, TimeoutError | StoreError)
            self.store_hangs |= isinstance(exc, TimeoutError)
            log_event(LogEvent.RECORD_FAILED, part="store" if in_store else None, error=exc)
            return False
        return True

    def publish(self, state: ExchangeState) -> None:
        """Tell the metrics, the structured log and the traces how an exchange ended."""
        count_exchange(self.metrics, state)
        shadow = self.policy.shadow
        if shadow is not None:
            for audit, record in state.phases:
                beside = decide(shadow, audit, state.principal)
                self.metrics.count_shadow(audit.phase, record.decision, beside.decision)
        log_exchange(state)
        if self.trace_exchange is not None:
            self.trace_exchange(state, time.time_ns())

    async def start(self) -> None:
        """Begin to write and to look after the policy's files."""
        self.writer.start(self.config_digest, self.policy.gate.digest, loop=asyncio.get_running_loop())
        if self.settings.policy.reload_s > 0:
            self._tasks.append(asyncio.create_task(self.policy.follow(self.settings.policy.reload_s)))
        if self.disclosures is not None:
            place = log_place(self.settings.store.url, self.settings.store.folder or None)
            days = self.settings.disclosure.retention_days
            self._tasks.append(asyncio.create_task(_erase_when_due(place, self.writer, days=days)))

    async def close(self) -> None:
        """Let go of everything; raise where records could not be written."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for provider in self.providers.values():
            await provider.pool.close()
        await self.chain.close()
        try:
            await asyncio.to_thread(self.writer.close)
        finally:
            if self.disclosures is not None:
                self.disclosures.close()
            self.store.close()
            self.metrics.board.close()


async def _erase_when_due(place: LogPlace, writer: LogWriter, *, days: int) -> None:
    """Erase kept texts once they are older than the settings allow, with their erasure on record; look every hour."""
    while True:
        until = datetime.now(UTC) - timedelta(days=days)
        try:
            digests = await asyncio.to_thread(erase_before, place, until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            if digests:
                # What is erased is gone before the record says so.
                writer.submit(Erasure(utc_now(), digests, f"older than {days} days"))
        except DemurError as exc:
            # Nothing was said to be erased, so the next look does it again.
            log_event(LogEvent.RECORD_FAILED, part="store", error=exc)
        await asyncio.sleep(_ERASE_EVERY_S)


def erase_before(place: LogPlace, at: str) -> tuple[str, ...]:
    """Erase what was kept before a time; return the digests of what was there."""
    # A connection of its own: the writer's belongs to the writer's thread.
    kept = place.disclosures(utc_now, create=True)
    try:
        found = kept.kept_before(at)
        return kept.erase(found) if found else ()
    finally:
        kept.close()


def draw_salts() -> Iterator[bytes]:
    """Yield salts, each once."""
    # Drawn many at a time, for every draw lets another thread in.
    while True:
        drawn = os.urandom(_SALT_BYTES * _SALTS_PER_DRAW)
        yield from (drawn[at : at + _SALT_BYTES] for at in range(0, len(drawn), _SALT_BYTES))


class PolicyWatch:
    """The policy in force, kept up with its files."""

    def __init__(self, settings: GatewaySettings, vocabulary: Vocabulary, on_stale: Callable[[bool], None]) -> None:
        """Read the files; `on_stale` is told of each change that does not load, and whether exchanges go on."""
        part = settings.policy
        self._folder = PolicyFolder(part.paths, default=part.default.value, vocabulary=vocabulary)
        self._shadow = (
            PolicyFolder(part.shadow, default=part.default.value, vocabulary=vocabulary) if part.shadow else None
        )
        self._vocabulary = vocabulary
        self._closed = settings.failure.policy_reload is OnFailure.CLOSED
        self._on_stale = on_stale
        self.stale = False
        self.replays: dict[str, Replay] = {}
        """The latest policies since the start, by digest: for whoever wants to decide again what they did."""
        self._swap()

    @property
    def shadow(self) -> PolicyGate | None:
        """The policy that is asked beside it, if there is one; a change of its files that does not load changes nothing."""
        return None if self._shadow is None else self._shadow.gate

    @property
    def denies_all(self) -> bool:
        """Whether the files are broken and the settings say that nothing passes until they are repaired."""
        return self.stale and self._closed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found about the policy that does not keep it from deciding."""
        return self._folder.warnings

    async def follow(self, every_s: float) -> None:
        """Look at the files again and again."""
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """Take what has changed on disk, if it can be taken."""
        # Parsing a large set takes a tenth of a second: not in the way of exchanges.
        change = await asyncio.to_thread(self._folder.poll)
        if self._shadow is not None:
            await asyncio.to_thread(self._shadow.poll)
        if change is None:
            return
        # A change that does not load leaves the last good policy in force, or denies everything, by the settings.
        self.stale = not change.swapped
        if change.swapped:
            self._swap()
            log_event(LogEvent.POLICY_SWAPPED, policy=change.digest)
        else:
            self._on_stale(not self._closed)
            log_event(LogEvent.POLICY_REFUSED, policy=change.digest)

    def _swap(self) -> None:
        self.gate = self._folder.gate
        # Whether a rule could withhold a response, so that none may be passed on before it was read.
        self.holds = enforces_on(self.gate, Phase.RESPONSE, self._vocabulary)
        self.replays.pop(self.gate.digest, None)
        self.replays[self.gate.digest] = self.gate.replay
        for oldest in list(self.replays)[:-_MAX_REPLAYS]:
            del self.replays[oldest]
