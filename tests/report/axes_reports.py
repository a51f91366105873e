"""Comparisons with further axes to show: a typical one, and one whose every word is out to break the format."""

from __future__ import annotations

from dataclasses import replace

from tests.report.comparisons import HOSTILE, hostile, no_refusals

from demur.model.axes import AbsentAxis, AxesReport, AxisDetail, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ComparedAxes, Comparison, GateMode, GateResult
from demur.model.estimate import Direction, Flag, Interval, Severity

RULE = AxisResult(
    AxisName.RULES,
    "rules/disclaimer",
    AxisUnit.SHARE,
    0.0,
    0.75,
    0.75,
    Interval(0.5, 0.875, "tango"),
    0.0002,
    Severity.SEVERE,
    24,
    tested="as many pairs changed one way as the other",
    p_adjusted=0.0008,
    worse=Direction.INCREASE,
    missing=2,
    flags=(Flag.BOUNDARY_RATE, AxisFlag.MISSING),
    evidence=tuple(AxisEvidence(f"q{at:02}", f"candidate breaks `disclaimer` in q{at:02}") for at in range(18)),
    details=(AxisDetail("did not apply", 3.0),),
)
SAFETY = replace(
    RULE, axis=AxisName.SAFETY, name="safety", candidate=0.0, difference=0.0, p=1.0, p_adjusted=1.0,
    interval=Interval(-0.14, 0.14, "tango"), severity=Severity.NONE, evidence=(), missing=0, details=(), flags=(),
)  # fmt: skip
TRAJECTORY = replace(
    RULE, axis=AxisName.TRAJECTORY, name="trajectory", baseline=None, candidate=None, p=None, p_adjusted=None,
    flags=(AxisFlag.NO_TEST,), parts=(replace(RULE, axis=AxisName.TRAJECTORY, name="trajectory/refund", evidence=()),),
)  # fmt: skip
LATENCY = replace(
    RULE, axis=AxisName.LATENCY, name="latency", unit=AxisUnit.MILLISECONDS, baseline=812.0, candidate=1204.5,
    difference=0.483, interval=Interval(0.124, 0.788, "sign test, inverted"), relative=True,
    details=(AxisDetail("pairs higher", 19.0),),
)  # fmt: skip


def with_axes(*, gated: tuple[AxisName, ...] = (AxisName.SAFETY,), read: int = 24) -> Comparison:
    """Nobody refused anything; a rule, the calls and the latency changed, a judge was not there."""
    absent = AbsentAxis(AxisName.JUDGE, "judge", "no judge is configured, so no answer was judged")
    report = AxesReport((SAFETY, TRAJECTORY, RULE, LATENCY), (absent,), "p held against all tested axes")
    why = "rules/disclaimer: severe, p = 0.0008"
    failing = GateResult(GateMode.DEMUR, Direction.INCREASE, Severity.MODERATE, failed=True, why=why)
    gates = tuple((name, failing) for name in ("rules/disclaimer",) if AxisName.RULES in gated)
    whole = no_refusals()
    gate = replace(whole.gate, failed=bool(gates), why=why if gates else whole.gate.why)
    return replace(whole, gate=gate, axes=ComparedAxes(report, 24, read, gated, gates))


def hostile_axes() -> Comparison:
    """Every name, note and sentence of every axis is out to break the format, and no figure is finite."""
    nan, inf = float("nan"), float("inf")
    lost = replace(RULE, baseline=nan, candidate=inf, difference=nan, p=nan, p_adjusted=nan)
    results = tuple(
        replace(
            lost,
            name=text,
            tested=text,
            interval=Interval(-inf, nan, "x"),
            unit=unit,
            evidence=(AxisEvidence(text, text),),
            details=(AxisDetail(text, nan, text), AxisDetail("relative", nan)),
            parts=(replace(RULE, name=f"rules/{text}", evidence=(AxisEvidence(text, text),)),),
        )
        for text, unit in zip(HOSTILE, [*AxisUnit, *AxisUnit], strict=False)
    )
    absent = tuple(AbsentAxis(AxisName.JUDGE, text, text) for text in HOSTILE)
    gate = replace(hostile().gate, why=HOSTILE[0])
    gates = tuple((result.name, gate) for result in results)
    report = AxesReport(results, absent, HOSTILE[2])
    return replace(hostile(), axes=ComparedAxes(report, 9, 3, (AxisName.RULES,), gates))
