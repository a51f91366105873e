"""The labelled responses: which sets train, which only measure, and what each weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from demur.detect.passage import take_passage
from demur.text.view import view
from demur_train.data import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from demur.detect.refusal_cues import Reader

__all__ = ["COMPLIED", "MEASURE", "PARTIAL", "REFUSED", "TRAIN", "LabelledSet", "load_set"]

COMPLIED, PARTIAL, REFUSED, OTHER = 0, 1, 2, -1
_LABELS = {"compliance": COMPLIED, "partial": PARTIAL, "refusal": REFUSED, "other": OTHER}

TRAIN = {
    "xstest": ("train/xstest_v2", 2000.0),
    "chatgpt": ("train/chatgpt_refusals", 900.0),
    "gptfuzz": ("train/gptfuzz", 1500.0),
    "korean": ("train/k_overrefusal", 500.0),
    "arena": ("train/benign_responses", 1500.0),
}
"""File and total weight of each set that trains what ships."""

MEASURE = {"alpaca": "measure/benign_responses", "logs": "measure/system_logs"}
"""Sets that may only measure."""


@dataclass(frozen=True)
class LabelledSet:
    """One set as features and labels."""

    name: str
    features: sparse.csr_matrix
    labels: NDArray[np.int64]
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    texts: tuple[str, ...]


def load_set(folder: Path, name: str, reader: Reader) -> LabelledSet:
    """Return a set with the product's own features."""
    path = TRAIN[name][0] if name in TRAIN else MEASURE[name]
    rows = read_rows(folder, path)
    texts = tuple(row.response or "" for row in rows)
    return LabelledSet(
        name,
        features_of(texts, reader),
        np.array([_LABELS[row.label] for row in rows]),
        tuple(str(row.meta.get("model")) for row in rows),
        tuple(row.prompt or "" for row in rows),
        texts,
    )


def features_of(texts: tuple[str, ...], reader: Reader) -> sparse.csr_matrix:
    """Return one row of features a text."""
    read = [reader.read(take_passage(view(text))).values for text in texts]
    rows = np.repeat(np.arange(len(read)), [len(values) for values in read])
    columns = np.array([k for values in read for k in values], dtype=np.int64)
    data = np.array([v for values in read for v in values.values()])
    return sparse.csr_matrix((data, (rows, columns)), (len(read), len(reader.pack.feature_names)))
