"""Who puts records in order, seals them and makes them durable? One thread a process, in batches.

Laws: a request never waits for a lock of the log, only, where it must, for its own record; a denial, and in `sync` every record,
is durable before it is acknowledged; in `async` a crash loses at most `max_unsynced` records, all submitted within one interval
and two commits before it: from then on submissions must wait. A record is sealed ahead of the turn to append and sealed anew only where
another process continued its session or rotated the key meanwhile. What the store refuses is told to those who wait, and kept to
be tried again for those who no longer do.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import DemurError, ShapeError, StoreError
from demur.io.log import LogEvent, log_event
from demur.model.passport import Durability, LogEntry, Passport, Restart
from demur.record.checkpoint import Checkpoint, issue_checkpoint
from demur.record.store.cache import LeftState
from demur.record.store.growth import Line
from demur.record.store.loop_sealing import sealed_on
from demur.record.store.receipts import Bell, Receipt, Submission
from demur.record.store.sealing import LineSealer, utc_now

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Sequence

    from demur.record.commit import Disclosure
    from demur.record.interface import DisclosureStore, SessionTail
    from demur.record.store.anchor_files import AnchorFile
    from demur.record.store.growth import LogStore
    from demur.record.store.sealing import SignerSource
    from demur.record.tree import Frontier

__all__ = ["Durability", "LogWriter", "WriterSettings"]

_PATIENT = 5
"""How many intervals records wait that nobody waits for: a batch costs as much for one record as for many."""
_RETRY_S = 0.25
"""How long a store that failed is left alone."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How often is committed, how much may be at stake, how often the log is signed."""

    durability: Durability = Durability.ASYNC
    interval_s: float = 0.010
    """Commits begin at least this far apart, and five times as far where no answer waits for them; the first after a pause
    begins at once."""
    max_unsynced: int = 1000
    max_batch: int = 1000
    checkpoint_records: int = 1000
    checkpoint_s: float = 60.0


@dataclass(slots=True)
class _Queued:
    entry: LogEntry
    disclosures: tuple[Disclosure, ...]
    submission: Submission
    durable: bool = False
    """Whether it is a denial, which is tried again although its client was told."""
    kept: bool = False
    """Whether the disclosures are in their store already."""
    tried: Line | None = None
    """What was sealed of it when a commit last failed."""


