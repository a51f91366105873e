"""What the tour starts, it ends: whatever happens, and whoever interrupts."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path

import pytest
from tests.cli.tour.tour_calls import LINUX, children_of, is_running, tour_process

from demur.cli.tour.processes import Processes
from demur.errors import CommandError

pytestmark = pytest.mark.heavy

SIMULATOR = r"^simulating at (\S+)"


def waited(_what: str) -> None:
    """Nobody watches."""


@pytest.mark.skipif(not LINUX, reason="needs /proc")
@pytest.mark.parametrize(
    ("where", "number", "code"), [("$ demur gateway", signal.SIGINT, 130), ("3. Did it change?", signal.SIGTERM, 143)]
)
def test_an_interrupted_tour_leaves_nothing(tmp_path: Path, where: str, number: int, code: int) -> None:
    """While a server starts or a question is asked: the processes end, and it is said where what was made is."""
    with tour_process("--out", "new", cwd=tmp_path) as walked:
        walked.read_until(where)
        started = children_of(walked.process.pid)
        assert started
        walked.process.send_signal(number)
        ended, said = walked.ended()
    assert (ended, said) == (code, "demur: stopped; nothing runs on, and `new` stays as far as it came\n")
    assert [pid for pid in started if is_running(pid)] == []


@pytest.mark.skipif(not LINUX, reason="needs /proc")
def test_a_server_that_dies_is_named(tmp_path: Path) -> None:
    """A gateway that is gone in the middle is told with its exit code and its output, and the rest is ended."""
    with tour_process("--out", "new", cwd=tmp_path) as walked:
        walked.read_until("3. Did it change?")
        simulator, gateway = sorted(children_of(walked.process.pid))
        os.kill(gateway, signal.SIGKILL)
        ended, said = walked.ended()
    assert (ended, said) == (2, "demur: `demur gateway` ended with exit code -9; see `new/gateway.out`\n")
    assert not is_running(simulator)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    """The gateway's own word about its port is passed on."""
    with socket.socket() as taken, tour_process("--port", _listening(taken), "--out", "new", cwd=tmp_path) as walked:
        ended, said = walked.ended()
    assert ended == 2
    assert re.fullmatch(r"demur: `demur gateway` ended with exit code 2: cannot listen at .* in use.*\n", said)


def _listening(sock: socket.socket) -> str:
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return str(sock.getsockname()[1])


def test_leaving_ends_what_was_started(tmp_path: Path) -> None:
    """A server has said its address by the time it is returned, and has ended, in good order, after the `with`."""
    with Processes(waited) as processes:
        server = processes.serve(["simulate", "--port", "0"], tmp_path / "out", address=SIMULATOR)
        assert server.url.startswith("http://127.0.0.1:")
        assert server.dashboard is None
        processes.check()
    assert server.process.returncode == 0


def test_a_stopped_server_is_no_longer_missed(tmp_path: Path) -> None:
    """Ending a server on purpose is no fault; one that ends by itself is."""
    with Processes(waited) as processes:
        server = processes.serve(["simulate", "--port", "0"], tmp_path / "out", address=SIMULATOR)
        processes.stop(server)
        processes.check()
        other = processes.serve(["simulate", "--port", "0"], tmp_path / "out", address=SIMULATOR)
        assert other.url != ""
        other.process.kill()
        with pytest.raises(CommandError, match="`demur simulate` ended with exit code -9"):
            processes.wait()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The last word of a server is in the error, with its exit code."""
    words = ["simulate", "--port", "0", "--scenario", "none"]
    with Processes(waited) as processes, pytest.raises(CommandError, match="`none` is no scenario") as caught:
        processes.serve(words, tmp_path / "out", address=SIMULATOR)
    assert caught.value.exit_code == 2


def test_a_command_answers_or_fails(tmp_path: Path) -> None:
    """0 and 1 are answers; anything else is an error, which is never passed over."""
    with Processes(waited) as processes:
        assert processes.call(["policy", "check", "block-attacks"], quiet=True) == 0
        with pytest.raises(CommandError, match="`demur policy check` ended with exit code 2"):
            processes.call(["policy", "check", str(tmp_path / "none")], quiet=True)
