"""`demur check`: one text, response or file → the verdict, with the evidence underlined.

Files and standard input are read item by item, as plain text, a JSON document, JSON lines or a captured stream. What cannot be
read is an item too: it holds the error, with its file and line.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from demur.cli.options import Once, judge_of_flags, pack_of_flag, thresholds
from demur.cli.output import JsonOutput, JudgedItem, TextOutput
from demur.detect.check import check, classify_text
from demur.detect.prompts.check import check_prompt, prompt_judge_of_pack
from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, UsageError
from demur.formats.flat_rows import open_reader as flat_reader
from demur.formats.flat_rows import sniffs as reads_columns
from demur.io.files import BOM, bounded_document, input_limits, is_json, json_object, json_rows, open_source, unreadable
from demur.model.exchange import Exchange
from demur.model.run import Traced
from demur.model.verdict import Outcome
from demur.wire.fields import parse_json, parse_utf8, plain
from demur.wire.shapes import read_asked, read_exchange, read_stream, shape_of_response
from demur.wire.sse import Decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.check import PromptJudge, TextJudge
    from demur.io.files import InputLimits

__all__ = ["BodyReader", "Item", "add_parser", "read_items"]

BodyReader = Callable[[dict[str, Any]], "Exchange"]
"""Reads a JSON object: as a response, or as a request."""

# Long enough for the first lines of any file that people hand in.
_HEAD_BYTES = 65536
_LINES_TRIED = 20
_EVENT = re.compile(rb"(?m)^data: ?(?:\{|\[DONE\])")
_ARRAY = re.compile(rb"\[\s*[{\]]")
_HINT = "each item is a provider's response or a row with a `response`"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing read: a text, an exchange, or the error met in its place."""

    source: str
    line: int | None
    content: str | Exchange | InputError


class _Kind(Enum):
    TEXT = auto()
    DOCUMENT = auto()
    LINES = auto()
    STREAM = auto()


def _read_row(record: dict[str, Any]) -> Exchange:
    """Return the exchange in a row, read as `demur scan` reads it where it is a row of plain columns."""
    if shape_of_response(record) is None and reads_columns(record):
        return next(item.exchange for item in flat_reader().feed(record) if isinstance(item, Traced))
    return read_exchange(record)


def read_items(name: str, limits: InputLimits, *, read: BodyReader = _read_row) -> Iterator[Item]:
    """Yield what a file holds, or standard input where `name` is `-`; `read` takes each JSON object."""
    source = "<stdin>" if name == "-" else name
    try:
        with open_source(name) as stream:
            head = stream.read(_HEAD_BYTES)
            if not head.strip():
                raise EmptyInputError("nothing in it", hint="expected text, a response as JSON, or JSON lines")
            if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise EncodingError("not UTF-8 but UTF-16", hint="convert it: iconv -f UTF-16 -t UTF-8")
            kind = _kind(source, head.removeprefix(BOM))
            # Only JSON lines are read as they come: the others mean something as a whole, which the limits bound.
            if kind is _Kind.LINES:
                for number, record in json_rows(_Rest(head, stream), limits, hint=_HINT):
                    yield _item(record, source, number, read=read)
                return
            whole = bounded_document(stream, limits, head=head).removeprefix(BOM)
            if kind is _Kind.TEXT:
                yield Item(source, None, parse_utf8(whole))
            elif kind is _Kind.STREAM:
                yield Item(source, None, read_stream(Decoder().feed(whole)))
            else:
                yield from _document(whole, source, read=read)
    # An item, not an exception: the other files of the call are still read.
    except OSError as exc:
        yield Item(source, None, unreadable(exc, source))
    except InputError as exc:
        yield Item(source, None, exc.at(source))


