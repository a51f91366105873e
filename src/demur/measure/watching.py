"""Whether a stream's rate is still within its band, asked after every row.

One number answers, an e-process: the evidence that at some row, the first or a later one, the rate left the band. While it stays there, the
evidence ever reaches 1/alpha with a chance of at most alpha (Ville 1939), however often one looks and however long. Rows of one session
enter together, as a sum; nothing is assumed about what happens within one. A stream taken in pieces ends in the same state as one taken whole.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import astuple, dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.change_point import Change, History, append_session, date_change
from demur.measure.session_sums import SessionSums
from demur.measure.special import boundary, log_beta
from demur.model.estimate import Direction, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Alarm",
    "Band",
    "OpenSession",
    "Sessions",
    "WatchState",
    "close_sessions",
    "confidence_sequence",
    "paired_evidence",
    "rate_evidence",
    "watch_rows",
]

_LOG_PRIOR = math.log(math.pi)  # log B(½, ½)
_MAX_LOG = 709.0  # beyond, `exp` overflows


def paired_evidence(b: int, c: int) -> float:
    """Return the evidence, as an e-value, that flips lean one way, after b to the baseline and c to the candidate."""
    return _exp((b + c) * math.log(2) + log_beta(0.5 + c, 0.5 + b) - _LOG_PRIOR)


def rate_evidence(count: float, n: float, *, p0: float) -> float:
    """Return the evidence, as an e-value, that the rate is not p0, after `count` of n; p0 = 0 or 1 fall at one exception."""
    return _exp(_log_rate_evidence(count, n, p0))


def confidence_sequence(count: float, n: float, *, alpha: float = 0.05) -> Interval:
    """Return the rates with evidence below 1/alpha: an interval that holds at every n at once.

    Assumes independent rows. n = 0: [0, 1]; count = 0: low is 0; count = n: high is 1. A caller may intersect the intervals seen so far.
    """
    if n == 0:
        return Interval(0.0, 1.0, "confidence sequence", 1 - alpha)
    most = math.log(1 / alpha)

    def kept(p: float) -> bool:
        return _log_rate_evidence(count, n, p) < most

    share = count / n
    low = boundary(kept, share, 0.0) if count else 0.0
    high = boundary(kept, share, 1.0) if count < n else 1.0
    return Interval(low, high, "confidence sequence", 1 - alpha)


def _log_rate_evidence(count: float, n: float, p0: float) -> float:
    fits = _times_log(count, p0) + _times_log(n - count, 1 - p0)
    return log_beta(0.5 + count, 0.5 + n - count) - _LOG_PRIOR - fits


def _times_log(times: float, chance: float) -> float:
    """Return times·log(chance), with 0·log 0 = 0."""
    if not times:
        return 0.0
    return times * math.log(chance) if chance > 0 else -math.inf


def _exp(log: float) -> float:
    return math.exp(log) if log < _MAX_LOG else math.inf


@dataclass(frozen=True, slots=True)
class Band:
    """Where the rate should be, at what chance of a false alarm, and within how many rows a change is expected.

    Beyond `rows` the chance of a false alarm is still at most alpha; a change is found somewhat later.
    """

    low: float
    high: float
    rows: int = 1_000_000
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Raise if the band is empty or a setting is out of range."""
        if not 0 <= self.low <= self.high <= 1:
            raise UsageError(f"`{self.low:g}` to `{self.high:g}` is no band of rates", hint="write 5%, or 3%..8%")
        if not 0 < self.alpha < 1 or self.rows < 1:
            raise UsageError("an alpha lies between 0 and 1, and rows are counted from 1")


_OTHER_ROW = {(): (1,), (1,): ()}
_MAX_SESSION_ROWS = 1000
# How far beyond an edge of the band the rate may have gone, in log-odds, and how much is bet on each. The small steps are for sessions
# whose rows move together, the large ones for edges near 0. Chosen among three such lists, whose
# median delays differed by at most 8 % over the five changes of benchmarks/watch.py.
STEPS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.1, 1.7, 2.5, 4.0, 8.0, 16.0, 32.0)
WEIGHTS = tuple(weight / 101 for weight in (4, 4, 8, 16, 24, 24, 12, 4, 2, 1, 1, 1))
_NOTHING = (0.0,) * len(STEPS)
# The level of the rate since a change is the usual one, whatever the chance of a false alarm.
_CHANGE_ALPHA = 0.05


@lru_cache(maxsize=64)
def _bets(edge: float) -> tuple[tuple[float, int], ...]:
    """Return, for each alternative to an edge, what is bet on a row and the rows of a session that are bet on.

    A session may cost at most half of what was bet, or what a single row would; so of long sessions the first rows count, more of them
    the nearer the alternative is. Which rows count must not depend on how many there will be: users may leave at a refusal.
    """
    odds, found = edge / (1 - edge), []
    for step in STEPS:
        grown = odds * math.exp(step)
        cost = (grown / (1 + grown) - edge) / (1 - edge)
        found.append((cost / edge, max(1, int(min(0.5 / cost, _MAX_SESSION_ROWS)))))
    return tuple(found)


