"""A comparison for machines: one JSON object, as `schemas/diff.schema.json` describes it.

Laws: the object says which schema it follows; a change that would break a reader has a new number there; every flip that was kept
is in it, however many are shown to people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.axes_json import axes_object
from demur.report.diff_words import change_sentence
from demur.report.json_values import (
    difference_object,
    finite,
    interval_object,
    rate_object,
    run_object,
    safe_text,
    verdict_object,
)

if TYPE_CHECKING:
    from demur.model.comparison import Comparison, Flip, FlipSide, Missing, PairCounts, SliceComparison

__all__ = ["SCHEMA", "comparison_object"]

SCHEMA = "demur.diff/1"


def comparison_object(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as plain lists and dicts."""
    tally, clustering, correction = comparison.tally, comparison.clustering, comparison.correction
    bounds = comparison.missing_bounds
    return {
        "schema": SCHEMA,
        "decision": str(comparison.decision),
        "summary": change_sentence(comparison),
        "gate": _gate_object(comparison),
        "settings": _settings_object(comparison),
        "baseline": rate_object(comparison.baseline),
        "candidate": rate_object(comparison.candidate),
        "difference": difference_object(comparison.difference),
        "severity": str(comparison.severity),
        "bootstrap_interval": interval_object(comparison.seed_interval),
        "flags": [str(flag) for flag in comparison.flags],
        "pairing": str(tally.pairing),
        "pairs": _pairs_object(tally.counts),
        "power": {"mde": finite(comparison.power.mde), "n_to_settle": comparison.power.n_to_settle},
        "missing": _missing_object(tally.missing) | {"bounds": None if bounds is None else list(map(finite, bounds))},
        "clustering": None
        if clustering is None
        else {
            "field": safe_text(clustering.field),
            "count": clustering.count,
            "design_effect": finite(clustering.design_effect),
            "effective_n": finite(clustering.effective_n),
            "repeats": tally.repeats,
        },
        "flips_to_undo": comparison.flips_to_undo,
        "correction": None
        if correction is None
        else {
            "difference": difference_object(correction.difference),
            "weight": finite(correction.weight),
            "labelled": correction.labelled,
        },
        "axes": axes_object(comparison.axes),
        "slices": [_slice_of(part) for part in comparison.slices],
        "flips": [_flip_object(flip) for flip in tally.flips],
        "runs": {"baseline": run_object(tally.baseline), "candidate": run_object(tally.candidate)},
    }


def _gate_object(comparison: Comparison) -> dict[str, object]:
    gate = comparison.gate
    return {
        "failed": gate.failed,
        "unsettled": gate.unsettled,
        "why": safe_text(gate.why),
        "mode": str(gate.mode),
        "direction": str(gate.direction),
        "fail_on": str(gate.fail_on),
    }


def _settings_object(comparison: Comparison) -> dict[str, object]:
    settings = comparison.settings
    return {"alpha": finite(settings.alpha), "margin": finite(settings.margin), "seed": settings.seed}


def _pairs_object(counts: PairCounts) -> dict[str, object]:
    return {
        "n": counts.n,
        "both": counts.both,
        "baseline_only": counts.baseline_only,
        "candidate_only": counts.candidate_only,
        "neither": counts.neither,
    }


def _missing_object(missing: Missing) -> dict[str, object]:
    return {
        "total": missing.total,
        "baseline_unmatched": missing.baseline_unmatched,
        "candidate_unmatched": missing.candidate_unmatched,
        "baseline_failed": missing.baseline_failed,
        "candidate_failed": missing.candidate_failed,
        "both_failed": missing.both_failed,
    }


def _slice_of(part: SliceComparison) -> dict[str, object]:
    return {
        "field": safe_text(part.field),
        "value": safe_text(part.value),
        "pairs": _pairs_object(part.counts),
        "baseline": rate_object(part.baseline),
        "candidate": rate_object(part.candidate),
        "difference": difference_object(part.difference),
        "q": finite(part.q),
        "decision": str(part.decision),
    }


def _flip_object(flip: Flip) -> dict[str, object]:
    return {
        "key": safe_text(flip.key),
        "direction": str(flip.direction),
        "prompt": None if flip.prompt is None else safe_text(flip.prompt),
        "fields": {safe_text(name): safe_text(value) for name, value in flip.fields},
        "baseline": _flip_side_object(flip.baseline),
        "candidate": _flip_side_object(flip.candidate),
    }


def _flip_side_object(side: FlipSide) -> dict[str, object]:
    text = None if side.text is None else safe_text(side.text)
    place = {"source": safe_text(side.source), "line": side.line}
    return {**place, "text": text, "verdict": verdict_object(side.verdict)}