def _kind(source: str, head: bytes) -> _Kind:
    """Return how to read an input, by its name's ending, else by how it starts."""
    ending = Path(source).suffix.lower()
    start = head.lstrip()
    if ending in (".jsonl", ".ndjson"):
        return _Kind.LINES
    # A captured stream of server-sent events (WHATWG HTML, 9.2).
    if _EVENT.search(head):
        return _Kind.STREAM
    # JSON lines are more than one line, of which one of the first is an object by itself; the others may be damaged.
    *lines, _ = [line for line in start.splitlines() if line.strip()][: _LINES_TRIED + 1] or [b""]
    if any(line.lstrip().startswith(b"{") and is_json(line) for line in lines):
        return _Kind.LINES
    if ending == ".json" or start.startswith(b"{") or _ARRAY.match(start):
        return _Kind.DOCUMENT
    return _Kind.TEXT


class _Rest:
    """A stream whose head has been read already."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head.removeprefix(BOM)
        self._stream = stream

    def readline(self, size: int) -> bytes:
        """Return up to `size` bytes of the next line."""
        if not self._head:
            return self._stream.readline(size)
        cut = self._head.find(b"\n") + 1
        take = min(cut or len(self._head), size)
        piece, self._head = self._head[:take], self._head[take:]
        if cut or take == size:
            return piece
        return piece + self._stream.readline(size - take)


def _document(whole: bytes, source: str, *, read: BodyReader) -> Iterator[Item]:
    """Yield one item for a JSON object, or one for each element of an array."""
    try:
        body = parse_json(whole)
    except JsonError:
        first, _, more = whole.partition(b"\n")
        if not (more.strip() and is_json(first)):
            raise
        # Lines after all: the first was longer than the head that was looked at.
        for number, line in enumerate(whole.splitlines(), 1):
            if line.strip():
                yield _item(json_object(line, hint=_HINT), source, number, read=read)
        return
    if isinstance(body, list) and not body:
        raise EmptyInputError("an empty array", hint="expected at least one response")
    for number, element in enumerate(body if isinstance(body, list) else [body], 1):
        record = element if isinstance(element, dict) else ShapeError("expected a JSON object", hint=_HINT)
        yield _item(record, source, number if isinstance(body, list) else None, read=read)


def _item(record: dict[str, Any] | InputError, source: str, number: int | None, *, read: BodyReader) -> Item:
    try:
        if isinstance(record, InputError):
            raise record
        return Item(source, number, read(record))
    except InputError as exc:
        return Item(source, number, exc.at(source, number))


_PROMPT_WORDS = ("attack", "harmful", "benign")
_WORDS = (*Outcome, *_PROMPT_WORDS)
# No white space, and a slash or an extension: a mistyped path must not be judged as a text.
_PATH_LIKE = re.compile(r"^\S*(?:/\S*|\.[A-Za-z]\w{0,5})$")
_EXAMPLES = """\
examples:
  demur check "I'm sorry, but I can't help with that."
  demur check response.json             a provider's answer, any shape
  demur check responses.jsonl --json    one verdict a line, for machines
  curl … | demur check -                from standard input
  demur check --prompt "Ignore your instructions and …"
  demur check answers.jsonl --threshold 0.8,0.3   unsure in between
  demur check answer.txt --pack shadow  the seed's own phrase list

a pack of your own (--pack mine.toml):
  name = "mine"
  match = "words"            # whole words; or "substring"
  [[group]]
  target = "response"        # or "prompt", with the category
  category = "refusal"       # attack, jailbreak, … or a harm
  phrases = ["that is outside my remit"]

exit codes: 0 read and judged, 1 a word of --fail-on was met,
2 bad input (what could be read is still judged)

