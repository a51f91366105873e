"""The pieces that all servers share."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import urllib.request
from typing import Any

import pytest

from demur.errors import SizeLimitError, UsageError
from demur.servers.asgi import ClientGoneError, is_json, json_answer, listening_socket, read_body, run_app, send_answer


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


def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    """A length above the limit is refused before the first piece is asked for."""
    with pytest.raises(SizeLimitError):
        body_of([], length="11")


def test_a_body_that_is_too_long_is_refused() -> None:
    """A length that lies does not help."""
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


def test_an_address_in_use_is_said() -> None:
    """A port that is taken, and a host that is none, are errors with the address in them."""
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert isinstance(taken, socket.socket)
        with pytest.raises(UsageError, match=str(port)):
            listening_socket("127.0.0.1", port)
    with pytest.raises(UsageError, match=r"host\.invalid"):
        listening_socket("host.invalid", 0)


async def hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send_answer(send, json_answer(200, "hello"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_server_runs_until_a_signal_and_leaves_no_trace(host: str) -> None:
    """The caller is told the real address, requests are answered there, and a signal ends it with its handler restored."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    before = signal.getsignal(signal.SIGTERM)
    said: list[bytes] = []

    def ask(url: str) -> None:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 — our own server
                said.append(answer.read())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    asking: list[threading.Thread] = []

    def started(url: str) -> None:
        asking.append(threading.Thread(target=ask, args=(url,)))
        asking[0].start()

    run_app(hello, host=host, port=0, started=started)
    asking[0].join()
    assert said == [b'"hello"']
    assert signal.getsignal(signal.SIGTERM) is before


def _has_ipv6() -> bool:
    try:
        listening_socket("::1", 0).close()
    except UsageError:
        return False
    return True
