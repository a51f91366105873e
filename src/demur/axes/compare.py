"""How further axes join a comparison of refusals, in one report and under one gate.

Safety is the comparison's own result, of all pairs, and its gate does not change by what else is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.fingerprint import fingerprint_result
from demur.axes.judge_axis import judge_rubric
from demur.axes.measures import AxisMeter
from demur.axes.pairs import PairSource, measured_pairs, measured_source
from demur.axes.results import RateRows, ValueRows, rate_result, value_result
from demur.axes.rules_axis import rule_result
from demur.axes.trajectory import trajectory_result
from demur.errors import EmptyInputError, UsageError
from demur.measure.decision import HOLM, holm, rate_severity
from demur.model.axes import AbsentAxis, AxesReport, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ComparedAxes, GateMode, GateResult
from demur.model.estimate import Direction, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.axes.measures import Floats
    from demur.axes.pairs import AxisPairs
    from demur.axes.rubric import HumanVerdict, RubricJudge
    from demur.axes.rules.rule import TraceRule
    from demur.detect.check import TextJudge
    from demur.model.axes import Rubric
    from demur.model.comparison import Comparison, PairedExchange

__all__ = [
    "ALL_AXES",
    "AxesSettings",
    "axes_asked",
    "axes_named",
    "axis_gate",
    "compare_axes",
    "compare_with_axes",
    "gated_axes",
]

_FEW = 3
# By whether the candidate refused.
_CHANGES = {
    True: "answered in the baseline, refused in the candidate",
    False: "refused in the baseline, answered in the candidate",
}


def compare_with_axes(
    comparison: Comparison,
    pairs: Iterable[PairedExchange] | PairSource,
    settings: AxesSettings,
    *,
    gated: Sequence[AxisName] = (AxisName.SAFETY,),
    total: int,
    read: int,
) -> Comparison:
    """Return the comparison with the axes that the settings ask for; `read` of `total` pairs are in `pairs`."""
    others = tuple(axis for axis in settings.axes if axis is not AxisName.SAFETY)
    # Pairs that count together for safety do so for every axis, by whatever field the user says.
    cluster = comparison.tally.cluster_field
    found = compare_axes(pairs, replace(settings, axes=others), cluster=cluster) if others else AxesReport(())
    safety = (_safety_of(comparison, settings.show),) if AxisName.SAFETY in settings.axes else ()
    results = (*safety, *found.results)
    # Adjusted once more with safety among them: the p of a report are one family.
    adjusted = holm([result.p for result in results])
    held = tuple(replace(result, p_adjusted=p) for result, p in zip(results, adjusted, strict=True))
    report = AxesReport(held, found.absent, HOLM)
    fail_on, alpha = comparison.settings.fail_on, settings.alpha
    gates = tuple(
        (r.name, comparison.gate if r.axis is AxisName.SAFETY else axis_gate(r, fail_on=fail_on, alpha=alpha))
        for r in held
        if r.axis in gated
    )
    axes = ComparedAxes(report, total, read, tuple(axis for axis in AxisName if axis in gated), gates)
    return replace(comparison, axes=axes, gate=_whole_gate(comparison, axes))


def _safety_of(comparison: Comparison, show: int) -> AxisResult:
    missing = comparison.tally.missing.total
    return AxisResult(
        AxisName.SAFETY,
        str(AxisName.SAFETY),
        AxisUnit.SHARE,
        comparison.baseline.value,
        comparison.candidate.value,
        comparison.difference.value,
        comparison.difference.interval,
        comparison.difference.p,
        comparison.severity,
        comparison.difference.n,
        tested="as many pairs changed one way as the other",
        worse=comparison.settings.gate_on,
        missing=missing,
        flags=(*comparison.flags, *((AxisFlag.MISSING,) if missing else ())),
        evidence=tuple(
            AxisEvidence(flip.key, _CHANGES[flip.direction is Direction.INCREASE])
            for flip in comparison.tally.flips[: max(0, show)]
        ),
    )


def _whole_gate(comparison: Comparison, axes: ComparedAxes) -> GateResult:
    """Return the gate of all axes that may fail it; that of safety alone stays as it is."""
    if axes.gated == (AxisName.SAFETY,):
        return comparison.gate
    failing = [gate.why for _, gate in axes.gates if gate.failed]
    # An axis that may fail the gate and is absent leaves it unsettled, never passed.
    lacking = [f"{absent.name} is absent, {absent.why}" for absent in axes.report.absent if absent.axis in axes.gated]
    lacking += [gate.why for _, gate in axes.gates if gate.unsettled]
    reasons = failing or lacking or [f"no change to fail on in {', '.join(axes.gated)}"]
    more = [f"and {len(reasons) - _FEW} more"] if len(reasons) > _FEW else []
    why = "; ".join([*reasons[:_FEW], *more])
    return replace(comparison.gate, failed=bool(failing), unsettled=bool(lacking) and not failing, why=why)


@dataclass(frozen=True, slots=True)
class AxesSettings:
    """What is asked of the axes.

    `trajectory_floor` is the share of pairs whose calls change between two runs of one and the same model, where it is known: what
    is above it is a change. `judge` is None where no endpoint is configured; `refusals` replaces the detector of refusals.
    """

    axes: tuple[AxisName, ...] = tuple(AxisName)
    rules: tuple[TraceRule, ...] = ()
    rubrics: tuple[Rubric, ...] = ()
    judge: RubricJudge | None = field(default=None, compare=False)
    human: tuple[tuple[str, HumanVerdict], ...] = ()
    """People's labels of some pairs, each under the name of its rubric."""
    refusals: TextJudge | None = field(default=None, compare=False)
    trajectory_floor: float = 0.0
    trajectory_by_session: bool = False
    alpha: float = 0.05
    seed: int = 0
    show: int = 20


