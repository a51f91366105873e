"""Who may ask, for which paths, in which session, and what the gateway says of itself."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from tests.gateway.gatewaying import ATTACK, HARMLESS, chat, gateway, passports
from tests.gateway.test_streams import Stub
from tests.http.serving import serving

from demur.gateway.keys import hash_key, new_client_key
from demur.gateway.request import audited_route
from demur.gateway.settings import KeysPart, MetricsPart, OtherPaths, RoutePart, UpstreamPart
from demur.http.paths import plain_path
from demur.io.log import SafeFormatter

if TYPE_CHECKING:
    from pathlib import Path

CHAT = "/v1/chat/completions"
ANSWER = b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris."},"finish_reason":"stop"}]}'
LABELLED = '@id("interns") @decision("deny") @reason("not for interns")\nforbid (principal in Label::"interns", action == Action::"request", resource);'


def provider(body: bytes = ANSWER) -> Stub:
    return Stub(pieces=(body,), content_type=b"application/json")


@pytest.mark.parametrize(
    "path",
    [
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
def test_no_spelling_goes_around_the_audit(tmp_path: Path, path: str) -> None:
    """However the path is spelt, a denied prompt is denied and the provider is not asked."""
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        assert running.knock(path, chat(ATTACK)).status == 403
    assert stub.asked == []


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
    stub = provider()
    with (
        serving(stub) as url,
        gateway(
            tmp_path,
            UpstreamPart(url=url, api_key_env="PROVIDER_KEY"),
            policy=LABELLED,
            keys=KeysPart(file=str(file)),
        ) as running,
    ):
        assert running.knock(CHAT, chat(HARMLESS)).status == 401
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
    key = new_client_key()
    file = tmp_path / "keys.toml"
    file.write_text(f'[[key]]\nname = "a"\nhash = "{hash_key(key)}"\n', encoding="utf-8")
    stub = provider()
    with serving(stub) as url, gateway(tmp_path, url, keys=KeysPart(file=str(file))) as running:
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
        running.knock(CHAT, chat(HARMLESS))
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
        running.knock(CHAT, chat(HARMLESS))
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
