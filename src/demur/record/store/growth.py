"""What does a batch of sealed records change in a store? The rows, nodes, counts and the next frontier, whatever the engine.

Laws: a passport continues its session's tail or the batch is refused; a key that a rotation has retired appends nothing more;
the counts are a function of the records alone, so they can be checked against them; an exchange that failed at the provider,
or never reached one, is in no denominator of the model.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from demur.errors import UsageError
from demur.model.claim import Effect
from demur.model.passport import DeclineCause, Erasure, KeyRotation, LogEntry, Passport
from demur.record.interface import RecordStore, SessionTail
from demur.record.seal import open_sealed
from demur.record.tree import Frontier, grow_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

__all__ = [
    "Bookkeeping",
    "Growth",
    "HeldLog",
    "Line",
    "LogStore",
    "Presence",
    "RateKey",
    "StoredRow",
    "entry_kind",
    "grown",
    "joined",
    "line_of",
    "parted",
    "rate_key",
    "stored_bytes",
]

_OPENING = b'{"payload":"'
_HOUR_CHARS = len("2026-01-31T12")
_EFFECT_WORDS = {effect: effect.word for effect in Effect}
_FAILED = {DeclineCause.PROVIDER_ERROR}


@dataclass(frozen=True, slots=True)
class Line:
    """A sealed record on its way into a store, opened once."""

    envelope: bytes
    leaf: bytes
    entry: LogEntry
    key_id: str | None
    payload: bytes = b""
    """What was signed, where it is at hand: else it is taken out of the envelope again."""


class StoredRow(NamedTuple):
    """A record as a store keeps it: its place, its bytes, and what is looked up without opening it."""

    place: int
    envelope: bytes
    kind: str
    at: str
    session: str | None
    seq: int | None

    @classmethod
    def of(cls, columns: Sequence[Any]) -> StoredRow:
        """Return the row that a store read: its place, the envelope in two parts, and the rest as they are here."""
        place, payload, rest, *others = columns
        return cls(place, joined(stored_bytes(payload), stored_bytes(rest)), *others)


class RateKey(NamedTuple):
    """What passports are counted by."""

    hour: str
    model: str
    decision: str
    causes: str
    answered: bool
    """Whether a provider was asked and said something about the request, be it no."""


@dataclass(frozen=True, slots=True)
class Growth:
    """All that a batch adds to a store; the rows as they are written."""

    frontier: Frontier
    rows: list[tuple[object, ...]]
    nodes: list[tuple[int, int, bytes]]
    counts: dict[RateKey, int]
    retired: list[tuple[str, int]]
    tails: dict[str, SessionTail]


@dataclass(frozen=True, slots=True)
class Presence:
    """What a writer finds when it joins a log: whether it is the only one, and whether all before it left in order."""

    alone: bool
    clean: bool


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """What a store keeps beside rows, levels and counts: how many nodes, which keys were retired where, its checkpoints."""

    nodes: int
    retired: frozenset[tuple[str, int]]
    checkpoints: tuple[tuple[int, bytes], ...]
    """The size under which each is kept, and the note."""


class HeldLog(Protocol):
    """A log that only its holder can append to, until it is let go."""

    def frontier(self) -> Frontier:
        """Return the state of the tree."""

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session; None where it has none."""

    def take(self, tails: Mapping[str, SessionTail | None], keys: Collection[str] = ()) -> None:
        """Take tails as known, and keys as in force, that were so while the log stood as it does now."""

    def is_retired(self, key_id: str) -> bool:
        """Whether a rotation on record has retired this key."""

    def append(self, lines: Sequence[Line]) -> range:
        """Append these; return their leaf indices."""

    def join(self) -> Presence:
        """Count a writer in."""

    def leave(self) -> None:
        """Count a writer out."""


class LogStore(RecordStore, Protocol):
    """What our writer and our commands need beyond the record stage's own port; one instance serves one thread at a time."""

    @property
    def origin(self) -> str:
        """The log's name."""

    def exclusive(self) -> AbstractContextManager[HeldLog]:
        """Hold the log: all that is appended inside becomes durable at the end, or nothing does."""

    def snapshot(self) -> AbstractContextManager[None]:
        """See the log as it stands now, whatever is appended meanwhile."""

    def rows(self, start: int, stop: int | None) -> Iterator[StoredRow]:
        """Yield the rows in order, gaps and all; to the very last where no stop is given."""

    def row_of(self, session: str, seq: int | None = None) -> StoredRow | None:
        """Return a session's record of this number, its last where none is given."""

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""

    def level(self, level: int) -> Iterator[tuple[int, bytes]]:
        """Yield the nodes of a level: number and hash."""

    def rollup(self) -> Iterator[tuple[RateKey, int]]:
        """Yield the hourly counts."""

    def bookkeeping(self) -> Bookkeeping:
        """Return what a check compares with the records besides rows, levels and counts."""

    def close(self) -> None:
        """Let go of files and connections."""


