"""Which requests are read, who may ask, in which session; and bad input: the right status, on record, survived."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.gateway.gatewaying import (
    ANSWER,
    ATTACK,
    CHAT,
    HARMLESS,
    Running,
    chat,
    gateway,
    one_key,
    passports,
    provider,
    verified,
)
from tests.http.serving import serving

from demur.gateway.keys import hash_key, new_client_key
from demur.gateway.request import audited_route, reads_two_ways
from demur.gateway.settings import KeysPart, LimitsPart, MetricsPart, OtherPaths, RoutePart, UpstreamPart
from demur.http.asgi import plain_path
from demur.io.log import SafeFormatter
from demur.model.passport import DeclineCause

LABELLED = '@id("interns") @decision("deny") @reason("not for interns")\nforbid (principal in Label::"interns", action == Action::"request", resource);'


def test_paths_are_told_apart() -> None:
    """Only POST to a door is audited; a longer path is another one."""
    assert audited_route("GET", CHAT) is None
    assert audited_route("POST", "/v1/responses/r_1/cancel") is None
    assert audited_route("POST", "/v1/embeddings") is None
    assert plain_path("/a/./b//c/../d/") == "/a/b/d"


def test_other_paths_pass_or_are_refused(tmp_path: Path) -> None:
    """What is no chat passes untouched with method, query and body, or is a 404, by the setting; models always pass."""
    stub = provider(b'{"data": []}')
    with serving(stub) as url:
        with gateway(tmp_path, url) as running:
            got = running.knock("/v1/embeddings?x=1", b'{"input": "hi"}')
            assert (got.status, got.body, stub.asked[-1]) == (200, b'{"data": []}', b'{"input": "hi"}')
            assert running.knock("/v1/models", method="GET").status == 200
            assert running.knock("/v1/files/f", method="DELETE").status == 200
        with gateway(tmp_path, url, other_paths=OtherPaths.REFUSE) as running:
            got = running.knock("/v1/embeddings", b"{}")
            assert (got.status, got.json["error"]["code"]) == (404, "unknown_path")
            assert running.knock("/v1/models", method="GET").status == 200
    assert passports(tmp_path) == []


def test_keys_are_asked_for_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a known key nothing passes; a key's labels reach the policy; no key of ours or the provider's is passed on."""
    keys = {name: new_client_key() for name in ("staff", "intern")}
    file = tmp_path / "keys.toml"
    file.write_text(
        f'[[key]]\nname = "staff"\nhash = "{hash_key(keys["staff"])}"\n'
        f'[[key]]\nname = "intern"\nhash = "{hash_key(keys["intern"])}"\nlabels = ["interns"]\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("PROVIDER_KEY", "sk-of-the-provider")
    stub, asked_for = provider(), KeysPart(str(file))
    with (
        serving(stub) as url,
        gateway(tmp_path, UpstreamPart(url, "PROVIDER_KEY"), policy=LABELLED, keys=asked_for) as running,
    ):
        assert running.ask().status == 401
        got = running.knock("/v1/messages", chat(HARMLESS), x_api_key="demur_wrong_wrong_wrong_wrong")
        assert (got.status, got.json["error"]["type"]) == (401, "authentication_error")
        assert running.knock(CHAT, chat(HARMLESS), authorization=f"Bearer {keys['intern']}").status == 403
        assert running.knock(CHAT, chat(HARMLESS), authorization=f"Bearer {keys['staff']}").status == 200
        figures = running.metrics()
        assert "demur_unauthorised_total 2" in figures
        assert 'demur_client_requests_total{client="staff"} 1' in figures
    assert [sent["authorization"] for sent in stub.headers] == ["Bearer sk-of-the-provider"]
    log = b"".join(path.read_bytes() for path in (tmp_path / "log").iterdir())
    assert not any(secret.encode() in log for secret in (*keys.values(), "sk-of-the-provider"))


def test_our_key_beside_the_providers(tmp_path: Path) -> None:
    """A client with a key of its own at the provider shows ours in a header of its own, which ends here."""
    key, keys = one_key(tmp_path)
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url, keys=keys) as running:
        assert running.knock(CHAT, chat(HARMLESS), x_demur_key=key, authorization="Bearer sk-own").status == 200
        assert running.knock(CHAT, chat(HARMLESS), authorization=f"Bearer {key}").status == 200
    assert stub.headers[0]["authorization"] == "Bearer sk-own"
    assert "x-demur-key" not in stub.headers[0]
    assert "authorization" not in stub.headers[1]


def test_routes_lead_to_their_provider(tmp_path: Path) -> None:
    """A path with a provider of its own is carried there, any other to the upstream."""
    first, second = provider(), provider(b'{"type":"message","role":"assistant","content":[],"stop_reason":"end_turn"}')
    with (
        serving(first) as one,
        serving(second) as two,
        gateway(tmp_path, one, routes=(RoutePart(paths=("/v1/messages",), url=two),)) as running,
    ):
        running.ask()
        running.knock("/v1/messages", chat(HARMLESS, max_tokens=9))
    assert (len(first.asked), len(second.asked)) == (1, 1)


