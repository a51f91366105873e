"""A judge that takes its executor down with it, once: what a lost machine looks like to Spark."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from demur.detect.check import default_judge
from demur.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class DeadlyJudge:
    """Judges like the default; while the fuse is there, the first process to take it away kills its executor."""

    fuse: str
    stops: tuple[str, ...] = ()

    def judge(self, text: str) -> Verdict:
        """Return the default's verdict, if this process lives to."""
        if os.path.exists(self.fuse):  # noqa: PTH110 — asked for every text
            try:
                Path(self.fuse).rename(f"{self.fuse}.burnt")
            except FileNotFoundError:
                pass
            else:
                executor = _parent(os.getppid())
                Path(f"{self.fuse}.killed").write_text(str(executor))
                os.kill(executor, getattr(signal, "SIGKILL", signal.SIGTERM))
        return default_judge().judge(text)


def _parent(process: int) -> int:
    """Return the parent of a process: a worker's parent is PySpark's daemon, and that one's is the executor."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("PPid:")).split()[1])
