"""Ways around the gateway: requests that a provider would read otherwise, answers that a client would put together otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gatewaying import ATTACK, CHAT, HARMLESS, Stub, chat, gateway, passports, provider, settings_for
from tests.gateway.guard.conformance import PHRASE
from tests.gateway.test_streams import guarded
from tests.http.serving import serving
from tests.wire.loopback import answering

from demur.gateway.app import GatewayApp
from demur.gateway.opening import open_worker
from demur.gateway.settings import OtherPaths, UpstreamPart
from demur.model.passport import DeclineCause

pytestmark = pytest.mark.heavy

QUOTED = json.dumps(ATTACK)
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
HIDDEN = f'{{"role":"user","content":{QUOTED}}}'
OPEN = '{"role":"user","content":"hi"}'
RESULT = {"type": "tool_result", "tool_use_id": "t"}
FIRST, SECOND = PHRASE[:9], PHRASE[9:]


def chunk(text: object, index: object = 0) -> bytes:
    return json.dumps({"choices": [{"index": index, "delta": {"content": text}}]}, ensure_ascii=False).encode()


def events(*bodies: bytes) -> bytes:
    return b"".join(b"data: " + body + b"\n\n" for body in (*bodies, b"[DONE]"))


def turns(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/a;b/../chat/completions",
        "/v1/chat;x/completions",
        "/v1/chat/..;/chat/completions",
        "/v1/chat/completions%3Fx=1",
        "/v1/chat/completions%2523",
        "/v1/chat/completions%00.json",
        "/v1/chat/completions%0a",
        "/v1/%EF%BD%83hat/completions",
        "/v1/chat/completions/",
        "//v1//chat/completions",
        "/v1/%63hat/completions",
        "/v1/%2563hat/completions",
        "/v1/x/../chat/completions",
        "/V1/Chat/Completions",
        "/v1/chat/completions;x=1",
        "/api/v1/chat/completions",
    ],
)
def test_every_reading_of_a_path_is_audited(tmp_path: Path, path: str) -> None:
    """However a path is spelt, what one server in a row could take for the door is one: a denied prompt is denied, and the provider is not asked."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        assert running.knock(path, chat(ATTACK)).status == 403
    assert stub.asked == []


@pytest.mark.parametrize(("method", "override"), [("PUT", ""), ("PATCH", ""), ("GET", "POST"), ("POST", "GET")])
def test_no_method_goes_around_the_audit(tmp_path: Path, method: str, override: str) -> None:
    """Every method that brings a body to a door is audited, and so is one that a header could turn into such."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = running.knock(CHAT, chat(ATTACK), method=method, x_http_method_override=override)
    assert (got.status, stub.asked) == (403, [])


def test_the_path_of_the_upstream_is_part_of_the_door(tmp_path: Path) -> None:
    """A door that only shows once the provider's own path stands before it is audited."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, UpstreamPart(url=f"{url}/v1")) as running:
        assert running.knock("/messages", turns({"role": "user", "content": ATTACK})).status == 403
    assert stub.asked == []


def test_models_are_no_way_to_other_paths(tmp_path: Path) -> None:
    """Where other paths are refused, a list of models opens none of them by dots or by a longer name."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url, other_paths=OtherPaths.REFUSE) as running:
        for path in ("/v1/models/../responses/r_1", "/v1/models/%2e%2e/files", "/v1/modelsx", "/v1/models;/../files"):
            assert running.knock(path, method="GET").status == 404, path
        assert running.knock("/v1/models/m", method="GET").status == 200
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        f'{{"model":"m","messages":[{HIDDEN}],"messages":[{OPEN}]}}',
        f'{{"model":"m","messages":[{OPEN}],"\\u006dessages":[{OPEN}]}}',
        f'{{"model":"m","messages":[{{"role":"user","content":{QUOTED},"content":"hi"}}]}}',
        f'{{"model":"m","messages":[{OPEN}],"Messages":[{HIDDEN}]}}',
        f'{{"model":"m","messages":[{{"role":"user","Content":{QUOTED}}}]}}',
        f'{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"hi","Text":{QUOTED}}}]}}]}}',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_what_reads_two_ways_is_refused(tmp_path: Path, body: str, encoding: str) -> None:
    """A name that stands twice, or differs by capitals from one that is read, is a 400 on record, and goes no further."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = running.knock(CHAT, body.encode(encoding))
    assert (got.status, got.json["error"]["code"], stub.asked) == (400, "ambiguous_json", [])
    assert passports(tmp_path)[-1].causes == (DeclineCause.GATEWAY_BLOCK,)


