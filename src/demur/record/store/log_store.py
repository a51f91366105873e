"""The log in an SQL database: appending under a lock, reading, and the checks that every append must pass.

Entries are appended in order and never changed. A batch is appended whole or not at all, and once `append` has returned it
survives a crash. An append reads the frontier it extends under the lock, so the tree never forks, however many processes write.
Engines (`sqlite`, `postgres`) differ in the lock, in who else is writing, and in a few statements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from demur.errors import ShapeError, StoreError, UsageError
from demur.model.claim import Effect
from demur.model.passport import DeclineCause, Erasure, KeyRotation, LogEntry, Passport
from demur.record.checkpoint import read_checkpoint
from demur.record.interface import SessionTail
from demur.record.tree import Frontier, grow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from demur.record.interface import Database, SealedEntry

__all__ = [
    "Bookkeeping",
    "LockedLog",
    "LogStore",
    "Migration",
    "Presence",
    "RateKey",
    "StoredEntry",
    "entry_kind",
    "missing_steps",
    "rate_key",
    "stored_bytes",
    "stored_row",
]

_PAGE_ROWS = 256
_MAX_INDEX = 2**63 - 1
"""The largest index that a column can hold."""
_COLUMNS = "SELECT idx, payload, rest, kind, at, session, seq FROM {records} "


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: the version it leads to, and its SQL. A released step is never edited."""

    version: int
    sql: str


@dataclass(frozen=True, slots=True)
class Presence:
    """What a writer finds when it joins a log: whether it is the only one, and whether all before it left in order."""

    alone: bool
    clean: bool


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """What a store keeps beside entries, levels and counts: how many nodes, which keys were retired where, its checkpoints."""

    nodes: int
    retired: frozenset[tuple[str, int]]
    checkpoints: tuple[tuple[int, bytes], ...]
    """The size under which each is kept, and the note."""