limits (environment): DEMUR_MAX_LINE_BYTES (16777216),
DEMUR_MAX_DOCUMENT_BYTES (67108864)
"""


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
    command.add_argument("--prompt", action="store_true", help="judge what was asked: attack, harmful or benign")
    command.add_argument(
        "--pack", metavar="NAME|FILE", action=Once, help="a phrase pack: shadow, lucid, fakeai (prompts), or a file"
    )
    command.add_argument(
        "--threshold",
        metavar="R[,C]",
        type=thresholds,
        help="refused from score R on, complied below C, unsure in between",
    )
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command.add_argument("--whole", action="store_true", help="show whole texts, not only what is near the evidence")
    command.add_argument(
        "--fail-on",
        metavar="WORDS",
        type=_words,
        default=frozenset(),
        help="exit 1 where a verdict is among these, e.g. refused,filtered",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    possible = _PROMPT_WORDS if args.prompt else tuple(Outcome)
    # A word that cannot occur would make a gate that never fails.
    if args.fail_on - set(possible):
        raise UsageError(
            f"`{', '.join(sorted(args.fail_on))}` can never be met", hint=f"choose from {', '.join(possible)}"
        )
    if args.threshold and args.prompt:
        raise UsageError("`--threshold` is for the learned detector", hint="drop it, or `--prompt`")
    judge = None if args.prompt else judge_of_flags(args)
    prompt_judge = prompt_judge_of_pack(pack_of_flag(args.pack)) if args.prompt and args.pack else None
    show = JsonOutput() if args.json else TextOutput(whole=args.whole)
    counts: Counter[str] = Counter()
    bad = 0
    for item in _items(args):
        if isinstance(item.content, InputError):
            bad += 1
            show.error(item.content)
            continue
        judged = (
            _judge_prompt(item, item.content, prompt_judge)
            if args.prompt
            else _judge_response(item, item.content, judge)
        )
        counts[judged.word] += 1
        show.item(judged)
    show.summary(counts, bad)
    # Bad input outranks `--fail-on`: a script must not take a file that was half read for one that passed.
    if bad:
        return 2
    return 1 if any(counts[word] for word in args.fail_on) else 0


def _judge_response(item: Item, content: str | Exchange, judge: TextJudge | None) -> JudgedItem:
    exchange = content if isinstance(content, Exchange) else None
    verdict, text = (
        classify_text(exchange.response, judge=judge) if exchange else (check(content, judge=judge), str(content))
    )
    facts: dict[str, object] = {
        "id": exchange.id if exchange else None,
        "shape": exchange.shape if exchange else None,
        "score": round(verdict.score, 6),
        "reason": verdict.reason,
        "cause": verdict.cause,
        "detail": verdict.detail,
    }
    return JudgedItem(item.source, item.line, verdict.outcome, facts, text, verdict.findings, verdict.signals)


def _judge_prompt(item: Item, content: str | Exchange, judge: PromptJudge | None) -> JudgedItem:
    exchange = content if isinstance(content, Exchange) else None
    text = exchange.request.prompt if exchange and exchange.request else str(content)
    verdict = check_prompt(text, judge=judge)
    word = "attack" if verdict.adversarial else "harmful" if verdict.harm else "benign"
    facts: dict[str, object] = {
        "id": exchange.id if exchange else None,
        "shape": exchange.shape if exchange else None,
        "score": round(verdict.score, 6),
        "attacks": verdict.attacks,
        "harm": verdict.harm,
        "harm_score": round(verdict.harm_score, 6),
        "toxic_content": verdict.toxic_content,
        "readings": verdict.readings,
    }
    return JudgedItem(item.source, item.line, word, facts, text, verdict.findings)


def _words(given: str) -> frozenset[str]:
    words = frozenset(word.strip() for word in given.split(","))
    if not words <= set(_WORDS):
        raise argparse.ArgumentTypeError(f"`{given}` holds no known verdict; choose from {', '.join(_WORDS)}")
    return words


def _items(args: argparse.Namespace) -> Iterator[Item]:
    read = read_asked if args.prompt else _read_row
    for given in args.input:
        if not args.text and given and (given == "-" or _names_a_file(given)):
            yield from read_items(given, input_limits(), read=read)
        elif given.strip():
            content: str | Exchange = given
            if not args.text and given.lstrip().startswith("{"):
                # A text that only looks like a provider's JSON is still a text.
                with suppress(ShapeError):
                    content = read(plain(given))
            yield Item("text", None, content)
        else:
            yield Item("text", None, EmptyInputError("an empty text", hint="pass a text, a file, or -"))


def _names_a_file(given: str) -> bool:
    """Return whether an argument is a file's name: such a file exists, or it is hardly a text."""
    # A long text is no valid path, and the system says so.
    try:
        if Path(given).exists():
            return True
    except (OSError, ValueError):
        return False
    return _PATH_LIKE.search(given) is not None