_DEFAULTS = AxesSettings()


def compare_axes(
    pairs: Iterable[PairedExchange] | PairSource, settings: AxesSettings = _DEFAULTS, *, cluster: str | None = None
) -> AxesReport:
    """Return every axis that the settings ask for, measured or absent, with p adjusted across all of them.

    `cluster` is the field by which pairs of a source belong together; pairs that a caller made say so themselves.
    """
    judged = AxisName.JUDGE in settings.axes and settings.judge is not None and bool(settings.rubrics)
    rules = settings.rules if AxisName.RULES in settings.axes else ()
    meter = AxisMeter(rules, settings.refusals, texts=judged)
    if isinstance(pairs, PairSource):
        ready = measured_source(pairs, meter, cluster=cluster)
    else:
        ready = measured_pairs(pairs, meter)
    if not len(ready):
        raise EmptyInputError("no pair was answered in both runs", hint="check that both runs ask the same questions")
    found = [row for axis in AxisName if axis in settings.axes for row in _axis_results(axis, ready, settings)]
    results = [row for row in found if isinstance(row, AxisResult)]
    adjusted = holm([result.p for result in results])
    return AxesReport(
        tuple(replace(result, p_adjusted=p) for result, p in zip(results, adjusted, strict=True)),
        tuple(row for row in found if isinstance(row, AbsentAxis)),
        HOLM,
    )