class LogStore(ABC):
    """A log in a database; one instance serves one thread at a time."""

    engine: ClassVar[str]
    """The folder of its migrations."""

    def __init__(self, db: Database, shown: str, *, origin: str | None, read_only: bool) -> None:
        """Open the log; where there is none, create one of that origin. The connection is closed where that fails."""
        self.db = db
        self._shown = shown
        try:
            self.origin = self._open(origin, read_only=read_only)
        except (StoreError, UsageError):
            db.close()
            raise

    def _open(self, origin: str | None, *, read_only: bool) -> str:
        steps = _read_steps(self.engine)
        if not read_only:
            # Under the lock: of two processes that open a new log at once, one creates it and the other finds it.
            with self._write_lock():
                for step in missing_steps(self._version(), steps):
                    self._migrate(step)
                if origin is not None:
                    first = (1, origin, Frontier().to_bytes(), 0)
                    self.db.insert("{state}", [first], otherwise="ON CONFLICT DO NOTHING")
        if missing_steps(self._version(), steps):
            raise StoreError(f"{self._shown} holds no log of this version", hint="open it with its gateway first")
        row = self.db.one("SELECT origin FROM {state}")
        if row is None:
            raise UsageError(f"the log in {self._shown} has no name yet", hint="give its origin")
        if origin not in (None, row[0]):
            raise UsageError(f"the log is called `{row[0]}`, not `{origin}`", hint="open it under its own name")
        return str(row[0])

    @abstractmethod
    def _version(self) -> int:
        """Return the version of the schema in the database; 0 where there is none."""

    @abstractmethod
    def _migrate(self, step: Migration) -> None:
        """Apply one step, inside the write lock."""

    @abstractmethod
    def _write_lock(self) -> AbstractContextManager[None]:
        """Hold a transaction in which nobody else can append."""

    @abstractmethod
    def append_rows(self, table: str, rows: Sequence[Sequence[object]]) -> None:
        """Add new rows to `{records}` or `{nodes}`, the fastest way that the engine has."""

    @abstractmethod
    def enter_writer(self) -> bool:
        """Announce a writer for as long as its process lives; return whether there is no other. Called under the lock."""

    @abstractmethod
    def leave_writer(self) -> None:
        """Take the announcement back."""

    @abstractmethod
    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session, asked for at once; None where it has none."""

    @contextmanager
    def exclusive(self) -> Iterator[LockedLog]:
        """Lock the log: all that is appended inside becomes durable at the end, or nothing does."""
        with self._write_lock():
            yield LockedLog(self)

    def snapshot(self) -> AbstractContextManager[None]:
        """Read the log as it is now, whatever is appended meanwhile."""
        return self.db.snapshot()

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the envelopes from index `start` up to, not including, `stop`; a missing one is an error."""
        expected = start
        for entry in self.entries(start, stop):
            if entry.index != expected:
                raise StoreError(f"record {expected} is missing from the store", hint="see `demur passport verify`")
            expected += 1
            yield entry.envelope

    def entries(self, start: int, stop: int | None) -> Iterator[StoredEntry]:
        """Yield the entries in order, passing over gaps; to the very last where no stop is given."""
        last = _MAX_INDEX if stop is None else stop - 1
        query = _COLUMNS + "WHERE idx BETWEEN ? AND ? ORDER BY idx LIMIT ?"
        # Page by page, each from where the last one ended: callers run other statements in between.
        while start <= last and (rows := self.db.ask(query, start, last, _PAGE_ROWS)):
            yield from map(StoredEntry.of, rows)
            start = rows[-1][0] + 1

    def session_entry(self, session: str, seq: int | None = None) -> StoredEntry | None:
        """Return a session's entry of this number, its last where none is given."""
        which, values = ("", (session,)) if seq is None else ("AND seq = ? ", (session, seq))
        # A row before the first index is damage; `checks` reports it.
        row = self.db.one(_COLUMNS + f"WHERE session = ? AND idx >= 0 {which}ORDER BY seq DESC LIMIT 1", *values)
        return None if row is None else StoredEntry.of(row)

    def session_tail(self, session: str) -> SessionTail | None:
        """Return the last passport of a session; None where it has none."""
        return self.session_tails([session])[session]

    def frontier(self) -> Frontier:
        """Return the state of the tree: `size` is the number of entries."""
        (state,) = self.db.one("SELECT frontier FROM {state}") or (b"",)
        return Frontier.from_bytes(stored_bytes(state))

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a perfect subtree: a `tree.NodeReader`."""
        row = self.db.one("SELECT hash FROM {nodes} WHERE level = ? AND idx = ?", level, index)
        if row is None:
            raise ShapeError(f"the tree has no node {index} on level {level}", hint="ask within the tree's size")
        return stored_bytes(row[0])

    def level(self, level: int) -> Iterator[tuple[int, bytes]]:
        """Yield the nodes of a level: number and hash."""
        query = "SELECT idx, hash FROM {nodes} WHERE level = ? AND idx BETWEEN ? AND ? ORDER BY idx LIMIT ?"
        start = 0
        while rows := self.db.ask(query, level, start, _MAX_INDEX, _PAGE_ROWS):
            yield from ((index, stored_bytes(digest)) for index, digest in rows)
            start = rows[-1][0] + 1

    def is_retired(self, key_id: str) -> bool:
        """Whether a rotation on record has retired this key."""
        return self.db.one("SELECT 1 FROM {retired_keys} WHERE key_id = ?", key_id) is not None

    def add_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed checkpoint; a later one of the same size with more signatures replaces the earlier."""
        with self._write_lock():
            row = self.db.one("SELECT note FROM {checkpoints} WHERE size = ?", size)
            more = len(read_checkpoint(note).signatures)
            if row is None or len(read_checkpoint(stored_bytes(row[0])).signatures) < more:
                newer = "ON CONFLICT (size) DO UPDATE SET note = excluded.note"
                self.db.insert("{checkpoints}", [(size, note)], otherwise=newer)

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the checkpoints of at least this size, smallest first."""
        for (note,) in self.db.ask("SELECT note FROM {checkpoints} WHERE size >= ? ORDER BY size", start):
            yield stored_bytes(note)

    def rollup(self) -> Iterator[tuple[RateKey, int]]:
        """Yield the hourly counts; a row that no writer of ours can have made is an error."""
        query = "SELECT hour, model, decision, causes, answered, n FROM {rollup} ORDER BY 1, 2, 3, 4, 5"
        for hour, model, decision, causes, answered, n in self.db.ask(query):
            words = (hour, model, decision, causes)
            # SQLite keeps any type in any column, so two rows could become one key and one count hide the other.
            if not all(isinstance(word, str) for word in words) or answered not in (0, 1) or type(n) is not int:
                raise StoreError(f"the hourly counts in {self._shown} are damaged", hint="go back to a copy")
            yield RateKey(hour, model, decision, causes, bool(answered)), n

    def bookkeeping(self) -> Bookkeeping:
        """Return what a check compares with the entries besides rows, levels and counts."""
        (nodes,) = self.db.one("SELECT count(*) FROM {nodes}") or (0,)
        retired = self.db.ask("SELECT key_id, idx FROM {retired_keys}")
        notes = self.db.ask("SELECT size, note FROM {checkpoints} ORDER BY size")
        pairs = frozenset((key_id, index) for key_id, index in retired)
        return Bookkeeping(nodes, pairs, tuple((size, stored_bytes(note)) for size, note in notes))

    def close(self) -> None:
        """Close the connection, and let go of the locks with it."""
        self.db.close()


class LockedLog:
    """A log that only the holder of its lock can append to, until it is released.

    What is read under the lock stays true until the holder appends, so each thing is read once.
    """

    def __init__(self, log: LogStore) -> None:
        self._log = log
        self._frontier: Frontier | None = None
        self._tails: dict[str, SessionTail | None] = {}
        self._retired: dict[str, bool] = {}

    def frontier(self) -> Frontier:
        """Return the state of the tree."""
        if self._frontier is None:
            self._frontier = self._log.frontier()
        return self._frontier

    def session_tails(self, sessions: Collection[str]) -> dict[str, SessionTail | None]:
        """Return the last passport of each session; None where it has none."""
        unknown = [session for session in sessions if session not in self._tails]
        if unknown:
            self._tails |= self._log.session_tails(unknown)
        return {session: self._tails[session] for session in sessions}

    def assume(self, tails: Mapping[str, SessionTail | None], keys: Collection[str] = ()) -> None:
        """Take tails as known, and keys as not retired: they were read while the log was in its present state."""
        self._tails |= tails
        self._retired |= dict.fromkeys(keys, False)

    def is_retired(self, key_id: str) -> bool:
        """Whether a rotation on record has retired this key."""
        if key_id not in self._retired:
            self._retired[key_id] = self._log.is_retired(key_id)
        return self._retired[key_id]

    def append(self, entries: Sequence[SealedEntry]) -> range:
        """Append these; return their indices. Raise where a passport does not continue its session, or a key is retired."""
        before = self.frontier()
        tails = self.session_tails({each.entry.session: None for each in entries if isinstance(each.entry, Passport)})
        rows: list[tuple[object, ...]] = []
        retired: dict[str, int] = {}
        counts: dict[RateKey, int] = {}
        for index, sealed in enumerate(entries, before.size):
            entry, key_id = sealed.entry, sealed.key_id
            if key_id is not None and (key_id in retired or self.is_retired(key_id)):
                hint = "seal with the key that replaced it"
                raise UsageError(f"the key `{key_id}` was retired by a rotation", hint=hint)
            if isinstance(entry, Passport):
                tails[entry.session] = _next_tail(sealed, entry, tails[entry.session])
                key = rate_key(entry)
                counts[key] = counts.get(key, 0) + 1
            elif isinstance(entry, KeyRotation) and key_id is not None:
                retired[key_id] = index
            rows.append(stored_row(index, sealed))
        # Nodes are kept, so that a proof for any size reads a few of them and no entry.
        frontier, nodes = grow(before, [sealed.leaf for sealed in entries])
        db, add = self._log.db, "DO UPDATE SET n = rollup.n + excluded.n"
        self._log.append_rows("{records}", rows)
        self._log.append_rows("{nodes}", nodes)
        conflict = f"ON CONFLICT (hour, model, decision, causes, answered) {add}"
        db.insert("{rollup}", [(*key, n) for key, n in counts.items()], otherwise=conflict)
        db.insert("{retired_keys}", [*retired.items()])
        db.ask("UPDATE {state} SET frontier = ?", frontier.to_bytes())
        self._frontier = frontier
        self._tails |= tails
        self._retired |= dict.fromkeys(retired, True)
        return range(before.size, frontier.size)

    def join(self) -> Presence:
        """Count a writer in."""
        alone = self._log.enter_writer()
        # A writer that died was never counted out; that shows once no other writer is alive.
        (left,) = self._log.db.one("SELECT writers FROM {state}") or (0,)
        self._log.db.ask("UPDATE {state} SET writers = ?", 1 if alone else left + 1)
        return Presence(alone, clean=left == 0)

    def leave(self) -> None:
        """Count a writer out."""
        self._log.db.ask("UPDATE {state} SET writers = CASE WHEN writers > 0 THEN writers - 1 ELSE 0 END")
        self._log.leave_writer()


def _next_tail(sealed: SealedEntry, passport: Passport, tail: SessionTail | None) -> SessionTail:
    """Return the session's tail after this passport; raise where it does not continue the session."""
    expected = (0, None) if tail is None else (tail.seq + 1, tail.leaf)
    if (passport.seq, passport.previous) != expected:
        # Two writers cannot both continue one session: the second has to seal again after the first.
        what = f"number {passport.seq} of session `{passport.session}` does not follow the session's last record"
        raise UsageError(what, hint="seal it anew after the tail that the store has now")
    return SessionTail(passport.seq, sealed.leaf.hex(), passport.at)


