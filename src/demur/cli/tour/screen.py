"""How is the tour shown? Headings, commands as a reader would type them, a table, and a line for whoever waits.

Laws: everything fits 80 columns; colour and the waiting line are for terminals alone; a quiet screen prints nothing, for a machine
reads what comes at the end.
"""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

from demur.cli.colour import has_colour
from demur.report.columns import columns, padded, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["TourScreen"]

_WIDTH = 80
_EVERY_S = 0.1
_PLAIN, _BOLD, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_WORDS = {
    "deny": "\x1b[1;31m",
    "refused": "\x1b[1;31m",
    "filtered": "\x1b[1;35m",
    "warn": "\x1b[1;33m",
    "partial": "\x1b[1;33m",
    "allow": "\x1b[1;32m",
    "complied": "\x1b[1;32m",
}


class TourScreen:
    """Prints the tour; told to be quiet, it only keeps the waiting line."""

    def __init__(self, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet = quiet
        self._clock = clock
        self._colour = has_colour()
        self._waits = sys.stderr is not None and sys.stderr.isatty()
        self._since = self._last = 0.0
        self._shown = False
        self._what = ""
        self._empty = True

    def heading(self, title: str, why: str) -> None:
        """Begin a step: what it shows, and why that matters."""
        self.gap()
        self._print(self._in(_BOLD, title))
        self.gap()
        self.note(why)

    def note(self, text: str) -> None:
        """Say something about what was or will be seen."""
        self.gap()
        for line in wrapped(text, _WIDTH):
            self._print(line)
        self.gap()

    def gap(self) -> None:
        """Leave a line empty, unless the last one is."""
        if not self._empty:
            self._print("")

    def command(self, words: Sequence[str], *, after: str = "") -> None:
        """Show a command as a reader would type it; `after` is for the shell, such as an ampersand."""
        self.typed(["demur", *words], after=after)

    def typed(self, words: Sequence[str], *, after: str = "") -> None:
        """Show any command, over several lines where it is long."""
        lines, line = [], "$"
        for word in [*map(shlex.quote, words), *([after] if after else [])]:
            if columns(line) + 1 + columns(word) > _WIDTH - 2:
                lines.append(f"{line} \\")
                line = "   "
            line = f"{line} {word}"
        for each in [*lines, line]:
            self._print(self._in(_BOLD, each))

    def text(self, text: str) -> None:
        """Print lines as they are, those that are too long over several."""
        for line in text.splitlines():
            for piece in [line] if columns(line) <= _WIDTH else wrapped(line, _WIDTH):
                self._print(piece)

    def others_printed(self) -> None:
        """Take note that a command has printed something, of which we know nothing."""
        self._empty = False

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
        """Print rows under their heads; what does not fit is shortened and says so."""
        self._print(self._in(_DIM, self._row(head, widths, coloured=False)))
        for row in rows:
            self._print(self._row(row, widths, coloured=self._colour))

    def exit_code(self, code: int, meaning: str, *, as_expected: bool) -> None:
        """Say how a command ended, and what that means where it is what should come out."""
        self.note(f"exit code {code}: {meaning if as_expected else 'this is not what should have come out'}")

    def loading(self, what: str) -> None:
        """Say on a terminal what is done next, where nothing can be said while it is done."""
        if self._waits:
            self._shown = True
            print(f"\r  {what} …\x1b[K", end="", file=sys.stderr, flush=True)

    def waiting(self, what: str, reached: str = "") -> None:
        """Say on a terminal what is waited for, how far it is and how long already, from a second on."""
        now = self._clock()
        if what != self._what:
            self._since, self._what = now, what
        if self._waits and now - self._since >= 1 and now - self._last >= _EVERY_S:
            self._last, self._shown = now, True
            print(f"\r  {what}{reached} … {now - self._since:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)

    def done(self) -> None:
        """Take the waiting line away."""
        if self._shown:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _row(self, cells: Sequence[str], widths: Sequence[int], *, coloured: bool) -> str:
        shown = []
        for cell, width in zip(cells, widths, strict=True):
            fitted = padded(printable(cell, most=width), width)
            shown.append(self._in(_WORDS[cell], fitted) if coloured and cell in _WORDS else fitted)
        return "  ".join(shown).rstrip()

    def _in(self, style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._colour else text

    def _print(self, line: str) -> None:
        if not self.quiet:
            self.done()
            self._empty = not line
            print(line, flush=True)
