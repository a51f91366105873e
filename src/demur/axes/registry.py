"""What changed beyond refusals? Paired exchanges through every axis that is asked for.

Laws: an axis that cannot be measured is absent with its reason, never a row of zeros; all p of a report are adjusted together; no pairs at
all is an error, never a pass; the same pairs, settings and seed give the same report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.fingerprint_axis import fingerprint_result
from demur.axes.judge_axis import judge_rubric
from demur.axes.measures import AxisMeter
from demur.axes.pairs import PairSource, measured_pairs, measured_source
from demur.axes.results import RateRows, ValueRows, rate_result, value_result
from demur.axes.rules_axis import rule_result
from demur.axes.trajectory_axis import trajectory_result
from demur.errors import EmptyInputError
from demur.measure.multiplicity import HOLM, holm
from demur.model.axes import AbsentAxis, AxesReport, AxisName, AxisResult, AxisUnit
from demur.model.comparison import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demur.axes.measures import Floats
    from demur.axes.pairs import AxisPairs
    from demur.axes.rubric import HumanVerdict, RubricJudge
    from demur.axes.rules.rule import TraceRule
    from demur.detect.ports import TextJudge
    from demur.model.axes import PairedExchange
    from demur.model.rubric import Rubric

__all__ = ["AxesSettings", "compare_axes"]


@dataclass(frozen=True, slots=True)
class AxesSettings:
    """What is asked of the axes.

    `trajectory_floor` is the share of pairs whose calls change between two runs of one and the same model, where it is known: what
    lies above it is a change. `judge` is None where no endpoint is configured; `refusals` is another way to tell a refusal.
    """

    axes: tuple[AxisName, ...] = tuple(AxisName)
    rules: tuple[TraceRule, ...] = ()
    rubrics: tuple[Rubric, ...] = ()
    judge: RubricJudge | None = field(default=None, compare=False)
    human: tuple[tuple[str, HumanVerdict], ...] = ()
    """What people say of some pairs, each under the name of its rubric."""
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
    found = [row for axis in AxisName if axis in settings.axes for row in _measured(axis, ready, settings)]
    results = [row for row in found if isinstance(row, AxisResult)]
    adjusted = holm([result.p for result in results])
    return AxesReport(
        tuple(replace(result, p_adjusted=p) for result, p in zip(results, adjusted, strict=True)),
        tuple(row for row in found if isinstance(row, AbsentAxis)),
        HOLM,
    )


def _measured(axis: AxisName, pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    match axis:
        case AxisName.SAFETY:
            yield _safety(pairs, settings)
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
            yield from _ruled(pairs, settings)
        case AxisName.FINGERPRINT:
            yield fingerprint_result(pairs, seed=settings.seed, alpha=settings.alpha, show=settings.show)
        case AxisName.LENGTH:
            yield _length(pairs, settings)
        case AxisName.LATENCY:
            sides = pairs.baseline.latency_ms, pairs.candidate.latency_ms
            yield _valued(axis, AxisUnit.MILLISECONDS, sides, pairs=pairs, settings=settings)
        case AxisName.COST:
            sides = pairs.baseline.cost, pairs.candidate.cost
            yield _valued(axis, AxisUnit.COST, sides, pairs=pairs, settings=settings)


def _safety(pairs: AxisPairs, settings: AxesSettings) -> AxisResult:
    words = {True: "refused", False: "answered"}
    before, after = pairs.baseline.refused, pairs.candidate.refused

    def sentence(i: int) -> str:
        return f"{words[bool(before[i])]} in the baseline, {words[bool(after[i])]} in the candidate"

    return rate_result(
        AxisName.SAFETY,
        str(AxisName.SAFETY),
        RateRows(pairs.names, before, after, sentence),
        worse=Direction.BOTH,
        lost=pairs.failed,
        alpha=settings.alpha,
        show=settings.show,
    )


def _judge_axes(pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    if settings.judge is None or not settings.rubrics:
        why = "no judge is configured" if settings.judge is None else "no rubric is given"
        yield AbsentAxis(AxisName.JUDGE, str(AxisName.JUDGE), f"{why}, so no answer was judged")
        return
    for rubric in settings.rubrics:
        human = [verdict for name, verdict in settings.human if name == rubric.name]
        yield from judge_rubric(pairs, rubric, settings.judge, human=human, alpha=settings.alpha, show=settings.show)


def _ruled(pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    if not settings.rules:
        yield AbsentAxis(AxisName.RULES, str(AxisName.RULES), "no rule is given")
    for place, rule in enumerate(settings.rules):
        yield rule_result(pairs, place, rule, alpha=settings.alpha, show=settings.show)


def _length(pairs: AxisPairs, settings: AxesSettings) -> AxisResult | AbsentAxis:
    """Return the length in output tokens where every answer's are known, else in characters: the two do not mix."""
    counted = pairs.baseline.tokens, pairs.candidate.tokens
    if any(np.isnan(side).any() for side in counted):
        written = pairs.baseline.chars, pairs.candidate.chars
        return _valued(AxisName.LENGTH, AxisUnit.CHARACTERS, written, pairs=pairs, settings=settings)
    return _valued(AxisName.LENGTH, AxisUnit.TOKENS, counted, pairs=pairs, settings=settings)


def _valued(
    axis: AxisName,
    unit: AxisUnit,
    sides: tuple[Floats, Floats],
    *,
    pairs: AxisPairs,
    settings: AxesSettings,
) -> AxisResult | AbsentAxis:
    known = np.flatnonzero(~(np.isnan(sides[0]) | np.isnan(sides[1])))
    if not len(known):
        return AbsentAxis(axis, str(axis), f"no pair has its {axis} on both sides")
    names = pairs.names if len(known) == len(pairs) else pairs.names.only(known)
    rows = ValueRows(names, sides[0][known], sides[1][known])
    lost = pairs.failed + len(pairs) - len(known)
    return value_result(axis, unit, rows, lost=lost, seed=settings.seed, alpha=settings.alpha, show=settings.show)
