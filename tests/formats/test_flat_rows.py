"""The layout of plain rows against the full reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.detect.check import classify
from demur.formats.flat_rows import PlainRow, flat_layout, open_reader
from demur.model.run import Traced

TEXTS = st.sampled_from(
    ["", " ", "Paris.", "I can't help with that.", "x" * 201, "stop", "2024-01-31", "nan", "true", "1"]
)
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(-3, 2**70),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(st.sampled_from(["category", "model", "ts"]), TEXTS, max_size=2),
)
NAMES = st.sampled_from(
    [
        *("prompt", "instruction", "question", "input", "response", "output", "completion", "answer", "text"),
        *("id", "custom_id", "session_id", "conversation_id", "finish_reason", "stop_reason", "done_reason"),
        *("refusal", "is_refusal", "label", "error", "messages", "model", "model_name", "category", "language", "lang"),
        *("day", "timestamp", "metadata", "tags", "vars", "task", "x" * 201, ""),
    ]
)
FIELDS = (
    *(
        "category",
        "language",
        "model",
        "task",
        "day",
        "metadata.category",
        "label",
        "finish_reason",
        "id",
        "prompt",
        "",
    ),
)


def plain_row(record: dict[str, Any], fields: tuple[str, ...]) -> PlainRow | None:
    layout = flat_layout(tuple(record), fields)
    return None if layout is None else layout.row(record)


def full(record: dict[str, Any]) -> list[Traced]:
    return [item for item in open_reader().feed(record) if isinstance(item, Traced)]


@pytest.mark.heavy
@settings(max_examples=600)
@given(st.dictionaries(NAMES, VALUES, max_size=7), TEXTS)
def test_what_is_read_the_short_way_is_what_the_full_reader_reads(record: dict[str, Any], text: str) -> None:
    """Wherever the short way answers, keys, prompt, answer, fields and the need for the text's verdict are the reader's."""
    for given_record in (record, {"response": text, **record}):
        short = plain_row(given_record, FIELDS)
        if short is None:
            continue
        key, prompt, session, answer, fields = short
        (traced,) = full(given_record)
        exchange = traced.exchange
        assert exchange.response is not None
        assert (exchange.id or None, exchange.session or None) == (key, session)
        assert (exchange.request.prompt if exchange.request else None) == prompt
        assert exchange.response.choices[0].text == answer
        assert not exchange.response.signals
        assert tuple(dict(traced.fields).get(name) for name in FIELDS) == fields
        assert classify(exchange.response) == classify(full({"response": answer})[0].exchange.response)


@pytest.mark.parametrize(
    "record",
    [
        {"response": "Paris.", "refusal": None},
        {"response": "Paris.", "is_refusal": True},
        {"response": "Paris.", "label": False},
        {"response": "Paris.", "error": "timeout"},
        {"response": "Paris.", "finish_reason": "content_filter"},
        {"response": "Paris.", "stop_reason": "refusal"},
        {"response": "Paris.", "id": 7},
        {"response": "Paris.", "prompt": ["a"]},
        {"response": "Paris.", "timestamp": "2024-01-31"},
        {"response": "Paris.", "metadata": {}},
        {"response": None},
        {"response": " "},
        {"response": 7},
        {"prompt": "hello"},
        {"response": "Paris.", **{f"n{i}": i for i in range(60)}},
        {},
    ],
)
def test_what_might_say_more_is_left_to_the_full_reader(record: dict[str, Any]) -> None:
    """Anything but an answer with labels goes the full way."""
    assert plain_row(record, FIELDS) is None


def test_the_plainest_row_goes_the_short_way() -> None:
    """An id, a prompt, an answer, an ordinary end and labels are all read."""
    line = '{"id": "a", "prompt": "p", "response": "r", "finish_reason": "stop", "session_id": "s", "task": 3}'
    assert plain_row(json.loads(line), ("task", "gone")) == ("a", "p", "s", "r", ("3", None))