def test_names_of_others_may_be_spelt_as_they_like(tmp_path: Path) -> None:
    """Schemas, tools' arguments, metadata and quoted names in texts are nobody's two readings."""
    schema = {"type": "object", "properties": {"Content": {"type": "string"}, "Type": {"type": "string"}}}
    used = {"type": "tool_use", "id": "t", "name": "f", "input": {"Content": "x", "Role": "y"}}
    result = {**RESULT, "content": '{"a": 1, "a": 2}'}
    body = turns(
        {"role": "user", "content": HARMLESS + ' "a": "b\\" : '},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [result]},
        tools=[{"name": "f", "input_schema": schema}],
        metadata={"User_Id": "u", "Text": "x"},
    )
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        assert running.knock(MESSAGES, body).status == 200
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, turns({"role": "tool", "tool_call_id": "t", "content": ATTACK}, {"role": "user", "content": "hi"})),
        (CHAT, turns({"role": "User", "content": ATTACK})),
        (CHAT, turns({"role": "user", "content": [{"type": "Text", "text": ATTACK}]})),
        (RESPONSES, {"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": ATTACK}]}),
        (RESPONSES, {"model": "m", "prompt": {"id": "p", "variables": {"x": ATTACK}}}),
        (MESSAGES, turns({"role": "user", "content": [{**RESULT, "content": ATTACK}]})),
    ],
)
def test_an_attack_is_found_wherever_it_stands(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    """What tools bring back, roles and parts that are not known, and a template's values are audited like a user's turn."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        assert running.knock(path, body).status == 403
    assert stub.asked == []


SPLIT = events(chunk(FIRST), chunk(SECOND))
ROWS = chunk(FIRST) + b"\n" + chunk(SECOND) + b"\n"


@pytest.mark.parametrize(
    ("status", "kind", "answer"),
    [
        (200, b"text/plain", SPLIT),
        (201, b"application/json", SPLIT),
        (302, b"text/plain", SPLIT),
        (200, b"text/event-stream", b"{}\n\n" + SPLIT),
        (200, b"text/event-stream", b"[x\r" + SPLIT),
        (200, b"application/x-ndjson", ROWS),
        (200, b"application/json", b"[" + chunk(FIRST) + b"," + chunk(SECOND) + b"]"),
        (200, b"text/plain; charset=utf-16", PHRASE.encode("utf-16")),
        (200, b"text/plain", PHRASE.encode("utf-16-le")),
        (200, b"text/plain; charset=utf-7", PHRASE.encode("utf-7")),
        (200, b"text/event-stream; charset=utf-7", PHRASE.encode("utf-7")),
        (200, b"text/event-stream", events(chunk(FIRST, "0"), chunk("zz", "1"), chunk(SECOND, "0"))),
        (200, b"text/event-stream", events(json.dumps({"choices": {"0": PHRASE}}, ensure_ascii=False).encode())),
        (200, b"text/event-stream", PHRASE.encode() + b"\n" + events(chunk("ok"))),
        (200, b"text/event-stream", b"event: " + PHRASE.encode() + b"\n" + events(chunk("ok"))),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_no_dress_of_an_answer_hides_a_phrase(
    tmp_path: Path, status: int, kind: bytes, answer: bytes, *, stream: bool
) -> None:
    """Whatever an answer's status, type and charset say, what a client could put together from it is withheld."""
    stub = Stub(pieces=(answer,), status=status, content_type=kind)
    with guarded(tmp_path, stub) as running:
        got = running.ask(stream=stream)
    for spelt in (FIRST.encode(), FIRST.encode("utf-16-le"), FIRST.encode("utf-7")):
        assert spelt not in got.body
    passport = passports(tmp_path)[-1]
    # UTF-16 without a mark is no text of anybody's: an event that never ends.
    assert DeclineCause.GATEWAY_BLOCK in passport.causes or [gap.what for gap in passport.gaps] == ["upstream_cut"]


def part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("items", [[[FIRST, SECOND]], [[FIRST], [SECOND]]])
def test_parts_of_an_answer_are_read_as_one(tmp_path: Path, items: list[list[str]], *, stream: bool) -> None:
    """A phrase that is split over the parts or items of an answer which came without deltas is withheld."""
    output = [{"type": "message", "role": "assistant", "content": [part(t) for t in texts]} for texts in items]
    response = {"id": "r", "object": "response", "status": "completed", "output": output}
    whole = json.dumps(response, ensure_ascii=False).encode()
    done = json.dumps({"type": "response.completed", "response": response}, ensure_ascii=False).encode()
    kind = b"text/event-stream" if stream else b"application/json"
    stub = Stub(pieces=(b"data: " + done + b"\n\n" if stream else whole,), content_type=kind)
    with guarded(tmp_path, stub) as running:
        got = running.knock(RESPONSES, {"model": "m", "input": HARMLESS, "stream": stream})
    assert FIRST.encode() not in got.body


def test_digits_without_end_are_a_name(tmp_path: Path) -> None:
    """The number of a tool call that no computer counts to is told apart like any name, and the stream passes."""
    call = {"index": "9" * 5000, "function": {"arguments": "{}"}}
    said = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}).encode()
    stub = Stub(pieces=(events(said),))
    with guarded(tmp_path, stub) as running:
        got = running.ask(stream=True)
    assert (got.status, got.body) == (200, events(said))
    assert len(passports(tmp_path)) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_status_that_is_none_is_the_providers_fault(tmp_path: Path, *, stream: bool) -> None:
    """An answer with a status beyond HTTP's is a 502 on record, and not a broken connection."""
    with answering(b"{}", status=999) as stub, gateway(tmp_path, stub.url) as running:
        assert running.ask(stream=stream).status == 502
    assert passports(tmp_path)[-1].causes == (DeclineCause.PROVIDER_ERROR,)


def test_a_fault_of_ours_is_on_record(tmp_path: Path) -> None:
    """An exchange that ends in a fault once its provider was asked has its record all the same."""
    body = json.dumps(chat(HARMLESS, stream=True)).encode()
    asked = [{"type": "http.request", "body": body, "more_body": False}]
    scope = {
        "type": "http",
        "method": "POST",
        "path": CHAT,
        "raw_path": CHAT.encode(),
        "query_string": b"",
        "headers": [],
    }

    async def receive() -> MutableMapping[str, Any]:
        return asked.pop() if asked else await asyncio.Future()

    async def send(_message: MutableMapping[str, Any]) -> None:
        raise ZeroDivisionError

    async def serve(url: str) -> None:
        worker = await open_worker(settings_for(tmp_path, url, policy="observe-only"), metrics_folder=str(tmp_path))
        await worker.start()
        await GatewayApp(worker)(scope, receive, send)
        await worker.close()

    with serving(Stub(pieces=(events(chunk("ok")),))) as url:
        asyncio.run(serve(url))
    (passport,) = passports(tmp_path)
    assert [gap.what for gap in passport.gaps] == ["unscanned"]
