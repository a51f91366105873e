"""Comparisons and scans as JSON, described by `schemas/diff.schema.json` and `schemas/scan.schema.json`.

A rate is an object with its interval and n; null means not known, not tested or not finite. Nothing that was kept is left out.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from demur.report.diff_words import change_sentence
from demur.report.labels import labels_object

if TYPE_CHECKING:
    from demur.model.axes import AxisResult
    from demur.model.comparison import ComparedAxes, Comparison, FlipSide, PairCounts
    from demur.model.estimate import Difference, Interval, Rate
    from demur.model.labels import CorrectedRate, LabelCorrection
    from demur.model.run import RunSummary, Scan

__all__ = ["DIFF_SCHEMA", "SCAN_SCHEMA", "comparison_object", "finite", "rate_object", "safe_text", "scan_object"]

# A change that would break a reader gets a new number here.
DIFF_SCHEMA = "demur.diff/2"
SCAN_SCHEMA = "demur.scan/1"


def comparison_object(comparison: Comparison) -> dict[str, object]:
    """Return the comparison as plain lists and dicts."""
    tally, clustering, correction = comparison.tally, comparison.clustering, comparison.correction
    return {
        "schema": DIFF_SCHEMA,
        **_decision_objects(comparison),
        "baseline": rate_object(comparison.baseline),
        "candidate": rate_object(comparison.candidate),
        "difference": _difference_object(comparison.difference),
        "severity": str(comparison.severity),
        "bootstrap_interval": _interval_object(comparison.seed_interval),
        "flags": [str(flag) for flag in comparison.flags],
        "pairing": str(tally.pairing),
        "pairs": _pairs_object(tally.counts),
        "turnover": {"kept": finite(tally.counts.kept), "kappa": finite(tally.counts.kappa)},
        "prompts_changed": tally.prompts_changed,
        # Null where the pairs were not looked at one after another.
        "evidence": tally.evidence
        and {
            "now": finite(tally.evidence.now),
            "highest": finite(tally.evidence.highest),
            "proven_at": tally.evidence.proven_at,
            "pairs": tally.evidence.pairs,
        },
        "power": {"mde": finite(comparison.power.mde), "n_to_settle": comparison.power.n_to_settle},
        **_missing_objects(comparison),
        "clustering": clustering
        and {
            "field": safe_text(clustering.field),
            "count": clustering.count,
            "design_effect": finite(clustering.design_effect),
            "effective_n": finite(clustering.effective_n),
            "repeats": tally.repeats,
        },
        "flips_to_undo": comparison.flips_to_undo,
        "correction": correction and _correction_object(correction),
        # Null where no axis was asked for, which is not the same as an empty list of results.
        "axes": comparison.axes and _axes_object(comparison.axes),
        **_details(comparison),
    }


def _decision_objects(comparison: Comparison) -> dict[str, object]:
    """Return what was decided, by which settings."""
    gate, settings = comparison.gate, comparison.settings
    return {
        "decision": {
            "conclusion": str(comparison.decision.conclusion),
            "change": str(comparison.decision.change),
            "reason": safe_text(comparison.decision.reason),
        },
        # The first sentence of the report, so that a bot can post it without working it out again.
        "summary": change_sentence(comparison),
        "gate": {
            "failed": gate.failed,
            "undecided": gate.word == "UNDECIDED",
            "unsettled": gate.unsettled,
            "why": safe_text(gate.why),
            "mode": str(gate.mode),
            "direction": str(gate.direction),
            "fail_on": str(gate.fail_on),
        },
        # What it takes, beside the same two runs, to get the same numbers again.
        "settings": {
            "alpha": finite(settings.alpha),
            "margin": finite(settings.margin),
            "seed": settings.seed,
            "min_paired": finite(settings.min_paired),
            "min_ratio": finite(settings.min_ratio),
            "min_flips": settings.min_flips,
            "prove_no_increase": finite(settings.prove_no_increase),
            "sequential": settings.sequential,
            # How many candidates the p-value and the interval are adjusted for.
            "candidates": settings.family.count if settings.family else 1,
        },
    }


def _missing_objects(comparison: Comparison) -> dict[str, object]:
    """Return what is not in the rates: rows without a counterpart or a verdict, and why nothing may be concluded."""
    missing, bounds = comparison.tally.missing, comparison.missing_bounds
    return {
        "missing": {
            "total": missing.total,
            "baseline_unmatched": missing.baseline_unmatched,
            "candidate_unmatched": missing.candidate_unmatched,
            "baseline_failed": missing.baseline_failed,
            "candidate_failed": missing.candidate_failed,
            "both_failed": missing.both_failed,
            "matched": missing.matched,
            "smaller_run": missing.smaller,
            # Abstained and judged rows that the other run has no counterpart of.
            "unmatched_baseline": {"abstained": missing.unmatched_baseline[0], "judged": missing.unmatched_baseline[1]},
            "unmatched_candidate": {
                "abstained": missing.unmatched_candidate[0],
                "judged": missing.unmatched_candidate[1],
            },
            # Null where nothing is missing: bounds equal to the estimate would look like a result.
            "bounds": None if bounds is None else list(map(finite, bounds)),
        },
        # Outcomes that are not judged, each an axis of its own.
        "not_judged": [
            {
                "outcome": str(gap.outcome),
                "baseline": rate_object(gap.baseline),
                "candidate": rate_object(gap.candidate),
                "difference": None if gap.difference is None else _difference_object(gap.difference),
            }
            for gap in comparison.gaps
        ],
        "doubts": [safe_text(doubt) for doubt in comparison.doubts],
    }


def _details(comparison: Comparison) -> dict[str, object]:
    """Return slices, flips and runs."""
    tally = comparison.tally
    return {
        "slices": [
            {
                "field": safe_text(part.field),
                "value": safe_text(part.value),
                "pairs": _pairs_object(part.counts),
                "baseline": rate_object(part.baseline),
                "candidate": rate_object(part.candidate),
                "difference": _difference_object(part.difference),
                "q": finite(part.q),
                "decision": str(part.decision),
                "pooled": part.pooled
                and {
                    "value": finite(part.pooled.value),
                    "interval": _interval_object(part.pooled.interval),
                    "towards": finite(part.pooled.towards),
                },
            }
            for part in comparison.slices
        ],
        "flips": [
            {
                "key": safe_text(flip.key),
                "direction": str(flip.direction),
                # Null is a text that was not kept; an empty prompt is an empty string.
                "prompt": None if flip.prompt is None else safe_text(flip.prompt),
                "fields": {safe_text(name): safe_text(value) for name, value in flip.fields},
                "baseline": _side_object(flip.baseline),
                "candidate": _side_object(flip.candidate),
            }
            for flip in tally.flips
        ],
        "runs": {"baseline": _run_object(tally.baseline), "candidate": _run_object(tally.candidate)},
    }


def scan_object(scan: Scan) -> dict[str, object]:
    """Return the scan as plain lists and dicts, in the order of the scan."""
    runs = zip(scan.tally.runs, scan.runs, strict=True)
    return {
        "schema": SCAN_SCHEMA,
        "rate": rate_object(scan.rate),
        # What people's labels say of the same rows; the headline where it is there.
        "correction": scan.correction
        and {
            "rate": corrected_object(scan.correction.rate),
            "refusals": scan.correction.refusals,
            **labels_object(scan.correction),
        },
        "runs": [_run_object(run) | {"rate": rate_object(rate)} for run, rate in runs],
        "groups": [
            {
                "field": safe_text(group.field),
                "value": safe_text(group.value),
                "rate": rate_object(group.rate),
                "outcomes": _counts_object(group.outcomes),
            }
            for group in scan.groups
        ],
        "differences": [
            {
                "field": safe_text(part.field),
                "value": safe_text(part.value),
                "against": safe_text(part.against),
                "difference": _difference_object(part.difference),
                "q": finite(part.q),
            }
            for part in scan.differences
        ],
        # Counted over the refusals that were read for evidence, which may be fewer than there are: `read_for_phrases` says of how many.
        "phrases": [
            {"phrase": safe_text(p.phrase), "category": safe_text(p.category), "count": p.count}
            for p in scan.tally.phrases
        ],
        "read_for_phrases": scan.tally.read_for_phrases,
        "clustering": None
        if scan.tally.sums is None
        else {"field": scan.tally.clustered_by or "session", "count": scan.tally.sums.sessions},
    }


def _correction_object(correction: LabelCorrection) -> dict[str, object]:
    return {
        "difference": _difference_object(correction.difference),
        "detector": correction.detector and _difference_object(correction.detector),
        "baseline": corrected_object(correction.baseline),
        "candidate": corrected_object(correction.candidate),
        "flips": correction.flips,
        "more": correction.more,
        **labels_object(correction),
    }


def corrected_object(rate: CorrectedRate) -> dict[str, object]:
    """Return a rate by people's labels."""
    return {"value": finite(rate.value), "n": rate.n, "interval": _interval_object(rate.interval)}


