"""How a command prints the items it judged: as text for people, or as JSON lines.

Text fits the terminal and has colours only there; JSON has one object per item, errors among them, so that no line of the input goes
missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import UsageError
from demur.report.columns import underline

if TYPE_CHECKING:
    import argparse
    from collections import Counter
    from collections.abc import Callable

    from demur.errors import InputError
    from demur.model.exchange import Signal
    from demur.model.verdict import Finding
    from demur.report.view import View

__all__ = ["JsonOutput", "JudgedItem", "TextOutput", "has_colour", "show_view", "write_report"]

# Longer lines are hard to read, however wide the terminal is.
_MAX_COLUMNS = 100
_VIEW_COLUMNS = 80
_INDENT = 2
_MAX_ERRORS = 10
_RESET = "\x1b[0m"
_RED, _PURPLE, _YELLOW, _GREEN, _CYAN = (f"\x1b[1;{code}m" for code in (31, 35, 33, 32, 36))
_COLOURS = {
    "refused": _RED,
    "attack": _RED,
    "filtered": _PURPLE,
    "harmful": _PURPLE,
    "partial": _YELLOW,
    "unsure": _YELLOW,
    "complied": _GREEN,
    "benign": _GREEN,
    "empty": _CYAN,
    "failed": _CYAN,
    "unread": _CYAN,
}


def has_colour() -> bool:
    """Return whether standard output takes colours: a terminal that can, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One judged item: where it comes from, the word for it, the facts, and the evidence in its text."""

    source: str
    line: int | None
    word: str
    facts: dict[str, object]
    text: str
    findings: tuple[Finding, ...] = ()
    signals: tuple[Signal, ...] = ()


def show_view(
    view: View, args: argparse.Namespace, *, as_object: Callable[[], object], marker: str = "demur-diff"
) -> None:
    """Show a diff or scan where the flags ask for it: on the terminal, and as JSON, Markdown or a page."""
    # Standard output is either for people or one report for a machine.
    if "-" not in (args.json, args.markdown):
        from demur.report.terminal import terminal_lines

        # Beyond 80 columns the numbers stand too far from their labels to be read across.
        width = min(shutil.get_terminal_size((_VIEW_COLUMNS, 24)).columns, _VIEW_COLUMNS)
        print("\n".join(terminal_lines(view, width=width, colour=has_colour())))
    if args.json:
        write_report(args.json, msgspec.json.encode(as_object()).decode())
    if args.markdown:
        from demur.report.markdown import markdown

        write_report(args.markdown, markdown(view, marker=marker))
    if args.html:
        from demur.report.html import html

        write_report(args.html, html(view))


class JsonOutput:
    """JSON lines."""

    def item(self, item: JudgedItem) -> None:
        """Print one item."""
        findings = [
            {
                "rule": f.rule,
                "category": f.category,
                "weight": f.weight,
                "start": f.span.start,
                "end": f.span.end,
                "text": f.span.of(item.text),
            }
            for f in item.findings
        ]
        place = {"source": item.source, "line": item.line, "outcome": item.word}
        self._print(place | item.facts | {"findings": findings, "signals": item.signals})

    def error(self, error: InputError) -> None:
        """Print an error among the items, and for the person who watches."""
        self._print({"source": error.source, "line": error.line, "error": error.what, "hint": error.hint})
        print(f"demur: {error}", file=sys.stderr)

    def summary(self, counts: Counter[str], bad: int) -> None:
        """Print nothing: a machine counts for itself."""

    def _print(self, value: object) -> None:
        print(msgspec.json.encode(value).decode())


class TextOutput:
    """Verdicts with the evidence underlined, wrapped to the terminal."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._errors = 0
        self._colour = has_colour()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, _MAX_COLUMNS)

    def item(self, item: JudgedItem) -> None:
        """Print one item."""
        place = f"{item.source}:{item.line}" if item.line else "" if item.source == "text" else item.source
        word, kept = item.word.upper(), []
        # In the first line, what a person wants: facts that are there, and no ids.
        for name, value in item.facts.items():
            if isinstance(value, float):
                kept.append(f"{name} {value:.2f}")
            elif isinstance(value, tuple) and value:
                kept.append(f"{name} {', '.join(map(str, value))}")
            elif isinstance(value, str) and name not in ("id", "shape"):
                kept.append(f"{name} {value}")
        facts = "  ".join(kept)
        coloured = f"{_COLOURS[item.word]}{word}{_RESET}" if self._colour else word
        # A long path stands on a line of its own, so that verdicts stay in view.
        fits = len(place) + len(word) + len(facts) + len("    ") <= self._width
        gap = ("  " if fits else "\n") if place else ""
        print(f"{place}{gap}{coloured}  {facts}")
        width = self._width - _INDENT
        lines = []
        for signal in item.signals:
            more = (fact for fact in (signal.category, signal.severity) if fact and fact != signal.value)
            said = f"{signal.path} = {signal.value}" + "".join(f", {fact}" for fact in more)
            lines += underline(said, (), width=width, whole=True)
        lines += underline(item.text, [f.span for f in item.findings], width=width, whole=self._whole)
        lines += [f"{f.weight:+.2f} {f.category}: {f.rule}" for f in item.findings]
        for line in lines:
            print(" " * _INDENT + line)
        print()

    def error(self, error: InputError) -> None:
        """Print an error; after a few, the count at the end has to do."""
        # Behind what was printed before it, where both streams go to one terminal.
        sys.stdout.flush()
        self._errors += 1
        if self._errors <= _MAX_ERRORS:
            print(f"demur: {error}", file=sys.stderr)
        elif self._errors == _MAX_ERRORS + 1:
            print("demur: further errors are counted, not shown; --json shows all", file=sys.stderr)

    def summary(self, counts: Counter[str], bad: int) -> None:
        """Print what was judged, where it was more than one item."""
        total = counts.total()
        if total + bad > 1:
            parts = [f"{n} {word}" for word, n in counts.most_common()]
            print(f"{total} judged: {', '.join(parts) or 'none'}" + (f"; {bad} could not be read" if bad else ""))


def write_report(name: str, text: str) -> None:
    """Write a report to a file, or to standard output where it is called `-`."""
    if name == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        # A lone surrogate from a model's text must not cost the whole report.
        Path(name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{name}` cannot be written: {what}", hint="check the folder") from exc
