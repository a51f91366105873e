"""Bad input: the right status in the provider's shape, on record, and the next request is served."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.gatewaying import HARMLESS, Running, chat, gateway, passports, verified
from tests.gateway.test_paths import ANSWER, CHAT
from tests.gateway.test_streams import Stub
from tests.http.serving import serving
from tests.patience import until

from demur.gateway.settings import LimitsPart, TimeoutsPart
from demur.model.passport import DeclineCause

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = json.dumps(chat(HARMLESS)).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    limits = LimitsPart(body_bytes=3_000_000, header_bytes=8192)
    stub = Stub(pieces=(ANSWER,), content_type=b"application/json")
    with serving(stub) as url, gateway(folder, url, limits=limits) as found:
        yield found
    assert verified(folder).faults == ()


def raw(running: Running, sent: bytes) -> bytes:
    """Return all that comes back for these bytes, until the gateway closes."""
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(sent)
        got = b""
        try:
            while piece := sock.recv(65536):
                got += piece
        except ConnectionResetError:
            # What was sent after the refusal was never read: the kernel then resets.
            return got
        return got


def status_of(got: bytes) -> int:
    return int(got.split(b" ", 2)[1]) if got.startswith(b"HTTP/1.1 ") else 0


def still_serves(running: Running) -> None:
    assert running.knock(CHAT, chat(HARMLESS)).status == 200


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
    got = raw(running, head + b" " * 3_000_001 + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
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


def test_a_body_of_another_type(running: Running) -> None:
    """A body that is not declared as JSON is refused: a provider may read it all the same."""
    assert running.knock(CHAT, BODY, content_type="text/plain").status == 415
    assert running.knock(CHAT, BODY, content_type="application/json; charset=utf-8").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked, identity\r\n\r\n",
        b"content-length: -1\r\n\r\n",
        b"content-length: +5\r\n\r\nhello",
        b"content-length: 5 5\r\n\r\nhello",
        b"transfer-encoding: chunked\r\n\r\nZZ\r\nhello\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        b"x\x00y: 1\r\n\r\n",
        b"x: a\x00b\r\n\r\n",
        b" folded: 1\r\n\r\n",
        b"no colon\r\n\r\n",
    ],
    ids=lambda value: repr(value)[:40],
)
def test_smuggling_is_refused(running: Running, head: bytes) -> None:
    """Lengths that contradict each other, broken chunks and bytes that HTTP forbids are a 400, and the connection ends."""
    got = raw(running, HEAD + head + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status_of(got) == 400
    assert got.count(b"HTTP/1.1 ") == 1
    still_serves(running)


def test_headers_have_a_limit(running: Running) -> None:
    """Headers beyond the limit are a 431, whether they come at once, one by one or never end."""
    assert status_of(raw(running, HEAD + b"x: " + b"a" * 9000 + b"\r\n\r\n")) == 431
    assert status_of(raw(running, HEAD + b"".join(b"x%d: a\r\n" % n for n in range(2000)) + b"\r\n")) == 431
    assert status_of(raw(running, HEAD + b"x: " + b"a" * 60_000)) == 431
    still_serves(running)


def test_a_client_that_dawdles_is_cut_off(tmp_path: Path) -> None:
    """Headers or a body that never end are a 408 after their time."""
    stub = Stub(pieces=(ANSWER,), content_type=b"application/json")
    times = TimeoutsPart(slow_client_s=0.5)
    with serving(stub) as url, gateway(tmp_path, url, timeouts=times) as running:
        assert status_of(raw(running, HEAD)) == 408
        assert status_of(raw(running, HEAD + b"content-length: 500\r\n\r\n{")) == 408
        # On a busy machine a client in good time may seem slow too.
        until(lambda: running.knock(CHAT, chat(HARMLESS)).status == 200)


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
    assert running.knock(CHAT, chat(text)).status in (200, 403)
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
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        sock.sendall(junk)
    assert running.knock("/healthz", method="GET").status == 200