def _read_steps(engine: str) -> tuple[Migration, ...]:
    """Return the steps for an engine (`sqlite`, `postgres`), first to last."""
    folder = files("demur.record.store") / "migrations" / engine
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    steps = (Migration(int(entry.name.split("_")[0]), entry.read_text(encoding="utf-8")) for entry in found)
    return tuple(sorted(steps, key=lambda step: step.version))


def missing_steps(version: int, steps: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return the steps that a store of this version still needs; raise on a version that we do not know."""
    latest = steps[-1].version
    # A later version may keep what we do not write.
    if version > latest:
        what = f"the store is of version {version}, this Demur knows {latest}"
        raise StoreError(what, hint="it was written by a later Demur; upgrade this one")
    return tuple(step for step in steps if step.version > version)


_OPENING = b'{"payload":"'
_HOUR_CHARS = len("2026-01-31T12")
# `Effect.word` builds its text at each call, and this is asked for every passport.
_EFFECT_WORDS = {effect: effect.word for effect in Effect}
_FAILED = {DeclineCause.PROVIDER_ERROR}


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was read from a store, with what is looked up without opening its envelope."""

    index: int
    envelope: bytes
    payload: bytes
    """The signed statement; empty where the row is damaged."""
    kind: str
    at: str
    session: str | None
    seq: int | None

    @classmethod
    def of(cls, columns: Sequence[Any]) -> StoredEntry:
        """Return the entry of a row of `records`."""
        index, payload, rest, *others = columns
        payload, rest = stored_bytes(payload), stored_bytes(rest)
        return cls(index, _OPENING + b64encode(payload) + rest if payload else rest, payload, *others)


class RateKey(NamedTuple):
    """What passports are counted by."""

    hour: str
    model: str
    decision: str
    causes: str
    answered: bool
    """Whether a provider was asked and gave a response to the request, be it a refusal."""


def stored_row(index: int, sealed: SealedEntry) -> tuple[object, ...]:
    """Return an entry as a row of `records`."""
    # The payload is kept decoded: a quarter smaller, and readable as JSON. An envelope is canonical, so what follows the base64
    # of its payload can be cut off by length.
    rest = sealed.envelope[len(_OPENING) + (len(sealed.payload) + 2) // 3 * 4 :]
    entry = sealed.entry
    session, seq = (entry.session, entry.seq) if isinstance(entry, Passport) else (None, None)
    return index, sealed.payload, rest, entry_kind(entry), entry.at, session, seq


def stored_bytes(value: object) -> bytes:
    """Return the bytes of a column."""
    # SQLite keeps a value of any type in any column. One of the wrong type gives bytes that match no hash, and is reported so.
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode(errors="replace")


def entry_kind(entry: LogEntry) -> str:
    """Return what an entry is called in stores, exports and on the terminal."""
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
    """Return what a passport is counted by; a function of the passport alone, so that counts can be verified."""
    effect = max([phase.decision.effect for phase in passport.phases], default=Effect.ALLOW)
    causes = set(passport.causes)
    return RateKey(
        passport.at[:_HOUR_CHARS],
        passport.model_served or passport.model_asked,
        _EFFECT_WORDS[effect],
        ",".join(sorted(causes)) if causes else "",
        # An exchange that failed at the provider, or never reached one, is in no denominator of the model.
        passport.upstream_status is not None and causes != _FAILED,
    )
