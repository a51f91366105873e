"""A client that never finishes its request is told so and let go, by every server that takes a body."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from tests.dashboard.dashboard_logs import empty_log
from tests.http.serving import serving

from demur.dashboard.app import DashboardSettings, dashboard_app
from demur.simulate.server.app import SimulatorApp

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
