"""What several commands share: flags for how texts are judged, runs are read and engines chosen, where reports go, and the progress line.

A flag means the same in every command; flags that contradict each other are rejected before anything is read.
"""

from __future__ import annotations

import argparse
import glob
import re
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.io.files import read_text
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.detect.check import TextJudge
    from demur.detect.phrase_lists import Pack
    from demur.errors import UnreadableRowsError
    from demur.model.columns import Columns
    from demur.runs.options import Progress, ReadOptions

__all__ = [
    "EngineName",
    "Once",
    "ProgressLine",
    "add_counting_flags",
    "add_engine_flags",
    "add_judge_flags",
    "add_label_flags",
    "add_limit_flags",
    "add_reading_flags",
    "check_outputs",
    "check_report_flags",
    "engine_of_flags",
    "fields_of_flag",
    "judge_of_flags",
    "limits_of_flags",
    "name_bad_rows",
    "pack_of_flag",
    "port_number",
    "progress_line",
    "reading_of_flags",
    "share",
    "share_or_percent",
    "thresholds",
    "whole_number",
]

# More would push the summary off the screen.
_MAX_NAMED = 10
# A report with such a name would be written over a run.
_LIMITED = {
    Outcome.UNREAD: "responses that could not be read",
    Outcome.EMPTY: "empty responses",
    Outcome.FAILED: "failed requests",
}
_RUN_ENDINGS = frozenset(
    {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".agentlog", ".eval", ".gz", ".zst"}
)
# Flags that ask for what only one machine does: the order of files, texts of all pairs, or its own processes.
_NOT_ON_SPARK = (
    *("requests", "verify", "jobs", "out", "labels"),
    *("axes", "rules", "rubric", "judge_labels", "floor", "trajectory_floor", "axis_gate"),
)
# Often enough to look alive, seldom enough to cost nothing.
_EVERY_S = 0.1
_FULL = 100
_MAX_PORT = 65_535
_NAME_CHARS = 30


class Once(argparse.Action):
    """A flag that may stand once: of two the first would be dropped without a word."""

    def __call__(self, parser, namespace, values, option_string=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204 — argparse's own signature
        """Take the value, once."""
        # Of two values argparse would silently keep the last.
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


def add_label_flags(command: argparse.ArgumentParser) -> None:
    """Add what people say of some responses."""
    command.add_argument("--labels", metavar="FILE", action=Once, help="labels of people that decide: see demur label")
    command.add_argument(
        "--labels-are-random",
        action="store_true",
        help="labels without a probability are a random sample of all: I vouch for it",
    )


def add_limit_flags(command: argparse.ArgumentParser) -> None:
    """Add how many responses may be without a verdict before the command fails."""
    for outcome, what in _LIMITED.items():
        command.add_argument(
            f"--max-{outcome}", metavar="SHARE", type=share_or_percent, help=f"fail above this share of {what} (1%%)"
        )


def limits_of_flags(args: argparse.Namespace) -> tuple[tuple[Outcome, float], ...]:
    """Return the largest shares of responses without a verdict that are allowed."""
    given = ((outcome, getattr(args, f"max_{outcome}")) for outcome in _LIMITED)
    return tuple((outcome, limit) for outcome, limit in given if limit is not None)


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
    if not args.threshold and not args.pack:
        return None
    from demur.detect.check import judge_of_pack, judge_with

    if args.threshold:
        refused, complied = args.threshold
        return judge_with(refused=refused, complied=complied)
    return judge_of_pack(pack_of_flag(args.pack))


def reading_of_flags(args: argparse.Namespace, progress: Progress | None, columns: Columns) -> ReadOptions:
    """Return how runs are to be read."""
    # The engine and the statistics behind it are not for `demur check`, which has to be there at once.
    from demur.runs.options import ReadOptions

    return ReadOptions(
        format=args.format,
        requests=tuple(args.requests),
        judge=judge_of_flags(args),
        counted=args.count,
        skip_bad=args.skip_bad,
        verify=args.verify,
        jobs=args.jobs or None,
        columns=columns,
        progress=progress,
    )


def name_bad_rows(error: UnreadableRowsError) -> int:
    """Print the first rows that cannot be read, and return the exit code for it."""
    for each in error.errors[:_MAX_NAMED]:
        print(f"demur: {each}", file=sys.stderr)
    more = error.total - min(_MAX_NAMED, len(error.errors))
    if more:
        print(f"demur: … and {more:,} more", file=sys.stderr)
    print(f"demur: stopped there; {error.hint}", file=sys.stderr)
    return 2


def check_outputs(given: Sequence[str | None], inputs: Sequence[str]) -> None:
    """Raise where a report cannot be written, or would be written over an input or another report."""
    here = [re.sub(r"^file:/+", "/", name) for name in inputs if name != "-"]
    # As runs are found: a name, and what it matches where it is a pattern.
    globs = [file for name in here if glob.has_magic(name) for file in glob.glob(name, recursive=True)]  # noqa: PTH207
    read = {Path(file).resolve(): file for file in [*here, *globs]}
    written: set[Path] = set()
    for name in given:
        if name and name != "-":
            path = Path(name).resolve()
            folder = next((folder for folder in path.parents if folder in read), None)
            why = None
            if path in written:
                why = "it is named twice"
            elif path in read:
                why = "it is an input"
            elif folder is not None:
                # The next call would read this report as a run.
                why = f"it lies in the input `{read[folder]}`"
            elif path.is_dir():
                why = "it is a folder"
            elif not path.parent.is_dir():
                why = "its folder is not there"
            if why:
                hint = "name another file, in a folder that exists"
                raise UsageError(f"`{name}` cannot be written: {why}", hint=hint)
            written.add(path)


def pack_of_flag(given: str) -> Pack:
    """Return the pack of that name, or in that file."""
    from demur.detect.phrase_lists import builtin_pack, parse_pack

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
    # `isdecimal`, since `int` takes signs, spaces and underscores too.
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"`{word}` is no whole number")
    return int(word)


