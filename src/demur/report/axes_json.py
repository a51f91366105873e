"""The axes beyond refusals for machines, as `schemas/diff.schema.json` describes them.

Laws: every result, part, detail and piece of evidence that was kept is in it; null means not known, not tested or not finite; an axis
that was not measured is in `absent` with its reason, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.json_values import finite, interval_object, safe_text

if TYPE_CHECKING:
    from demur.model.axes import AxisResult
    from demur.model.comparison import ComparedAxes

__all__ = ["axes_object"]


def axes_object(axes: ComparedAxes | None) -> dict[str, object] | None:
    """Return the axes as plain lists and dicts; None where none were asked for."""
    if axes is None:
        return None
    gates = dict(axes.gates)
    return {
        "multiplicity": safe_text(axes.report.multiplicity),
        "pairs": axes.pairs,
        "read": axes.read,
        "sampled": axes.sampled,
        "gated": [str(axis) for axis in axes.gated],
        "results": [
            _axis_object(result)
            | {
                "gate": None
                if (gate := gates.get(result.name)) is None
                else {"failed": gate.failed, "why": safe_text(gate.why)}
            }
            for result in axes.report.results
        ],
        "absent": [
            {"axis": str(absent.axis), "name": safe_text(absent.name), "why": safe_text(absent.why)}
            for absent in axes.report.absent
        ],
    }


def _axis_object(result: AxisResult) -> dict[str, object]:
    return {
        "axis": str(result.axis),
        "name": safe_text(result.name),
        "unit": str(result.unit),
        "n": result.n,
        "missing": result.missing,
        "baseline": finite(result.baseline),
        "candidate": finite(result.candidate),
        "difference": finite(result.difference),
        "interval": None if result.interval is None else interval_object(result.interval),
        "p": finite(result.p),
        "p_adjusted": finite(result.p_adjusted),
        "tested": safe_text(result.tested),
        "severity": str(result.severity),
        "worse": str(result.worse),
        "flags": [str(flag) for flag in result.flags],
        "details": [
            {"label": safe_text(d.label), "value": finite(d.value), "note": safe_text(d.note)} for d in result.details
        ],
        "evidence": [{"key": safe_text(e.key), "sentence": safe_text(e.sentence)} for e in result.evidence],
        "parts": [_axis_object(part) for part in result.parts],
    }
