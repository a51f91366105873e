"""What is no HTTP, or could be read as two requests: refused in the provider's words, counted by kind, on record, and survived."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.gatewaying import HARMLESS, Running, chat, gateway, passports, verified
from tests.gateway.test_paths import ANSWER, CHAT
from tests.gateway.test_streams import Stub
from tests.http.serving import serving

from demur.gateway.keys import hash_key, new_client_key
from demur.gateway.settings import KeysPart, LimitsPart, TimeoutsPart
from demur.model.passport import DeclineCause, RejectReason

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

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
    ("a blank before the colon", HEAD + b"content-length : 5\r\n\r\nhello", RejectReason.HEADER),
    ("two lengths", HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", RejectReason.LENGTH),
    ("one length twice", HEAD + LENGTH + LENGTH + b"\r\n" + BODY, RejectReason.LENGTH),
    ("length and chunks", HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS, RejectReason.LENGTH),
    ("a list of lengths", HEAD + b"content-length: 5, 5\r\n\r\nhello", RejectReason.LENGTH),
    ("a coding before chunks", HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n" + CHUNKS, RejectReason.LENGTH),
    ("an unknown coding", HEAD + b"transfer-encoding: xchunked\r\n\r\n" + CHUNKS, RejectReason.LENGTH),
    ("chunks in HTTP/1.0", HEAD.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + CHUNKS, RejectReason.LENGTH),
    ("a chunk's length is none", HEAD + CHUNKED + b"\r\nzz\r\nhello", RejectReason.CHUNK),
    ("a chunk's length is negative", HEAD + CHUNKED + b"\r\n-5\r\nhello", RejectReason.CHUNK),
    ("a chunk's length overflows", HEAD + CHUNKED + b"\r\nffffffffffffffffff\r\nhello", RejectReason.CHUNK),
    ("a chunk's line ends bare", HEAD + CHUNKED + b"\r\n5\nhello\n0\n\n", RejectReason.CHUNK),
    ("a chunk's extension breaks the line", HEAD + CHUNKED + b"\r\n5;a\nb\r\nhello", RejectReason.CHUNK),
    ("headers too long", HEAD + b"x: " + b"a" * 9000 + b"\r\n\r\n", RejectReason.HEADERS_TOO_LARGE),
    ("headers that never end", HEAD, RejectReason.HEADERS_LATE),
]


def said(running: Running, sent: bytes) -> bytes:
    """Return all that comes back for these bytes until the gateway closes, which it must."""
    host, port = running.url.removeprefix("http://").split(":")
    got = b""
    # What was sent after the refusal was never read: the kernel may then reset.
    with socket.create_connection((host, int(port)), timeout=20) as sock, suppress(ConnectionResetError):
        sock.sendall(sent)
        while piece := sock.recv(65536):
            got += piece
    return got


def provider() -> Stub:
    return Stub(pieces=(ANSWER,), content_type=b"application/json")


def strict(folder: Path, url: str, **more: Any) -> AbstractContextManager[Running]:
    limits, times = LimitsPart(header_bytes=8192), TimeoutsPart(slow_client_s=2.0)
    return gateway(folder, url, limits=limits, timeouts=times, **more)


def test_every_kind_is_refused_counted_and_survived(tmp_path: Path) -> None:
    """Each is one answer in OpenAI's shape and the end of its connection; nothing after it is served, nothing reaches the provider."""
    stub = provider()
    with serving(stub) as url, strict(tmp_path, url) as running:
        for name, sent, reason in REJECTED:
            got = said(running, sent + (NEXT if reason is not RejectReason.HEADERS_LATE else b""))
            head, _, body = got.partition(b"\r\n\r\n")
            status = {RejectReason.HEADERS_TOO_LARGE: 431, RejectReason.HEADERS_LATE: 408}.get(reason, 400)
            assert head.startswith(b"HTTP/1.1 %d " % status), (name, got)
            assert b"connection: close" in head
            assert json.loads(body)["error"]["type"] in ("invalid_request_error", "timeout_error"), name
            assert stub.asked == [], name
        assert running.knock(CHAT, chat(HARMLESS)).status == 200
        figures = running.metrics()
    for reason in RejectReason:
        count = sum(1 for *_, each in REJECTED if each is reason)
        assert f'demur_http_rejected_total{{reason="{reason}"}} {count}\n' in figures
    assert verified(tmp_path).faults == ()


