"""How far is it? One line on a terminal's standard error, gone when the work is done; silent anywhere else."""

from __future__ import annotations

import sys
import threading
import time

__all__ = ["ProgressLine", "progress_line"]

_EVERY_S = 0.1
_FULL = 100
_NAME_CHARS = 30


class ProgressLine:
    """A line that says what is being read, how much of it, and how fast; threads may tell it things at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin("", 0)

    def start(self, name: str, size_bytes: int) -> None:
        """Begin with another run: its name is there at once, since the first bytes may be long in coming."""
        with self._lock:
            self._begin(name, size_bytes)
            self._print("")

    def read(self, size_bytes: int) -> None:
        """Take note of bytes read."""
        with self._lock:
            self._read += size_bytes
            self._show()

    def rows(self, count: int) -> None:
        """Take note of rows judged."""
        with self._lock:
            self._rows += count
            self._show()

    def close(self) -> None:
        """Take the line away."""
        with self._lock:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _begin(self, name: str, size_bytes: int) -> None:
        self._name = name
        self._size = size_bytes
        self._read = self._rows = 0
        self._began = self._shown = time.monotonic()

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown < _EVERY_S or not (self._read or self._rows):
            return
        self._shown = now
        seconds = now - self._began
        if self._size and self._read:
            share = min(_FULL, _FULL * self._read // max(1, self._size))
            filled = share // 5
            done = f"[{'#' * filled}{'.' * (20 - filled)}] {share:3d} %  {self._read / 1e6 / seconds:,.0f} MB/s"
        else:
            done = f"{self._rows:,} rows  {self._rows / seconds:,.0f}/s"
        self._print(f"  {done}")

    def _print(self, done: str) -> None:
        print(f"\r{self._name[:_NAME_CHARS]}{done}\x1b[K", end="", file=sys.stderr, flush=True)


def progress_line() -> ProgressLine | None:
    """Return a progress line where somebody sees it, None elsewhere."""
    return ProgressLine() if sys.stderr is not None and sys.stderr.isatty() else None
