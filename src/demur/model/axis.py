"""One dimension of a comparison, as the seed states it: two rates, their difference, and how much that is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["AxisStat", "Flag", "Severity"]


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
