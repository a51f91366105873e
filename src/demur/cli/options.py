"""Flags that several commands share: how texts are judged, how runs are read, where reports go.

Laws: a flag means the same in every command; flags that contradict each other are refused before anything is read.
"""

from __future__ import annotations

import argparse
import glob
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from demur.detect.judges import judge_of_pack, judge_with
from demur.detect.phrase_lists import builtin_pack, parse_pack
from demur.errors import UsageError
from demur.io.files import read_text
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.detect.interface import TextJudge
    from demur.detect.phrase_lists import Pack
    from demur.errors import UnreadableRowsError
    from demur.runs.api import Reading
    from demur.runs.ports import Progress

__all__ = [
    "Once",
    "add_counting_flags",
    "add_judge_flags",
    "add_reading_flags",
    "check_outputs",
    "fields_of_flag",
    "judge_of_flags",
    "name_bad_rows",
    "pack_of_flag",
    "reading_of_flags",
    "refuse_run_as_report",
    "thresholds",
    "whole_number",
    "write_report",
]

_MOST_NAMED = 10
_RUN_ENDINGS = frozenset(
    {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".agentlog", ".eval", ".gz", ".zst"}
)


class Once(argparse.Action):
    """A flag that may stand once: of two the first would be dropped without a word."""

    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204 — argparse's own signature
        """Take the value, once."""
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} stands twice; give one")
        setattr(namespace, self.dest, values)


def add_judge_flags(command: argparse.ArgumentParser) -> None:
    """Add how texts are judged."""
    command.add_argument(
        "--pack", metavar="NAME|FILE", action=Once, help="judge by a phrase pack: shadow, lucid, a file"
    )
    command.add_argument(
        "--threshold",
        metavar="R[,C]",
        type=thresholds,
        help="refused from score R on, complied below C, unsure in between",
    )


def add_counting_flags(command: argparse.ArgumentParser) -> None:
    """Add what a row is, and what counts of it."""
    command.add_argument("--format", metavar="NAME", action=Once, help="the trace format (default: sniffed)")
    command.add_argument(
        "--count",
        metavar="WORDS",
        type=_counted_outcomes,
        default=(Outcome.REFUSED, Outcome.FILTERED),
        help="outcomes that count as saying no (refused,filtered)",
    )


def add_reading_flags(command: argparse.ArgumentParser) -> None:
    """Add how runs are read."""
    add_counting_flags(command)
    command.add_argument(
        "--requests", metavar="FILE", action="append", default=[], help="the input file of a batch, for its prompts"
    )
    command.add_argument("--verify", action="store_true", help="check the ids of .agentlog records")
    command.add_argument("--skip-bad", action="store_true", help="leave out and count rows that cannot be read")
    command.add_argument("--jobs", metavar="N", type=whole_number, help="processes to judge with (default: by size)")


def judge_of_flags(args: argparse.Namespace) -> TextJudge | None:
    """Return the judge that the flags ask for, None for the default."""
    if args.threshold and args.pack:
        raise UsageError("`--threshold` is for the learned detector", hint="drop it, or `--pack`")
    if args.threshold:
        refused, complied = args.threshold
        return judge_with(refused=refused, complied=complied)
    return judge_of_pack(pack_of_flag(args.pack)) if args.pack else None


def reading_of_flags(args: argparse.Namespace, progress: Progress | None) -> Reading:
    """Return how runs are to be read."""
    # The engine and the statistics behind it are not for `demur check`, which has to be there at once.
    from demur.runs.api import Reading

    return Reading(
        format=args.format,
        requests=tuple(args.requests),
        judge=judge_of_flags(args),
        counted=args.count,
        skip_bad=args.skip_bad,
        verify=args.verify,
        jobs=args.jobs or None,
        progress=progress,
    )


def name_bad_rows(error: UnreadableRowsError) -> int:
    """Print the first rows that cannot be read, and return the exit code for it."""
    for each in error.errors[:_MOST_NAMED]:
        print(f"demur: {each}", file=sys.stderr)
    more = error.total - min(_MOST_NAMED, len(error.errors))
    if more:
        print(f"demur: … and {more:,} more", file=sys.stderr)
    print(f"demur: stopped there; {error.hint}", file=sys.stderr)
    return 2


def check_outputs(given: Sequence[str | None], inputs: Sequence[str]) -> None:
    """Raise where a report cannot be written, or would be written over an input or another report."""
    here = [re.sub(r"^file:/+", "/", name) for name in inputs if name != "-"]
    read = {Path(file).resolve(): file for name in here for file in [name, *_matches(name)]}
    written: set[Path] = set()
    for name in given:
        if name and name != "-":
            path = Path(name).resolve()
            why = "it is named twice" if path in written else _why_not(path, read)
            if why:
                raise UsageError(
                    f"`{name}` cannot be written: {why}", hint="name another file, in a folder that exists"
                )
            written.add(path)


def _why_not(path: Path, read: Mapping[Path, str]) -> str | None:
    """Return why a report cannot go to a path, None where it can; a folder that is read would hold it the next time."""
    if path in read:
        return "it is an input"
    folder = next((folder for folder in path.parents if folder in read), None)
    if folder is not None:
        return f"it lies in the input `{read[folder]}`"
    if path.is_dir():
        return "it is a folder"
    return None if path.parent.is_dir() else "its folder is not there"


def _matches(name: str) -> list[str]:
    return glob.glob(name, recursive=True) if glob.has_magic(name) else []  # noqa: PTH207 — as runs are found


def pack_of_flag(given: str) -> Pack:
    """Return the pack of that name, or in that file."""
    return parse_pack(read_text(given), source=given) if given.endswith(".toml") else builtin_pack(given)


def fields_of_flag(given: Sequence[str]) -> list[str] | None:
    """Return the fields of a `--by` that may stand often and hold several; None where it stands nowhere."""
    fields = [name.strip() for word in given for name in word.split(",") if name.strip()]
    return fields or None


def thresholds(given: str) -> tuple[float, float | None]:
    """Return one threshold or two."""
    try:
        refused, _, complied = given.partition(",")
        return float(refused), float(complied) if complied else None
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{given}` is no threshold; give a score, or two: 0.8,0.3") from None


def whole_number(word: str) -> int:
    """Return a whole number from 0 on."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"`{word}` is no whole number")
    return int(word)


def refuse_run_as_report(name: str | None, flag: str) -> None:
    """Raise where a report would be written over what looks like a run: `--json runs.jsonl` was meant as two words."""
    ending = Path(name or "").suffix.lower()
    if ending in _RUN_ENDINGS and not (flag == "--json" and ending == ".json"):
        raise UsageError(f"`{flag} {name}` would write the report there", hint=f"put {flag} behind the runs")


def write_report(name: str, text: str) -> None:
    """Write a report to a file, or to standard output where it is called `-`."""
    if name == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    try:
        Path(name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{name}` cannot be written: {what}", hint="check the folder") from exc


def _counted_outcomes(given: str) -> tuple[Outcome, ...]:
    """Return the outcomes that are to count as saying no."""
    words = [word.strip() for word in given.split(",")]
    if not words or not set(words) <= set(Outcome) - {Outcome.FAILED}:
        choices = ", ".join(outcome for outcome in Outcome if outcome is not Outcome.FAILED)
        raise argparse.ArgumentTypeError(f"`{given}` holds no outcome that can count; choose from {choices}")
    return tuple(map(Outcome, dict.fromkeys(words)))
