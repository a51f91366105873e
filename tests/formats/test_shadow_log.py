"""Shadow's log beyond the table of examples."""

from __future__ import annotations

import pytest
from tests.formats import examples as made
from tests.formats.example import ANSWER, QUESTION, answer_of, read_all, read_one

from demur.detect.check import classify
from demur.errors import ShapeError
from demur.model.exchange import ToolCallPart
from demur.model.run import Skipped, Traced
from demur.model.verdict import Outcome
from demur.wire.agentlog import record_id


def test_a_response_finds_its_request_by_its_parent() -> None:
    """Two conversations written in turns are told apart, in the order of their answers."""
    first, second = (made.agentlog(made.payload(made.text_part(text))) for text in ("one", "two"))
    asked = {**second[1]["payload"], "messages": [{"role": "user", "content": "And red?"}]}
    other = {**second[1], "payload": asked, "id": record_id(asked)}
    answers = read_all("agentlog", [*first[:2], other, {**second[2], "parent": other["id"]}, first[2]])
    read = [row.exchange for row in answers if isinstance(row, Traced)]
    assert [(e.request.prompt, e.response.choices[0].text) for e in read if e.request and e.response] == [
        ("And red?", "two"),
        (QUESTION, "one"),
    ]


def test_equal_requests_are_asked_once_each() -> None:
    """Equal payloads share an id; each of their responses is an exchange with that request, and none is left over."""
    log = made.agentlog(made.payload(made.text_part()))
    read = [row for row in read_all("agentlog", [*log, log[1], log[2]]) if isinstance(row, Traced)]
    assert [row.exchange.request is not None for row in read] == [True, True]


def test_an_orphan_is_an_exchange_without_a_request() -> None:
    """A response whose request is in another file is read all the same."""
    orphan = made.agentlog(made.payload(made.text_part()))[2]
    assert read_one("agentlog", orphan).exchange.request is None
    assert answer_of("agentlog", orphan).choices[0].text == ANSWER


def test_a_tool_call_complies() -> None:
    """An answer that is only a call of a tool is an answer."""
    log = made.agentlog(made.payload({"type": "tool_use", "id": "c", "name": "f", "input": {}}, stop="tool_use"))
    response = answer_of("agentlog", *log)
    assert response.choices[0].parts == (ToolCallPart("c", "f", "{}"),)
    assert classify(response).outcome is Outcome.COMPLIED


def test_what_is_no_exchange_is_skipped_with_its_reason() -> None:
    """Metadata, tools, and errors that answer nothing are counted, not dropped."""
    log = made.agentlog({"source": "tool", "code": "x", "message": "y"}, "error")
    assert read_all("agentlog", [log[0], {**log[2], "parent": None}, {**log[2], "kind": "tool_call"}]) == [
        Skipped("a metadata record"),
        Skipped("an error that answers no request"),
        Skipped("a tool call"),
    ]


def test_fields_of_a_record() -> None:
    """The model, the day, the envelope's own metadata and what was measured of the answer are fields."""
    assert read_one("agentlog", *made.agentlog(made.payload(made.text_part()))).fields == (
        ("model", "m"),
        ("day", "2026-04-28"),
        ("ts", "2026-04-28T10:00:00.000Z"),
        ("meta.session_tag", "s-1"),
        ("latency_ms", "7"),
        ("output_tokens", "3"),
    )


def test_an_unknown_kind_is_an_error() -> None:
    """A record of a kind that the specification does not have is named."""
    with pytest.raises(ShapeError, match="`kind`: unknown kind of record `dream`; expected one of blob_ref"):
        read_all("agentlog", [{"version": "0.1", "kind": "dream", "payload": {}}])
