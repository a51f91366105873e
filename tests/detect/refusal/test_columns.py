"""A column's features are those of its passages, one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.detect.refusal.columns import read_columns
from demur.detect.refusal.cues import Reader
from demur.detect.refusal.pack import load_refusal_pack
from demur.detect.refusal.passage import take_passage
from demur.text.normalise import view

READER = Reader(load_refusal_pack())
CORPUS = Path(__file__).parents[2] / "corpus" / "responses.jsonl"
TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text(encoding="utf-8").splitlines()]
PIECES = st.sampled_from(
    [
        "I'm sorry, but I can't help with that.",
        "As an AI language model, I don't have personal opinions.",
        "However, here are some steps you can take:",
        "\n1. First, open it.\n- Second",
        '"I cannot do this," he said.',
        "```\nerror: not allowed\n```",
        "It is illegal and unethical.",
        "I can't wait!",
        "죄송하지만 도와드릴 수 없습니다.",
        "Instead, I can help you with something else?",
        "[Normal] no\n[Free] yes",
        "é° — ok. ",
        "Please contact a crisis line.",
    ]
)


def assert_same(texts: list[str]) -> None:
    passages = [take_passage(view(text)) for text in texts]
    together = read_columns(READER, passages)
    for row, passage in enumerate(passages):
        alone = np.zeros(together.shape[1])
        for feature, value in READER.read(passage).values.items():
            alone[feature] = value
        different = np.flatnonzero(np.abs(alone - together[row]) > 1e-9)
        assert not [(READER.pack.feature_names[k], alone[k], together[row, k]) for k in different], texts[row]


@pytest.mark.heavy
def test_the_corpus_reads_alike() -> None:
    """Every text of the corpus has the same features alone and in a column."""
    assert_same(TEXTS)


@pytest.mark.heavy
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=6).map(" ".join), min_size=1, max_size=5))
def test_any_mixture_reads_alike(texts: list[str]) -> None:
    """Openings, turns, quotations, lists, code, voices and scripts in any order, in any company."""
    assert_same(texts)


def test_an_empty_column_is_empty() -> None:
    """No passages, no rows."""
    assert read_columns(READER, []).shape == (0, len(READER.pack.feature_names))
