"""How do further axes join a comparison of refusals: in one report, under one gate?

Laws: safety is the comparison's own, of all pairs, and stands among the others with the same figures; all p of the report are adjusted
together; the gate fails where an axis that may fail it does; an axis that may fail it and is absent leaves the gate unsettled,
never passed; safety's own gate does not change by what else was asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from demur.axes.gate import axis_gate
from demur.axes.registry import compare_axes
from demur.measure.multiplicity import HOLM, holm
from demur.model.axes import AxesReport, AxisEvidence, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ComparedAxes, Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.axes.pairs import PairSource
    from demur.axes.registry import AxesSettings
    from demur.model.axes import PairedExchange
    from demur.model.comparison import Comparison, Flip, GateResult

__all__ = ["compare_with_axes"]

_FEW = 3


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
    report = _whole_report(comparison, pairs, settings)
    gates = tuple(
        (result.name, _gate_of(result, comparison, settings.alpha)) for result in report.results if result.axis in gated
    )
    axes = ComparedAxes(report, total, read, tuple(axis for axis in AxisName if axis in gated), gates)
    return replace(comparison, axes=axes, gate=_whole_gate(comparison, axes))


def _whole_report(
    comparison: Comparison, pairs: Iterable[PairedExchange] | PairSource, settings: AxesSettings
) -> AxesReport:
    others = tuple(axis for axis in settings.axes if axis is not AxisName.SAFETY)
    # Pairs that count together for safety do so for every axis, by whatever field the user says.
    cluster = comparison.tally.cluster_field
    found = compare_axes(pairs, replace(settings, axes=others), cluster=cluster) if others else AxesReport(())
    safety = (_safety_of(comparison, settings.show),) if AxisName.SAFETY in settings.axes else ()
    results = (*safety, *found.results)
    adjusted = holm([result.p for result in results])
    held = tuple(replace(result, p_adjusted=p) for result, p in zip(results, adjusted, strict=True))
    return AxesReport(held, found.absent, HOLM)


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
        evidence=tuple(AxisEvidence(flip.key, _flip_sentence(flip)) for flip in comparison.tally.flips[: max(0, show)]),
    )


def _flip_sentence(flip: Flip) -> str:
    if flip.direction is Direction.INCREASE:
        return "answered in the baseline, refused in the candidate"
    return "refused in the baseline, answered in the candidate"


def _gate_of(result: AxisResult, comparison: Comparison, alpha: float) -> GateResult:
    if result.axis is AxisName.SAFETY:
        return comparison.gate
    return axis_gate(result, fail_on=comparison.settings.fail_on, alpha=alpha)


def _whole_gate(comparison: Comparison, axes: ComparedAxes) -> GateResult:
    """Return the gate of all axes that may fail it; that of safety alone stays as it is."""
    if axes.gated == (AxisName.SAFETY,):
        return comparison.gate
    failing = [gate.why for _, gate in axes.gates if gate.failed]
    lacking = [f"{absent.name} is absent, {absent.why}" for absent in axes.report.absent if absent.axis in axes.gated]
    lacking += [gate.why for _, gate in axes.gates if gate.unsettled]
    said = failing or lacking or [f"no change to fail on in {', '.join(axes.gated)}"]
    more = [f"and {len(said) - _FEW} more"] if len(said) > _FEW else []
    why = "; ".join([*said[:_FEW], *more])
    return replace(comparison.gate, failed=bool(failing), unsettled=bool(lacking) and not failing, why=why)
