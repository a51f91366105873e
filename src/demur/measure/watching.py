"""Is a stream's rate still within the band it should be in, asked after every row?

Two questions are asked at once: do all rows so far lie outside the band (an e-process, for slow drifts), and did a run of rows up to
now leave it by a step (cumulative sums up and down, for sudden changes, which also say since when)? Half of alpha goes to the first, a
quarter to each sum, so that a stream that stays within the band alarms at most alpha of the time, however often one looks,
over `rows` rows.

Assumes independent rows. Laws: a state is a value, and a stream taken in pieces ends in the state of the stream taken whole; nothing
seen is no alarm; the first alarm stays. An edge of the band at 0 or 1 has no sum: there one row against it is proof.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.monitor import CusumRule, CusumState, advance, confidence_sequence, rate_evidence
from demur.model.comparison import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.model.estimate import Interval

__all__ = ["Alarm", "Band", "WatchState", "watch_rows"]

_SHARE_OF_ALL = 0.5
_SHARE_OF_A_SUM = 0.25
_LEAST_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class Band:
    """Where the rate should be, which step out of it is watched for, over how many rows, at what chance of a false alarm."""

    low: float
    high: float
    step: float = 0.05
    rows: int = 1_000_000
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Refuse a band that is none."""
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
        if edge <= _LEAST_SHARE or edge >= 1 - _LEAST_SHARE:
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
