"""How further axes join a comparison of refusals, in one report and under one gate.

Safety is the comparison's own result, of all pairs, and its gate does not change by what else is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.fingerprint import fingerprint_result
from demur.axes.judge_axis import judge_rubric
from demur.axes.measures import AxisMeter
from demur.axes.pairs import PairSource, measured_pairs, measured_source
from demur.axes.results import RateRows, rate_result
from demur.axes.rules_axis import rule_result
from demur.axes.trajectory import trajectory_result
from demur.axes.values import ValueRows, ratio_severity, unanswered_result, value_results
from demur.errors import EmptyInputError, UsageError
from demur.measure.decision import HOLM, holm, rate_severity
from demur.model.axes import AbsentAxis, AxesReport, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ComparedAxes, GateMode, GateResult
from demur.model.estimate import Direction, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    floor: Iterable[PairedExchange] | PairSource | None = None,
) -> Comparison:
    """Return the comparison with the axes that the settings ask for; `read` of `total` pairs are in `pairs`.

    `floor` are the pairs of the baseline with a second run of the same agent.
    """
    others = tuple(axis for axis in settings.axes if axis is not AxisName.SAFETY)
    # Pairs that count together for safety do so for every axis, by whatever field the user says.
    cluster = comparison.tally.cluster_field
    asked = replace(settings, axes=others)
    found = compare_axes(pairs, asked, cluster=cluster, floor=floor) if others else AxesReport(())
    safety = (_safety_of(comparison, settings.show),) if AxisName.SAFETY in settings.axes else ()
    results = (*safety, *found.results)
    # Adjusted once more with safety among them: the p of a report are one family.
    held = _held(results)
    report = AxesReport(held, found.absent, HOLM)
    gates = tuple(
        (result.name, comparison.gate if result.axis is AxisName.SAFETY else _gate_by(result, comparison, settings))
        for result in held
        if result.axis in gated
    )
    axes = ComparedAxes(report, total, read, tuple(axis for axis in AxisName if axis in gated), gates)
    return replace(comparison, axes=axes, gate=_whole_gate(comparison, axes))


def _gate_by(result: AxisResult, comparison: Comparison, settings: AxesSettings) -> GateResult:
    asked = comparison.settings
    return axis_gate(result, fail_on=asked.fail_on, alpha=settings.alpha, fail_inconclusive=asked.fail_inconclusive)


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

    `floor` is a second run of the baseline's agent, by which the trajectory axis knows what changes by chance; `trajectory_floor` is the share
    of pairs whose calls change between two such runs, where that is known instead. With neither the axis fails no gate. `judge` is None where no endpoint is configured; `refusals` replaces the detector of refusals.
    """

    axes: tuple[AxisName, ...] = tuple(AxisName)
    rules: tuple[TraceRule, ...] = ()
    rubrics: tuple[Rubric, ...] = ()
    judge: RubricJudge | None = field(default=None, compare=False)
    human: tuple[tuple[str, HumanVerdict], ...] = ()
    """People's labels of some pairs, each under the name of its rubric."""
    refusals: TextJudge | None = field(default=None, compare=False)
    floor: object = field(default=None, compare=False)
    trajectory_floor: float | None = None
    trajectory_by_session: bool = False
    alpha: float = 0.05
    seed: int = 0
    show: int = 20


_DEFAULTS = AxesSettings()


def compare_axes(
    pairs: Iterable[PairedExchange] | PairSource,
    settings: AxesSettings = _DEFAULTS,
    *,
    cluster: str | None = None,
    floor: Iterable[PairedExchange] | PairSource | None = None,
) -> AxesReport:
    """Return every axis that the settings ask for, measured or absent, with p adjusted across all of them.

    `cluster` is the field by which pairs of a source belong together; pairs that a caller made say so themselves. `floor` are the pairs of
    the baseline with a second run of the same agent.
    """
    judged = AxisName.JUDGE in settings.axes and settings.judge is not None and bool(settings.rubrics)
    rules = settings.rules if AxisName.RULES in settings.axes else ()
    meter = AxisMeter(rules, settings.refusals, texts=judged)
    ready = _measured(pairs, meter, cluster)
    if not len(ready):
        raise EmptyInputError("no pair was answered in both runs", hint="check that both runs ask the same questions")
    again = None
    if floor is not None and AxisName.TRAJECTORY in settings.axes:
        again = _measured(floor, AxisMeter((), settings.refusals), cluster)
    found = [row for axis in AxisName if axis in settings.axes for row in _axis_results(axis, ready, settings, again)]
    return AxesReport(
        _held([row for row in found if isinstance(row, AxisResult)]),
        tuple(row for row in found if isinstance(row, AbsentAxis)),
        HOLM,
    )


