"""An evaluation for machines: one JSON object.

Every measure is an object with `value`, `low`, `high` and `n`; null means that it is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.estimate import Rate

if TYPE_CHECKING:
    from demur.model.evaluation import Confusion, Evaluation, JudgeReport, Quality, Score

__all__ = ["evaluation_object"]


def evaluation_object(evaluation: Evaluation) -> dict[str, object]:
    """Return the evaluation as plain lists and dicts."""
    return {
        "sources": list(evaluation.sources),
        "threshold": evaluation.threshold,
        # Beside the measures, so that nobody takes them for the whole file's.
        "left_out": dict(evaluation.left_out),
        "unreadable": evaluation.unreadable,
        "sides": [
            {
                "side": side.side,
                "n": side.n,
                "labels": {str(label): count for label, count in side.labels},
                "judges": [_judge_object(judge) for judge in side.judges],
            }
            for side in evaluation.sides
        ],
    }


def _judge_object(judge: JudgeReport) -> dict[str, object]:
    calibrations: dict[str, object] = {}
    for c in judge.calibrations:
        bins = [
            {"low": b.low, "high": b.high, "mean_score": b.mean_score, "positives": _measure_object(b.positives)}
            for b in c.bins
        ]
        calibrations[str(c.question)] = {"n": c.n, "brier": c.brier, "expected_error": c.expected_error, "bins": bins}
    return {
        "judge": judge.judge,
        "micros_per_text": judge.micros_per_text,
        "questions": {str(q.question): _quality_object(q) for q in judge.qualities},
        "calibration": calibrations,
        "confusion": _confusion_object(judge.confusion),
        # Null for prompts: an attack may be harmful too, so there are no classes to average over.
        "macro_f1": _measure_object(judge.macro_f1) if judge.macro_f1 else None,
        "slices": [
            {
                "dimension": part.dimension,
                "value": part.value,
                "n": part.n,
                "questions": {str(q.question): _quality_object(q) for q in part.qualities},
                "confusion": _confusion_object(part.confusion),
            }
            for part in judge.slices
        ],
        "worst": [
            {
                "kind": mistake.kind,
                "question": mistake.question,
                "id": mistake.row.id,
                "source": mistake.row.source,
                "line": mistake.row.line,
                "label": mistake.row.label,
                "said": mistake.answer,
                "score": mistake.score,
                # Spans count code points of this text.
                "text": mistake.row.text,
                "findings": [
                    {
                        "rule": f.rule,
                        "category": f.category,
                        "weight": f.weight,
                        "start": f.span.start,
                        "end": f.span.end,
                    }
                    for f in mistake.findings
                ],
            }
            for mistake in judge.worst
        ],
    }


def _measure_object(measure: Rate | Score) -> dict[str, object]:
    # A share has a count behind it; F1 has none.
    count = {"count": measure.count} if isinstance(measure, Rate) else {}
    interval = measure.interval
    return {
        "value": measure.value,
        **count,
        "n": measure.n,
        "low": interval.low,
        "high": interval.high,
        "method": interval.method,
    }


def _quality_object(quality: Quality) -> dict[str, object]:
    return {
        "true_positives": quality.true_positives,
        "false_positives": quality.false_positives,
        "false_negatives": quality.false_negatives,
        "true_negatives": quality.true_negatives,
        "precision": _measure_object(quality.precision),
        "recall": _measure_object(quality.recall),
        "f1": _measure_object(quality.f1),
        "false_positive_rate": _measure_object(quality.false_positive_rate),
        "labelled_rate": _measure_object(quality.labelled),
        "said_rate": _measure_object(quality.said),
        "bias": quality.bias,
        "errors_go_one_way": quality.leans,
    }


def _confusion_object(table: Confusion) -> dict[str, object]:
    return {
        str(label): dict(zip(table.answers, counts, strict=True))
        for label, counts in zip(table.labels, table.counts, strict=True)
    }
