"""A tour in a process of its own, read line by line, so that tests can act in the middle of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

LINUX = Path("/proc/self/task").exists()
_LONGEST_S = 300


class Walk:
    """A tour that runs, with what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.text = ""

    def read_until(self, words: str) -> None:
        """Read on until a line with these words has come."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line
            if words in line:
                return
        raise AssertionError(self.text + self._errors())

    def fetched(self, address: str, token: str) -> str:
        """Return a page that it serves."""
        request = Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 — loopback
        with build_opener(ProxyHandler({})).open(request) as answer:
            page: str = answer.read().decode()
        return page

    def interrupted(self, number: int = signal.SIGINT) -> int:
        """Interrupt it, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(_LONGEST_S)

    def ended(self) -> tuple[int, str]:
        """Return its exit code and what it said on standard error, once it has ended."""
        assert self.process.stdout is not None
        self.text += self.process.stdout.read()
        errors = self._errors()
        return self.process.wait(_LONGEST_S), errors

    def _errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def tour_process(*words: str, cwd: Path, **variables: str) -> Iterator[Walk]:
    """Start a tour, and end it whatever happened."""
    with subprocess.Popen(  # noqa: S603 — our own interpreter
        [sys.executable, "-P", "-m", "demur", "tour", *words],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Walk(process)
        finally:
            process.terminate()


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended while we looked
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def is_running(pid: int) -> bool:
    """Return whether there is such a process."""
    return Path(f"/proc/{pid}").exists()
