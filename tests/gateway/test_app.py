"""Whole answers through the gateway: decided before the provider is asked, decided again, recorded, and passed untouched."""

from __future__ import annotations

import http.client
import json
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.gateway.gatewaying import (
    ANSWER,
    ATTACK,
    CHAT,
    EVENTS,
    HARMLESS,
    Running,
    Stub,
    chat,
    gateway,
    one_key,
    passports,
    provider,
    verified,
)
from tests.http.serving import serving

from demur.gateway.settings import DenyStyle, DisclosurePart, LimitsPart, TimeoutsPart
from demur.gateway.worker import erase_before
from demur.model.claim import Effect, Phase
from demur.model.passport import DeclineCause, RejectReason, StreamMode
from demur.policy.files import PolicyFolder
from demur.record.commit import meets
from demur.record.store.location import log_place
from demur.record.store.sealing import utc_now
from demur.simulate.server.run import RunningSimulator

NO_REFUSALS = '@id("no-refusals") @decision("deny") @reason("refusals stay here")\nforbid (principal, action == Action::"response", resource) when { context.claims.model_refused };'


def asked(client: openai.OpenAI, text: str, **more: Any) -> Any:
    return client.chat.completions.create(**chat(text, **more))


def test_an_allowed_answer_is_the_providers_own(tmp_path: Path, simulator: RunningSimulator) -> None:
    """What is allowed comes back byte for byte, with the decision, the session and the passport's id in headers."""
    simulator.refuse_by("answer")
    direct = openai.OpenAI(base_url=simulator.openai_url, api_key="k", max_retries=0)
    with direct, gateway(tmp_path, simulator.url) as running, running.openai() as client:
        raw = client.chat.completions.with_raw_response.create(**chat(HARMLESS))
        assert raw.content == direct.chat.completions.with_raw_response.create(**chat(HARMLESS)).content
        assert raw.headers["x-demur-decision"] == "allow"
        assert "x-demur-truth" in raw.headers
        session, passport = raw.headers["x-demur-session"], raw.headers["x-demur-passport"]
    (found,) = passports(tmp_path)
    assert found.session == session
    assert found.request is not None
    assert found.request.digest == passport
    assert [phase.phase for phase in found.phases] == [Phase.REQUEST, Phase.RESPONSE]
    assert found.phases[1].coverage is not None
    assert found.phases[1].coverage.mode is StreamMode.WHOLE
    assert (found.finish_reasons, found.upstream_status, found.causes, found.gaps) == (("stop",), 200, (), ())


