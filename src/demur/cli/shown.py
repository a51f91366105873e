"""What a command shows of one judged item, for a person at a terminal or for a machine.

Laws: a person gets lines that fit the terminal, with colour only there; a machine gets one JSON object an item, errors among
them, so that no line of the input goes missing.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from demur.cli.colour import has_colour
from demur.report.columns import underline

if TYPE_CHECKING:
    from collections import Counter

    from demur.errors import InputError
    from demur.model.exchange import Signal
    from demur.model.verdict import Finding

__all__ = ["Machine", "Person", "Shown"]

_MAX_COLUMNS = 100
_INDENT = 2
_ERRORS_TOLD = 10
_PLAIN = "\x1b[0m"
_NEW_LINE = "\n"
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
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One judged item: where it stands, the word for it, the facts, and the evidence in its text."""

    source: str
    line: int | None
    word: str
    facts: dict[str, object]
    text: str
    findings: tuple[Finding, ...] = ()
    signals: tuple[Signal, ...] = ()


class Machine:
    """JSON lines."""

    def item(self, shown: Shown) -> None:
        """Print one item."""
        findings = [
            {
                "rule": f.rule,
                "category": f.category,
                "weight": f.weight,
                "start": f.span.start,
                "end": f.span.end,
                "text": f.span.of(shown.text),
            }
            for f in shown.findings
        ]
        place = {"source": shown.source, "line": shown.line, "outcome": shown.word}
        self._print(place | shown.facts | {"findings": findings, "signals": shown.signals})

    def error(self, error: InputError) -> None:
        """Print an error among the items, and for the person who watches."""
        self._print({"source": error.source, "line": error.line, "error": error.what, "hint": error.hint})
        print(f"demur: {error}", file=sys.stderr)

    def summary(self, counts: Counter[str], bad: int) -> None:
        """Print nothing: a machine counts for itself."""

    def _print(self, value: object) -> None:
        print(msgspec.json.encode(value).decode())


class Person:
    """Verdicts with the evidence underlined, wrapped to the terminal."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._errors = 0
        self._colour = has_colour()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, _MAX_COLUMNS)

    def item(self, shown: Shown) -> None:
        """Print one item."""
        place = f"{shown.source}:{shown.line}" if shown.line else "" if shown.source == "text" else shown.source
        word, facts = shown.word.upper(), _facts(shown)
        coloured = f"{_COLOURS[shown.word]}{word}{_PLAIN}" if self._colour else word
        fits = len(place) + len(word) + len(facts) + len("    ") <= self._width
        print(f"{place}{('  ' if fits else _NEW_LINE) if place else ''}{coloured}  {facts}")
        self._evidence(shown)
        print()

    def error(self, error: InputError) -> None:
        """Print an error, behind what was printed before it; after a few the count at the end has to do."""
        sys.stdout.flush()
        self._errors += 1
        if self._errors <= _ERRORS_TOLD:
            print(f"demur: {error}", file=sys.stderr)
        elif self._errors == _ERRORS_TOLD + 1:
            print("demur: further errors are counted, not shown; --json shows all", file=sys.stderr)

    def summary(self, counts: Counter[str], bad: int) -> None:
        """Print what was judged, where it was more than one item."""
        total = counts.total()
        if total + bad > 1:
            parts = [f"{n} {word}" for word, n in counts.most_common()]
            print(f"{total} judged: {', '.join(parts) or 'none'}" + (f"; {bad} could not be read" if bad else ""))

    def _evidence(self, shown: Shown) -> None:
        width = self._width - _INDENT
        lines = [line for signal in shown.signals for line in underline(_signal(signal), (), width=width, whole=True)]
        spans = [f.span for f in shown.findings]
        lines += underline(shown.text, spans, width=width, whole=self._whole)
        lines += [f"{f.weight:+.2f} {f.category}: {f.rule}" for f in shown.findings]
        for line in lines:
            print(" " * _INDENT + line)


def _facts(shown: Shown) -> str:
    """Return the facts that a person wants in the first line: those that are there, and no ids."""
    facts = []
    for name, value in shown.facts.items():
        if isinstance(value, float):
            facts.append(f"{name} {value:.2f}")
        elif isinstance(value, tuple) and value:
            facts.append(f"{name} {', '.join(map(str, value))}")
        elif isinstance(value, str) and name not in ("id", "shape"):
            facts.append(f"{name} {value}")
    return "  ".join(facts)


def _signal(signal: Signal) -> str:
    more = (fact for fact in (signal.category, signal.severity) if fact and fact != signal.value)
    return f"{signal.path} = {signal.value}" + "".join(f", {fact}" for fact in more)
