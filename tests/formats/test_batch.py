"""Batch files beyond the table of examples."""

from __future__ import annotations

from typing import Any

import pytest
from tests.formats import examples as made
from tests.formats.example import QUESTION, answer_of, read_all, read_one

from demur.errors import ShapeError
from demur.formats.batch import read_request_row
from demur.formats.registry import format_of
from demur.model.exchange import Shape, SignalKind
from demur.model.run import Skipped


@pytest.mark.parametrize(
    "row",
    [
        {"custom_id": "q-1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": made.ASKED}},
        {"custom_id": "q-1", "method": "POST", "url": "/v1/responses", "body": {"model": "m", "input": QUESTION}},
        {"custom_id": "q-1", "params": {"model": "m", "max_tokens": 9, "messages": made.ASKED}},
    ],
)
def test_the_file_that_was_sent_has_the_prompts(row: dict[str, Any]) -> None:
    """A row that was sent gives its id and its request, and is taken for no answer."""
    read = read_request_row(row)
    assert read is not None
    assert (read[0], read[1].prompt) == ("q-1", QUESTION)
    assert format_of(row) is None


@pytest.mark.parametrize(
    "row", [{}, {"custom_id": "q"}, {"body": {"messages": made.ASKED}}, made.openai_row(made.chat())[0]]
)
def test_other_rows_were_not_sent(row: dict[str, Any]) -> None:
    """A row without an id or without a request is none that was sent."""
    assert read_request_row(row) is None


def test_a_batch_row_says_model_and_day() -> None:
    """The model and the day are those of the response; ids are no fields."""
    assert read_one("openai-batch", *made.openai_row(made.chat())).fields == (
        ("model", "gpt-4o-mini"),
        ("day", "2023-11-14"),
        ("created", "1700000000"),
    )


@pytest.mark.parametrize(
    ("row", "shape", "kind", "value"),
    [
        (made.openai_row(made.AZURE_BLOCK, status=400), Shape.AZURE, SignalKind.PROMPT_BLOCK, "content_filter"),
        (made.openai_row({}, status=500), Shape.OPENAI_CHAT, SignalKind.ERROR, "500"),
        (made.openai_row(None, error={"code": "batch_expired"}), Shape.OPENAI_CHAT, SignalKind.ERROR, "batch_expired"),
    ],
)
def test_a_failed_row_says_why(row: Any, shape: Shape, kind: SignalKind, value: str) -> None:
    """The signal of a row without an answer is what the row has in its place."""
    signal = answer_of("openai-batch", *row).signals[0]
    assert read_one("openai-batch", *row).exchange.shape is shape
    assert (signal.kind, signal.value) == (kind, value)


def test_an_expired_row_says_so() -> None:
    """Anthropic's endings without a message are errors by their name."""
    signals = answer_of("anthropic-batch", *made.claude_row(type="expired")).signals
    assert [(signal.path, signal.value) for signal in signals] == [("result.type", "expired")]


def test_either_openai_format_reads_both() -> None:
    """Chat and Responses rows in one file are read by whichever format the file was taken for."""
    row = made.openai_row(made.responses({"type": "refusal", "refusal": "No."}))
    assert read_one("openai-batch", *row).exchange.shape is Shape.OPENAI_RESPONSES
    assert read_one("openai-responses-batch", *made.openai_row(made.chat())).exchange.shape is Shape.OPENAI_CHAT


def test_a_row_with_nothing_has_no_answer() -> None:
    """Neither response nor error is a missing answer."""
    assert read_one("openai-batch", *made.openai_row(None)).exchange.response is None


def test_embeddings_are_skipped() -> None:
    """An endpoint that does not talk gives no exchange."""
    rows = read_all("openai-batch", made.openai_row({"object": "list", "data": []}))
    assert rows == [Skipped("a batch answer without text")]


@pytest.mark.parametrize(
    ("name", "row", "what"),
    [
        ("openai-batch", {"response": {"body": {}}}, "`custom_id`: expected a name"),
        ("openai-batch", {"custom_id": "q", "response": 7}, "`response`: expected an object, got a number"),
        ("anthropic-batch", {"custom_id": "q"}, "`result`: expected a value"),
        ("anthropic-batch", {"custom_id": "q", "result": {"type": "lost"}}, "`result.type`: unknown ending `lost`"),
    ],
)
def test_a_row_that_cannot_be_read_says_where(name: str, row: dict[str, Any], what: str) -> None:
    """The error names the field."""
    with pytest.raises(ShapeError, match=what):
        read_all(name, [row])
