"""`demur check`: one text, response or file → the verdict, with the evidence underlined."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.options import Once, judge_of_flags, pack_of_flag, thresholds
from demur.cli.output import JsonOutput, JudgedItem, TextOutput
from demur.detect.check import check, classify_text
from demur.detect.prompts.check import check_prompt, prompt_judge_of_pack
from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.io.files import input_limits
from demur.io.items import Item, read_items
from demur.model.exchange import Exchange
from demur.model.verdict import Outcome
from demur.wire.document import plain
from demur.wire.shapes import read_asked, read_exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.interface import PromptJudge, TextJudge

__all__ = ["add_parser"]

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
    read = read_asked if args.prompt else read_exchange
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