def line_of(envelope: bytes) -> Line:
    """Return an envelope, opened."""
    sealed = open_sealed(envelope)
    return Line(envelope, sealed.leaf, sealed.entry, sealed.key_id, sealed.payload)


def stored_bytes(value: object) -> bytes:
    """Return the bytes of a column; one whose very type was damaged gives bytes that fit no hash."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode(errors="replace")


def parted(envelope: bytes) -> tuple[bytes, bytes]:
    """Return an envelope in two parts, its payload decoded; nothing and the whole where it is of another form."""
    encoded, quote, _ = envelope.removeprefix(_OPENING).partition(b'"')
    try:
        payload = b64decode(encoded, validate=True)
    except Base64Error:
        payload = b""
    if not payload or not quote or joined(payload, rest := envelope[len(_OPENING) + len(encoded) :]) != envelope:
        return b"", envelope
    return payload, rest


def joined(payload: bytes, rest: bytes) -> bytes:
    """Return the envelope that was parted."""
    return _OPENING + b64encode(payload) + rest if payload else rest


def entry_kind(entry: LogEntry) -> str:
    """Return what a record is called in stores, exports and on the terminal."""
    match entry:
        case Passport():
            return "passport"
        case KeyRotation():
            return "rotation"
        case Erasure():
            return "erasure"
        case _:
            return "restart"


def rate_key(passport: Passport) -> RateKey:
    """Return what a passport is counted by."""
    effect = max([phase.decision.effect for phase in passport.phases], default=Effect.ALLOW)
    causes = set(passport.causes)
    failed = causes == _FAILED
    return RateKey(
        passport.at[:_HOUR_CHARS],
        passport.model_served or passport.model_asked,
        _EFFECT_WORDS[effect],
        ",".join(sorted(causes)) if causes else "",
        passport.upstream_status is not None and not failed,
    )


def grown(lines: Sequence[Line], held: HeldLog) -> Growth:
    """Return what these records add to a log at this state."""
    before = held.frontier()
    last = held.session_tails({line.entry.session: None for line in lines if isinstance(line.entry, Passport)})
    rows: list[tuple[object, ...]] = []
    retired: list[tuple[str, int]] = []
    counts: dict[RateKey, int] = {}
    for index, line in enumerate(lines, before.size):
        entry = line.entry
        _refuse_retired(line, held.is_retired, retired)
        session = seq = None
        if isinstance(entry, Passport):
            session, seq = entry.session, entry.seq
            _refuse_stray(entry, last[session])
            last[session] = SessionTail(seq, line.leaf.hex(), entry.at)
            key = rate_key(entry)
            counts[key] = counts.get(key, 0) + 1
        elif isinstance(entry, KeyRotation) and line.key_id is not None:
            retired.append((line.key_id, index))
        rows.append((index, *_parts_of(line), entry_kind(entry), entry.at, session, seq))
    frontier, nodes = grow_all(before, [line.leaf for line in lines])
    tails = {session: tail for session, tail in last.items() if tail is not None}
    return Growth(frontier, rows, nodes, counts, retired, tails)


def _parts_of(line: Line) -> tuple[bytes, bytes]:
    """Return what a store writes of an envelope: the payload apart, then the rest of it, byte for byte."""
    encoded = (len(line.payload) + 2) // 3 * 4
    return (line.payload, line.envelope[len(_OPENING) + encoded :]) if line.payload else parted(line.envelope)


def _refuse_stray(passport: Passport, tail: SessionTail | None) -> None:
    expected = (0, None) if tail is None else (tail.seq + 1, tail.leaf)
    if (passport.seq, passport.previous) != expected:
        what = f"number {passport.seq} of session `{passport.session}` does not follow the session's last record"
        raise UsageError(what, hint="seal it anew after the tail that the store has now")


def _refuse_retired(line: Line, is_retired: Callable[[str], bool], newly: Sequence[tuple[str, int]]) -> None:
    key_id = line.key_id
    if key_id is not None and ((newly and key_id in dict(newly)) or is_retired(key_id)):
        raise UsageError(f"the key `{key_id}` was retired by a rotation", hint="seal with the key that replaced it")
