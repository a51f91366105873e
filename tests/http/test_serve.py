"""Servers: where they listen, how they are stopped, and who may hold them up."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from demur.errors import UsageError
from demur.http.asgi import ClientGoneError, json_response, read_body, send_response
from demur.http.serve import END_SIGNALS, handle_end_signals, listening_socket, run_app


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
    await send_response(send, json_response(200, "hello"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_server_runs_until_a_signal_and_leaves_no_trace(host: str) -> None:
    """The caller is told the real address, requests are answered there, and a signal ends it with its handler restored."""
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    before = signal.getsignal(signal.SIGTERM)

    def fetch(url: str) -> bytes:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 — our own server
            body: bytes = answer.read()
            return body

    said = served_to(hello, fetch, host=host)
    assert said == [b'"hello"']
    assert signal.getsignal(signal.SIGTERM) is before


def _has_ipv6() -> bool:
    try:
        listening_socket("::1", 0).close()
    except UsageError:
        return False
    return True


class LoopWithoutSignals(asyncio.SelectorEventLoop):
    """An event loop as Windows has it: no method for signals."""

    def add_signal_handler(self, *_given: object) -> None:
        """Fail as the loops of Windows do."""
        raise NotImplementedError


@pytest.mark.parametrize("make_loop", [asyncio.SelectorEventLoop, LoopWithoutSignals])
def test_every_end_signal_reaches_the_loop(make_loop: type[asyncio.AbstractEventLoop]) -> None:
    """Each signal that ends a process calls `stop` in the loop, also where the loop has no handlers of its own."""
    before = {number: signal.getsignal(number) for number in END_SIGNALS}
    stopped: list[bool] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in END_SIGNALS:
            heard = asyncio.Event()
            handle_end_signals(loop, heard.set)
            signal.raise_signal(number)
            await asyncio.wait_for(heard.wait(), 30)
            stopped.append(heard.is_set())

    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(serve())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert stopped == [True] * len(END_SIGNALS)


def served_to(
    app: Any, client: Callable[[str], bytes], *, host: str = "127.0.0.1", header_s: float = 30.0
) -> list[bytes]:
    """What a client returns that is given the URL, served until it has ended and a signal is sent."""
    said: list[bytes] = []

    def ask(url: str) -> None:
        try:
            said.append(client(url))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    asking: list[threading.Thread] = []

    def started(url: str) -> None:
        asking.append(threading.Thread(target=ask, args=(url,)))
        asking[0].start()

    run_app(app, host=host, port=0, started=started, header_s=header_s)
    asking[0].join()
    return said


@pytest.mark.parametrize("begun", [b"", b"POST /claims HTTP/1.1\r\nHost: x\r\n"])
def test_a_client_that_does_not_finish_its_headers_is_cut_off(begun: bytes) -> None:
    """A connection on which no request comes, or half of one, is closed once its time is up."""

    def client(url: str) -> bytes:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(begun)
            return b"".join(iter(lambda: sock.recv(4096), b""))

    (got,) = served_to(hello, client, header_s=0.05)
    assert got.startswith(b"HTTP/1.1 408 ")


def test_a_signal_ends_the_server_without_those_who_are_still_sending() -> None:
    """A request whose body is not here yet does not hold up the end: it is told that its client is gone."""
    reading, ended = threading.Event(), threading.Event()
    kept: list[socket.socket] = []

    async def reads(scope: Any, receive: Any, _send: Any) -> None:
        reading.set()
        try:
            await read_body(scope, receive, limit=1000)
        except ClientGoneError:
            ended.set()

    def client(url: str) -> bytes:
        port = int(url.rpartition(":")[2])
        kept.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        kept[0].sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        reading.wait(30)
        return b""

    served_to(reads, client)
    kept[0].close()
    # Cut off by the grace's end it would have been cancelled instead.
    assert ended.is_set()


HANGING = """
import asyncio
from demur.http.serve import run_app

async def hangs(_scope, _receive, _send):
    print("running", flush=True)
    await asyncio.Event().wait()

run_app(hangs, host="127.0.0.1", port=0, started=lambda url: print(url, flush=True), grace_s=0)
"""


def test_a_request_that_is_cut_off_at_the_end_leaves_no_traceback() -> None:
    """What still runs when the grace is over is cut off, the exit code is good, and no line of code is written anywhere."""
    command = [sys.executable, "-c", HANGING]
    # A process of its own: here pytest takes what is logged, and nothing would be written in any case.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603 — our own code
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert server.stdout.readline() == "running\n"
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate()
    assert (server.returncode, said) == (0, "")
