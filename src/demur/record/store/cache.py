"""What does a writer know of a log without asking its store again? What it looked up while nobody else could write, or has written.

Laws: what is read while a log is held stays true until its holder appends, and what it appends is known from then on; what is
remembered longer, tails and the key in force, counts only while the log stands exactly where it stood, so that one record of
another writer makes all of it forgotten; no more sessions are remembered than the bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from demur.record.store.growth import grown
from demur.record.tree import Frontier

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from demur.record.interface import SessionTail
    from demur.record.store.growth import Growth, Line, Presence

__all__ = ["HeldState", "LeftState"]

_MOST_TAILS = 4096


class HeldState(ABC):
    """The part of a held log that is the same in every store: each thing is looked up once, all sessions in one question."""

    def __init__(self) -> None:
        self._frontier: Frontier | None = None
        self._tails: dict[str, SessionTail | None] = {}
        self._retired: dict[str, bool] = {}

    def frontier(self) -> Frontier:
        """Return the state of the tree."""
        if self._frontier is None:
            self._frontier = self._read_frontier()
        return self._frontier

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session; None where it has none."""
        unknown = [session for session in sessions if session not in self._tails]
        if unknown:
            self._tails |= self._read_tails(unknown)
        return {session: self._tails[session] for session in sessions}

    def take(self, tails: Mapping[str, SessionTail | None], keys: Collection[str] = ()) -> None:
        """Take tails as known, and keys as in force, that were so while the log stood as it does now."""
        self._tails |= tails
        self._retired |= dict.fromkeys(keys, False)

    def is_retired(self, key_id: str) -> bool:
        """Whether a rotation on record has retired this key."""
        if key_id not in self._retired:
            self._retired[key_id] = self._read_retired(key_id)
        return self._retired[key_id]

    def append(self, lines: Sequence[Line]) -> range:
        """Append these; return their leaf indices."""
        growth = grown(lines, self)
        self._write(growth)
        self._frontier = growth.frontier
        self._tails |= growth.tails
        self._retired |= dict.fromkeys((key_id for key_id, _ in growth.retired), True)
        return range(growth.frontier.size - len(lines), growth.frontier.size)

    @abstractmethod
    def join(self) -> Presence:
        """Count a writer in."""

    @abstractmethod
    def leave(self) -> None:
        """Count a writer out."""

    @abstractmethod
    def _read_frontier(self) -> Frontier: ...

    @abstractmethod
    def _read_tails(self, sessions: Sequence[str]) -> dict[str, SessionTail | None]: ...

    @abstractmethod
    def _read_retired(self, key_id: str) -> bool: ...

    @abstractmethod
    def _write(self, growth: Growth) -> None: ...


class LeftState:
    """The log as a writer left it: the tails of the sessions that it wrote last, and the keys in force."""

    def __init__(self, most: int = _MOST_TAILS) -> None:
        self._most = most
        self._frontier = Frontier()
        self._tails: dict[str, SessionTail | None] = {}
        self._keys: Collection[str] = ()
        self._ours = False

    def expected(self) -> Frontier | None:
        """Return the state in which the log is likely to be found; None where others write too, so that it has to be asked."""
        return self._frontier if self._ours else None

    def tails(self, frontier: Frontier) -> Mapping[str, SessionTail | None]:
        """Return the tails that are known of the log at this state: none, where it is not the state that was left."""
        return self._tails if frontier == self._frontier else {}

    def keys(self, frontier: Frontier) -> Collection[str]:
        """Return the keys that are known to be in force at this state."""
        return self._keys if frontier == self._frontier else ()

    def leave(
        self, tails: Mapping[str, SessionTail | None], keys: Collection[str], *, before: Frontier, after: Frontier
    ) -> None:
        """Remember what holds after a batch that brought the log from one state to another: its tails, the keys in force."""
        self._ours = before == self._frontier
        if not self._ours or len(self._tails) + len(tails) > self._most:
            self._tails = {}
        self._frontier, self._keys = after, keys
        if len(tails) <= self._most:
            self._tails |= tails
