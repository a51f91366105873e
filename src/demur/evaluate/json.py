"""An evaluation for machines: one JSON object.

Laws: every figure is an object with `value`, `low`, `high`, `n` (shares also with `count`); null means not known; words are
those of the report; spans count code points of the text beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.estimate import Rate

if TYPE_CHECKING:
    from demur.model.evaluation import (
        Calibration,
        Confusion,
        Evaluation,
        JudgeReport,
        Mistake,
        Quality,
        Score,
        SideReport,
        Slice,
    )

__all__ = ["evaluation_object"]


def evaluation_object(evaluation: Evaluation) -> dict[str, object]:
    """Return the evaluation as plain lists and dicts."""
    return {
        "sources": list(evaluation.sources),
        "threshold": evaluation.threshold,
        "left_out": dict(evaluation.left_out),
        "unreadable": evaluation.unreadable,
        "sides": [_side_object(side) for side in evaluation.sides],
    }


def _side_object(side: SideReport) -> dict[str, object]:
    return {
        "side": side.side,
        "n": side.n,
        "labels": {str(label): count for label, count in side.labels},
        "judges": [_judge_object(judge) for judge in side.judges],
    }


def _judge_object(judge: JudgeReport) -> dict[str, object]:
    return {
        "judge": judge.judge,
        "micros_per_text": judge.micros_per_text,
        "questions": {str(q.question): _quality_object(q) for q in judge.qualities},
        "calibration": {str(c.question): _calibration_object(c) for c in judge.calibrations},
        "confusion": _confusion_object(judge.confusion),
        "macro_f1": _figure(judge.macro_f1) if judge.macro_f1 else None,
        "slices": [_slice_object(part) for part in judge.slices],
        "worst": [_mistake_object(mistake) for mistake in judge.worst],
    }


def _figure(figure: Rate | Score) -> dict[str, object]:
    count = {"count": figure.count} if isinstance(figure, Rate) else {}
    interval = figure.interval
    return {
        "value": figure.value,
        **count,
        "n": figure.n,
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
        "precision": _figure(quality.precision),
        "recall": _figure(quality.recall),
        "f1": _figure(quality.f1),
        "false_positive_rate": _figure(quality.false_positive_rate),
        "labelled_rate": _figure(quality.labelled),
        "said_rate": _figure(quality.said),
        "bias": quality.bias,
        "errors_go_one_way": quality.leans,
    }


def _calibration_object(calibration: Calibration) -> dict[str, object]:
    bins = [
        {"low": b.low, "high": b.high, "mean_score": b.mean_score, "positives": _figure(b.positives)}
        for b in calibration.bins
    ]
    return {"n": calibration.n, "brier": calibration.brier, "expected_error": calibration.expected_error, "bins": bins}


def _confusion_object(table: Confusion) -> dict[str, object]:
    return {
        str(label): dict(zip(table.answers, counts, strict=True))
        for label, counts in zip(table.labels, table.counts, strict=True)
    }


def _slice_object(part: Slice) -> dict[str, object]:
    return {
        "dimension": part.dimension,
        "value": part.value,
        "n": part.n,
        "questions": {str(q.question): _quality_object(q) for q in part.qualities},
        "confusion": _confusion_object(part.confusion),
    }


def _mistake_object(mistake: Mistake) -> dict[str, object]:
    row = mistake.row
    return {
        "kind": mistake.kind,
        "question": mistake.question,
        "id": row.id,
        "source": row.source,
        "line": row.line,
        "label": row.label,
        "said": mistake.answer,
        "score": mistake.score,
        "text": row.text,
        "findings": [
            {"rule": f.rule, "category": f.category, "weight": f.weight, "start": f.span.start, "end": f.span.end}
            for f in mistake.findings
        ],
    }