def test_a_door_that_is_known_speaks_its_providers_words(tmp_path: Path) -> None:
    """At Anthropic's path the refusal is Anthropic's, in the head and in the middle of a body."""
    with serving(provider()) as url, strict(tmp_path, url) as running:
        for rest in (b"content-length: 1\r\ncontent-length: 2\r\n\r\n", CHUNKED + b"\r\n2\r\n{ \r\nzz\r\n"):
            got = said(running, HEAD.replace(b"/v1/chat/completions", b"/v1/messages?beta=1") + rest)
            body = json.loads(got.partition(b"\r\n\r\n")[2])
            assert (body["type"], body["error"]["code"]) == ("error", "invalid_http")


def test_what_was_for_a_model_is_on_record(tmp_path: Path) -> None:
    """A broken request at an audited door leaves one record, withheld and without a text; at any other path it leaves none."""
    with serving(provider()) as url, strict(tmp_path, url) as running:
        said(running, HEAD + CHUNKED + b"\r\n2\r\n{ \r\nzz\r\n")
        said(running, HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n")
        said(running, HEAD.replace(b"chat/completions", b"embeddings") + b"content-length: x\r\n\r\n")
        said(running, b"\0\0\0\0")
    found = passports(tmp_path)
    assert [(each.causes, each.upstream_status) for each in found] == [((DeclineCause.GATEWAY_BLOCK,), None)] * 2
    assert all(each.request is not None and each.request.size_bytes == 0 for each in found)
    assert verified(tmp_path).faults == ()


def test_a_stranger_writes_nothing_into_the_log(tmp_path: Path) -> None:
    """Where keys are asked for, broken requests without one are counted alone; with one they are on record."""
    key = new_client_key()
    file = tmp_path / "keys.toml"
    file.write_text(f'[[key]]\nname = "a"\nhash = "{hash_key(key)}"\n', encoding="utf-8")
    broken = b"content-length: 1\r\ncontent-length: 2\r\n\r\n"
    with serving(provider()) as url, strict(tmp_path, url, keys=KeysPart(str(file))) as running:
        said(running, HEAD + broken)
        said(running, HEAD + b"authorization: Bearer " + key.encode() + b"\r\n" + broken)
        assert 'demur_http_rejected_total{reason="length"} 2\n' in running.metrics()
    assert len(passports(tmp_path)) == 1


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_upgrade_that_is_offered_is_not_taken(tmp_path: Path, upgrade: str) -> None:
    """A request that offers another protocol, as Java's client does, is served whole as what it is, and so is the next."""
    stub = provider()
    more = {"connection": "Upgrade, HTTP2-Settings", "upgrade": upgrade, "http2-settings": "AAEAAEAAAAIAAAABAAMAAABk"}
    with serving(stub) as url, gateway(tmp_path, url) as running:
        connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=20)
        for _ in range(2):
            connection.request("POST", CHAT, BODY, {"content-type": "application/json", **more})
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, ANSWER)
        connection.close()
    assert stub.asked == [BODY, BODY]
    assert "upgrade" not in stub.headers[0]


def test_pipelined_requests_are_answered_in_turn(tmp_path: Path) -> None:
    """Two requests in one piece, the first with a body in chunks, are two requests."""
    stub = provider()
    last = NEXT.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with serving(stub) as url, gateway(tmp_path, url) as running:
        got = said(running, HEAD + CHUNKED + b"\r\n" + CHUNKS + last)
    assert got.count(b"HTTP/1.1 200 ") == 2
    assert stub.asked == [BODY, b""]