def finite(value: float | None) -> float | None:
    """Return the number, or None where it is not finite: JSON has no NaN and no infinity (RFC 8259, section 6)."""
    return value if value is not None and isfinite(value) else None


def safe_text(text: str) -> str:
    """Return a text that every reader of JSON can decode: lone surrogates become U+FFFD."""
    # RFC 8259, section 8.2: what a receiver does with an unpaired surrogate is unpredictable.
    return text if text.isascii() else "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def rate_object(rate: Rate) -> dict[str, object]:
    """Return a rate with its interval."""
    return {"value": finite(rate.value), "count": rate.count, "n": rate.n, "interval": _interval_object(rate.interval)}


def _interval_object(interval: Interval) -> dict[str, object]:
    low, high, level = finite(interval.low), finite(interval.high), finite(interval.level)
    return {"low": low, "high": high, "level": level, "method": interval.method}


def _difference_object(difference: Difference) -> dict[str, object]:
    return {
        "value": finite(difference.value),
        "interval": _interval_object(difference.interval),
        "p": finite(difference.p),
        "n": difference.n,
    }


def _counts_object(counts: tuple[tuple[str, int], ...]) -> dict[str, object]:
    return {safe_text(name): count for name, count in counts}


def _pairs_object(counts: PairCounts) -> dict[str, object]:
    return {
        "n": counts.n,
        "both": counts.both,
        "baseline_only": counts.baseline_only,
        "candidate_only": counts.candidate_only,
        "neither": counts.neither,
    }


