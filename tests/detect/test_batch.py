"""Columns get the verdicts that their rows would get one by one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur import Outcome, check, classify_batch
from demur.detect.batch import judge_texts
from demur.errors import UsageError
from demur.text.column import view_column
from demur.text.normalise import view

CORPUS = Path(__file__).parents[1] / "corpus" / "responses.jsonl"
TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def assert_as_one_by_one(texts: list[str]) -> None:
    for text, (outcome, score, reason, cause) in zip(texts, judge_texts(texts), strict=True):
        alone = check(text)
        assert (outcome, reason, cause) == (alone.outcome, alone.reason, alone.cause)
        assert score == pytest.approx(alone.score, abs=1e-9)


@pytest.mark.heavy
def test_the_corpus_is_judged_alike() -> None:
    """Every text of the corpus has the same verdict alone and in a batch, across chunk borders."""
    assert_as_one_by_one(TEXTS * 3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=60).filter(str.strip), max_size=8))
def test_any_texts_are_judged_alike(texts: list[str]) -> None:
    """Whatever the characters, a batch says what `check` says."""
    assert_as_one_by_one(texts)


@given(st.lists(st.one_of(st.text(max_size=40), st.text(alphabet="aB *\n\t\0-", max_size=30)), max_size=6))
def test_a_column_of_views_is_the_views(texts: list[str]) -> None:
    """Folding together gives each text's own view."""
    column = view_column(texts)
    assert [column.text(row) for row in range(len(texts))] == [view(text) for text in texts]


def test_a_record_batch_is_judged_signals_first() -> None:
    """The provider's columns outrank the text; a null is missing, white space is empty."""
    batch = pa.record_batch(
        {
            "response": ["I'm sorry, but I can't help with that.", "Paris.", "Paris.", "Paris.", None, " ", "Paris."],
            "finish_reason": ["stop", "content_filter", "SAFETY", "refusal", None, None, "RECITATION"],
            "refusal": [None, None, None, None, None, None, None],
            "error": pa.array([None, None, None, None, None, None, None], pa.string()),
        }
    )
    verdicts = classify_batch(batch).to_pydict()
    assert verdicts["outcome"] == ["refused", "filtered", "filtered", "refused", "failed", "empty", "complied"]
    assert verdicts["cause"][:2] == ["text", "provider_filter"]
    errors = pa.record_batch({"text": ["Paris.", "Paris."], "error": ["boom", None], "refusal": [None, "No."]})
    assert classify_batch(errors).column("outcome").to_pylist() == ["failed", "refused"]


def test_signals_are_read_from_any_column_type() -> None:
    """Large strings, dictionaries, structs and an SDK's enum names are the provider's word as well."""
    batch = pa.record_batch(
        {
            "text": ["Paris."] * 3,
            "refusal": pa.array([None, "No.", None], pa.large_string()),
            "finish_reason": pa.array(["FinishReason.SAFETY", "stop", "stop"]).dictionary_encode(),
            "error": pa.array([None, None, {"code": "x"}]),
        }
    )
    assert classify_batch(batch).column("outcome").to_pylist() == ["filtered", "refused", "failed"]


@pytest.mark.parametrize("batch", [None, pa.record_batch({"text": [[1]]}), pa.record_batch({"text": [b"\xff"]})])
def test_what_holds_no_text_is_a_usage_error(batch: pa.RecordBatch) -> None:
    """Not a batch, or a column of lists or bytes that are no text: one clear line."""
    with pytest.raises(UsageError):
        classify_batch(batch)


def test_columns_are_found_or_named() -> None:
    """The text column has a usual name or is named; anything else is a usage error."""
    batch = pa.record_batch({"reply": ["Paris."]})
    assert classify_batch(batch, column="reply").column("outcome").to_pylist() == ["complied"]
    assert classify_batch(batch.slice(0, 0), column="reply").num_rows == 0
    with pytest.raises(UsageError, match="no text column among `reply`"):
        classify_batch(batch)


def test_the_function_travels() -> None:
    """`classify_batch` can be sent to a worker."""
    travelled = pickle.loads(pickle.dumps(classify_batch))  # noqa: S301 — our own bytes
    assert travelled(pa.record_batch({"text": ["I won't help you."]})).column("outcome").to_pylist() == [
        Outcome.REFUSED
    ]


@pytest.mark.parametrize(
    "told",
    [
        *({"error": error} for error in ({"code": "content_filter"}, "timeout", "content_filter", "null")),
        *({"refusal": text} for text in ("false", "No.")),
        *({"finish_reason": word} for word in ("FinishReason.SAFETY", "SAFETY ", "stop")),
        {"stop_reason": "refusal"},
    ],
)
def test_a_row_with_signals_is_judged_as_check_does(told: dict[str, object]) -> None:
    """Whatever the provider's columns say, a batch says what `check` says of the row."""
    row = {"response": "Paris.", **told}
    verdict = check(row)
    batch = classify_batch(pa.RecordBatch.from_pylist([row])).to_pylist()[0]
    assert (batch["outcome"], batch["cause"]) == (verdict.outcome, verdict.cause)


def test_invisible_text_is_empty() -> None:
    """Zero-width characters alone are no answer, alone as in a batch."""
    blank = "\u200b" * 3
    assert check(blank).outcome is Outcome.EMPTY
    assert judge_texts([blank, "Paris."])[0][0] is Outcome.EMPTY
