"""How does an entry become the next line of a log? Numbered and linked after its session's tail, timed, and sealed.

Laws: number, link and time are given here and nowhere else; clocks that differ a little are evened out within a session, a clock
set back for good stays on record; an entry that cannot be sealed fails alone; a key that a rotation on record has retired is
replaced before anything more is sealed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from demur.errors import DemurError, StoreError
from demur.model.passport import LogEntry, Passport, SigningMode
from demur.record.interface import SessionTail
from demur.record.keys import parse_time
from demur.record.seal import seal_payload
from demur.record.store.growth import Line
from demur.record.tree import leaf_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from demur.record.keys import Signer
    from demur.record.store.growth import HeldLog

__all__ = ["LineSealer", "SignerSource", "issued_at", "utc_now"]

_UTC_CHARS = len("2026-01-31T12:00:00.000000")
_CLOCK_SLACK = timedelta(seconds=2)
"""Clocks of several gateways differ; a larger step back is kept, for verification to show."""


class SignerSource(Protocol):
    """Where the signer comes from, at first and after a rotation."""

    def signer(self, now: str) -> Signer:
        """Return the signer in force, made where there is none."""

    def renew(self, retired_id: str, now: str) -> Signer:
        """Return the signer that replaces a retired one."""


def utc_now() -> str:
    """Return the time as records write it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:_UTC_CHARS] + "Z"


def issued_at(now: str, tail: SessionTail | None) -> str:
    """Return the time for a session's next record: never before the last, unless the clock was set back for good."""
    if tail is None or now >= tail.at:
        return now
    behind = parse_time(tail.at) - parse_time(now)
    return tail.at if timedelta(0) < behind <= _CLOCK_SLACK else now


class LineSealer:
    """Seals entries with the key in force; without a source of keys they are stamped as unsigned."""

    def __init__(self, keys: SignerSource | None, clock: Callable[[], str]) -> None:
        self._keys, self._clock = keys, clock
        self.signer = keys.signer(clock()) if keys is not None else None

    @property
    def _mode(self) -> SigningMode:
        return SigningMode.NONE if self.signer is None else SigningMode.ED25519

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The key that signs; none where records are stamped as unsigned."""
        return () if self.signer is None else (self.signer.public.key_id,)

    def line(self, entry: LogEntry) -> Line:
        """Return an entry, sealed as it stands."""
        mode = self._mode
        entry = entry if entry.signing is mode else replace(entry, signing=mode)
        payload, envelope = seal_payload(entry, self.signer)
        key_id = None if self.signer is None else self.signer.public.key_id
        return Line(envelope, leaf_hash(envelope), entry, key_id, payload)

    def lines(self, entries: Iterable[LogEntry], tails: dict[str, SessionTail | None]) -> Iterator[Line | DemurError]:
        """Yield each entry sealed after the tail before it, or why it cannot be; `tails` become those that they leave."""
        for entry in entries:
            try:
                yield self._next_line(entry, tails)
            except DemurError as exc:
                yield exc

    def _next_line(self, entry: LogEntry, tails: dict[str, SessionTail | None]) -> Line:
        if not isinstance(entry, Passport):
            return self.line(entry)
        tail = tails[entry.session]
        seq, previous = (0, None) if tail is None else (tail.seq + 1, tail.leaf)
        at = issued_at(self._clock(), tail)
        line = self.line(entry.placed(seq, at, previous=previous, signing=self._mode))
        tails[entry.session] = SessionTail(seq, line.leaf.hex(), at)
        return line

    def renew(self, held: HeldLog) -> bool:
        """Take the new key where a rotation has retired ours; return whether it did."""
        if self.signer is None or self._keys is None or not held.is_retired(self.signer.public.key_id):
            return False
        new = self._keys.renew(self.signer.public.key_id, self._clock())
        if held.is_retired(new.public.key_id):
            what = f"the key `{new.public.key_id}` was retired by a rotation"
            raise StoreError(what, hint="give this gateway the key that replaced it, or one of its own")
        self.signer = new
        return True