def test_sessions_are_named_by_header_body_or_beginning(tmp_path: Path) -> None:
    """A header wins over the body, the body over what is derived; turns of one conversation share a derived session."""
    later = chat(HARMLESS)
    later["messages"] += [{"role": "assistant", "content": "Paris."}, {"role": "user", "content": "And of Spain?"}]
    with serving(provider()) as url, gateway(tmp_path, url) as running:
        named = chat(HARMLESS, metadata={"session_id": "of-the-body"})
        running.knock(CHAT, named, x_session_id="of-the-header")
        running.knock(CHAT, named)
        running.ask()
        running.knock(CHAT, later)
        running.knock(CHAT, chat(HARMLESS), authorization="Bearer somebody-else")
        running.knock(CHAT, chat(HARMLESS), x_session_id="n" * 500)
    found = passports(tmp_path)
    sessions = [passport.session for passport in found]
    assert sessions[:2] == ["of-the-header", "of-the-body"]
    assert sessions[2] == sessions[3]
    assert sessions[2].startswith("derived-")
    assert sessions[4] not in sessions[:4]
    assert sessions[5].startswith("hashed-")
    assert [passport.seq for passport in found] == [0, 0, 0, 1, 0, 0]


def test_compressed_bodies_are_read(tmp_path: Path) -> None:
    """A compressed request is read before it is decided, and goes on compressed."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        packed = gzip.compress(json.dumps(chat(HARMLESS)).encode())
        assert running.knock(CHAT, packed, content_encoding="gzip").status == 200
        attack = gzip.compress(json.dumps(chat(ATTACK)).encode())
        assert running.knock(CHAT, attack, content_encoding="gzip").status == 403
        assert running.knock(CHAT, packed, content_encoding="br").status == 415
        assert running.knock(CHAT, packed[:20], content_encoding="gzip").status == 415
    assert stub.asked == [packed]


def test_the_gateways_own_pages(tmp_path: Path) -> None:
    """Health, readiness and figures answer without a provider; figures can be turned off; nothing else is theirs."""
    with gateway(tmp_path, "http://127.0.0.1:9") as running:
        assert running.knock("/healthz", method="GET").json == {"status": "ok"}
        assert running.knock("/readyz", method="GET").json == {"status": "ready", "troubles": []}
        assert "# TYPE demur_requests_total counter" in running.metrics()
        assert running.knock("/metrics", b"").status == 405
    with gateway(tmp_path, "http://127.0.0.1:9", metrics=MetricsPart(on=False)) as running:
        assert running.knock("/metrics", method="GET").status == 404


def test_no_text_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither prompts nor answers nor keys stand in any log line or in the store."""
    caplog.set_level("DEBUG")
    with serving(provider(ANSWER.replace(b"Paris", b"Quixotic-answer"))) as url, gateway(tmp_path, url) as running:
        running.knock(CHAT, chat("zanzibar-prompt"), authorization="Bearer sk-very-secret")
    lines = "\n".join(SafeFormatter().format(record) for record in caplog.records)
    held = b"".join(path.read_bytes() for path in (tmp_path / "log").iterdir())
    for word in ("zanzibar-prompt", "Quixotic-answer", "sk-very-secret"):
        assert word not in lines
        assert word.encode() not in held


BODY = json.dumps(chat(HARMLESS)).encode()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    with serving(provider()) as url, gateway(folder, url, limits=LimitsPart(body_bytes=3_000_000)) as found:
        yield found
    assert verified(folder).faults == ()


