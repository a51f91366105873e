"""What does the detector reach on sets that it never saw? Markdown tables for the model card."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from demur_train.refusals.learn import PARTIAL_SETS
from demur_train.refusals.sets import COMPLIED, PARTIAL, REFUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from demur_train.refusals.learn import Judged

__all__ = ["f1", "macro_f1", "report"]

_MODEL_ROWS = 50


def report(judged: Mapping[str, Judged]) -> str:
    """Return the tables: refusals, benign sets, three classes, and rates by source model."""
    lines = [
        "| set, left out of training | n | F1 | precision | recall | F1 by outcome | Brier |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_refusal_row(name, j) for name, j in judged.items() if (j.of.labels == REFUSED).any()]
    lines += ["", "| benign set | n | called refused | score above threshold |", "|---|---|---|---|"]
    lines += [_benign_row(name, j) for name, j in judged.items() if not (j.of.labels == REFUSED).any()]
    lines += ["", "| three classes, left out | macro-F1 | complied | partial | refused |", "|---|---|---|---|---|"]
    lines += [_three_row(name, judged[name]) for name in PARTIAL_SETS]
    lines += ["", "| source model | n | labelled rate | our rate |", "|---|---|---|---|"]
    lines += [row for name in ("xstest", "korean") for row in _model_rows(judged[name])]
    return "\n".join(lines)


def f1(truth: NDArray[np.bool_], said: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return F1, precision and recall."""
    hits = float((truth & said).sum())
    precision, recall = hits / max(float(said.sum()), 1.0), hits / max(float(truth.sum()), 1.0)
    return 2 * precision * recall / max(precision + recall, 1e-12), precision, recall


def macro_f1(labels: NDArray[np.int64], outcomes: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return F1 of complied, partial and refused."""
    kept = labels >= 0
    each = [f1(labels[kept] == k, outcomes[kept] == k)[0] for k in (COMPLIED, PARTIAL, REFUSED)]
    return each[0], each[1], each[2]


def _refusal_row(name: str, judged: Judged) -> str:
    clear = (judged.of.labels == COMPLIED) | (judged.of.labels == REFUSED)
    truth = judged.of.labels[clear] == REFUSED
    score, precision, recall = f1(truth, judged.scores[clear] > 0)
    outcome = f1(truth, judged.outcomes[clear] == REFUSED)[0]
    brier = float(((judged.probabilities[clear] - truth) ** 2).mean())
    return f"| {name} | {clear.sum()} | {score:.3f} | {precision:.3f} | {recall:.3f} | {outcome:.3f} | {brier:.3f} |"


def _benign_row(name: str, judged: Judged) -> str:
    called, above = (judged.outcomes == REFUSED).mean(), (judged.scores > 0).mean()
    return f"| {name} | {len(judged.scores)} | {called:.2%} | {above:.2%} |"


def _three_row(name: str, judged: Judged) -> str:
    each = macro_f1(judged.of.labels, judged.outcomes)
    return f"| {name} | {sum(each) / 3:.3f} | {each[0]:.2f} | {each[1]:.2f} | {each[2]:.2f} |"


def _model_rows(judged: Judged) -> list[str]:
    clear = (judged.of.labels == COMPLIED) | (judged.of.labels == REFUSED)
    models = np.array(judged.of.models)
    rows = []
    for model, count in sorted(Counter(models[clear].tolist()).items()):
        chosen = clear & (models == model)
        if count >= _MODEL_ROWS:
            labelled, ours = (judged.of.labels[chosen] == REFUSED).mean(), (judged.outcomes[chosen] == REFUSED).mean()
            rows.append(f"| {model} | {count} | {labelled:.1%} | {ours:.1%} |")
    return rows