class LogWriter:
    """Takes entries from any thread and appends them in batches; start it after any fork, and close it."""

    def __init__(
        self,
        store: LogStore,
        keys: SignerSource | None,
        *,
        settings: WriterSettings = WriterSettings(),
        disclosures: DisclosureStore | None = None,
        anchor: AnchorFile | None = None,
        clock: Callable[[], str] = utc_now,
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write to a store; `keys` None means `signing: none`, stamped on each record.

        `told` hears, in the writer's thread and before anybody who waits, how many records were written and how many lost.
        """
        self._store, self._settings = store, settings
        self._disclosures, self._anchor, self._clock = disclosures, anchor, clock
        self._told = told or (lambda _written, _lost: None)
        self._sealer = LineSealer(keys, clock)
        self._queue: deque[_Queued] = deque()
        self._unsynced = self._given_up = self._awaited = 0
        self._failure: StoreError | None = None
        self._unanchored: StoreError | None = None
        self._in_flight: list[_Queued] = []
        self._changed = threading.Condition()
        self._bell = Bell()
        self._left = LeftState()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_commit = self._last_checkpoint_at = time.monotonic()
        self._frontier = store.frontier()
        self._checkpointed = self._frontier.size
        self._thread = threading.Thread(target=self._work, name="demur-log-writer", daemon=True)

    def start(self, config_digest: str, policy_digest: str, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Join the log, put a restart on record where the log had come to rest, and begin to write.

        Where most records come from an event loop, name it: sealing them there costs less than in a thread beside it.
        """
        self._loop = loop
        if self._anchor is not None and self._anchor.torn_bytes:
            torn = ShapeError("an unfinished checkpoint was cut off the file of checkpoints")
            log_event(LogEvent.RECORD_FAILED, part="store", error=torn)
        with self._store.exclusive() as held:
            found = held.join()
            frontier = held.frontier()
            if self._anchor is not None:
                self._anchor.refuse_contradiction(self._checkpoint(frontier), self._store.node)
            # Before anything is sealed or signed: the key may have been retired since it was read.
            self._sealer.renew(held)
            if found.alone and frontier.size:
                facts = (frontier.size, frontier.root().hex(), config_digest, policy_digest)
                held.append([self._sealer.line(Restart(self._clock(), *facts, clean=found.clean))])
            self._frontier = held.frontier()
        self._last_commit = time.monotonic() - self._settings.interval_s
        self._thread.start()

    def submit(self, entry: LogEntry, *, disclosures: Sequence[Disclosure] = (), durable: bool = False) -> Submission:
        """Queue an entry; its number, link and time are given when it is sealed. `durable` is for denials."""
        with self._changed:
            if self._closing:
                raise StoreError("the writer is closed", hint="submit before closing it")
            at_stake = self._unsynced >= self._settings.max_unsynced or self._failure is not None
            must_wait = durable or at_stake or self._settings.durability is Durability.SYNC
            submission = Submission(must_wait=must_wait, bell=self._bell)
            self._unsynced += not must_wait
            self._awaited += must_wait
            self._queue.append(_Queued(entry, tuple(disclosures), submission, durable=durable))
            if len(self._queue) == 1 or (must_wait and self._awaited == 1):
                # Whoever has something to write wakes by its own clock; to be woken for each record costs more than the record.
                self._changed.notify()
        return submission

    def close(self) -> None:
        """Write what is left, sign the log and leave it in order; raise where records had to be given up."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is None:
            return
        self._thread.join()
        if self._given_up:
            failure = self._failure or StoreError("the writer stopped on a fault of its own")
            lost = "a record" if self._given_up == 1 else f"{self._given_up:,} records"
            raise StoreError(f"{lost} could not be written: {failure.what}", hint=failure.hint)
        self._sign_last()
        with self._store.exclusive() as held:
            held.leave()
        if self._unanchored is not None:
            raise self._unanchored

    @property
    def failure(self) -> StoreError | None:
        """What keeps the log from being written or anchored now; None where all is well."""
        return self._failure or self._unanchored

    def _work(self) -> None:
        try:
            while not (self._closing and (self._failure is not None or not self._queue)):
                self._in_flight = self._next_batch()
                if self._in_flight:
                    self._last_commit = time.monotonic()
                    self._write(self._in_flight)
                    self._bell.ring()
                if self._checkpoint_due():
                    self._sign_log(self._frontier)
        finally:
            self._give_up()

    def _give_up(self) -> None:
        """Tell everybody who is left; nobody is, unless the store or the thread itself failed."""
        with self._changed:
            self._closing = True
            left = {id(item): item for item in (*self._in_flight, *self._queue) if not item.submission.settled}
        self._given_up = len(left)
        self._told(0, len(left))
        for item in left.values():
            item.submission.settle(self._failure or StoreError("the writer stopped on a fault of its own"))
        self._bell.ring()

    def _next_batch(self) -> list[_Queued]:
        """Wait until there is something to write and the interval has passed, or a checkpoint is due."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                ready = self._last_commit + self._pause()
                due = self._checkpoint_by()
                pending = self._frontier.size > self._checkpointed
                if self._queue and now >= ready:
                    break
                if pending and now >= due:
                    return []
                waits = [ready - now] * bool(self._queue) + [due - now] * pending
                self._changed.wait(min(waits, default=None))
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), self._settings.max_batch))]
            self._awaited -= sum(item.submission.must_wait for item in batch)
            return batch

    def _pause(self) -> float:
        """Return how far apart commits are to begin now."""
        if self._failure is not None:
            return _RETRY_S
        return self._settings.interval_s * (1 if self._awaited else _PATIENT)

    def _write(self, batch: list[_Queued]) -> None:
        try:
            self._keep_disclosures(batch)
            before = [(item, self._found(item)) for item in batch if item.tried is not None]
            done: list[tuple[_Queued, Receipt | DemurError]] = [(item, at) for item, at in before if at is not None]
            there = {id(item) for item, _ in done}
            done += self._append([item for item in batch if id(item) not in there])
        except DemurError as exc:
            self._put_back(batch, exc if isinstance(exc, StoreError) else StoreError(exc.what, hint=exc.hint))
            return
        self._failure = None
        with self._changed:
            self._unsynced -= sum(not item.submission.must_wait for item in batch)
        lost = sum(isinstance(outcome, DemurError) for _, outcome in done)
        self._told(len(done) - lost, lost)
        for item, outcome in done:
            item.submission.settle(outcome)

    def _put_back(self, batch: list[_Queued], failure: StoreError) -> None:
        self._failure = failure
        waiting = [item.submission for item in batch if item.submission.must_wait]
        with self._changed:
            for item in batch:
                if item.durable and item.submission.must_wait and self._unsynced < self._settings.max_unsynced:
                    # Whoever was denied hears of it in any case: the record is owed, as those of answers that went on.
                    item.submission = Submission(must_wait=False, bell=self._bell)
                    self._unsynced += 1
            again = [item for item in batch if not item.submission.must_wait]
            self._queue.extendleft(reversed(again))
        self._told(0, len(batch) - len(again))
        for submission in waiting:
            submission.settle(failure)

    def _keep_disclosures(self, batch: Sequence[_Queued]) -> None:
        """Keep texts before the records that speak of them: a text without its record is swept by its age."""
        new = [item for item in batch if item.disclosures and not item.kept]
        if new and self._disclosures is not None:
            self._disclosures.put([each for item in new for each in item.disclosures])
            for item in new:
                item.kept = True

    def _append(self, batch: Sequence[_Queued]) -> list[tuple[_Queued, Receipt | DemurError]]:
        entries = [item.entry for item in batch]
        before = self._left.expected() or self._store.frontier()
        tails = self._tails_of({entry.session: None for entry in entries if isinstance(entry, Passport)}, before)
        left = dict(tails)
        sealed = sealed_on(self._loop, self._sealer.lines(entries, left), len(entries))
        with self._store.exclusive() as held:
            # Where nobody has written since, what was read then holds now, and is not looked up again.
            found = held.frontier()
            if found == before:
                held.take(tails, self._left.keys(found))
            now = held.session_tails(tails)
            if self._sealer.renew(held) or now != tails:
                sealed, left = list(self._sealer.lines(entries, now)), now
            for item, line in zip(batch, sealed, strict=True):
                item.tried = line if isinstance(line, Line) else None
            places = iter(held.append([line for line in sealed if isinstance(line, Line)]))
            frontier = held.frontier()
            # A rotation in the batch retires the very key that signed it.
            keys = [key_id for key_id in self._sealer.key_ids if not held.is_retired(key_id)]
        self._left.leave(left, keys, before=found, after=frontier)
        self._frontier = frontier
        outcomes = (_receipt(line, next(places)) if isinstance(line, Line) else line for line in sealed)
        return list(zip(batch, outcomes, strict=True))

    def _tails_of(self, sessions: Collection[str], frontier: Frontier) -> dict[str, SessionTail | None]:
        """Return the sessions' tails in the log at this state, asking only for those that we have not written ourselves."""
        known = self._left.tails(frontier)
        unknown = [session for session in sessions if session not in known]
        found = self._store.session_tails(unknown) if unknown else {}
        return {session: known[session] if session in known else found[session] for session in sessions}

    def _found(self, item: _Queued) -> Receipt | None:
        """Return where an entry stands that was tried before: the failure may have come after the commit."""
        if item.tried is None or not isinstance(item.tried.entry, Passport):
            return None
        row = self._store.row_of(item.tried.entry.session, item.tried.entry.seq)
        return _receipt(item.tried, row.place) if row is not None and row.envelope == item.tried.envelope else None

    def _checkpoint(self, frontier: Frontier) -> Checkpoint:
        return Checkpoint(self._store.origin, frontier.size, frontier.root())

    def _checkpoint_due(self) -> bool:
        new = self._frontier.size - self._checkpointed
        late = time.monotonic() >= self._checkpoint_by()
        full = new >= self._settings.checkpoint_records and self._unanchored is None
        return full or (new > 0 and late)

    def _checkpoint_by(self) -> float:
        """Return when the log has to be signed again: soon, where that failed the last time."""
        return self._last_checkpoint_at + (self._settings.checkpoint_s if self._unanchored is None else _RETRY_S)

    def _sign_last(self) -> None:
        """Sign the log as others have left it, with the key that may: a rotation since retires ours for the sizes after it."""
        try:
            with self._store.exclusive() as held:
                self._sealer.renew(held)
                frontier = held.frontier()
        except StoreError:
            # What we wrote ourselves was written while our key was in force.
            frontier = self._frontier
        self._sign_log(frontier)

    def _sign_log(self, frontier: Frontier) -> None:
        """Sign a size at which our key was in force, keep the checkpoint and anchor it."""
        signer = self._sealer.signer
        if signer is not None and frontier.size > self._checkpointed:
            try:
                note = issue_checkpoint(self._checkpoint(frontier), signer)
                if self._anchor is not None:
                    note = self._anchor.add(note, self._store.node)
                self._store.add_checkpoint(frontier.size, note)
            except StoreError as exc:
                self._unanchored = exc
            else:
                self._unanchored, self._checkpointed = None, frontier.size
        else:
            self._checkpointed = frontier.size
        self._last_checkpoint_at = time.monotonic()


def _receipt(line: Line, index: int) -> Receipt:
    return Receipt(index, line.leaf.hex(), line.entry.seq if isinstance(line.entry, Passport) else None)