def test_a_denied_prompt_never_reaches_the_provider(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A denial is a 403 in the provider's shape that names rule, reason and passport; its one cause is our block, and the provider is not asked."""
    simulator.refuse_by("answer")
    with gateway(tmp_path, simulator.url) as running, running.openai() as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            asked(client, ATTACK)
        figures = running.metrics()
    error: Any = caught.value.body
    assert error["code"] == "policy_denied"
    assert "attack" in [rule["id"] for rule in error["demur"]["rules"]]
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert simulator.truths == []
    (found,) = passports(tmp_path)
    assert found.request is not None
    assert found.request.digest == error["demur"]["passport"]
    assert found.causes == (DeclineCause.GATEWAY_BLOCK,)
    assert found.phases[0].decision.effect is Effect.DENY
    assert (found.upstream_status, found.response, found.finish_reasons) == (None, None, ())
    assert 'demur_declines_total{cause="gateway_block"} 1\n' in figures
    assert "demur_verdicts_total{" not in figures


def test_a_denial_can_be_a_refusal(tmp_path: Path, simulator: RunningSimulator) -> None:
    """By setting, a denial is a refusal of the provider's own shape, plain and streamed, that says whose it is."""
    with gateway(tmp_path, simulator.url, deny=DenyStyle.REFUSAL) as running, running.openai() as client:
        whole = asked(client, ATTACK)
        assert whole.choices[0].message.refusal.startswith("Withheld by policy")
        assert whole.choices[0].finish_reason == "content_filter"
        assert whole.model_extra["demur"]["reason"] == "policy_denied"
        chunks = list(asked(client, ATTACK, stream=True))
        assert chunks[-1].choices[0].finish_reason == "content_filter"
        with running.anthropic() as other:
            message = other.messages.create(model="claude-x", max_tokens=9, messages=chat(ATTACK)["messages"])
        assert message.stop_reason == "refusal"


def test_a_warning_changes_nothing_but_headers(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A warning names its rules in headers and leaves the body alone; the refusal's cause is on record."""
    simulator.refuse_by("refuse-soft")
    with gateway(tmp_path, simulator.url) as running, running.openai() as client:
        raw = client.chat.completions.with_raw_response.create(**chat(HARMLESS))
    assert (raw.headers["x-demur-decision"], raw.headers["x-demur-rules"]) == ("warn", "model-refused")
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.TEXT_REFUSAL,)
    phrase = json.loads(found.phases[1].context).get("claims", {}).get("refusal_phrase")
    assert phrase is None or "withheld" in phrase


def test_an_answer_can_be_denied(tmp_path: Path, simulator: RunningSimulator) -> None:
    """A rule over the answer withholds it whole; the record names our block and the model's own refusal apart."""
    simulator.refuse_by("refuse-soft")
    with (
        gateway(tmp_path, simulator.url, policy=NO_REFUSALS) as running,
        running.openai() as client,
        pytest.raises(openai.PermissionDeniedError) as caught,
    ):
        asked(client, HARMLESS)
    assert "refusals stay here" in str(caught.value)
    (found,) = passports(tmp_path)
    assert found.causes == (DeclineCause.GATEWAY_BLOCK, DeclineCause.TEXT_REFUSAL)
    assert found.response is not None


def test_a_stranger_can_check_the_log(tmp_path: Path, simulator: RunningSimulator) -> None:
    """What the gateway wrote verifies with the public keys, every decision replays, and a second run continues it."""
    simulator.refuse_by("refuse-soft")
    for _ in range(2):
        with gateway(tmp_path, simulator.url) as running, running.openai() as client:
            asked(client, HARMLESS)
            with pytest.raises(openai.PermissionDeniedError):
                asked(client, ATTACK)
    found = verified(tmp_path, PolicyFolder(["block-attacks"]).gate)
    assert found.faults == ()
    assert found.records == 5
    assert [p.seq for p in passports(tmp_path)] == [0, 0, 1, 1]


@pytest.mark.heavy
def test_texts_are_kept_apart_and_erased(tmp_path: Path) -> None:
    """Where texts are kept, each meets its commitment, whole and streamed; once erased none is left, and the log stays."""
    whole = provider()
    place = log_place(str(tmp_path / "log"))
    for stub, more in ((whole, {}), (Stub(pieces=EVENTS), {"stream": True})):
        with serving(stub) as url, gateway(tmp_path, url, disclosure=DisclosurePart(on=True)) as running:
            assert running.knock(CHAT, chat(HARMLESS, **more)).status == 200
        found = passports(tmp_path)[-1]
        kept = place.disclosures(utc_now, read_only=True)
        for commitment, text in ((found.request, stub.asked[-1]), (found.response, b"".join(stub.pieces))):
            assert commitment is not None
            disclosed = kept.get(commitment.digest)
            assert disclosed is not None
            assert meets(disclosed, commitment)
            assert disclosed.text == text
        kept.close()
    assert len(erase_before(place, "9999-01-01T00:00:00Z")) >= 4
    assert erase_before(place, "9999-01-01T00:00:00Z") == ()
    assert len(passports(tmp_path)) == 2


@pytest.mark.heavy
def test_no_text_is_kept_by_default(tmp_path: Path) -> None:
    """Unless the settings say so, there is no store of texts at all."""
    with serving(provider()) as url, gateway(tmp_path, url) as running:
        running.ask()
    assert not (tmp_path / "log" / "disclosures.db").exists()


BODY = json.dumps(chat(HARMLESS)).encode()
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
NEXT = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"

REJECTED = [
    ("no method of HTTP's", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", RejectReason.REQUEST_LINE),
    ("an unknown method", b"JUMP / HTTP/1.1\r\nhost: x\r\n\r\n", RejectReason.REQUEST_LINE),
    ("a NUL in the path", b"GET /v1/mod\0els HTTP/1.1\r\nhost: x\r\n\r\n", RejectReason.REQUEST_LINE),
    ("no version", b"GET /healthz\r\n\r\n", RejectReason.REQUEST_LINE),
    ("another version", b"GET /healthz HTTP/1.2\r\nhost: x\r\n\r\n", RejectReason.REQUEST_LINE),
    ("HTTP/2 in the clear", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", RejectReason.REQUEST_LINE),
    ("a tunnel", b"CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n", RejectReason.REQUEST_LINE),
    ("no path", b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n", RejectReason.REQUEST_LINE),
    ("bare line feeds", HEAD.replace(b"\r\n", b"\n") + b"\n", RejectReason.REQUEST_LINE),
    ("no host", b"GET /healthz HTTP/1.1\r\n\r\n", RejectReason.HOST),
    ("two hosts", b"GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", RejectReason.HOST),
    ("two hosts, old", b"GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", RejectReason.HOST),
    ("a NUL in a header", HEAD + b"x: a\0b\r\n" + LENGTH + b"\r\n" + BODY, RejectReason.HEADER),
    ("a line feed in a header", HEAD + b"x: a\ncontent-length: 3\r\n\r\n" + BODY, RejectReason.HEADER),
    ("a carriage return in a header", HEAD + b"x: a\rb: c\r\n" + LENGTH + b"\r\n" + BODY, RejectReason.HEADER),
    ("a NUL in a header's name", HEAD + b"x\0y: 1\r\n\r\n", RejectReason.HEADER),
    ("a folded header", HEAD + b" folded: 1\r\n\r\n", RejectReason.HEADER),
    ("a header without a colon", HEAD + b"no colon\r\n\r\n", RejectReason.HEADER),
    ("a blank before the colon", HEAD + b"content-length : 5\r\n\r\nhello", RejectReason.HEADER),
    ("two lengths", HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", RejectReason.LENGTH),
    ("one length twice", HEAD + LENGTH + LENGTH + b"\r\n" + BODY, RejectReason.LENGTH),
    ("length and chunks", HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS, RejectReason.LENGTH),
    ("chunks and length", HEAD + CHUNKED + LENGTH + b"\r\n" + CHUNKS, RejectReason.LENGTH),
    ("a list of lengths", HEAD + b"content-length: 5, 5\r\n\r\nhello", RejectReason.LENGTH),
    ("two lengths in one", HEAD + b"content-length: 5 5\r\n\r\nhello", RejectReason.LENGTH),
    ("a negative length", HEAD + b"content-length: -1\r\n\r\n", RejectReason.LENGTH),
    ("a length with a sign", HEAD + b"content-length: +5\r\n\r\nhello", RejectReason.LENGTH),
    ("a coding after chunks", HEAD + b"transfer-encoding: chunked, identity\r\n\r\n", RejectReason.LENGTH),
    ("a coding before chunks", HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS, RejectReason.LENGTH),
    ("an unknown coding", HEAD + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS, RejectReason.LENGTH),
    ("chunks in HTTP/1.0", HEAD.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + CHUNKS, RejectReason.LENGTH),
    ("a chunk's length is none", HEAD + CHUNKED + b"\r\nzz\r\nhello", RejectReason.CHUNK),
    ("a chunk's length is negative", HEAD + CHUNKED + b"\r\n-5\r\nhello", RejectReason.CHUNK),
    ("a chunk's length overflows", HEAD + CHUNKED + b"\r\nffffffffffffffffff\r\nhello", RejectReason.CHUNK),
    ("a chunk is longer than its length", HEAD + CHUNKED + b"\r\n5\r\nhelloXX0\r\n\r\n", RejectReason.CHUNK),
    ("a chunk's line ends bare", HEAD + CHUNKED + b"\r\n5\nhello\n0\n\n", RejectReason.CHUNK),
    ("a chunk's extension breaks the line", HEAD + CHUNKED + b"\r\n5;a\nb\r\nhello", RejectReason.CHUNK),
    ("headers too long", HEAD + b"x: " + b"a" * 9000 + b"\r\n\r\n", RejectReason.HEADERS_TOO_LARGE),
    ("headers too many", HEAD + b"x-long: abc\r\n" * 2000 + b"\r\n", RejectReason.HEADERS_TOO_LARGE),
    ("a header without end", HEAD + b"x: " + b"a" * 60_000, RejectReason.HEADERS_TOO_LARGE),
    ("headers that never end", HEAD, RejectReason.HEADERS_LATE),
]


def strict(folder: Path, url: str, **more: Any) -> AbstractContextManager[Running]:
    limits, times = LimitsPart(header_bytes=8192), TimeoutsPart(slow_client_s=2.0)
    return gateway(folder, url, limits=limits, timeouts=times, **more)


@pytest.mark.heavy
def test_every_kind_is_refused_counted_and_survived(tmp_path: Path) -> None:
    """Each is one answer in OpenAI's shape and the end of its connection; nothing after it is served, nothing reaches the provider."""
    stub = provider()
    with serving(stub) as url, strict(tmp_path, url) as running:
        for name, sent, reason in REJECTED:
            got = running.send_bytes(sent + (NEXT if reason is not RejectReason.HEADERS_LATE else b""))
            head, _, body = got.partition(b"\r\n\r\n")
            status = {RejectReason.HEADERS_TOO_LARGE: 431, RejectReason.HEADERS_LATE: 408}.get(reason, 400)
            assert head.startswith(b"HTTP/1.1 %d " % status), (name, got)
            assert b"connection: close" in head
            assert json.loads(body)["error"]["type"] in ("invalid_request_error", "timeout_error"), name
            assert stub.asked == [], name
        assert running.ask().status == 200
        figures = running.metrics()
    for reason in RejectReason:
        count = sum(1 for *_, each in REJECTED if each is reason)
        assert f'demur_http_rejected_total{{reason="{reason}"}} {count}\n' in figures
    assert verified(tmp_path).faults == ()


def test_a_door_that_is_known_speaks_its_providers_words(tmp_path: Path) -> None:
    """At Anthropic's path the refusal is Anthropic's, in the head and in the middle of a body."""
    with serving(provider()) as url, strict(tmp_path, url) as running:
        for rest in (b"content-length: 1\r\ncontent-length: 2\r\n\r\n", CHUNKED + b"\r\n2\r\n{ \r\nzz\r\n"):
            got = running.send_bytes(HEAD.replace(b"/v1/chat/completions", b"/v1/messages?beta=1") + rest)
            body = json.loads(got.partition(b"\r\n\r\n")[2])
            assert (body["type"], body["error"]["code"]) == ("error", "invalid_http")


def test_what_was_for_a_model_is_on_record(tmp_path: Path) -> None:
    """A broken request at an audited door leaves one record, withheld and without a text; at any other path it leaves none."""
    with serving(provider()) as url, strict(tmp_path, url) as running:
        running.send_bytes(HEAD + CHUNKED + b"\r\n2\r\n{ \r\nzz\r\n")
        running.send_bytes(HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n")
        running.send_bytes(HEAD.replace(b"chat/completions", b"embeddings") + b"content-length: x\r\n\r\n")
        running.send_bytes(b"\0\0\0\0")
    found = passports(tmp_path)
    assert [(each.causes, each.upstream_status) for each in found] == [((DeclineCause.GATEWAY_BLOCK,), None)] * 2
    assert all(each.request is not None and each.request.size_bytes == 0 for each in found)
    assert verified(tmp_path).faults == ()


def test_a_stranger_writes_nothing_into_the_log(tmp_path: Path) -> None:
    """Where keys are asked for, broken requests without one are counted alone; with one they are on record."""
    key, keys = one_key(tmp_path)
    broken = b"content-length: 1\r\ncontent-length: 2\r\n\r\n"
    with serving(provider()) as url, strict(tmp_path, url, keys=keys) as running:
        running.send_bytes(HEAD + broken)
        running.send_bytes(HEAD + b"authorization: Bearer " + key.encode() + b"\r\n" + broken)
        assert 'demur_http_rejected_total{reason="length"} 2\n' in running.metrics()
    assert len(passports(tmp_path)) == 1


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_upgrade_that_is_offered_is_not_taken(tmp_path: Path, upgrade: str) -> None:
    """A request that offers another protocol, as Java's client does, is served whole as what it is, and so is the next."""
    stub = provider()
    more = {"connection": "Upgrade, HTTP2-Settings", "upgrade": upgrade, "http2-settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    with (
        serving(stub) as url,
        gateway(tmp_path, url) as running,
        closing(http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=20)) as connection,
    ):
        for _ in range(2):
            connection.request("POST", CHAT, BODY, {"content-type": "application/json", **more})
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, ANSWER)
    assert stub.asked == [BODY, BODY]
    assert "upgrade" not in stub.headers[0]


def test_pipelined_requests_are_answered_in_turn(tmp_path: Path) -> None:
    """Two requests in one piece, the first with a body in chunks, are two requests."""
    stub = provider()
    last = NEXT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = running.send_bytes(HEAD + CHUNKED + b"\r\n" + CHUNKS + last)
    assert got.count(b"HTTP/1.1 200 ") == 2
    assert stub.asked == [BODY, b""]
