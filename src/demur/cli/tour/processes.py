"""The processes that the tour starts: `demur` itself, by the interpreter that runs now, and nothing else.

Leaving the `with` ends all of them, by their ids, whatever ended the tour.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Self

from demur.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["Processes", "Server"]

_POLL_S = 0.02
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 20.0
# The user's own settings of the gateway and the simulator must not change what the tour shows.
_SETTINGS = ("DEMUR_GATEWAY_", "DEMUR_SIMULATOR_")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, what it said to people at its start, its address, and where its output is kept."""

    name: str
    process: subprocess.Popen[bytes]
    said: str
    url: str
    output: Path

    @property
    def dashboard(self) -> str | None:
        """The address of its dashboard with the token, where it has said one."""
        found = re.search(r"^dashboard at (\S+)", self.said, re.MULTILINE)
        return found[1] if found else None


class Processes:
    """Everything that was started; `waiting` is called, again and again, with what is waited for."""

    def __init__(self, waiting: Callable[[str], None]) -> None:
        self._waiting = waiting
        self._servers: list[Server] = []
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Begin with nothing started."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """End what still runs; an interruption of that ends it at once."""
        try:
            for process in self._started:
                process.terminate()
            for process in self._started:
                process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # it had its time, and is killed below
        finally:
            with _uninterrupted():
                for process in self._started:
                    process.kill()
                    process.wait()

    def serve(self, words: Sequence[str], output: Path, *, address: str) -> Server:
        """Start a server and return it once it has said its address, in a line that the pattern `address` finds."""
        with output.open("ab") as kept:
            before = kept.tell()
            process = self._start(words, stdout=kept, stderr=subprocess.STDOUT)
        began = time.monotonic()
        while True:
            # Asked before the output is read, so that the last words of one that ended are in it.
            code = process.poll()
            said = _lines_for_people(output, before)
            found = re.search(address, said, re.MULTILINE)
            if found:
                server = Server(words[0], process, said, found[1], output)
                self._servers.append(server)
                return server
            if code is not None:
                raise _ended_error(words[0], code, output)
            if time.monotonic() - began > _START_TIMEOUT_S:
                raise CommandError(
                    f"`demur {words[0]}` did not start within {_START_TIMEOUT_S:.0f} s",
                    hint=f"see `{output}`, and try again",
                )
            self._waiting(f"starting demur {words[0]}")
            time.sleep(_POLL_S)

    def call(self, words: Sequence[str], *, quiet: bool) -> int:
        """Return the exit code of a command, 0 or 1; it prints where we print, or nowhere. Any other code is an error."""
        sys.stdout.flush()
        process = self._start(words, stdout=subprocess.DEVNULL if quiet else None)
        code = process.wait()
        self._started.remove(process)
        if code not in (0, 1):
            what = f"`demur {' '.join(words[:2])}` ended with exit code {code}"
            raise CommandError(what, exit_code=code, hint="it says why above")
        return code

    def stop(self, server: Server) -> None:
        """End a server in good order."""
        self._servers.remove(server)
        server.process.terminate()
        began = time.monotonic()
        while server.process.poll() is None:
            if time.monotonic() - began > _END_TIMEOUT_S:
                hint = f"see `{server.output}`"
                raise CommandError(f"`demur {server.name}` did not end within {_END_TIMEOUT_S:.0f} s", hint=hint)
            self._waiting(f"ending demur {server.name}")
            time.sleep(_POLL_S)
        if server.process.returncode:
            raise _ended_error(server.name, server.process.returncode, server.output)

    def check(self) -> None:
        """Raise where a server that should run has ended."""
        for server in self._servers:
            code = server.process.poll()
            if code is not None:
                raise _ended_error(server.name, code, server.output)

    def wait(self) -> None:
        """Wait until a server ends by itself, which is a fault, or somebody interrupts."""
        while True:
            self.check()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._servers[0].process.wait(1)

    def _start(
        self, words: Sequence[str], *, stdout: IO[bytes] | int | None, stderr: int | None = None
    ) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
        with _uninterrupted():
            # In a session of its own, so that Ctrl-C reaches us alone and the servers end when we say so.
            process = subprocess.Popen(  # noqa: S603 — our own interpreter and our own package
                [sys.executable, "-P", "-m", "demur", *words],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
            self._started.append(process)
        return process


def _lines_for_people(output: Path, start: int) -> str:
    """Return the whole lines that a server has printed since, without its log, which is JSON."""
    with output.open("rb") as kept:
        kept.seek(start)
        lines = kept.read().decode("utf-8", errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if line.endswith("\n") and not line.startswith("{"))


def _ended_error(name: str, code: int, output: Path) -> CommandError:
    """Return the error for a server that ended, with its own last word on it."""
    lines = [line for line in output.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    said = next((line.removeprefix("demur: ") for line in reversed(lines) if line.startswith("demur: ")), None)
    what = f": {said}" if said else ""
    return CommandError(f"`demur {name}` ended with exit code {code}{what}", exit_code=code, hint=f"see `{output}`")


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold an interruption back until the end."""
    # Between the start of a process and its entry in our list nothing would end it.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, lambda got, _frame: held.append(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)
