"""`demur check`: one text, response or file → the verdict, with the evidence underlined."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.adapters.config import input_limits
from demur.adapters.files import Item, read_items, read_text
from demur.errors import EmptyInputError, InputError
from demur.model.exchange import Exchange
from demur.model.verdict import Outcome
from demur.pipeline.classify import check, classify, readable_text
from demur.pipeline.judges import judge_named, judge_of_file
from demur.report.evidence import underline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.verdict import Verdict
    from demur.pipeline.ports import TextJudge

__all__ = ["add_parser"]

_MAX_COLUMNS = 100
_INDENT = 2
_EXAMPLES = """\
examples:
  demur check "I'm sorry, but I can't help with that."
  demur check response.json            a provider's answer, any shape
  demur check responses.jsonl --json   one verdict a line, for machines
  curl … | demur check -               from standard input
  demur check answer.txt --pack shadow the seed's own phrase list

exit codes: 0 read and judged, 1 an outcome of --fail-on was met,
2 bad input (what could be read is still judged)

limits (environment): DEMUR_MAX_LINE_BYTES (16777216),
DEMUR_MAX_DOCUMENT_BYTES (67108864)
"""
_COLOURS = {
    Outcome.REFUSED: "\x1b[1;31m",
    Outcome.FILTERED: "\x1b[1;35m",
    Outcome.PARTIAL: "\x1b[1;33m",
    Outcome.UNSURE: "\x1b[1;33m",
    Outcome.COMPLIED: "\x1b[1;32m",
    Outcome.EMPTY: "\x1b[1;36m",
    Outcome.FAILED: "\x1b[1;36m",
}
_PLAIN = "\x1b[0m"
_NEW_LINE = "\n"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "check",
        help="judge one text, response or file",
        description="Judges one text, response or file: did the model say no, and by which words?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("input", nargs="+", metavar="TEXT|FILE|-", help="a text, a file, or - for standard input")
    command.add_argument("--text", action="store_true", help="take every input as a text, even if such a file exists")
    command.add_argument("--pack", metavar="NAME|FILE", help="judge by a phrase pack: shadow, lucid, or a .toml file")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command.add_argument(
        "--whole", action="store_true", help="show whole texts, not only the lines around the evidence"
    )
    command.add_argument(
        "--fail-on",
        metavar="OUTCOMES",
        type=_outcomes,
        default=frozenset(),
        help="exit 1 where an outcome is among these, e.g. refused,filtered",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    judge = _judge(args.pack)
    show = _Machine() if args.json else _Person(whole=args.whole)
    counts: Counter[Outcome] = Counter()
    bad = 0
    for item in _items(args):
        if isinstance(item.content, InputError):
            bad += 1
            show.error(item.content)
            continue
        verdict = _verdict(item.content, judge)
        counts[verdict.outcome] += 1
        show.verdict(item, verdict)
    show.summary(counts, bad)
    if bad:
        return 2
    return 1 if any(counts[outcome] for outcome in args.fail_on) else 0


def _judge(pack: str | None) -> TextJudge | None:
    if pack is None:
        return None
    if not pack.endswith(".toml"):
        return judge_named(pack)
    return judge_of_file(pack, read_text(pack))


def _verdict(content: str | Exchange, judge: TextJudge | None) -> Verdict:
    return check(content, judge=judge) if isinstance(content, str) else classify(content.response, judge=judge)


def _outcomes(words: str) -> frozenset[Outcome]:
    try:
        return frozenset(Outcome(word.strip()) for word in words.split(","))
    except ValueError:
        known = ", ".join(Outcome)
        raise argparse.ArgumentTypeError(f"`{words}` holds no known outcome; choose from {known}") from None


def _items(args: argparse.Namespace) -> Iterator[Item]:
    for given in args.input:
        if not args.text and (given == "-" or _names_a_file(given)):
            yield from read_items(given, input_limits())
        elif given.strip():
            yield Item("text", None, given)
        else:
            yield Item("text", None, EmptyInputError("an empty text", hint="pass the answer, a file, or -"))


def _names_a_file(given: str) -> bool:
    """Return whether an argument is a file's name: such a file exists, or it could hardly be an answer."""
    try:
        if Path(given).is_file():
            return True
    except (OSError, ValueError):
        return False
    looks_named = given.endswith((".json", ".jsonl", ".ndjson", ".txt", ".md", ".sse"))
    return looks_named and not any(c.isspace() for c in given)


