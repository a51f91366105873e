"""Whether a stream's rate is still within its band, asked after every row.

Two tests run at once: an e-process over all rows so far, for slow drifts, and cumulative sums up and down, for sudden changes,
which also say since when. Assumes independent rows. A stream taken in pieces ends in the same state as one taken whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.special import boundary, log_beta
from demur.model.estimate import Direction, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = [
    "Alarm",
    "Band",
    "CusumRule",
    "CusumState",
    "WatchState",
    "advance",
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


def rate_evidence(count: int, n: int, *, p0: float) -> float:
    """Return the evidence, as an e-value, that the rate is not p0, after `count` of n; p0 = 0 or 1 fall at one exception."""
    return _exp(_log_rate_evidence(count, n, p0))


def confidence_sequence(count: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Return the rates with evidence below 1/alpha: an interval that holds at every n at once.

    n = 0: [0, 1]; count = 0: low is 0; count = n: high is 1. A caller may intersect the intervals seen so far.
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


@dataclass(frozen=True, slots=True)
class CusumRule:
    """From which rate to which a change is watched for, over how many rows, at what chance of a false alarm in all of them."""

    p0: float
    p1: float
    rows: int
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Raise if the rates are equal or not inside 0 and 1."""
        if not (0 < self.p0 < 1 and 0 < self.p1 < 1) or self.p0 == self.p1:
            raise UsageError("a change is watched for between two different rates inside 0 and 1")

    @property
    def limit(self) -> float:
        """The sum that alarms: log(rows/alpha), so that all starting points together alarm falsely at most alpha."""
        return math.log(self.rows / self.alpha)


@dataclass(frozen=True, slots=True)
class CusumState:
    """The sum so far, the rows seen, the row (from 1) at which the present rise began, and the row that alarmed, if any."""

    total: float = 0.0
    seen: int = 0
    since: int | None = None
    alarmed_at: int | None = None


def advance(state: CusumState, rule: CusumRule, abstained: Iterable[bool]) -> CusumState:
    """Return the state after more rows, by the cumulative sum of log-likelihood ratios, never below 0 (Page 1954)."""
    yes, no = math.log(rule.p1 / rule.p0), math.log((1 - rule.p1) / (1 - rule.p0))
    total, seen, since, alarmed_at = state.total, state.seen, state.since, state.alarmed_at
    for hit in abstained:
        seen += 1
        # The first alarm stays, and with it the row since which: later rows say nothing about when the change began.
        if alarmed_at is not None:
            continue
        total = max(0.0, total + (yes if hit else no))
        since = (since or seen) if total > 0 else None
        alarmed_at = seen if total >= rule.limit else None
    return replace(state, total=total, seen=seen, since=since, alarmed_at=alarmed_at)


def _log_rate_evidence(count: int, n: int, p0: float) -> float:
    fits = _times_log(count, p0) + _times_log(n - count, 1 - p0)
    return log_beta(0.5 + count, 0.5 + n - count) - _LOG_PRIOR - fits


def _times_log(times: int, chance: float) -> float:
    """Return times·log(chance), with 0·log 0 = 0."""
    if not times:
        return 0.0
    return times * math.log(chance) if chance > 0 else -math.inf


def _exp(log: float) -> float:
    return math.exp(log) if log < _MAX_LOG else math.inf


# Half of alpha goes to the e-process, a quarter to each sum: a stream that stays within its band alarms at most alpha of the
# time over `rows` rows, however often one looks.
_SHARE_OF_ALL = 0.5
_SHARE_OF_A_SUM = 0.25
_MIN_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class Band:
    """Where the rate should be, which step out of it is watched for, over how many rows, at what chance of a false alarm."""

    low: float
    high: float
    step: float = 0.05
    rows: int = 1_000_000
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Raise if the band is empty or a setting is out of range."""
        if not 0 <= self.low <= self.high <= 1:
            raise UsageError(f"`{self.low:g}` to `{self.high:g}` is no band of rates", hint="write 5%, or 3%..8%")
        if not 0 < self.alpha < 1 or not 0 < self.step < 1 or self.rows < 1:
            raise UsageError("a step and an alpha lie between 0 and 1, and rows are counted from 1")

    @property
    def rise(self) -> CusumRule | None:
        """What a sudden rise is measured by, None where every rate is within the band's upper edge, or none above 0 is."""
        return self._sum(self.high, min(self.high + self.step, (1 + self.high) / 2))

    @property
    def fall(self) -> CusumRule | None:
        """What a sudden fall is measured by, as for a rise."""
        return self._sum(self.low, max(self.low - self.step, self.low / 2))

    def _sum(self, edge: float, beyond: float) -> CusumRule | None:
        # At an edge of 0 or 1 one row against it is proof, and a likelihood ratio has no value.
        if edge <= _MIN_SHARE or edge >= 1 - _MIN_SHARE:
            return None
        return CusumRule(edge, beyond, self.rows, alpha=self.alpha * _SHARE_OF_A_SUM)


@dataclass(frozen=True, slots=True)
class Alarm:
    """The row (from 1) that alarmed, the way the rate went, and the row since which, where a sum alarmed."""

    row: int
    direction: Direction
    since: int | None


@dataclass(frozen=True, slots=True)
class WatchState:
    """Rows seen, how many of them abstained, the two sums, and the alarm if there was one."""

    seen: int = 0
    abstained: int = 0
    rise: CusumState = field(default_factory=CusumState)
    fall: CusumState = field(default_factory=CusumState)
    alarm: Alarm | None = None

    def evidence(self, band: Band) -> float:
        """Return the evidence, as an e-value, that the rate of all rows lies outside the band; none seen: 1."""
        if not self.seen:
            return 1.0
        # Against the rate of the band that fits best: the evidence against all others is larger.
        nearest = min(max(self.abstained / self.seen, band.low), band.high)
        return rate_evidence(self.abstained, self.seen, p0=nearest)

    def interval(self, band: Band) -> Interval:
        """Return the rates that all rows so far are compatible with, at every moment at once."""
        return confidence_sequence(self.abstained, self.seen, alpha=band.alpha)


def watch_rows(state: WatchState, band: Band, abstained: Iterable[bool]) -> WatchState:
    """Return the state after more rows; those after an alarm are counted and change nothing else."""
    rise, fall = band.rise, band.fall
    for hit in abstained:
        seen, count = state.seen + 1, state.abstained + hit
        if state.alarm is not None:
            state = replace(state, seen=seen, abstained=count)
            continue
        after = WatchState(
            seen,
            count,
            advance(state.rise, rise, (hit,)) if rise else state.rise,
            advance(state.fall, fall, (hit,)) if fall else state.fall,
        )
        state = replace(after, alarm=_alarm(after, band))
    return state


def _alarm(state: WatchState, band: Band) -> Alarm | None:
    if state.rise.alarmed_at:
        return Alarm(state.seen, Direction.INCREASE, state.rise.since)
    if state.fall.alarmed_at:
        return Alarm(state.seen, Direction.DECREASE, state.fall.since)
    if state.evidence(band) < 1 / (band.alpha * _SHARE_OF_ALL):
        return None
    up = state.abstained / state.seen > band.high
    return Alarm(state.seen, Direction.INCREASE if up else Direction.DECREASE, None)
