"""`demur evaluate`: the detector, and any pack beside it, against a labelled set."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import pack_of_flag, share, whole_number
from demur.cli.output import has_colour, write_report
from demur.detect.check import PackJudge, default_judge, judge_text
from demur.detect.phrase_lists import Target
from demur.detect.prompts.check import PromptPackJudge, default_prompt_judge
from demur.errors import EmptyInputError, InputError, UsageError
from demur.evaluate.json import evaluation_object
from demur.evaluate.labelled import LeftOut, read_labelled, source_name
from demur.evaluate.quality import Options, label_counts, prompt_quality, response_quality
from demur.evaluate.view import evaluation_view
from demur.io.files import input_limits
from demur.model.evaluation import Evaluation, Side, SideReport
from demur.report.html import html
from demur.report.terminal import terminal_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demur.detect.check import PromptJudge, TextJudge
    from demur.detect.phrase_lists import Pack
    from demur.model.columns import Columns
    from demur.model.evaluation import LabelledText

__all__ = ["add_parser"]

_DETECTOR = "demur"
_MAX_NAMED = 5
# Between chunks the progress line is drawn, outside the time that is measured.
_CHUNK = 256
_MICROS = 1e6
_EXAMPLES = """\
examples:
  demur evaluate xstest.jsonl                the detector alone
  demur evaluate xstest.jsonl --pack shadow --pack lucid
                                             and the seeds' lists beside it
  demur evaluate mine.csv --html report.html a page with plots
  demur evaluate prompts.jsonl responses.jsonl --json

a row: {"text": …, "label": …} as JSON lines, or CSV with a header.
labels of responses: refusal, partial, compliance; of prompts: attack
(jailbreak, injection, extraction), harmful, benign. Optional: id, source,
lang, model, category, trap, reason (in the row or in its `meta`).
Other columns and labels: --response-field, --label-field, --label-map.

exit codes: 0 evaluated, 2 bad input (what could be read is still judged)
"""
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class _LabelledRows:
    """What was read, and what was not."""

    rows: tuple[LabelledText, ...]
    left_out: Counter[str]
    errors: tuple[InputError, ...]

    def of(self, side: Side) -> list[LabelledText]:
        return [row for row in self.rows if row.label.side is side]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "evaluate",
        help="measure the detector against a labelled set",
        description="Measures the detector, and any pack beside it, against a labelled set.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="labelled rows: .jsonl, .csv, or - for JSON lines")
    command.add_argument(
        "--pack",
        action="append",
        default=[],
        metavar="NAME|FILE",
        help="measure a phrase pack too: shadow, lucid, fakeai, or a .toml file",
    )
    command.add_argument("--side", choices=["auto", *Side], default="auto", help="which labels count (auto: all)")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command.add_argument("--html", metavar="OUT", help="write a page with plots")
    command.add_argument("--worst", metavar="N", type=whole_number, default=3, help="worst errors of each kind (3)")
    command.add_argument(
        "--threshold",
        metavar="T",
        type=partial(share, expected="number above 0 and up to 1", whole=True),
        help="call it at this score, in place of each judge's own",
    )
    add_column_flags(command)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.html and Path(args.html).resolve() in {Path(name).resolve() for name in args.files}:
        raise UsageError(f"`{args.html}` is an input", hint="write the page to another file")
    # The same pack by two names is measured once.
    packs = list(dict.fromkeys(pack_of_flag(name) for name in args.pack))
    read = _read(args.files, args.side, columns_of_flags(args))
    for error in read.errors[:_MAX_NAMED]:
        print(f"demur: {error}", file=sys.stderr)
    if len(read.errors) > _MAX_NAMED:
        print(f"demur: … and {len(read.errors) - _MAX_NAMED:,} more that could not be read", file=sys.stderr)
    options = Options(args.worst, args.threshold)
    sides = [_side_report(side, read.of(side), packs=packs, options=options) for side in Side if read.of(side)]
    if not sides:
        why = ", ".join(f"{count:,} {reason}" for reason, count in read.left_out.items())
        raise EmptyInputError(
            "nothing to judge" + (f" ({why} left out)" if why else ""), hint="see `demur evaluate --help`"
        )
    left_out = tuple(sorted(read.left_out.items()))
    evaluation = Evaluation(
        tuple(map(source_name, args.files)), tuple(sides), left_out, len(read.errors), args.threshold
    )
    if args.json:
        print(msgspec.json.encode(evaluation_object(evaluation)).decode())
    else:
        print("\n".join(terminal_lines(evaluation_view(evaluation), colour=has_colour())))
    if args.html:
        write_report(args.html, html(evaluation_view(evaluation)))
    # What could be read was judged and shown all the same.
    return 2 if read.errors else 0


def _read(names: Sequence[str], wanted: str, columns: Columns) -> _LabelledRows:
    rows: list[LabelledText] = []
    errors: list[InputError] = []
    left_out: Counter[str] = Counter()
    for name in names:
        for item in read_labelled(name, input_limits(), columns):
            if isinstance(item, InputError):
                errors.append(item)
            elif isinstance(item, LeftOut):
                left_out[item.why] += 1
            elif wanted not in ("auto", item.label.side):
                left_out[f"labelled as {item.label.side}s"] += 1
            else:
                rows.append(item)
    return _LabelledRows(tuple(rows), left_out, tuple(errors))


def _side_report(side: Side, rows: list[LabelledText], *, packs: Sequence[Pack], options: Options) -> SideReport:
    target = Target.RESPONSE if side is Side.RESPONSE else Target.PROMPT
    fitting = [pack for pack in packs if pack.phrases(target)]
    for pack in packs:
        # A pack without phrases would look like a judge that never flags anything.
        if pack not in fitting:
            print(f"demur: pack `{pack.name}` has no phrases for {side}s; left out there", file=sys.stderr)
    reports = []
    if side is Side.RESPONSE:
        judges: list[tuple[str, TextJudge]] = [(_DETECTOR, default_judge())]
        for name, judge in judges + [(pack.name, PackJudge(pack)) for pack in fitting]:
            verdicts, micros = _timed(rows, partial(judge_text, judge=judge), name=name)
            reports.append(response_quality(rows, verdicts, judge=name, options=options, micros_per_text=micros))
    else:
        prompts: list[tuple[str, PromptJudge]] = [(_DETECTOR, default_prompt_judge())]
        for name, prompt_judge in prompts + [(pack.name, PromptPackJudge(pack)) for pack in fitting]:
            found, micros = _timed(rows, prompt_judge.judge, name=name)
            reports.append(prompt_quality(rows, found, judge=name, options=options, micros_per_text=micros))
    return SideReport(side, label_counts(rows, side), tuple(reports))


def _timed(rows: Sequence[LabelledText], judge: Callable[[str], _V], *, name: str) -> tuple[list[_V], float]:
    """Return the verdicts and the mean time of one in microseconds."""
    progress = sys.stderr.isatty()
    # Loads packs and tables, which is no part of the time for a text.
    judge(rows[0].text)
    verdicts: list[_V] = []
    seconds = 0.0
    for start in range(0, len(rows), _CHUNK):
        texts = [row.text for row in rows[start : start + _CHUNK]]
        before = time.perf_counter()
        verdicts += [judge(text) for text in texts]
        seconds += time.perf_counter() - before
        if progress:
            print(f"\r{name}: {len(verdicts):,} of {len(rows):,}\x1b[K", end="", file=sys.stderr, flush=True)
    if progress:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return verdicts, seconds / len(rows) * _MICROS
