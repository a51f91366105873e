"""How a test calls a command: in this process, or in one of its own that serves."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demur.cli.main import main, parser

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        """Return that it is a terminal."""
        return True


def call(command: str, *words: object) -> int:
    """Return the exit code of a call; what it raises is not turned into a line."""
    args = parser(command).parse_args([command, *map(str, words)])
    code: int = args.run(args)
    return code


def say(capsys: Capture, *words: str) -> tuple[int, str, str]:
    """Return the exit code of a call as users make it, and what it printed."""
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


@contextmanager
def server_process(*words: str, cwd: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a command in a process of its own, and the first line that it says; errors are printed like the rest."""
    command = [sys.executable, "-m", "demur", *words]
    at_once = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 — our own command
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=at_once
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            process.terminate()
