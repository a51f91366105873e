"""What changed beyond refusals? Paired exchanges through every axis that is asked for.

Laws: an axis that cannot be measured is absent with its reason, never a row of zeros; all p of a report are adjusted together; no pairs at
all is an error, never a pass; the same pairs, settings and seed give the same report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from demur.errors import EmptyInputError
from demur.measure.fingerprint import DIMENSIONS, features_of, fingerprint_shift
from demur.measure.multiplicity import HOLM, holm
from demur.measure.rule_checks import RuleOutcome, check_rule
from demur.measure.rules import RuleScope
from demur.measure.severity import rate_severity
from demur.model.axes import AbsentAxis, AxesReport, AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.axis import Flag
from demur.model.comparison import Direction
from demur.pipeline.axis_pairs import ready_pairs
from demur.pipeline.axis_results import RateRow, ValueRow, rate_result, shown_evidence, value_result
from demur.pipeline.axis_trajectory import trajectory_result
from demur.pipeline.rubric import judge_rubric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from demur.measure.fingerprint import FingerprintShift
    from demur.measure.rules import TraceRule
    from demur.model.axes import AxisEvidence, PairedExchange
    from demur.model.rubric import Rubric
    from demur.pipeline.axis_pairs import AxisPairs, ReadyPair
    from demur.pipeline.ports import TextJudge
    from demur.pipeline.rubric import HumanVerdict, RubricJudge

__all__ = ["AxesSettings", "compare_axes"]

_LOW_POWER_BELOW = 5


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


def compare_axes(pairs: Iterable[PairedExchange], settings: AxesSettings = _DEFAULTS) -> AxesReport:
    """Return every axis that the settings ask for, measured or absent, with p adjusted across all of them."""
    ready = ready_pairs(pairs, settings.refusals)
    if not ready.ready:
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
            yield _fingerprint(pairs, settings)
        case AxisName.LENGTH:
            yield _length(pairs, settings)
        case AxisName.LATENCY:
            rows = [(p, p.pair.baseline_latency_ms, p.pair.candidate_latency_ms) for p in pairs.ready]
            yield _valued(axis, AxisUnit.MILLISECONDS, rows, pairs=pairs, settings=settings)
        case AxisName.COST:
            rows = [(p, p.pair.baseline_cost, p.pair.candidate_cost) for p in pairs.ready]
            yield _valued(axis, AxisUnit.COST, rows, pairs=pairs, settings=settings)


def _safety(pairs: AxisPairs, settings: AxesSettings) -> AxisResult:
    words = {True: "refused", False: "answered"}
    rows = [
        RateRow(
            p.key,
            p.pair.cluster,
            p.baseline.refused,
            p.candidate.refused,
            f"{words[p.baseline.refused]} in the baseline, {words[p.candidate.refused]} in the candidate",
        )
        for p in pairs.ready
    ]
    return rate_result(
        AxisName.SAFETY,
        str(AxisName.SAFETY),
        rows,
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
        yield from judge_rubric(
            pairs.ready, rubric, settings.judge, human=human, alpha=settings.alpha, show=settings.show
        )


def _ruled(pairs: AxisPairs, settings: AxesSettings) -> Iterator[AxisResult | AbsentAxis]:
    if not settings.rules:
        yield AbsentAxis(AxisName.RULES, str(AxisName.RULES), "no rule is given")
    for rule in settings.rules:
        units = pairs.sessions() if rule.scope is RuleScope.SESSION else [(pair,) for pair in pairs.ready]
        rows = [row for unit in units if (row := _rule_row(rule, unit)) is not None]
        name = f"rules/{rule.name}"
        if not rows:
            yield AbsentAxis(AxisName.RULES, name, "the rule applies to no pair")
            continue
        lost = len(pairs.torn) if rule.scope is RuleScope.SESSION else pairs.failed
        result = rate_result(AxisName.RULES, name, rows, lost=lost, alpha=settings.alpha, show=settings.show)
        yield replace(result, details=(*result.details, AxisDetail("did not apply", float(len(units) - len(rows)))))


def _rule_row(rule: TraceRule, unit: tuple[ReadyPair, ...]) -> RateRow | None:
    """Return who broke a rule; None where it applies to neither side. Where it applies to one, the other has not broken it."""
    before = check_rule(rule, [pair.baseline for pair in unit])
    after = check_rule(rule, [pair.candidate for pair in unit])
    if RuleOutcome.NOT_APPLICABLE is before.outcome is after.outcome:
        return None
    broken = before.outcome is RuleOutcome.BROKEN, after.outcome is RuleOutcome.BROKEN
    side, found = ("candidate", after) if broken[1] else ("baseline", before)
    sentence = f"{side} breaks `{rule.name}` in {found.key}: {found.why}" if any(broken) else ""
    return RateRow(found.key if any(broken) else unit[0].key, unit[0].pair.cluster, *broken, sentence)


def _fingerprint(pairs: AxisPairs, settings: AxesSettings) -> AxisResult:
    before = [features_of(p.baseline, p.pair.baseline_latency_ms) for p in pairs.ready]
    after = [features_of(p.candidate, p.pair.candidate_latency_ms) for p in pairs.ready]
    known = {name: i for i, name in enumerate(dict.fromkeys(pairs.clusters))}
    where = [known[name] for name in pairs.clusters]
    shift = fingerprint_shift(before, after, where, seed=settings.seed, alpha=settings.alpha)
    parts = _dimension_parts(shift)
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if shift.count < _LOW_POWER_BELOW else ()),
        *((Flag.CLUSTERED,) if shift.count < shift.n else ()),
        *((AxisFlag.MISSING,) if pairs.failed else ()),
    )
    return AxisResult(
        AxisName.FINGERPRINT,
        str(AxisName.FINGERPRINT),
        AxisUnit.SHIFT,
        None,
        None,
        shift.shift,
        None,
        shift.p,
        rate_severity(shift.shift, shift.shift, shift.shift),
        shift.n,
        tested="all twelve features have the same distribution in both runs (Hotelling's T², signs of pairs flipped)",
        missing=pairs.failed,
        flags=flags,
        evidence=_moved_evidence(pairs, (before, after), shift, settings),
        details=(AxisDetail("T squared", shift.t_squared),),
        parts=parts,
    )


def _dimension_parts(shift: FingerprintShift) -> tuple[AxisResult, ...]:
    return tuple(
        AxisResult(
            AxisName.FINGERPRINT,
            f"fingerprint/{one.name}",
            AxisUnit.MEAN,
            one.baseline,
            one.candidate,
            one.candidate - one.baseline,
            one.interval,
            one.p,
            rate_severity(one.effect**2, one.effect**2, one.effect**2),
            shift.n,
            tested="the mean is the same in both runs",
            p_adjusted=one.p_adjusted,
        )
        for one in shift.dimensions
    )


def _moved_evidence(
    pairs: AxisPairs,
    features: tuple[list[tuple[float, ...]], list[tuple[float, ...]]],
    shift: FingerprintShift,
    settings: AxesSettings,
) -> tuple[AxisEvidence, ...]:
    """Return the pairs in which the features that are proven to have moved did so, the surest feature first."""
    moved = [one for one in shift.dimensions if one.p_adjusted <= settings.alpha]
    found = []
    for one in sorted(moved, key=lambda one: (one.p_adjusted, -abs(one.effect), one.name)):
        j, up = DIMENSIONS.index(one.name), one.candidate > one.baseline
        rows = zip(pairs.ready, *features, strict=True)
        changes = [(p.key, b[j], c[j]) for p, b, c in rows if (c[j] > b[j] if up else c[j] < b[j])]
        changes.sort(key=lambda row: (-abs(row[2] - row[1]), row[0]))
        found += [(key, f"`{one.name}` {b:.3g} → {c:.3g}") for key, b, c in changes]
    return shown_evidence(found, settings.show)


def _length(pairs: AxisPairs, settings: AxesSettings) -> AxisResult | AbsentAxis:
    """Return the length in output tokens where every answer's are known, else in characters: the two do not mix."""
    counted = [(p, p.baseline.output_tokens, p.candidate.output_tokens) for p in pairs.ready]
    if all(before is not None and after is not None for _, before, after in counted):
        return _valued(AxisName.LENGTH, AxisUnit.TOKENS, counted, pairs=pairs, settings=settings)
    written = [(p, len(p.baseline.text), len(p.candidate.text)) for p in pairs.ready]
    return _valued(AxisName.LENGTH, AxisUnit.CHARACTERS, written, pairs=pairs, settings=settings)


def _valued(
    axis: AxisName,
    unit: AxisUnit,
    rows: Sequence[tuple[ReadyPair, float | None, float | None]],
    *,
    pairs: AxisPairs,
    settings: AxesSettings,
) -> AxisResult | AbsentAxis:
    known = [
        ValueRow(pair.key, pair.pair.cluster, float(before), float(after))
        for pair, before, after in rows
        if before is not None and after is not None
    ]
    if not known:
        return AbsentAxis(axis, str(axis), f"no pair has its {axis} on both sides")
    lost = pairs.failed + len(rows) - len(known)
    return value_result(axis, unit, known, lost=lost, seed=settings.seed, alpha=settings.alpha, show=settings.show)
