"""Counts of what the log's hourly rollup does not hold: rules, categories, gaps and auditors, kept in memory.

New entries are counted first, then older ones, a bounded number at a time; `Reach` says how far the count has come.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from demur.dashboard.values import AuditorHealth, ExchangeRow, FiredCount, GapCount, Reach
from demur.model.claim import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["PayloadRow", "RecordCounts", "row_of_payload"]

_Key = TypeVar("_Key")
# The first page waits for so many records, and the lock is held for a part of them.
_AT_ONCE = 5_000
_PART = 500
_HOUR_CHARS = len("2026-01-31T12")
_STRENGTH = {effect.word: effect for effect in Effect}
_UNNAMED = "unnamed attack"


class PayloadRow(NamedTuple):
    """A passport as a store has it: its place, its statement, and what is looked up without reading it."""

    place: int
    payload: bytes
    at: str
    session: str
    seq: int


# Only the fields that are counted: msgspec skips the rest of a statement without building it.
class _RuleBrief(msgspec.Struct, frozen=True):
    id: str
    effect: str
    reason: str | None = None


class _AuditorBrief(msgspec.Struct, frozen=True):
    id: str
    status: str
    took_us: int


class _ClaimsBrief(msgspec.Struct, frozen=True):
    # An auditor may state any type under these names, and one odd claim must not make the whole entry unreadable.
    refusal_category: Any = None
    harm_categories: Any = None
    adversarial_flagged: Any = None


class _ContextBrief(msgspec.Struct, frozen=True):
    claims: _ClaimsBrief = _ClaimsBrief()


class _PhaseBrief(msgspec.Struct, frozen=True):
    phase: str
    decision: str
    context: _ContextBrief = _ContextBrief()
    rules: tuple[_RuleBrief, ...] = ()
    errors: tuple[str, ...] = ()
    auditors: tuple[_AuditorBrief, ...] = ()


class _GapBrief(msgspec.Struct, frozen=True):
    phase: str
    what: str
    auditor: str | None = None


class _PassportBrief(msgspec.Struct, frozen=True):
    model_asked: str
    model_served: str | None
    policy_digest: str
    phases: tuple[_PhaseBrief, ...]
    causes: tuple[str, ...] = ()
    gaps: tuple[_GapBrief, ...] = ()


class _StatementBrief(msgspec.Struct, frozen=True):
    predicate: _PassportBrief


# msgspec decodes faster with a decoder that is kept than by its function.
_BRIEF = msgspec.json.Decoder(_StatementBrief)


def row_of_payload(row: PayloadRow) -> ExchangeRow:
    """Return an exchange for a list; one that cannot be read has no decision."""
    brief = _brief_of(row.payload)
    if brief is None:
        return ExchangeRow(row.place, row.at, row.session, row.seq)
    # The strongest effect counts, as at the gateway; a word that this version does not know is weaker than all.
    effects = [phase.decision for phase in brief.phases]
    return ExchangeRow(
        row.place,
        row.at,
        row.session,
        row.seq,
        brief.model_served or brief.model_asked,
        max(effects, key=lambda word: _STRENGTH.get(word, -1), default=Effect.ALLOW.word),
        brief.causes,
        tuple(dict.fromkeys(rule.id for phase in brief.phases for rule in phase.rules)),
        len(brief.gaps),
    )


def _brief_of(payload: bytes) -> _PassportBrief | None:
    try:
        return _BRIEF.decode(payload).predicate
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


@dataclass
class _HourCounts:
    """What the passports of one hour and model add up to."""

    exchanges: int = 0
    unreadable: int = 0
    errors: int = 0
    attacks: Counter[str] = field(default_factory=Counter)
    gaps: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    rules: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    policies: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    took_us: Counter[str] = field(default_factory=Counter)


class RecordCounts:
    """Counts by hour and model that catch up with a log; may be asked from several threads."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._low = self._high = 0
        self._hours: dict[tuple[str, str], _HourCounts] = defaultdict(_HourCounts)
        self._reasons: dict[str, str] = {}
        self._rule_policies: dict[str, set[str]] = defaultdict(set)
        self._max_us: Counter[str] = Counter()

    def follow(self, size: int, read: Callable[[int, int], Iterable[PayloadRow]], *, limit: int | None = None) -> None:
        """Catch up with a log of this size; `read` gives the passports from one place up to another."""
        # Only the first page waits for another thread that counts; later ones show what is counted by now.
        if not self._reading.acquire(blocking=not self._high):
            return
        try:
            # A log only grows, so that what was read is never read again; a smaller one is another log.
            if size < self._high:
                with self._lock:
                    self._low = self._high = 0
                    for kept in (self._hours, self._reasons, self._rule_policies, self._max_us):
                        kept.clear()
            if not self._high:
                self._low = self._high = size
            left = min(self._at_once, limit or self._at_once)
            for start, stop in _spans(self._high, min(size, self._high + left)):
                self._count(read(start, stop), high=stop)
                left -= stop - start
            for start, stop in reversed(_spans(max(0, self._low - left), self._low)):
                self._count(read(start, stop), low=start)
        finally:
            self._reading.release()

    def _count(self, rows: Iterable[PayloadRow], *, low: int | None = None, high: int | None = None) -> None:
        """Add some records, and how far the count reaches with them, in one step."""
        # Decoding takes most of the time and is done before the lock is taken.
        briefs = [(row, _brief_of(row.payload)) for row in rows]
        with self._lock:
            for row, brief in briefs:
                self._count_record(row.at[:_HOUR_CHARS], brief)
            self._low = self._low if low is None else low
            self._high = self._high if high is None else high

    def _count_record(self, at: str, brief: _PassportBrief | None) -> None:
        hour = self._hours[at, "" if brief is None else brief.model_served or brief.model_asked]
        hour.exchanges += 1
        if brief is None:
            hour.unreadable += 1
            return
        hour.policies[brief.policy_digest] += 1
        hour.attacks.update(_categories(brief))
        hour.gaps.update((gap.what, gap.phase, gap.auditor) for gap in brief.gaps)
        for phase in brief.phases:
            hour.errors += bool(phase.errors)
            for rule in phase.rules:
                hour.rules[rule.id, rule.effect, phase.phase] += 1
                self._rule_policies[rule.id].add(brief.policy_digest)
                # The latest wording wins where a policy was edited.
                if rule.reason:
                    self._reasons[rule.id] = rule.reason
            for run in phase.auditors:
                hour.statuses[run.id, run.status] += 1
                hour.took_us[run.id] += run.took_us
                self._max_us[run.id] = max(self._max_us[run.id], run.took_us)

    def _chosen(self, since: str, until: str, model: str) -> Iterator[_HourCounts]:
        for (hour, name), counts in self._hours.items():
            # Both are beginnings of RFC 3339 times, so they compare as text, and a day includes all of its hours.
            if since <= hour and hour[: len(until)] <= until and model in ("", name):
                yield counts

    def reach(self, size: int) -> Reach:
        """Return how far the count has come."""
        with self._lock:
            unreadable = sum(hour.unreadable for hour in self._hours.values())
            return Reach(self._high - self._low, size, unreadable)

    def exchanges(self, since: str, until: str) -> tuple[int, int]:
        """Return how many exchanges of a period were read, and in how many phases a policy met an error."""
        with self._lock:
            chosen = list(self._chosen(since, until, ""))
        return sum(hour.exchanges for hour in chosen), sum(hour.errors for hour in chosen)

    def attacks(self, since: str, until: str, *, model: str = "") -> tuple[tuple[str, int], ...]:
        """Return the categories that claims named, the most frequent first; one exchange can count in several."""
        with self._lock:
            found = _summed(hour.attacks for hour in self._chosen(since, until, model))
        return tuple(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def gaps(self, since: str, until: str, *, model: str = "") -> tuple[GapCount, ...]:
        """Return where enforcement did not hold, the most frequent first."""
        with self._lock:
            found = _summed(hour.gaps for hour in self._chosen(since, until, model))
        rows = (GapCount(what, phase, auditor, n) for (what, phase, auditor), n in found.items())
        return tuple(sorted(rows, key=lambda gap: (-gap.n, gap.what, gap.phase, gap.auditor or "")))

    def rules(self, since: str, until: str) -> tuple[FiredCount, ...]:
        """Return the rules that fired, the most frequent first."""
        with self._lock:
            found = _summed(hour.rules for hour in self._chosen(since, until, ""))
            rows = [
                FiredCount(
                    rule, effect, phase, n, self._reasons.get(rule, ""), tuple(sorted(self._rule_policies[rule]))
                )
                for (rule, effect, phase), n in found.items()
            ]
        return tuple(sorted(rows, key=lambda row: (-row.n, row.rule, row.phase)))

    def policies(self, since: str, until: str) -> tuple[tuple[str, int], ...]:
        """Return under which policies exchanges were decided, the most frequent first."""
        with self._lock:
            found = _summed(hour.policies for hour in self._chosen(since, until, ""))
        return tuple(found.most_common())

    def auditors(self) -> tuple[AuditorHealth, ...]:
        """Return how each auditor did over all that was read."""
        statuses: dict[str, Counter[str]] = defaultdict(Counter)
        took: Counter[str] = Counter()
        with self._lock:
            for hour in self._hours.values():
                took.update(hour.took_us)
                for (name, status), n in hour.statuses.items():
                    statuses[name][status] += n
            longest = dict(self._max_us)
        return tuple(
            AuditorHealth(name, found.total(), found, took[name] / found.total(), longest.get(name, 0))
            for name, found in sorted(statuses.items())
        )


def _spans(start: int, stop: int) -> list[tuple[int, int]]:
    """Return a stretch in parts: the lock is held for one of them at a time."""
    return [(at, min(stop, at + _PART)) for at in range(start, stop, _PART)]


def _summed(counts: Iterable[Counter[_Key]]) -> Counter[_Key]:
    total: Counter[_Key] = Counter()
    for count in counts:
        if count:
            total.update(count)
    return total


def _categories(brief: _PassportBrief) -> set[str]:
    """Return what the claims of an exchange say that its prompt tries; nothing where they say nothing."""
    found: set[str] = set()
    flagged = False
    for phase in brief.phases:
        claims = phase.context.claims
        if isinstance(claims.refusal_category, str) and claims.refusal_category:
            found.add(claims.refusal_category)
        if isinstance(claims.harm_categories, list):
            found.update(name for name in claims.harm_categories if isinstance(name, str))
        flagged |= claims.adversarial_flagged is True
    return found or ({_UNNAMED} if flagged else set())
