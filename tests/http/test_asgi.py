"""What all servers share of ASGI: bounded bodies, content types, and clients that never finish their request."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.dashboard_logs import empty_log
from tests.http.serving import serving

from demur.dashboard.app import DashboardSettings, dashboard_app
from demur.errors import SizeLimitError
from demur.http.asgi import ClientGoneError, LateBodyError, is_json, read_body
from demur.simulate.server.app import SimulatorApp


def body_of(messages: list[dict[str, Any]], *, limit: int = 10, length: str | None = None) -> bytes:
    """Read a body that arrives as these messages."""
    waiting = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(waiting)

    headers = [] if length is None else [(b"content-length", length.encode())]
    return asyncio.run(read_body({"headers": headers}, receive, limit=limit))


def piece(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


def test_pieces_are_joined_up_to_the_limit() -> None:
    """A body of exactly the limit is read, whatever its pieces."""
    assert body_of([piece(b"12345", more=True), piece(b"67890")]) == b"1234567890"
    assert body_of([piece(b"")]) == b""


def test_a_body_that_is_too_long_is_refused() -> None:
    """A length above the limit is refused before the first piece is asked for, and a length that lies does not help."""
    with pytest.raises(SizeLimitError):
        body_of([], length="11")
    with pytest.raises(SizeLimitError):
        body_of([piece(b"123456", more=True), piece(b"789012", more=True)], length="5")


def test_a_client_that_leaves_is_told_apart() -> None:
    """A client that goes away in the middle is neither a body nor too long."""
    with pytest.raises(ClientGoneError):
        body_of([piece(b"1", more=True), {"type": "http.disconnect"}])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/cloudevents+json", True),
        ("", True),
        ("text/json", False),
        ("text/plain", False),
    ],
)
def test_what_counts_as_json(kind: str, expected: bool) -> None:  # noqa: FBT001 — a column of the table
    """JSON is what says so, or says nothing."""
    assert is_json({"headers": [(b"content-type", kind.encode())]}) is expected


async def test_a_body_that_does_not_come_is_given_up() -> None:
    """A body that is not whole when its time is up is late, and its client as good as gone."""
    with pytest.raises(LateBodyError):
        await read_body({"headers": []}, asyncio.get_running_loop().create_future, limit=10, limit_s=0.01)


TOKEN = "a-token-for-the-tests"  # noqa: S105 — a token of the tests
HEAD = "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: 100\r\n\r\n"


def said(url: str, sent: str) -> tuple[bytes, bytes]:
    """Return the head and the body of what comes back before the server closes."""
    host, port = url.removeprefix("http://").split(":")
    got = b""
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        sock.sendall(sent.encode())
        while piece := sock.recv(65536):
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize(
    ("path", "shape"), [("/v1/chat/completions", "invalid_request_error"), ("/v1/messages", "error")]
)
def test_the_simulator_lets_a_slow_client_go(path: str, shape: str) -> None:
    """Half a body is a 408 in the provider's shape, after its time, and the end of the connection."""
    with serving(SimulatorApp(body_s=0.1)) as url:
        head, body = said(url, HEAD.format(path, "application/json") + "{")
    assert head.startswith(b"HTTP/1.1 408 ")
    found = json.loads(body)
    assert shape in (found.get("type"), found["error"]["type"])


def test_the_dashboard_lets_a_slow_client_go(tmp_path: Path) -> None:
    """Half a login is a 408 page, after its time, and the end of the connection."""
    settings = DashboardSettings(TOKEN, form_s=0.1)
    with serving(dashboard_app(empty_log(tmp_path), settings)) as url:
        head, body = said(url, HEAD.format("/-/login", "application/x-www-form-urlencoded") + "token=")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"did not come in time" in body
