"""A gateway in a process of its own, as users start it, and all that it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.gatewaying import Running

_END_S = 60


@dataclass
class Started:
    """A process that serves; `said` are the lines of its standard error so far."""

    process: subprocess.Popen[str]
    running: Running
    said: list[str]
    _reader: threading.Thread = field(repr=False)

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.running.url

    @property
    def dashboard(self) -> str:
        """The address of its dashboard as it was told, with the token if one was."""
        return next(line.removeprefix("dashboard at ").strip() for line in self.said if line.startswith("dashboard at"))

    @property
    def token(self) -> str:
        """The token of its dashboard."""
        return self.dashboard.partition("#")[2]

    def end(self) -> int:
        """Tell it to end; return its exit code, once it has said everything."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Return its exit code, once it has ended and said everything."""
        code = self.process.wait(_END_S)
        self._reader.join(_END_S)
        return code


def gateway_command(folder: Path, *flags: str) -> list[str]:
    """Return how a gateway with its log in a folder is called."""
    store = () if "--store" in flags else ("--store", str(folder / "log"))
    return [sys.executable, "-m", "demur", "gateway", "--port", "0", *store, *flags]


def gateway_call(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return what becomes of a call that ends by itself, with no settings of ours in the environment but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DEMUR_")}
    return subprocess.run(  # noqa: S603 — our own command
        gateway_command(folder, *flags),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
        env=clean | variables,
    )


@contextmanager
def gateway_process(folder: Path, *flags: str, **variables: str) -> Iterator[Started]:
    """Yield a gateway once it says where it is; end it afterwards."""
    process = subprocess.Popen(  # noqa: S603 — our own command
        gateway_command(folder, *flags), stderr=subprocess.PIPE, text=True, cwd=folder, env=os.environ | variables
    )
    said: list[str] = []
    at: list[str] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if found := re.match(r"gateway at (\S+)", line):
                at.append(found[1])
                settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert settled.wait(120), said
        assert at, "".join(said)
        yield Started(process, Running(at[0]), said, reader)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(_END_S)
        reader.join(_END_S)
        assert process.stderr is not None
        process.stderr.close()
