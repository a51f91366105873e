"""Sealing entries for the log: numbered and linked after their session's tail, timed, and signed with the key in force.

An entry's number, link and time are set here and nowhere else. An entry that cannot be sealed fails alone. A batch is sealed
on the event loop that its entries come from, where there is one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from demur.errors import DemurError, StoreError
from demur.model.passport import LogEntry, Passport, SigningMode
from demur.record.interface import SessionTail
from demur.record.keys import parse_time
from demur.record.seal import seal_entry

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from demur.record.interface import SealedEntry
    from demur.record.keys import Signer
    from demur.record.store.log_store import LockedLog

__all__ = ["EntrySealer", "SignerSource", "issue_time", "seal_on_loop", "utc_now"]

_UTC_CHARS = len("2026-01-31T12:00:00.000000")
# Clocks of several gateways differ a little. A larger step back is kept, for verification to show.
_CLOCK_SLACK = timedelta(seconds=2)
# Entries per turn of the loop: one to three milliseconds, of the ten that a round takes where the loop is busy enough to matter.
_MIN_PER_TURN, _MAX_PER_TURN = 8, 32
_TURNS = 4
_WAIT_S = 0.25


class SignerSource(Protocol):
    """Where the signer comes from, at first and after a rotation."""

    def signer(self, now: str) -> Signer:
        """Return the signer in force; create it where there is none."""

    def renew(self, retired_id: str, now: str) -> Signer:
        """Return the signer that replaces a retired one."""


def utc_now() -> str:
    """Return the time as entries write it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:_UTC_CHARS] + "Z"


def issue_time(now: str, tail: SessionTail | None) -> str:
    """Return the time for a session's next entry: never before the last, unless the clock was set back for good."""
    if tail is None or now >= tail.at:
        return now
    behind = parse_time(tail.at) - parse_time(now)
    return tail.at if timedelta(0) < behind <= _CLOCK_SLACK else now


class EntrySealer:
    """Seals entries with the key in force; without a source of keys they say `signing: none`."""

    def __init__(self, keys: SignerSource | None, clock: Callable[[], str]) -> None:
        self._keys, self._clock = keys, clock
        self.signer = keys.signer(clock()) if keys is not None else None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The key that signs; none where entries are unsigned."""
        return () if self.signer is None else (self.signer.public.key_id,)

    def seal(self, entry: LogEntry) -> SealedEntry:
        """Return an entry, sealed as it is."""
        return seal_entry(entry, self.signer)

    def seal_all(
        self, entries: Iterable[LogEntry], tails: dict[str, SessionTail | None]
    ) -> Iterator[SealedEntry | DemurError]:
        """Yield each entry sealed after its session's tail, or why it cannot be; `tails` are updated on the way."""
        mode = SigningMode.NONE if self.signer is None else SigningMode.ED25519
        for entry in entries:
            try:
                if isinstance(entry, Passport):
                    tail = tails[entry.session]
                    seq, previous = (0, None) if tail is None else (tail.seq + 1, tail.leaf)
                    at = issue_time(self._clock(), tail)
                    sealed = self.seal(entry.placed(seq, at, previous=previous, signing=mode))
                    tails[entry.session] = SessionTail(seq, sealed.leaf.hex(), at)
                    yield sealed
                else:
                    yield self.seal(entry)
            except DemurError as exc:
                yield exc

    def renew(self, locked: LockedLog) -> bool:
        """Take the new key where a rotation has retired ours; return whether it did."""
        if self.signer is None or self._keys is None or not locked.is_retired(self.signer.public.key_id):
            return False
        new = self._keys.renew(self.signer.public.key_id, self._clock())
        if locked.is_retired(new.public.key_id):
            what = f"the key `{new.public.key_id}` was retired by a rotation"
            raise StoreError(what, hint="give this gateway the key that replaced it, or one of its own")
        self.signer = new
        return True


class _SealingJob:
    """A batch that is sealed in order, by one thread at a time."""

    def __init__(self, sealing: Iterator[SealedEntry | DemurError], count: int) -> None:
        self._sealing, self._count = sealing, count
        self._per_turn = min(max(_MIN_PER_TURN, count // _TURNS), _MAX_PER_TURN)
        self._lock = threading.Lock()
        self.sealed: list[SealedEntry | DemurError] = []
        self.done = threading.Event()

    def seal_some(self, most: int) -> None:
        """Seal at most so many more."""
        with self._lock:
            self.sealed += islice(self._sealing, most)
            if len(self.sealed) == self._count:
                self.done.set()

    def take_turns(self, loop: asyncio.AbstractEventLoop) -> None:
        """Seal a few, and let the loop come back for the others."""
        if not self.done.is_set():
            self.seal_some(self._per_turn)
            loop.call_soon(self.take_turns, loop)


def seal_on_loop(
    loop: asyncio.AbstractEventLoop | None,
    sealing: Iterator[SealedEntry | DemurError],
    count: int,
    *,
    wait_s: float = _WAIT_S,
) -> list[SealedEntry | DemurError]:
    """Seal `count` entries on `loop`; in this thread where there is no loop, or it does not finish within `wait_s`.

    Must not be called on the loop itself.
    """
    # A signature releases the GIL, as many other calls do. In a thread beside a busy event loop each of them hands the GIL to
    # the loop and gets it back at the loop's next system call: two switches between cores per entry, which cost more than the
    # signature. On the loop itself nobody waits for the GIL.
    if loop is None:
        return list(sealing)
    job = _SealingJob(sealing, count)
    # A closed loop raises RuntimeError.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(job.take_turns, loop)
        job.done.wait(wait_s)
    job.seal_some(count)
    return job.sealed
