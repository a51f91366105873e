"""Spans, whoever exported them and whatever convention they follow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats import examples_tools as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL

from demur.detect.check import classify
from demur.formats.otel import OPENINFERENCE, OTEL, VERCEL
from demur.formats.spans import indexed, spans_in
from demur.model.run import Skipped, Traced

CONTENT = "gen_ai.event.content"
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"content": REFUSAL}}
OLD_EVENTS: dict[str, dict[str, Any]] = {
    "gen_ai.system.message": {CONTENT: json.dumps({"role": "system", "content": "Be brief."})},
    "gen_ai.user.message": {CONTENT: json.dumps({"role": "user", "content": QUESTION})},
    "gen_ai.choice": {CONTENT: json.dumps(CHOICE)},
}
OLDEST_EVENTS: dict[str, dict[str, Any]] = {
    "gen_ai.content.prompt": {"gen_ai.prompt": QUESTION},
    "gen_ai.content.completion": {"gen_ai.completion": json.dumps([made.said(REFUSAL)])},
}
DETAILS = "gen_ai.client.inference.operation.details"
NEW_EVENTS = {DETAILS: {name: value for name, value in made.genai(REFUSAL).items() if "messages" in name}}


def read(record: dict[str, Any]) -> list[Traced | Skipped]:
    """Return what the common reader makes of a record."""
    return list(OTEL.open_reader().feed(record))


def events_of(told: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events as OTLP writes them."""
    return [{"name": name, "attributes": made.pairs_of(given)} for name, given in told.items()]


def test_each_span_is_read_by_its_own_convention() -> None:
    """A document of several instrumentations is read whole, whichever format it is taken for."""
    document = made.otlp(
        made.span({"db.system": "postgresql"}),
        made.span(made.phoenix(**{"output.value": REFUSAL})),
        made.span(made.ai_sdk(ai__response__text=REFUSAL)),
        made.span(made.traceloop(content=REFUSAL)),
        made.span(made.genai(REFUSAL)),
    )
    assert OPENINFERENCE.sniffs(document)
    assert not VERCEL.sniffs(document)
    rows = [row for row in OPENINFERENCE.open_reader().feed(document) if isinstance(row, Traced)]
    assert [classify(row.exchange.response).outcome for row in rows] == ["refused"] * 4


@pytest.mark.parametrize("told", [OLD_EVENTS, OLDEST_EVENTS, NEW_EVENTS], ids=["1.28", "1.27", "1.37"])
def test_messages_in_events_are_read(told: dict[str, dict[str, Any]]) -> None:
    """Versions of the conventions that put messages into events are read as those that put them into attributes."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    (row,) = read(made.otlp(made.span(attributes, events=events_of(told))))
    assert isinstance(row, Traced)
    assert row.exchange.request is not None
    assert row.exchange.request.prompt == QUESTION
    assert classify(row.exchange.response).outcome == "refused"


def test_a_call_without_content_is_unread() -> None:
    """The answer of a span that recorded no content was not stored; a filter's finish reason is enough to know."""
    bare = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["stop"]}
    (plain,) = read(made.traced(bare))
    (stopped,) = read(made.traced({**bare, "gen_ai.response.finish_reasons": ["content_filter"]}))
    assert isinstance(plain, Traced)
    assert isinstance(stopped, Traced)
    assert classify(plain.exchange.response).cause == "not_stored"
    assert classify(stopped.exchange.response).outcome == "filtered"


def test_phoenixs_spellings_are_one() -> None:
    """Attributes spread by index, nested by their dots, or in columns are the same span."""
    spread = made.phoenix(**{f"{made.SAID}.content": ANSWER})
    message = {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": QUESTION}}]}}
    messages = {"input_messages": [message], "output_messages": [{"message": {"content": ANSWER}}]}
    nested = {
        "openinference": {"span": {"kind": "LLM"}},
        "llm": {"model_name": "gpt-4o-mini", **messages},
        "session": {"id": "chat-1"},
        "metadata": {"category": "science", "custom_id": "q-1"},
    }
    columns = {f"attributes.{name}": value for name, value in spread.items()}
    records = (
        {"context": {"trace_id": "t"}, "attributes": spread},
        {"context": {"trace_id": "t"}, "attributes": nested},
        {"context.trace_id": "t", "context.span_id": "s", **columns},
    )
    rows = [read(record)[0] for record in records]
    assert all(OPENINFERENCE.sniffs(record) for record in records)
    assert len({row.exchange for row in rows if isinstance(row, Traced)}) == 1
    assert [dict(row.fields)["category"] for row in rows if isinstance(row, Traced)] == ["science"] * 3


def test_protobufs_names_are_read_too() -> None:
    """A document in snake case is the same as one in camel case."""
    text = json.dumps(made.traced(made.genai()))
    for camel, snake in (
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("stringValue", "string_value"),
        ("arrayValue", "array_value"),
        ("traceId", "trace_id"),
        ("startTimeUnixNano", "start_time_unix_nano"),
    ):
        text = text.replace(camel, snake)
    assert read(json.loads(text)) == read(made.traced(made.genai()))


def test_an_event_in_a_log_record_is_a_call() -> None:
    """The event that holds a call's details is read from a document of log records as well."""
    record = {"eventName": DETAILS, "traceId": "t", "timeUnixNano": made.NANOS}
    logged = {**record, "attributes": made.pairs_of(made.genai(REFUSAL))}
    (row,) = read({"resourceLogs": [{"scopeLogs": [{"logRecords": [logged]}]}]})
    assert isinstance(row, Traced)
    assert classify(row.exchange.response).outcome == "refused"


def test_an_exception_says_why_a_span_failed() -> None:
    """Where the status has no message, the exception among the events has it."""
    raised = events_of({"exception": {"exception.message": made.BLOCKED}})
    failed = made.span({"gen_ai.operation.name": "chat"}, events=raised, status={"code": "STATUS_CODE_ERROR"})
    (row,) = read(made.otlp(failed))
    assert isinstance(row, Traced)
    assert classify(row.exchange.response).outcome == "filtered"


def test_messages_keep_their_order() -> None:
    """Spread messages are in the order of their numbers, not of their names."""
    attributes = {f"gen_ai.prompt.{index}.content": str(index) for index in (10, 2, 0)}
    assert [turn["content"] for turn in indexed(attributes, "gen_ai.prompt")] == ["0", "2", "10"]


def test_depth_breaks_nothing() -> None:
    """Values nested deeper than any instrumentation writes are left out, not followed."""
    deep: dict[str, Any] = {"stringValue": "x"}
    for _ in range(5000):
        deep = {"arrayValue": {"values": [deep]}}
    nested: dict[str, Any] = {}
    for _ in range(5000):
        nested = {"a": nested}
    document = made.otlp({"traceId": "t", "attributes": [{"key": "k", "value": deep}]})
    assert [span.trace for span in spans_in(document)] == ["t"]
    assert read({"spanId": "s", "attributes": nested}) == [Skipped("a span that is no model call")]


def test_a_spoilt_span_spoils_no_other() -> None:
    """A span that cannot be read is skipped with the reason, and the next is read."""
    spoilt = made.span(made.phoenix(**{"output.value": json.dumps({"choices": [7]})}))
    rows = read(made.otlp(spoilt, made.span(made.genai())))
    assert isinstance(rows[0], Skipped)
    assert rows[0].why.startswith("unreadable: ")
    assert isinstance(rows[1], Traced)