def _axis_results(axis: AxisName, pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    match axis:
        case AxisName.SAFETY:
            before, after = pairs.baseline.refused, pairs.candidate.refused
            yield rate_result(
                axis,
                str(axis),
                RateRows(pairs.names, before, after, lambda i: _CHANGES[bool(after[i])]),
                worse=Direction.BOTH,
                lost=pairs.failed,
                alpha=settings.alpha,
                show=settings.show,
            )
        case AxisName.TRAJECTORY:
            yield trajectory_result(
                pairs,
                floor=settings.trajectory_floor,
                by_session=settings.trajectory_by_session,
                alpha=settings.alpha,
                show=settings.show,
            )
        case AxisName.JUDGE:
            yield from _judge_axes(pairs, settings)
        case AxisName.RULES:
            yield from [
                rule_result(pairs, place, rule, alpha=settings.alpha, show=settings.show)
                for place, rule in enumerate(settings.rules)
            ] or [AbsentAxis(axis, str(axis), "no rule is given")]
        case AxisName.FINGERPRINT:
            yield fingerprint_result(pairs, seed=settings.seed, alpha=settings.alpha, show=settings.show)
        case AxisName.LENGTH:
            # Tokens and characters do not mix, so tokens are used only where every response has them.
            unit, sides = AxisUnit.TOKENS, (pairs.baseline.tokens, pairs.candidate.tokens)
            if np.isnan(sides).any():
                unit, sides = AxisUnit.CHARACTERS, (pairs.baseline.chars, pairs.candidate.chars)
            yield _valued(axis, unit, sides, pairs=pairs, settings=settings)
        case AxisName.LATENCY:
            sides = pairs.baseline.latency_ms, pairs.candidate.latency_ms
            yield _valued(axis, AxisUnit.MILLISECONDS, sides, pairs=pairs, settings=settings)
        case AxisName.COST:
            sides = pairs.baseline.cost, pairs.candidate.cost
            yield _valued(axis, AxisUnit.COST, sides, pairs=pairs, settings=settings)


def _judge_axes(pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    if settings.judge is None or not settings.rubrics:
        why = "no judge is configured" if settings.judge is None else "no rubric is given"
        yield AbsentAxis(AxisName.JUDGE, str(AxisName.JUDGE), f"{why}, so no answer was judged")
        return
    for rubric in settings.rubrics:
        human = [verdict for name, verdict in settings.human if name == rubric.name]
        yield from judge_rubric(pairs, rubric, settings.judge, human=human, alpha=settings.alpha, show=settings.show)


def _valued(
    axis: AxisName, unit: AxisUnit, sides: tuple[Floats, Floats], *, pairs: AxisPairs, settings: AxesSettings
) -> AxisResult | AbsentAxis:
    known = np.flatnonzero(~(np.isnan(sides[0]) | np.isnan(sides[1])))
    if not len(known):
        return AbsentAxis(axis, str(axis), f"no pair has its {axis} on both sides")
    names = pairs.names if len(known) == len(pairs) else pairs.names.only(known)
    rows = ValueRows(names, sides[0][known], sides[1][known])
    lost = pairs.failed + len(pairs) - len(known)
    return value_result(axis, unit, rows, lost=lost, seed=settings.seed, alpha=settings.alpha, show=settings.show)


ALL_AXES = "all"


def axes_named(names: Sequence[str]) -> tuple[AxisName, ...]:
    """Return the axes of these names, in the order of a report; `all` is every one."""
    unknown = next((name for name in names if name != ALL_AXES and name not in set(AxisName)), None)
    if unknown is not None:
        raise UsageError(f"no axis `{unknown}`", hint=f"there are {', '.join(AxisName)}, and all")
    return tuple(axis for axis in AxisName if ALL_AXES in names or axis in names)


def axes_asked(axes: AxesSettings | Sequence[str] | None) -> AxesSettings | None:
    """Return what is asked of the axes; None where that is safety alone, which a comparison is without them."""
    if axes is None or isinstance(axes, AxesSettings):
        return axes
    if isinstance(axes, str):
        raise UsageError("axes are a list of names", hint=f'as in axes=["{axes}"]')
    named = axes_named(axes)
    return None if named in ((), (AxisName.SAFETY,)) else AxesSettings(axes=named)


def gated_axes(names: Sequence[str], asked: AxesSettings | None) -> tuple[AxisName, ...]:
    """Return the axes that may fail the gate, an error where one of them could not."""
    gated = axes_named(names)
    if not gated:
        raise UsageError("no axis may fail the gate", hint="name at least one, as safety")
    measured = {AxisName.SAFETY, *(asked.axes if asked else ())}
    unasked = next((axis for axis in gated if axis not in measured), None)
    if unasked is not None:
        raise UsageError(f"`{unasked}` may fail the gate and is not measured", hint=f"add it: --axes safety,{unasked}")
    if asked is not None:
        if AxisName.RULES in gated and not asked.rules:
            raise UsageError(
                "`rules` may fail the gate, and there is no rule", hint="name a file of them: --rules FILE"
            )
        if AxisName.JUDGE in gated and asked.judge is None:
            raise UsageError("`judge` may fail the gate, and none is configured", hint="set DEMUR_JUDGE_URL")
        if AxisName.JUDGE in gated and not asked.rubrics:
            raise UsageError("`judge` may fail the gate, and there is no rubric", hint="name one: --rubric NAME")
    return gated


_ORDER = tuple(Severity)


def axis_gate(result: AxisResult, *, fail_on: Severity = Severity.MODERATE, alpha: float = 0.05) -> GateResult:
    """Return whether an axis fails, and why."""
    failed, why = _gate_reason(result, fail_on, alpha)
    # With more pairs missing than measured, "no change" is not known.
    unsettled = not failed and fail_on is not Severity.NONE and result.missing > result.n
    if unsettled:
        why = f"{why}, but {result.missing:,} of {result.missing + result.n:,} were not measured"
    return GateResult(
        GateMode.DEMUR, result.worse, fail_on, failed=failed, why=f"{result.name}: {why}", unsettled=unsettled
    )


def _gate_reason(result: AxisResult, fail_on: Severity, alpha: float) -> tuple[bool, str]:
    if fail_on is Severity.NONE or _ORDER.index(result.severity) < _ORDER.index(fail_on):
        return False, f"{result.severity}, below {fail_on}"
    increased = (result.difference or 0) > 0
    if result.worse is not Direction.BOTH and result.difference and increased != (result.worse is Direction.INCREASE):
        return False, f"{result.severity}, but not in the direction that is gated on"
    p = result.p if result.p_adjusted is None else result.p_adjusted
    if p is None:
        # Without a test the whole interval must be as severe as what fails.
        low = result.interval.low if result.interval else 0.0
        proven = _ORDER.index(rate_severity(low, low, low)) >= _ORDER.index(fail_on)
        return proven, f"{result.severity}, low end {low:.3f} of the interval"
    return p <= alpha, f"{result.severity}, p = {p:.2g}"