def still_serves(running: Running) -> None:
    assert running.ask().status == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b'{"model": "m\x00"}', 400, "invalid_json"),
        (b'{"a": NaN}', 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b'{"a":' * 100_000, 400, "invalid_json"),
        (b"[]", 400, "invalid_request"),
        (b"null", 400, "invalid_request"),
        (b"{}", 400, "invalid_request"),
        (b'{"messages": 3}', 400, "invalid_request"),
        (b'{"model": {}, "messages": []}', 400, "invalid_request"),
        (b" " * 3_000_001, 413, "request_too_large"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_body_that_cannot_be_read(running: Running, body: bytes, status: int, code: str) -> None:
    """A body that is no request of the shape is refused with its status and word, and the next one is served."""
    got = running.knock(CHAT, body)
    assert (got.status, got.json["error"]["code"]) == (status, code)
    got = running.knock("/v1/messages", body)
    assert (got.status, got.json["type"]) == (status, "error")
    still_serves(running)


def test_what_stands_behind_a_body_that_is_too_long_is_not_served(running: Running) -> None:
    """A client that goes on sending hears its refusal to the end; the connection is then over, whatever else it sent."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 3000001\r\n\r\n"
    got = running.send_bytes(head + b" " * 3_000_001 + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"request_too_large" in got
    assert got.count(b"HTTP/1.1") == 1


def test_what_is_refused_is_recorded(tmp_path: Path) -> None:
    """A body that cannot be read leaves a record of its own, as blocked, with the commitment to what was sent."""
    with gateway(tmp_path, "http://127.0.0.1:9") as running:
        running.knock(CHAT, b"{")
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.GATEWAY_BLOCK,)
    assert found.request is not None
    assert found.request.size_bytes == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=utf-7", 'application/json;charset="ibm037"'])
def test_a_body_of_another_type(running: Running, kind: str) -> None:
    """A body that is not declared as JSON, or in a charset that hides plain letters, is a 415: a provider may read it all the same."""
    assert running.knock(CHAT, BODY, content_type=kind).status == 415
    for good in ("application/json; charset=utf-8", "application/json; charset=UTF-8"):
        assert running.knock(CHAT, BODY, content_type=good).status == 200


def test_ten_thousand_messages(running: Running) -> None:
    """A long conversation is read to its end."""
    many = [{"role": ("user", "assistant")[n % 2], "content": f"message {n}"} for n in range(10_001)]
    assert running.knock(CHAT, {"model": "m", "messages": many}).status == 200


@pytest.mark.parametrize("model", ["", "no such model", "m\u0000\u202e", "\ud800", "x" * 100_000, "Ünïcode"])
def test_any_model_name(running: Running, model: str) -> None:
    """Any name of a model goes to the provider, who knows his own."""
    assert running.knock(CHAT, {**chat(HARMLESS), "model": model}).status == 200


@pytest.mark.parametrize("text", ["", "\u0000", "\ud800 lone", "\U000e0041" * 1000, "a" * 1_000_000])
def test_any_text(running: Running, text: str) -> None:
    """No text breaks the audit or the record."""
    assert running.ask(text).status in (200, 403)
    still_serves(running)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["model", "messages", "stream", "n", "system", "metadata", "tools", "input", "max_tokens"])


@pytest.mark.heavy
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.dictionaries(FIELDS, JSON), path=st.sampled_from([CHAT, "/v1/messages", "/v1/responses"]))
def test_any_json_is_answered(running: Running, body: dict[str, Any], path: str) -> None:
    """Whatever JSON comes, the answer is the provider's, or a refusal in his shape; never a fault of ours."""
    got = running.knock(path, json.dumps(body).encode())
    assert got.status in (200, 400, 403)
    assert got.status == 200 or "error" in got.json


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=300))
def test_any_bytes_are_survived(running: Running, junk: bytes) -> None:
    """Whatever bytes come before, the next client is served."""
    with running.connect() as sock:
        sock.sendall(junk)
    assert running.knock("/healthz", method="GET").status == 200


TEXTS = st.text('a":\\ \n{,', max_size=6)
PAIRS = st.lists(st.tuples(st.sampled_from(["a", "b", 'a"', "a\\", "a:", ":"]), TEXTS), max_size=4)
SPACES = st.sampled_from(["", " ", "\n\t"])


def written(pairs: list[tuple[str, str]], space: str) -> str:
    """Return a JSON object of these names and texts, as often as they stand there."""
    return "{" + ",".join(f"{json.dumps(name)}{space}:{space}{json.dumps(text)}" for name, text in pairs) + "}"


@given(PAIRS, PAIRS, SPACES)
@example([("a\\", ""), ("a\\", "")], [], "")
@example([("a", ""), ("a", ""), ("b", ":")], [], "")
@example([("a\\", ""), ("a\\", ":")], [("a", '":')], "")
def test_a_name_that_stands_twice_is_found_among_texts_that_look_like_names(
    outer: list[tuple[str, str]], inner: list[tuple[str, str]], space: str
) -> None:
    """Quotes, colons and backslashes in names and texts change nothing: a body is refused where a name stands twice."""
    text = f'{{"x":{written(outer, space)},"y":[{written(inner, space)}]}}'
    twice = any(len(dict(pairs)) != len(pairs) for pairs in (outer, inner))
    assert reads_two_ways(text.encode(), json.loads(text)) is twice


@pytest.mark.parametrize("name", ["Messages", "MODEL", "meſſages", "Content"])
def test_a_name_that_differs_by_capitals_is_found(name: str) -> None:
    """Capitals, and letters that fold to the same, make another reading; so they do in a turn."""
    for body in ({name: 1}, {"messages": [{"role": "user", name: "x"}]}):
        assert reads_two_ways(json.dumps(body).encode(), body)


def test_capitals_are_free_where_names_are_not_the_apis() -> None:
    """A name of nobody's, and one in a schema, may have capitals."""
    body = {"model": "m", "xTemperature": 1, "tools": [{"Content": {"Role": "x"}}]}
    assert not reads_two_ways(json.dumps(body).encode(), body)