def port_number(word: str) -> int:
    """Return the number of a port; 0 asks for any free one."""
    if not word.isdecimal() or int(word) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"`{word}` is no port")
    return int(word)


def share(word: str, *, expected: str = "share between 0 and 1", whole: bool = False) -> float:
    """Return a number above 0 and below 1, or 1 too where the `whole` may be meant."""
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not (0 < value < 1 or (whole and value == 1)):
        raise argparse.ArgumentTypeError(f"`{word}` is no {expected}")
    return value


def share_or_percent(word: str) -> float:
    """Return a share from 0 to 1, written as such or in percent; a bare 1 is rejected, since most who write it mean 1 %."""
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1 or (value == 1 and not word.endswith("%")):
        raise argparse.ArgumentTypeError(f"`{word}` is not a share; write 1% or 0.01")
    return value


def check_report_flags(args: argparse.Namespace) -> None:
    """Raise where the reports of a diff or scan go to a name that cannot be meant, or two to standard output."""
    if args.out:
        from demur.runs.outputs import verdict_file

        verdict_file(Path(args.out))
    for flag, name in (("--json", args.json), ("--markdown", args.markdown)):
        ending = Path(name or "").suffix.lower()
        # Of `--json runs.jsonl`, argparse makes a report that would overwrite the run: it was meant as two words.
        if ending in _RUN_ENDINGS and not (flag == "--json" and ending == ".json"):
            raise UsageError(f"`{flag} {name}` would write the report there", hint=f"put {flag} behind the runs")
    if [args.json, args.markdown].count("-") > 1:
        raise UsageError("two reports to standard output", hint="name a file for one of them")


def _counted_outcomes(given: str) -> tuple[Outcome, ...]:
    """Return the outcomes that are to count as saying no."""
    words = [word.strip() for word in given.split(",")]
    countable = [outcome for outcome in Outcome if outcome not in (Outcome.COMPLIED, Outcome.FAILED, Outcome.UNREAD)]
    if not words or not set(words) <= set(countable):
        choices = ", ".join(countable)
        raise argparse.ArgumentTypeError(f"`{given}` holds no outcome that can count; choose from {choices}")
    return tuple(map(Outcome, dict.fromkeys(words)))


class EngineName(StrEnum):
    """Who judges and counts."""

    LOCAL = "local"
    SPARK = "spark"


def add_engine_flags(command: argparse.ArgumentParser) -> None:
    """Add who judges and counts the rows."""
    group = command.add_argument_group("beyond one machine (docs/scale.md)")
    group.add_argument(
        "--engine",
        choices=list(EngineName),
        default=EngineName.LOCAL,
        help="local: this machine (default); spark: any Hadoop path, Java 17",
    )
    group.add_argument(
        "--master", metavar="URL", action=Once, help="where Spark runs: local[*] (default), spark://…, yarn, k8s://…"
    )


def engine_of_flags(args: argparse.Namespace) -> EngineName:
    """Return the engine that is asked for; flags that it does not know are an error."""
    engine = EngineName(args.engine)
    if engine is EngineName.LOCAL:
        if args.master is not None:
            raise UsageError("`--master` is Spark's", hint="add --engine spark, or drop it")
        return engine
    given = [f"`--{name.replace('_', '-')}`" for name in _NOT_ON_SPARK if getattr(args, name, None)]
    if given:
        what = f"{', '.join(given)} {'is' if len(given) == 1 else 'are'} not for Spark"
        raise UsageError(what, hint=f"drop {'it' if len(given) == 1 else 'them'}, or --engine spark")
    return engine


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