@lru_cache(maxsize=16_384)
def factors(edge: float, hits: tuple[int, ...], rows: int) -> tuple[float, ...]:
    """Return by what each bet on a rate above the edge is multiplied after a session; `hits` are the rows (from 1) that count for it.

    1 + b(K - edge·M) with K hits in the first M rows: it is at least 0, and at most 1 on average where the mean of K is at most edge
    times the mean of M, whatever their distributions (Waudby-Smith and Ramdas 2024, JRSS B 86:1). For a single row it is the likelihood ratio of
    the alternative. Edge 0: one hit is proof.
    """
    if edge <= 0:
        return (math.inf if hits else 1.0,) * len(STEPS)
    found = []
    for bet, most in _bets(edge):
        counted = min(most, rows)
        found.append(max(0.0, 1 + bet * (bisect_right(hits, counted) - edge * counted)))
    return tuple(found)


# A rate that was wrong from the first row on has half of alpha (the e-process over all rows). The other half goes to changes at later rows:
# a quarter evenly over the band's `rows` (the Shiryaev-Roberts statistic, over rows), a quarter as 1/(n log² n), for early ones.
_FROM_THE_START = 0.5
_EVENLY = 0.5


def unspent(seen: int, rows: int) -> float:
    """Return the prior chance that the change comes after `seen` sessions or later; all: 1."""
    if not seen:
        return 1.0
    evenly = max(0.0, 1 - (seen - 1) / rows)
    return (1 - _FROM_THE_START) * (_EVENLY * evenly + (1 - _EVENLY) / (1 + math.log(seen)))


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session that may still go on: its key, its first and last row in the log, how many rows, and which (from 1) abstained."""

    key: int
    first: int
    last: int
    rows: int = 0
    abstained: tuple[int, ...] = ()


# A session is closed when so many rows of the log have come without one of its own. Where sessions turn out to pause for longer, it doubles.
_FIRST_GAP = 50
_MAX_GAP = 10_000
_MAX_REMEMBERED = 10_000
# Doubled at one late row in a hundred, and not at the first few.
_LATE_SHARE = 0.01
_FEW_LATE = 5


@dataclass(frozen=True, slots=True)
class Sessions:
    """The open sessions by their last row, closed ones with theirs, the gap that closes one, and rows that came after it.

    When a session is closed depends on when its rows come, never on what they say.
    """

    open: tuple[OpenSession, ...] = ()
    closed: tuple[tuple[int, int], ...] = ()
    gap: int = _FIRST_GAP
    late: int = 0
    too_soon: int = 0
    """How many pauses were longer than the gap since it was last changed, which was at row `changed_at`."""
    changed_at: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """The row (from 1) that alarmed, the way the rate went, and the change that was found."""

    row: int
    direction: Direction
    change: Change


@dataclass(frozen=True, slots=True)
class WatchState:
    """Rows seen, how many of them abstained, the bets on a rise and a fall, the closed sessions, the open ones, and the alarm if there was one.

    A row without a session is a closed session of its own.
    """

    seen: int = 0
    abstained: int = 0
    rise: tuple[float, ...] = _NOTHING
    fall: tuple[float, ...] = _NOTHING
    history: History = field(default_factory=History)
    sessions: Sessions = field(default_factory=Sessions)
    alarm: Alarm | None = None

    def evidence(self, band: Band) -> float:
        """Return the evidence, as an e-value, that the rate left the band at any row; none seen: 1."""
        return _evidence(self.rise, self.fall, band, self.history.sums.sessions)

    def interval(self, band: Band) -> Interval:
        """Return the rates that all rows so far are compatible with, at every moment at once.

        With sessions of several rows it is that of as many rows as these are worth (by their spread so far), which is approximate.
        """
        worth = self.history.sums.design_effect
        return confidence_sequence(self.abstained / worth, self.seen / worth, alpha=band.alpha)


def watch_rows(state: WatchState, band: Band, rows: Iterable[tuple[bool, int | None]]) -> WatchState:
    """Return the state after more rows, each whether it abstained and the key of its session, None where it stands alone.

    Rows after an alarm are counted and change nothing else. Assumes that sessions are independent of each other; their rows need not be.
    """
    stream = _Stream(state, band)
    for abstained, session in rows:
        stream.take(session, abstained=abstained)
    return stream.state()


def close_sessions(state: WatchState, band: Band) -> WatchState:
    """Return the state with every session closed: the log has ended."""
    stream = _Stream(state, band)
    stream.close(before=state.seen + 1)
    return stream.state()


class _Stream:
    """A state on its way: what `watch_rows` changes row by row."""

    def __init__(self, state: WatchState, band: Band) -> None:
        self._band = band
        self._seen, self._abstained, self._alarm = state.seen, state.abstained, state.alarm
        self._rise, self._fall = state.rise, state.fall
        self._sums, self._levels = list(astuple(state.history.sums)), [list(level) for level in state.history.levels]
        # Ordered by their last row, so that those to close stand in front.
        self._open = {each.key: each for each in state.sessions.open}
        self._closed = dict(state.sessions.closed)
        self._gap, self._late = state.sessions.gap, state.sessions.late
        self._too_soon, self._changed_at = state.sessions.too_soon, state.sessions.changed_at

    def state(self) -> WatchState:
        """Return what is known by now."""
        sessions = Sessions(
            tuple(self._open.values()),
            tuple(self._closed.items()),
            self._gap,
            self._late,
            self._too_soon,
            self._changed_at,
        )
        return WatchState(self._seen, self._abstained, self._rise, self._fall, self._history(), sessions, self._alarm)

    def _history(self) -> History:
        return History(SessionSums(*self._sums), tuple(map(tuple, self._levels)))

    def take(self, session: int | None, *, abstained: bool) -> None:
        """Count a row; it enters the evidence when its session is closed."""
        self._seen += 1
        self._abstained += abstained
        if self._alarm is not None:
            return
        if session is None:
            self._enter(self._seen, (1,) if abstained else (), rows=1)
        elif session in self._closed:
            self._take_late(session)
        else:
            begun = self._open.pop(session, None) or OpenSession(session, self._seen, self._seen)
            rows = begun.rows + 1
            refused = (*begun.abstained, rows) if abstained else begun.abstained
            self._open[session] = grown = OpenSession(session, begun.first, self._seen, rows, refused)
            if rows >= _MAX_SESSION_ROWS:
                self._close(grown)
        if self._open:
            self.close(before=self._seen - self._gap + 1)

    def close(self, *, before: int) -> None:
        """Close the sessions whose last row was before that one."""
        while self._open and self._alarm is None:
            oldest = next(iter(self._open.values()))
            if oldest.last >= before:
                return
            self._close(oldest)

    def _close(self, session: OpenSession) -> None:
        del self._open[session.key]
        self._closed[session.key] = session.last
        if len(self._closed) > _MAX_REMEMBERED:
            del self._closed[next(iter(self._closed))]
        self._enter(session.first, session.abstained, rows=session.rows)

    def _take_late(self, session: int) -> None:
        """Leave out a row whose session is closed: as a session of its own it would be counted as independent."""
        pause = self._seen - self._closed[session]
        self._late += 1
        self._closed[session] = self._seen
        # Sessions that a smaller gap closed go on being late; only a pause that this one is too short for speaks against it.
        self._too_soon += pause > self._gap
        if self._too_soon > _FEW_LATE and self._too_soon > _LATE_SHARE * (self._seen - self._changed_at):
            self._gap = min(2 * self._gap, _MAX_GAP)
            self._too_soon, self._changed_at = 0, self._seen

    def _enter(self, first: int, refused: tuple[int, ...], *, rows: int) -> None:
        """Let a session win or lose what is bet on each alternative, and raise the alarm where that is enough."""
        band, before = self._band, self._sums[0]
        start = unspent(before, band.rows) - unspent(before + 1, band.rows)
        if band.high < 1:
            self._rise = _won(self._rise, start, factors(band.high, refused, rows))
        if band.low > 0:
            others = _OTHER_ROW[refused] if rows == 1 else tuple(sorted({*range(1, rows + 1)} - {*refused}))
            self._fall = _won(self._fall, start, factors(1 - band.low, others, rows))
        abstained = len(refused)
        more = (1, rows, abstained, abstained * abstained, abstained * rows, rows * rows)
        self._sums = [total + part for total, part in zip(self._sums, more, strict=True)]
        append_session(self._levels, (first, abstained, rows))
        if _evidence(self._rise, self._fall, band, before + 1) >= 1 / band.alpha:
            is_rise = sum(self._rise) > sum(self._fall)
            sequence = partial(confidence_sequence, alpha=_CHANGE_ALPHA)
            change = date_change(self._history(), (band.low, band.high), is_rise=is_rise, interval=sequence)
            self._alarm = Alarm(self._seen, Direction.INCREASE if is_rise else Direction.DECREASE, change)


def _evidence(rise: tuple[float, ...], fall: tuple[float, ...], band: Band, seen: int) -> float:
    """Return the mean of the evidence for a rise and for a fall, of which one may be impossible; both: 1."""
    waiting = unspent(seen, band.rows)
    if band.high < 1 and band.low > 0:
        return (sum(rise) + sum(fall)) / 2 + waiting
    return 1.0 if band.high >= 1 and band.low <= 0 else sum(rise) + sum(fall) + waiting


def _won(bets: tuple[float, ...], start: float, multiples: tuple[float, ...]) -> tuple[float, ...]:
    """Return the bets after a session, at each of which further ones begin."""
    return tuple([(bet + start * weight) * by for bet, weight, by in zip(bets, WEIGHTS, multiples, strict=True)])
