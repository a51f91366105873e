"""The writer: one thread per process that seals submitted entries and appends them to the log in batches.

A request never waits for the log's lock, only, where it must, for its own entry. A denial, and with `sync` every entry, is
durable before it is acknowledged; with `async` a crash loses at most `max_unsynced` entries. What the store rejects is reported
to those who wait, and kept to be tried again for those who no longer do.

Receipts: how a submitter learns, from a thread or an event loop, that its entry is durable or cannot be kept.

An outcome is set once and does not change. Nobody is notified while a lock is held.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import DemurError, ShapeError, StoreError
from demur.io.log import LogEvent, log_event
from demur.model.passport import Durability, LogEntry, Passport, Restart
from demur.record.checkpoint import Checkpoint, issue_checkpoint
from demur.record.interface import SealedEntry
from demur.record.store.sealing import EntrySealer, seal_on_loop, utc_now
from demur.record.tree import Frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from demur.record.commit import Disclosure
    from demur.record.interface import DisclosureStore, SessionTail
    from demur.record.store.anchor_files import AnchorFile
    from demur.record.store.log_store import LogStore
    from demur.record.store.sealing import SignerSource

__all__ = ["Durability", "LogWriter", "LoopNotifier", "Receipt", "Submission", "WriterCache", "WriterSettings"]


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


# How many intervals entries wait that nobody waits for: a commit costs as much for one entry as for many.
_IDLE_FACTOR = 5
# The pause after a store failed.
_RETRY_S = 0.25
_MAX_TAILS = 4096


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How often to commit, how much may be lost in a crash, how often to sign the log."""

    durability: Durability = Durability.ASYNC
    interval_s: float = 0.010
    """Commits begin at least this far apart, and five times as far where no response waits for them; the first after a pause
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
    """Whether it is a denial, which is tried again although its client got an error."""
    disclosed: bool = False
    """Whether the disclosures are in their store already."""
    tried: SealedEntry | None = None
    """What was sealed when a commit last failed."""


class WriterCache:
    """The log as a writer left it: the tails of the sessions that it wrote last, and the keys that were not retired.

    It counts only while the log is in exactly that state: one entry of another writer makes all of it obsolete.
    """

    def __init__(self, most: int = _MAX_TAILS) -> None:
        self._most = most
        self._frontier = Frontier()
        self._tails: dict[str, SessionTail | None] = {}
        self._keys: Collection[str] = ()
        self._ours = False

    def expected(self) -> Frontier | None:
        """Return the state in which the log is likely to be; None where others write too, so that it has to be read."""
        return self._frontier if self._ours else None

    def tails(self, frontier: Frontier) -> Mapping[str, SessionTail | None]:
        """Return the tails that are known of the log at this state."""
        return self._tails if frontier == self._frontier else {}

    def keys(self, frontier: Frontier) -> Collection[str]:
        """Return the keys that are known not to be retired at this state."""
        return self._keys if frontier == self._frontier else ()

    def update(
        self, tails: Mapping[str, SessionTail | None], keys: Collection[str], *, before: Frontier, after: Frontier
    ) -> None:
        """Remember what is true after a batch that brought the log from one state to another."""
        self._ours = before == self._frontier
        # Forgetting everything at the bound is cheaper than to keep an order of use, and happens every few thousand sessions.
        if not self._ours or len(self._tails) + len(tails) > self._most:
            self._tails = {}
        self._frontier, self._keys = after, keys
        if len(tails) <= self._most:
            self._tails |= tails


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
        on_batch: Callable[[int, int], None] | None = None,
    ) -> None:
        """Write to a store; `keys` None means `signing: none`, stated in each entry.

        `on_batch` is called in the writer's thread, before those who wait, with how many entries were written and lost.
        """
        self._store, self._settings = store, settings
        self._disclosures, self._anchor, self._clock = disclosures, anchor, clock
        self._on_batch = on_batch or (lambda _written, _lost: None)
        self._sealer = EntrySealer(keys, clock)
        self._queue: deque[_Queued] = deque()
        self._unsynced = self._given_up = self._awaited = 0
        self._failure: StoreError | None = None
        self._unanchored: StoreError | None = None
        self._in_flight: list[_Queued] = []
        self._changed = threading.Condition()
        self._notifier = LoopNotifier()
        self._cache = WriterCache()
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_commit = self._last_checkpoint_at = time.monotonic()
        self._frontier = store.frontier()
        self._checkpointed = self._frontier.size
        self._thread = threading.Thread(target=self._work, name="demur-log-writer", daemon=True)

    def start(self, config_digest: str, policy_digest: str, *, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Join the log, record a restart where no other writer is alive, and begin to write.

        Where most entries come from an event loop, give it: sealing them there costs less than in a thread beside it.
        """
        self._loop = loop
        if self._anchor is not None and self._anchor.torn_bytes:
            torn = ShapeError("an unfinished checkpoint was cut off the file of checkpoints")
            log_event(LogEvent.RECORD_FAILED, part="store", error=torn)
        with self._store.exclusive() as locked:
            found = locked.join()
            frontier = locked.frontier()
            if self._anchor is not None:
                self._anchor.check_extends(self._checkpoint(frontier), self._store.node)
            # Before anything is sealed or signed: the key may have been retired since it was read.
            self._sealer.renew(locked)
            if found.alone and frontier.size:
                facts = (frontier.size, frontier.root().hex(), config_digest, policy_digest)
                locked.append([self._sealer.seal(Restart(self._clock(), *facts, clean=found.clean))])
            self._frontier = locked.frontier()
        self._last_commit = time.monotonic() - self._settings.interval_s
        self._thread.start()

    def submit(self, entry: LogEntry, *, disclosures: Sequence[Disclosure] = (), durable: bool = False) -> Submission:
        """Queue an entry; its number, link and time are set when it is sealed. `durable` is for denials."""
        with self._changed:
            if self._closing:
                raise StoreError("the writer is closed", hint="submit before closing it")
            at_stake = self._unsynced >= self._settings.max_unsynced or self._failure is not None
            must_wait = durable or at_stake or self._settings.durability is Durability.SYNC
            submission = Submission(must_wait=must_wait, notifier=self._notifier)
            self._unsynced += not must_wait
            self._awaited += must_wait
            self._queue.append(_Queued(entry, tuple(disclosures), submission, durable=durable))
            # With entries in the queue the writer wakes by its own clock; waking it for each would cost more than the entry.
            if len(self._queue) == 1 or (must_wait and self._awaited == 1):
                self._changed.notify()
        return submission

    def close(self) -> None:
        """Write what is left, sign the log and leave it in order; raise where entries had to be given up."""
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
        try:
            # Others may have appended since, and a rotation may have retired our key for the sizes after it.
            with self._store.exclusive() as locked:
                self._sealer.renew(locked)
                frontier = locked.frontier()
        except StoreError:
            # What we wrote ourselves was written while our key was in force.
            frontier = self._frontier
        self._sign_log(frontier)
        with self._store.exclusive() as locked:
            locked.leave()
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
                    self._notifier.flush()
                new = self._frontier.size - self._checkpointed
                full = new >= self._settings.checkpoint_records and self._unanchored is None
                if full or (new > 0 and time.monotonic() >= self._checkpoint_by()):
                    self._sign_log(self._frontier)
        finally:
            # Nothing is left, unless the store or this thread itself failed; nobody may wait forever in that case.
            with self._changed:
                self._closing = True
                left = {id(item): item for item in (*self._in_flight, *self._queue) if not item.submission.settled}
            self._given_up = len(left)
            self._on_batch(0, len(left))
            for item in left.values():
                item.submission.settle(self._failure or StoreError("the writer stopped on a fault of its own"))
            self._notifier.flush()

    def _next_batch(self) -> list[_Queued]:
        """Wait until there is something to write and the interval has passed, or a checkpoint is due."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                interval_s = self._settings.interval_s * (1 if self._awaited else _IDLE_FACTOR)
                ready = self._last_commit + (interval_s if self._failure is None else _RETRY_S)
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

    def _write(self, batch: list[_Queued]) -> None:
        try:
            # Texts before the entries that commit to them: a text without its entry is swept by its age.
            new = [item for item in batch if item.disclosures and not item.disclosed]
            if new and self._disclosures is not None:
                self._disclosures.put([each for item in new for each in item.disclosures])
                for item in new:
                    item.disclosed = True
            done: list[tuple[_Queued, Receipt | DemurError]] = []
            for item in batch:
                # A failure may have come after the commit: an entry that was tried before may be in the log already.
                if item.tried is not None and isinstance(entry := item.tried.entry, Passport):
                    there = self._store.session_entry(entry.session, entry.seq)
                    if there is not None and there.envelope == item.tried.envelope:
                        done.append((item, _receipt(item.tried, there.index)))
            found = {id(item) for item, _ in done}
            done += self._append([item for item in batch if id(item) not in found])
        except DemurError as exc:
            self._put_back(batch, exc if isinstance(exc, StoreError) else StoreError(exc.what, hint=exc.hint))
            return
        self._failure = None
        with self._changed:
            self._unsynced -= sum(not item.submission.must_wait for item in batch)
        lost = sum(isinstance(outcome, DemurError) for _, outcome in done)
        self._on_batch(len(done) - lost, lost)
        for item, outcome in done:
            item.submission.settle(outcome)

    def _put_back(self, batch: list[_Queued], failure: StoreError) -> None:
        self._failure = failure
        waiting = [item.submission for item in batch if item.submission.must_wait]
        with self._changed:
            for item in batch:
                if item.durable and item.submission.must_wait and self._unsynced < self._settings.max_unsynced:
                    # The client gets its error in any case, so the record of the denial must not be dropped.
                    item.submission = Submission(must_wait=False, notifier=self._notifier)
                    self._unsynced += 1
            again = [item for item in batch if not item.submission.must_wait]
            self._queue.extendleft(reversed(again))
        self._on_batch(0, len(batch) - len(again))
        for submission in waiting:
            submission.settle(failure)

    def _append(self, batch: Sequence[_Queued]) -> list[tuple[_Queued, Receipt | DemurError]]:
        entries = [item.entry for item in batch]
        before = self._cache.expected() or self._store.frontier()
        known = self._cache.tails(before)
        sessions = {entry.session: None for entry in entries if isinstance(entry, Passport)}
        unknown = [session for session in sessions if session not in known]
        read = self._store.session_tails(unknown) if unknown else {}
        tails = {session: known[session] if session in known else read[session] for session in sessions}
        # Sealed before the lock is taken, which other processes wait for, and again only where one of them has continued a
        # session or rotated the key meanwhile.
        after = dict(tails)
        sealed = seal_on_loop(self._loop, self._sealer.seal_all(entries, after), len(entries))
        with self._store.exclusive() as locked:
            found = locked.frontier()
            if found == before:
                locked.assume(tails, self._cache.keys(found))
            now = locked.session_tails(tails)
            if self._sealer.renew(locked) or now != tails:
                sealed, after = list(self._sealer.seal_all(entries, now)), now
            for item, each in zip(batch, sealed, strict=True):
                item.tried = each if isinstance(each, SealedEntry) else None
            indices = iter(locked.append([each for each in sealed if isinstance(each, SealedEntry)]))
            frontier = locked.frontier()
            # A rotation in the batch retires the very key that signed it.
            keys = [key_id for key_id in self._sealer.key_ids if not locked.is_retired(key_id)]
        self._cache.update(after, keys, before=found, after=frontier)
        self._frontier = frontier
        outcomes = (_receipt(each, next(indices)) if isinstance(each, SealedEntry) else each for each in sealed)
        return list(zip(batch, outcomes, strict=True))

    def _checkpoint(self, frontier: Frontier) -> Checkpoint:
        return Checkpoint(self._store.origin, frontier.size, frontier.root())

    def _checkpoint_by(self) -> float:
        """Return when the log has to be signed again: soon, where that failed the last time."""
        return self._last_checkpoint_at + (self._settings.checkpoint_s if self._unanchored is None else _RETRY_S)

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


def _receipt(sealed: SealedEntry, index: int) -> Receipt:
    return Receipt(index, sealed.leaf.hex(), sealed.entry.seq if isinstance(sealed.entry, Passport) else None)
