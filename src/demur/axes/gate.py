"""Does an axis fail the gate? Size, proof and direction together, as for refusals.

Laws: with a test, the proof is the adjusted p; without one, it is the low end of the interval, which must reach the size asked for by
itself; a change for the better fails nothing; where more pairs are missing than measured, nothing is passed; every answer says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.measure.severity import rate_severity
from demur.model.axis import Severity
from demur.model.comparison import Direction, GateMode, GateResult

if TYPE_CHECKING:
    from demur.model.axes import AxisResult

__all__ = ["axis_gate"]

_ORDER = tuple(Severity)


def axis_gate(result: AxisResult, *, fail_on: Severity = Severity.MODERATE, alpha: float = 0.05) -> GateResult:
    """Return whether an axis fails, and why."""
    failed, why = _gate_reason(result, fail_on, alpha)
    unsettled = not failed and fail_on is not Severity.NONE and result.missing > result.n
    if unsettled:
        why = f"{why}, but {result.missing:,} of {result.missing + result.n:,} were not measured"
    return GateResult(
        GateMode.DEMUR, result.worse, fail_on, failed=failed, why=f"{result.name}: {why}", unsettled=unsettled
    )


def _gate_reason(result: AxisResult, fail_on: Severity, alpha: float) -> tuple[bool, str]:
    if fail_on is Severity.NONE or _ORDER.index(result.severity) < _ORDER.index(fail_on):
        return False, f"{result.severity}, below {fail_on}"
    if not _minded(result):
        return False, f"{result.severity}, but not in the direction that is gated on"
    p = result.p if result.p_adjusted is None else result.p_adjusted
    if p is None:
        low = result.interval.low if result.interval else 0.0
        proven = _ORDER.index(rate_severity(low, low, low)) >= _ORDER.index(fail_on)
        return proven, f"{result.severity}, low end {low:.3f} of the interval"
    return p <= alpha, f"{result.severity}, p = {p:.2g}"


def _minded(result: AxisResult) -> bool:
    if result.worse is Direction.BOTH or not result.difference:
        return True
    return (result.difference > 0) == (result.worse is Direction.INCREASE)
