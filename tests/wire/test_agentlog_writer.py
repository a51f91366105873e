"""A log that is written is the log that is read."""

from __future__ import annotations

import json

from tests.axes.paired_exchanges import exchange
from tests.formats.example import read_all

from demur.model.exchange import Choice, Exchange, Finish, OpaquePart, ProviderError, RefusalPart, Response, TextPart
from demur.model.run import Traced
from demur.wire.agentlog import record_id, write_agentlog

TS = "2026-04-28T10:00:00.000Z"


def test_what_is_written_is_read_again() -> None:
    """Prompts, texts, calls, stops and sessions come back, in their order."""
    said = exchange("Grüße", calls=('f {"a": [1, 2.5]}',), prompt="Wie?", tokens=7)
    plain = exchange("No calls.")
    log = [(Exchange(None, said.response, said.request, session="s"), 12.5), (plain, None)]
    records = [json.loads(line) for line in write_agentlog(log, ts=TS)]
    read = [row.exchange for row in read_all("agentlog", records) if isinstance(row, Traced)]
    assert [e.session for e in read] == ["s", None]
    assert [e.request.prompt for e in read if e.request] == ["Wie?", "What now?"]
    for back, given in zip(read, (said, plain), strict=True):
        assert back.response is not None
        assert given.response is not None
        assert back.response.choices[0].text == given.response.choices[0].text
        assert back.response.choices[0].finish == given.response.choices[0].finish
    assert read[0].response is not None
    assert [getattr(p, "arguments", None) for p in read[0].response.choices[0].parts] == [None, '{"a":[1,2.5]}']


def test_every_record_is_named_by_its_payload() -> None:
    """Ids are the hash of the payload, the metadata comes first, and each record names the one that it answers."""
    records = [json.loads(line) for line in write_agentlog([(exchange("x"), 3), (exchange("y"), None)], ts=TS)]
    assert [r["kind"] for r in records] == ["metadata", *["chat_request", "chat_response"] * 2]
    assert all(r["id"] == record_id(r["payload"]) for r in records)
    assert [r["parent"] for r in records] == [None, *(r["id"] for r in records[:-1])]
    assert {r["ts"] for r in records} == {TS}


def test_what_is_not_known_is_not_made_up() -> None:
    """Latency and tokens stand in a record only where they are known, and an unknown stop in its own word."""
    odd = Response("m", (Choice(0, (TextPart("x"), OpaquePart("image", b"{}")), Finish.UNKNOWN, "paused"),))
    [_, told] = [json.loads(line)["payload"] for line in write_agentlog([(Exchange(None, odd), None)], ts=TS)]
    assert told == {"model": "m", "content": [{"type": "text", "text": "x"}], "stop_reason": "paused"}


def test_refusals_and_errors() -> None:
    """A refusal part stays one, an error is a record of its own, and nothing but a request leaves it unanswered."""
    refused = Response("m", (Choice(0, (RefusalPart("no"),), Finish.REFUSAL, "refusal"),))
    failed = Response("m", error=ProviderError("too many", "429"))
    log = [
        (Exchange(None, refused), None),
        (Exchange(None, failed), None),
        (Exchange(None, None, exchange("x").request), None),
    ]
    records = [json.loads(line) for line in write_agentlog(log, ts=TS)]
    assert [r["kind"] for r in records[1:]] == ["chat_response", "error", "chat_request"]
    assert records[1]["payload"]["content"] == [{"type": "refusal", "refusal": "no"}]
    assert records[2]["payload"] == {"source": "llm", "code": "429", "message": "too many"}
