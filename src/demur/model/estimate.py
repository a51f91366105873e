"""Numbers that carry their doubt: a rate or a difference never stands without an interval and n."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Difference", "Interval", "Rate"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, with its level and the method that made it."""

    low: float
    high: float
    method: str
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`; `value` is None where n is 0, since no rate is known then."""

    count: int
    n: int
    interval: Interval

    @property
    def value(self) -> float | None:
        """The share, or None where nothing was counted."""
        return self.count / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class Difference:
    """Candidate less baseline over `n` pairs, with the interval and the p of "no change"."""

    value: float
    interval: Interval
    p: float
    n: int