class _Machine:
    """JSON lines: one object for each item, errors among them, so that no line of the input goes missing."""

    def verdict(self, item: Item, verdict: Verdict) -> None:
        text = readable_text(item.content) if not isinstance(item.content, InputError) else ""
        findings = [
            {
                "rule": f.rule,
                "category": f.category,
                "weight": f.weight,
                "start": f.span.start,
                "end": f.span.end,
                "text": f.span.of(text),
            }
            for f in verdict.findings
        ]
        exchange = item.content if isinstance(item.content, Exchange) else None
        self._print(
            {
                "source": item.source,
                "line": item.line,
                "id": exchange.id if exchange else None,
                "shape": exchange.shape if exchange else None,
                "outcome": verdict.outcome,
                "score": round(verdict.score, 6),
                "reason": verdict.reason,
                "cause": verdict.cause,
                "findings": findings,
                "signals": verdict.signals,
            }
        )

    def error(self, error: InputError) -> None:
        self._print({"source": error.source, "line": error.line, "error": error.what, "hint": error.hint})
        print(f"demur: {error}", file=sys.stderr)

    def summary(self, counts: Counter[Outcome], bad: int) -> None:
        """Print nothing: a machine counts for itself."""

    def _print(self, value: object) -> None:
        print(msgspec.json.encode(value).decode())


class _Person:
    """Verdicts with the evidence underlined, wrapped to the terminal."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._colour = sys.stdout.isatty()
        self._width = min(shutil.get_terminal_size((80, 24)).columns, _MAX_COLUMNS)

    def verdict(self, item: Item, verdict: Verdict) -> None:
        place = f"{item.source}:{item.line}" if item.line else "" if item.source == "text" else item.source
        word, facts = verdict.outcome.upper(), self._facts(verdict)
        shown = f"{_COLOURS[verdict.outcome]}{word}{_PLAIN}" if self._colour else word
        fits = len(place) + len(word) + len(facts) + len("    ") <= self._width
        print(f"{place}{('  ' if fits else _NEW_LINE) if place else ''}{shown}  {facts}")
        for line in self._evidence(item, verdict):
            print(" " * _INDENT + line)
        print()

    def error(self, error: InputError) -> None:
        sys.stdout.flush()
        print(f"demur: {error}", file=sys.stderr)

    def summary(self, counts: Counter[Outcome], bad: int) -> None:
        total = counts.total()
        if total + bad > 1:
            parts = [f"{n} {outcome}" for outcome, n in counts.most_common()]
            print(f"{total} judged: {', '.join(parts) or 'none'}" + (f"; {bad} could not be read" if bad else ""))

    def _facts(self, verdict: Verdict) -> str:
        facts = [f"score {verdict.score:.2f}"]
        facts += [f"reason {verdict.reason}"] if verdict.reason else []
        facts += [f"cause {verdict.cause}"] if verdict.cause else []
        return "  ".join(facts)

    def _evidence(self, item: Item, verdict: Verdict) -> Iterator[str]:
        for signal in verdict.signals:
            more = "".join(f", {fact}" for fact in (signal.category, signal.severity) if fact)
            yield f"{signal.path} = {signal.value}{more}"
        text = readable_text(item.content) if not isinstance(item.content, InputError) else ""
        spans = [f.span for f in verdict.findings]
        yield from underline(text, spans, width=self._width - _INDENT, whole=self._whole)
        for finding in verdict.findings:
            yield f"{finding.weight:+.2f} {finding.category}: {finding.rule}"
