"""Shadow's `.agentlog`: names of records, and logs that Shadow reads."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from tests.axes.paired_exchanges import exchange
from tests.formats.example import read_all
from tests.wire import laws

from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, Finish, OpaquePart, ProviderError, RefusalPart, Response, TextPart
from demur.model.run import Traced
from demur.wire.agentlog import record_id, write_agentlog


def sha256(canonical: str) -> str:
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def test_the_seeds_known_vector() -> None:
    """The seed's specification names this payload and its id."""
    expected = "sha256:93a23971a914e5eacbf0a8d25154cda309c3c1c72fbb9914d47c60f3cb681588"
    assert record_id({"hello": "world"}) == expected


@pytest.mark.parametrize(
    ("payload", "canonical"),
    [
        ({"b": 2, "a": {"d": [], "c": None}}, '{"a":{"c":null,"d":[]},"b":2}'),
        ([True, False, None], "[true,false,null]"),
        (
            [1.0, 1.5, -0.0, 0.1, -17, 1e20, 1e-7, 123456789.125],
            "[1,1.5,0,0.1,-17,100000000000000000000,0.0000001,123456789.125]",
        ),
        ([2**64 - 1, -(2**63), 2**64], "[18446744073709551615,-9223372036854775808,18446744073709552000]"),
        ({"x": 'a"b\\c\n\t\r\b\f\x01\x1f\x7f/'}, '{"x":"a\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/"}'),
        ({"e\u0301": "e\u0301 €"}, '{"\u00e9":"\u00e9 €"}'),
        ({"\U0001f600": 1, "\uffee": 2, "z": 3}, '{"z":3,"\uffee":2,"\U0001f600":1}'),
    ],
)
def test_the_canonical_form(payload: Any, canonical: str) -> None:
    """Sorted by UTF-8, in NFC, without white space, numbers in their shortest form without an exponent."""
    assert record_id(payload) == sha256(canonical)


@given(laws.JSON)
def test_the_order_of_keys_does_not_matter(payload: Any) -> None:
    """An object has the same id in whichever order its fields came."""
    wrapped = {"a": payload, "b": 1}
    assert record_id(wrapped) == record_id(dict(reversed(wrapped.items())))


@pytest.mark.parametrize("payload", ["\ud800", {"x": object()}, 10**400])
def test_what_is_no_json_has_no_id(payload: Any) -> None:
    """Half a character, an object of another kind and a number beyond all doubles are errors."""
    with pytest.raises(ShapeError, match="`payload`: expected plain JSON"):
        record_id(payload)


@pytest.mark.heavy
def test_a_bottomless_payload_has_no_id() -> None:
    """A payload that is nested too deeply is an error about the input, not a crash."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ShapeError, match="`payload`: expected plain JSON"):
        record_id(deep)


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
    for back, original in zip(read, (said, plain), strict=True):
        assert back.response is not None
        assert original.response is not None
        assert back.response.choices[0].text == original.response.choices[0].text
        assert back.response.choices[0].finish == original.response.choices[0].finish
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
    log = [Exchange(None, refused), Exchange(None, failed), Exchange(None, None, exchange("x").request)]
    records = [json.loads(line) for line in write_agentlog([(each, None) for each in log], ts=TS)]
    assert [r["kind"] for r in records[1:]] == ["chat_response", "error", "chat_request"]
    assert records[1]["payload"]["content"] == [{"type": "refusal", "refusal": "no"}]
    assert records[2]["payload"] == {"source": "llm", "code": "429", "message": "too many"}
