"""The layout of plain rows against the full reader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.formats.flat_rows import PlainRow, flat_layout, open_named_reader, open_reader
from demur.model.columns import NO_COLUMNS, Columns
from demur.model.run import Skipped, Traced
from demur.model.verdict import Cause, Outcome

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
        *("id", "custom_id", "session_id", "conversation_id", "session", "thread_id"),
        *("finish_reason", "stop_reason", "done_reason"),
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


COLUMN = st.none() | NAMES | st.sampled_from(["metadata.category", "out", "out.text"])
COLUMNS = st.builds(Columns, COLUMN, COLUMN, COLUMN, COLUMN)


def plain_row(record: dict[str, Any], fields: tuple[str, ...], columns: Columns = NO_COLUMNS) -> PlainRow | None:
    layout = flat_layout(tuple(record), fields, columns)
    return None if layout is None else layout.row(record)


def full(record: dict[str, Any], columns: Columns = NO_COLUMNS) -> list[Traced]:
    reader = open_named_reader(columns) if columns else open_reader()
    return [item for item in reader.feed(record) if isinstance(item, Traced)]


@pytest.mark.heavy
@settings(max_examples=600)
@given(st.dictionaries(NAMES, VALUES, max_size=7), TEXTS, st.just(NO_COLUMNS) | COLUMNS)
def test_what_is_read_the_short_way_is_what_the_full_reader_reads(
    record: dict[str, Any], text: str, columns: Columns
) -> None:
    """Wherever the short way answers, keys, prompt, answer, fields and the need for the text's verdict are the reader's."""
    named = columns.response_field or "response"
    for given_record in (record, {named: text, **record}):
        short = plain_row(given_record, FIELDS, columns)
        if short is None:
            continue
        key, prompt, session, answer, fields = short
        (traced,) = full(given_record, columns)
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


def test_named_columns_go_the_short_way() -> None:
    """Rows whose columns the user named are read as fast as others, and nothing else is taken for what was named."""
    record = {"uid": "a", "q": "p", "answr": "r", "talk": "s", "id": "x", "text": "t", "messages": [], "task": "3"}
    columns = Columns("answr", "q", "uid", "talk")
    assert plain_row(record, ("task", "answr", "uid"), columns) == ("a", "p", "s", "r", ("3", None, "a"))
    assert plain_row({"output.text": "r"}, (), Columns("output.text")) == (None, None, None, "r", ())


def test_a_named_column_may_be_inside_an_object() -> None:
    """A response inside an object is the full reader's, whatever format the rest of the row looks like."""
    record = {"output": {"text": "I can't help with that."}, "choices": [], "meta": {"q": "p", "s": 3}, "prompt": "x"}
    (traced,) = full(record, Columns("output.text", "meta.q", session_field="meta.s"))
    assert classify(traced.exchange.response).outcome is Outcome.REFUSED
    assert traced.exchange.request is not None
    assert (traced.exchange.request.prompt, traced.exchange.session) == ("p", "3")


def test_a_row_without_the_named_response_is_an_error_unless_it_failed() -> None:
    """Another column is never taken in place of the one that was named; a row with an error needs no response."""
    with pytest.raises(ShapeError, match="no column `answr`; the row has `text`"):
        full({"text": "r"}, Columns("answr"))
    (traced,) = full({"text": "r", "error": "timeout"}, Columns("answr"))
    assert classify(traced.exchange.response).outcome is Outcome.FAILED
    (unasked,) = full({"response": "r", "question": "p"}, Columns(prompt_field="q"))
    assert unasked.exchange.request is None


@pytest.mark.parametrize("name", ["session", "thread_id"])
def test_sessions_have_several_names(name: str) -> None:
    """Agents call a session a thread; it groups rows all the same, and can still cut a run."""
    (traced,) = full({"response": "r", name: "s"})
    assert traced.exchange.session == "s"
    assert dict(traced.fields) == {name: "s"}


LABELLED = Columns("answr", label_field="human", label_map=(("1", "refusal"), ("0", "compliance"), ("?", "other")))


@pytest.mark.parametrize(
    ("label", "outcome", "cause"),
    [
        (1, Outcome.REFUSED, Cause.PERSON),
        (0, Outcome.COMPLIED, Cause.PERSON),
        (None, Outcome.REFUSED, Cause.TEXT),
        (float("nan"), Outcome.REFUSED, Cause.TEXT),
    ],
    ids=["refusal", "compliance", "null", "empty cell"],
)
def test_a_label_settles_the_verdict(label: object, outcome: Outcome, cause: Cause) -> None:
    """What a person says of a response comes before what its text and its provider say; without a label they are asked."""
    record = {"answr": "I can't help with that.", "human": label}
    assert plain_row(record, (), LABELLED) is None
    (traced,) = full(record, LABELLED)
    verdict = classify(traced.exchange.response)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)


def test_a_label_that_says_nothing_is_counted_apart() -> None:
    """A row whose labeller could not decide is skipped with its reason; a label of a prompt is an error."""
    reader = open_named_reader(LABELLED)
    assert list(reader.feed({"answr": "r", "human": "?"})) == [Skipped("a row labelled other")]
    with pytest.raises(ShapeError, match="label `9` is not in the label map"):
        list(reader.feed({"answr": "r", "human": 9}))
    with pytest.raises(ShapeError, match="label `attack` is of a prompt, not of a response; expected one of refusal"):
        full({"answr": "r", "human": "attack"}, Columns("answr", label_field="human"))


@pytest.mark.parametrize("text", ['{"choices": []}', '\n [{"type": "text"}]', "NULL", "nan", " None ", "[REDACTED]"])
def test_a_cell_that_is_no_plain_text_is_left_to_the_full_reader(text: str) -> None:
    """JSON and the words for nothing leave the short way; a text that merely begins alike does not."""
    assert plain_row({"response": text}, FIELDS) is None
    assert plain_row({"response": f"Nothing but {text}"}, FIELDS) is not None
