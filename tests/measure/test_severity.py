"""The seed's labels and flags, to the letter."""

from __future__ import annotations

import math

import pytest

from demur.measure.severity import rate_flags, rate_severity
from demur.model.axis import Flag, Severity


@pytest.mark.parametrize(
    ("delta", "low", "high", "severity"),
    [
        (0.0, 0.0, 0.0, Severity.NONE),
        (1e-10, 0.0, 1.0, Severity.NONE),
        (0.049, 0.01, 0.09, Severity.MINOR),
        (0.05, 0.01, 0.09, Severity.MODERATE),
        (-0.149, -0.2, -0.1, Severity.MODERATE),
        (0.15, 0.1, 0.2, Severity.SEVERE),
        (0.3, -0.1, 0.5, Severity.MINOR),
        (0.3, -0.01, 0.25, Severity.SEVERE),
        (0.33, 0.0, 1.0, Severity.SEVERE),
        (math.nan, 0.0, 0.0, Severity.NONE),
        (0.3, -math.inf, 0.3, Severity.NONE),
    ],
)
def test_labels(delta: float, low: float, high: float, severity: Severity) -> None:
    """Size decides, a strict straddle of zero caps, an end that touches zero does not."""
    assert rate_severity(delta, low, high) is severity


def test_flags() -> None:
    """Fewer than five pairs, and an interval on both sides of zero."""
    assert rate_flags(0, 0.0, 0.0) == ()
    assert rate_flags(4, 0.0, 1.0) == (Flag.LOW_POWER,)
    assert rate_flags(4, -0.1, 0.1) == (Flag.LOW_POWER, Flag.CI_CROSSES_ZERO)
    assert rate_flags(5, -0.1, 0.1) == (Flag.CI_CROSSES_ZERO,)
