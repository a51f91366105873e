"""Clients that send several requests at once, or take nothing of their answers: each is answered in its turn, or cut off."""

from __future__ import annotations

import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gatewaying import ANSWER, CHAT, EVENTS, HARMLESS, Stub, chat, gateway, passports, provider, verified
from tests.http.serving import serving
from tests.patience import until

from demur.gateway.settings import LimitsPart, TimeoutsPart

pytestmark = pytest.mark.heavy

_ESTABLISHED = "01"


def post(text: str = HARMLESS, **more: object) -> bytes:
    body = json.dumps(chat(text, **more)).encode()
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body)


def is_held_open(sock: socket.socket) -> bool:
    """Return whether the other side still has its end of a connection open, by what the kernel knows of it."""
    ours, theirs = (f"0100007F:{port:04X}" for port in (sock.getsockname()[1], sock.getpeername()[1]))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
    return any(row[1:4] == [theirs, ours, _ESTABLISHED] for row in rows)


def test_what_is_no_http_is_refused_after_the_answers_before_it(tmp_path: Path) -> None:
    """Bytes that are no request are answered with 400 once the requests before them have their whole answers."""
    with serving(provider()) as url, gateway(tmp_path, url) as running:
        got = running.send_bytes(post() + post() + b"no http at all\r\n\r\n")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", got) == [b"200", b"200", b"400"]
    assert got.count(ANSWER) == 2
    assert [passport.gaps for passport in passports(tmp_path)][:2] == [(), ()]
    assert verified(tmp_path).faults == ()


def test_what_is_no_http_does_not_stand_inside_a_stream(tmp_path: Path) -> None:
    """A stream that runs is heard to its end before what came behind it is refused."""
    stub = Stub(pieces=EVENTS, hold=threading.Event())
    with serving(stub) as url, gateway(tmp_path, url) as running, running.connect() as sock:
        sock.sendall(post(stream=True))
        got = sock.recv(65536)
        sock.sendall(b"no http at all\r\n\r\n")
        assert stub.hold is not None
        stub.hold.set()
        while piece := sock.recv(65536):
            got += piece
    assert got.index(b"[DONE]") < got.index(b"0\r\n\r\nHTTP/1.1 400 ")


def test_a_long_body_is_no_part_of_the_next_head(tmp_path: Path) -> None:
    """The limit of a head counts what came of it, not the body that came in the same piece."""
    with serving(provider()) as url, gateway(tmp_path, url, limits=LimitsPart(header_bytes=2048)) as running:
        got = running.send_bytes(post("x" * 20_000) + b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 ") == 2


def test_whoever_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    """An answer that is not taken at all is not kept for ever, whether it is the first or one behind it."""
    times = TimeoutsPart(slow_client_s=0.3)
    large = provider(ANSWER[:-1] + b" " * 20_000_000 + b"}")
    with serving(large) as url, gateway(tmp_path, url, timeouts=times) as running:
        for count in (1, 2):
            with running.connect(buffer_bytes=4096) as sock:
                sock.sendall(post() * count)
                until(lambda: not is_held_open(sock))
        until(lambda: "demur_in_flight 0" in running.metrics())


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
def test_a_body_that_never_ends_is_given_up_on_every_path(tmp_path: Path, path: str) -> None:
    """Also where nothing is read, a client that does not go on with its body is told so, and its place is free."""
    more: dict[str, Any] = {"timeouts": TimeoutsPart(slow_client_s=2.0), "limits": LimitsPart(requests=1)}
    with serving(provider()) as url, gateway(tmp_path, url, **more) as running:
        got = running.send_bytes(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{{".encode())
        assert got.startswith(b"HTTP/1.1 408 ")
        assert running.ask().status == 200


def test_a_client_with_a_long_body_is_seen_to_leave(tmp_path: Path) -> None:
    """That a client went away is noticed while the provider is waited for, also after a body that came in many pieces."""
    stub = provider()
    stub.begin = threading.Event()
    with serving(stub) as url, gateway(tmp_path, url) as running:
        with running.connect() as sock:
            whole = post("x" * 300_000)
            sock.sendall(whole[:100])
            sock.sendall(whole[100:])
            until(lambda: stub.asked)
        until(lambda: passports(tmp_path))
        stub.begin.set()
    (found,) = passports(tmp_path)
    assert [gap.what for gap in found.gaps] == ["client_gone"]


def test_answers_without_a_body_have_no_length(tmp_path: Path) -> None:
    """204 and 304 pass as they are, on paths that are read and on others, and the connection goes on."""
    for status in (204, 304):
        stub = Stub(status=status, content_type=b"application/json")
        with serving(stub) as url, gateway(tmp_path / str(status), url) as running:
            ends = b"GET /v1/files HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            got = running.send_bytes(post() + ends)
        assert got.count(b"HTTP/1.1 %d " % status) == 2
        assert b"content-length" not in got
