"""Is a record missing from a session, or out of place, or out of time?

Laws: a session's passports count 0, 1, 2, … in the order of the log, and each names the leaf of the one before, so neither a
deletion nor a swap inside a session goes unseen, with or without checkpoints; time does not run backwards within a session,
nor in the whole log by more than the slack that several writers need.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from demur.model.passport import Fault, FaultKind
from demur.record.interface import SessionTail
from demur.record.keys import moment

if TYPE_CHECKING:
    from demur.model.passport import LogEntry, Passport

__all__ = ["ClockWatch", "SequenceWatch"]


class SequenceWatch:
    """Follows each session's numbers and links."""

    def __init__(self) -> None:
        self._tails: dict[str, SessionTail] = {}

    def knows(self, session: str) -> bool:
        """Whether a record of this session has been seen."""
        return session in self._tails

    def follow(self, passport: Passport, leaf: bytes, *, index: int) -> Fault | None:
        """Take the session's next record; return what is wrong with its number or link."""
        tail = self._tails.get(passport.session)
        self.start(passport, leaf)
        expected = 0 if tail is None else tail.seq + 1
        if passport.seq != expected:
            problem = "missing before it" if passport.seq > expected else "repeated or out of order"
            what = f"session `{passport.session}`: number {passport.seq} where {expected} belongs ({problem})"
            return Fault(FaultKind.SEQUENCE, index, what)
        if passport.previous != (None if tail is None else tail.leaf):
            what = f"session `{passport.session}`: number {passport.seq} does not follow the record before it"
            return Fault(FaultKind.SEQUENCE, index, what)
        return None

    def start(self, passport: Passport, leaf: bytes) -> None:
        """Take a record as the session's last, whatever came before."""
        self._tails[passport.session] = SessionTail(passport.seq, leaf.hex(), passport.at)


class ClockWatch:
    """Follows the time of the log and of each session."""

    def __init__(self, slack_s: float) -> None:
        self._slack = timedelta(seconds=slack_s)
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._sessions: dict[str, datetime] = {}

    def follow(self, entry: LogEntry, session: str | None, *, index: int) -> Fault | None:
        """Take the next entry; return how its time runs backwards."""
        time = moment(entry.at)
        latest, self._latest = self._latest, max(self._latest, time)
        before = latest
        if session is not None:
            before = self._sessions.get(session, time)
            self._sessions[session] = max(before, time)
        if time < before and session is not None:
            return Fault(FaultKind.CLOCK, index, f"session `{session}`: {entry.at} is before the record before it")
        # Compared as a difference: the earliest time there is cannot be moved back further.
        if latest - time > self._slack:
            return Fault(FaultKind.CLOCK, index, f"{entry.at} is before what the log had reached")
        return None
