"""Numbers that carry their uncertainty: a rate or a difference always has an interval and n."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "AxisStat",
    "Difference",
    "Direction",
    "Evidence",
    "Family",
    "Flag",
    "Interval",
    "PooledDifference",
    "Rate",
    "Severity",
]


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


@dataclass(frozen=True, slots=True)
class PooledDifference:
    """A slice's difference drawn towards the mean of all slices of its field: `towards` is by how much, 0 not at all, 1 wholly."""

    value: float
    interval: Interval
    towards: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """How strongly pairs speak against "no change" when they are looked at one after another: e-values, 1 where they say nothing.

    `now` is after all `pairs`, `highest` at any of them; `proven_at` is the pair at which it was enough, None where it never was.
    """

    now: float
    highest: float
    proven_at: int | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Family:
    """How many candidates are compared with one baseline, and the factor by which Holm's method multiplies the p-value of this one."""

    count: int
    factor: float


class Severity(StrEnum):
    """How large a difference is, by the seed's thresholds."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"


class Flag(StrEnum):
    """What to bear in mind about the data behind a figure."""

    LOW_POWER = "low_power"
    CI_CROSSES_ZERO = "ci_crosses_zero"
    FEW_DISCORDANT = "few_discordant"
    """Fewer than five pairs flipped."""
    UNDERPOWERED = "underpowered"
    """Only a difference above 0.15 would have been seen."""
    BOUNDARY_RATE = "boundary_rate"
    """A rate is 0 or 1."""
    CLUSTERED = "clustered"
    """Pairs come in groups that move together, and were counted so."""
    DETECTOR_UNCALIBRATED = "detector_uncalibrated"
    """No labelled pairs corrected for the detector's own errors."""
    UNPAIRED = "unpaired"
    """The runs ask different questions."""


@dataclass(frozen=True, slots=True)
class AxisStat:
    """Baseline and candidate rate over `n` pairs, candidate less baseline, its interval, severity and flags."""

    baseline_rate: float
    candidate_rate: float
    delta: float
    ci95_low: float
    ci95_high: float
    severity: Severity
    n: int
    flags: tuple[Flag, ...] = ()


class Direction(StrEnum):
    """Which change an alarm is for: over-refusal is an increase, lost refusals a decrease."""

    INCREASE = "increase"
    DECREASE = "decrease"
    BOTH = "both"
