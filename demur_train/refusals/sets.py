"""The labelled responses: which sets train, which only measure, and what each weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from demur.detect.refusal.passage import take_passage
from demur.text.normalise import view
from demur_train.data import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from demur.detect.refusal.cues import Reader

__all__ = ["COMPLIED", "MEASURE", "PARTIAL", "PINS", "REFUSED", "TRAIN", "LabelledSet", "load_set"]

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

PINS = {
    "train/xstest_v2": "959be2d81e0efaa4d67e551df6a5f241395cfbf157201dd40f8ecd2946868040",
    "train/chatgpt_refusals": "20b57ff9fc065162f1cd2e4ff15d1f71edd6a5b690dbbdefd819a8650838e718",
    "train/gptfuzz": "43408f18fe9517fbbe2e9530033b9ab4d18ef31ed6c147b0027f267fbded85f1",
    "train/k_overrefusal": "ebd8b2250f926f87ade846015077dc8ff8c18c40403e57f703ef9eaa1d8eb9f1",
    "train/benign_responses": "ed7cf6b0e36dd6cb80dd9db9c6d117a6f54dbf63c619d5d2bbb317aa19a7c645",
    "measure/benign_responses": "3976b8613d1bae847383ec4459fb0a9754ae15b1b7208b296501be25c920b207",
    "measure/system_logs": "31601e45eec5cafbc3f93a9d192ff4188274706b205dcc11d26741cefcf5d1d4",
}
"""The SHA-256 of each file: another version of a set would be another training."""


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
