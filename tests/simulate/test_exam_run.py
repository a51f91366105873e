"""The exam's runs of a command."""

from __future__ import annotations

import sys

import pytest

from demur.errors import UsageError
from demur.simulate.exam_run import run_command


def test_a_command_ends_with_its_code_and_words() -> None:
    """The exit code, both outputs and the variables are as the command has them."""
    code = "import os, sys; print(os.environ['GIVEN']); sys.stderr.write('bad'); sys.exit(3)"
    ended, output = run_command([sys.executable, "-c", code], {"GIVEN": "here"}, timeout_s=20)
    assert ended == 3
    assert "here" in output
    assert "bad" in output


def test_a_command_that_does_not_end_is_stopped() -> None:
    """A command that outlives its time is stopped, and its words are kept."""
    code = "import threading; print('waiting', flush=True); threading.Event().wait()"
    ended, output = run_command([sys.executable, "-c", code], {}, timeout_s=1.5)
    assert ended is None
    assert "waiting" in output


def test_a_command_that_is_none_is_refused() -> None:
    """What cannot be run is an error of the call."""
    with pytest.raises(UsageError, match="no such file"):
        run_command(["/no/such/command"], {}, timeout_s=1)
