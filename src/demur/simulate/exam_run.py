"""How is a client's command run for the exam, and stopped where it does not end?

Laws: the command runs in a process group of its own, so that stopping it stops its children too; its output is read to
the end but kept up to a limit; nothing of the caller's environment is lost, the given variables stand on top.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["run_command"]

_KEPT_BYTES = 2**20
_NOT_FOUND = "check the command after `--`"


def run_command(command: Sequence[str], variables: Mapping[str, str], *, timeout_s: float) -> tuple[int | None, str]:
    """Return the exit code of a command (None where it had to be stopped) and what it printed, errors included."""
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(  # noqa: S603 — the user's own command, run as they gave it
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        except OSError as exc:
            what = (exc.strerror or "it cannot be run").lower()
            raise UsageError(f"`{command[0]}` cannot be run: {what}", hint=_NOT_FOUND) from exc
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _stop(process)
        printed.seek(0)
        return code, printed.read(_KEPT_BYTES).decode("utf-8", errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the command's process group."""
    if sys.platform == "win32":
        # Windows has no process groups of this kind: the command's own children outlive it there.
        process.kill()
    else:
        # All of it may have ended already; on some systems a group of dead processes may not be signalled.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