def _held(results: Sequence[AxisResult]) -> tuple[AxisResult, ...]:
    """Return the results with p held against all of them by Holm's method."""
    # What can be worse in one direction alone is a false alarm half as often as its two-sided p says, and is held at that; no
    # adjusted p is below p itself.
    halves = [result.p if result.p is None or result.worse is Direction.BOTH else result.p / 2 for result in results]
    return tuple(
        replace(result, p_adjusted=None if p is None or result.p is None else max(p, result.p))
        for result, p in zip(results, holm(halves), strict=True)
    )


def _measured(pairs: Iterable[PairedExchange] | PairSource, meter: AxisMeter, cluster: str | None) -> AxisPairs:
    return (
        measured_source(pairs, meter, cluster=cluster)
        if isinstance(pairs, PairSource)
        else measured_pairs(pairs, meter)
    )


def _axis_results(
    axis: AxisName, pairs: AxisPairs, settings: AxesSettings, floor: AxisPairs | None
) -> Iterator[AxisResult | AbsentAxis]:
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
                floor=settings.trajectory_floor if floor is None else floor,
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
            yield from _valued(axis, unit, ValueRows(pairs.names, *sides, pairs.failed), settings)
        case AxisName.LATENCY:
            timed = pairs.timed
            rows = ValueRows(timed.names, timed.baseline, timed.candidate)
            yield from _valued(axis, AxisUnit.MILLISECONDS, rows, settings)
            unanswered = unanswered_result(timed, alpha=settings.alpha, show=settings.show)
            yield from () if unanswered is None else (unanswered,)
        case AxisName.COST:
            rows = ValueRows(pairs.names, pairs.baseline.cost, pairs.candidate.cost, pairs.failed)
            yield from _valued(axis, AxisUnit.COST, rows, settings)


def _judge_axes(pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    if settings.judge is None or not settings.rubrics:
        why = "no judge is configured" if settings.judge is None else "no rubric is given"
        yield AbsentAxis(AxisName.JUDGE, str(AxisName.JUDGE), f"{why}, so no answer was judged")
        return
    for rubric in settings.rubrics:
        human = [verdict for name, verdict in settings.human if name == rubric.name]
        yield from judge_rubric(pairs, rubric, settings.judge, human=human, alpha=settings.alpha, show=settings.show)


def _valued(
    axis: AxisName, unit: AxisUnit, rows: ValueRows, settings: AxesSettings
) -> Iterator[AxisResult | AbsentAxis]:
    before, after = rows.baseline, rows.candidate
    # Where no response came on either side, nobody knows which would have been slower.
    known = np.flatnonzero(~(np.isnan(before) | np.isnan(after) | (np.isinf(before) & np.isinf(after))))
    if not len(known):
        yield AbsentAxis(axis, str(axis), f"no pair has its {axis} on both sides")
        return
    names = rows.names if len(known) == len(before) else rows.names.only(known)
    kept = ValueRows(names, before[known], after[known], rows.lost + len(before) - len(known))
    yield from value_results(axis, unit, kept, seed=settings.seed, alpha=settings.alpha, show=settings.show)


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


def axis_gate(
    result: AxisResult, *, fail_on: Severity = Severity.MODERATE, alpha: float = 0.05, fail_inconclusive: bool = False
) -> GateResult:
    """Return whether an axis fails, passes, or is undecided, and why.

    With `fail_inconclusive` it is undecided also where its interval reaches what would fail.
    """
    failed, why = _gate_reason(result, fail_on, alpha)
    doubt = "" if failed or fail_on is Severity.NONE else _doubt(result)
    if not doubt and not failed and fail_inconclusive and _reaches(result, fail_on):
        doubt = f"{fail_on} is not excluded, and more pairs are needed to say so"
    why = f"{result.name}: {why}{', but ' if doubt else ''}{doubt}"
    return GateResult(GateMode.DEMUR, result.worse, fail_on, failed=failed, why=why, unsettled=bool(doubt))


def _doubt(result: AxisResult) -> str:
    """Return why "no change" cannot be said of an axis, empty where it can."""
    if result.undecidable:
        return result.undecidable
    # With more pairs missing than measured, "no change" is not known.
    lost = result.missing > result.n
    return f"{result.missing:,} of {result.missing + result.n:,} were not measured" if lost else ""


def _reaches(result: AxisResult, fail_on: Severity) -> bool:
    """Return whether the interval of an axis holds a change that would fail."""
    if result.interval is None or fail_on is Severity.NONE:
        return False
    ends = (result.interval.high, Direction.DECREASE), (result.interval.low, Direction.INCREASE)
    far = [end for end, away in ends if result.worse is not away and (end > 0) is (away is Direction.DECREASE)]
    sizes = (ratio_severity(1 + end, None) if result.relative else rate_severity(end, end, end) for end in far)
    # An end that is infinite is no size, and holds any.
    return any(math.isinf(end) for end in far) or any(_ORDER.index(size) >= _ORDER.index(fail_on) for size in sizes)


def _gate_reason(result: AxisResult, fail_on: Severity, alpha: float) -> tuple[bool, str]:
    if result.p is None and result.undecidable:
        return False, str(result.severity)
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