def _run_object(run: RunSummary) -> dict[str, object]:
    return {
        "name": safe_text(run.name),
        "format": safe_text(run.format),
        "rows": run.rows,
        "outcomes": _counts_object(run.outcomes),
        "reasons": _counts_object(run.reasons),
        "causes": _counts_object(run.causes),
        "models": [safe_text(model) for model in run.models],
        "skipped": _counts_object(run.skipped),
        "unreadable": run.unreadable,
        "unread_examples": [
            {"source": safe_text(e.source), "line": e.line, "detail": safe_text(e.detail)} for e in run.unread
        ],
    }


def _side_object(side: FlipSide) -> dict[str, object]:
    """Return one side of a flip, with its verdict and the evidence for it."""
    verdict = side.verdict
    return {
        "source": safe_text(side.source),
        "line": side.line,
        "text": None if side.text is None else safe_text(side.text),
        "verdict": {
            "outcome": str(verdict.outcome),
            "score": finite(verdict.score),
            "reason": None if verdict.reason is None else str(verdict.reason),
            "cause": None if verdict.cause is None else str(verdict.cause),
            "detail": None if verdict.detail is None else safe_text(verdict.detail),
            "findings": [
                {
                    "rule": safe_text(f.rule),
                    "category": safe_text(f.category),
                    "weight": finite(f.weight),
                    # In code points, as Python and most readers index text; JavaScript counts UTF-16 units.
                    "start": f.span.start,
                    "end": f.span.end,
                }
                for f in verdict.findings
            ],
            "signals": [
                {"kind": str(s.kind), "path": safe_text(s.path), "value": safe_text(s.value), "blocked": s.blocked}
                for s in verdict.signals
            ],
        },
    }


def _axes_object(axes: ComparedAxes) -> dict[str, object]:
    """Return the axes beyond refusals; one that was not measured is in `absent` with its reason, and nowhere else."""
    gates = dict(axes.gates)
    results = []
    for result in axes.report.results:
        gate = gates.get(result.name)
        verdict = None if gate is None else {"failed": gate.failed, "why": safe_text(gate.why)}
        results.append(_axis_object(result) | {"gate": verdict})
    return {
        "multiplicity": safe_text(axes.report.multiplicity),
        "pairs": axes.pairs,
        "read": axes.read,
        "sampled": axes.sampled,
        "gated": [str(axis) for axis in axes.gated],
        "results": results,
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
        "relative": result.relative,
        "interval": None if result.interval is None else _interval_object(result.interval),
        "p": finite(result.p),
        "p_adjusted": finite(result.p_adjusted),
        "tested": safe_text(result.tested),
        "severity": str(result.severity),
        "worse": str(result.worse),
        "undecidable": safe_text(result.undecidable),
        "flags": [str(flag) for flag in result.flags],
        "details": [
            {"label": safe_text(d.label), "value": finite(d.value), "note": safe_text(d.note)} for d in result.details
        ],
        "evidence": [{"key": safe_text(e.key), "sentence": safe_text(e.sentence)} for e in result.evidence],
        # A part is measured like an axis, so a reader can treat both alike.
        "parts": [_axis_object(part) for part in result.parts],
    }
