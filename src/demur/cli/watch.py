"""`demur watch`: a growing log → an alarm as soon as the refusal rate has left its band, however often one looks."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
import time
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import add_counting_flags, add_judge_flags, judge_of_flags, whole_number
from demur.detect.batch import BatchJudge
from demur.errors import EmptyInputError, InputError, UsageError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named, format_of_all, unknown_format
from demur.io.files import input_limits, json_object
from demur.measure.watching import Band, watch_rows
from demur.model.estimate import Direction
from demur.model.verdict import NOT_JUDGED, Outcome
from demur.report.numbers import PERCENT, percent
from demur.runs.ingest import Ingest
from demur.runs.watch import Kept, follow_lines, read_kept, write_kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.io.records import Block

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur watch app.jsonl --expect 5%
  demur watch app.jsonl --expect 3%..8%
  demur watch app.jsonl --baseline last_week.jsonl
  kubectl logs -f app | demur watch - --expect 5%
  demur watch app.jsonl --expect 5% --once --state watch.json   # from cron

the alarm may be looked for after every row: a rate that stays in its band
alarms in at most ALPHA of all streams of ROWS rows (independent rows assumed)

exit codes: 0 no alarm, 1 alarm, 2 bad input
"""
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*")
# As many as `sniff` looks at: one odd row at the start must not name the format.
_MAX_TRIED = 50
_MAX_NAMED = 10
_WHOLE = 100


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "watch",
        help="an alarm when a growing log's refusal rate changes",
        description="Watches a growing log: has the refusal rate left the band that it should be in?",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("log", metavar="LOG", help="a file of JSON lines that may grow, or - for a pipe")
    band = command.add_mutually_exclusive_group(required=True)
    band.add_argument("--expect", metavar="RATE", type=_rates, help="the rate that is right, or a band: 5%%, 3%%..8%%")
    band.add_argument("--baseline", metavar="RUN", help="a run whose rate is right, known as well as its size allows")
    command.add_argument(
        "--step", metavar="POINTS", type=float, default=5.0, help="a sudden change of this many points (5)"
    )
    command.add_argument("--alpha", metavar="P", type=float, default=0.05, help="chance of any false alarm (0.05)")
    command.add_argument("--rows", metavar="N", type=whole_number, default=1_000_000, help="… over N rows (1000000)")
    command.add_argument("--once", action="store_true", help="read what is there, and stop")
    command.add_argument("--state", metavar="FILE", help="go on where the last call stopped, and keep it there")
    command.add_argument("--every", metavar="SECONDS", type=float, default=1.0, help="how often to look (1)")
    add_judge_flags(command)
    add_counting_flags(command)
    add_column_flags(command)
    command.add_argument("--json", action="store_true", help="the end as one JSON object")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.log == "-" and args.state:
        raise UsageError("a pipe cannot be read on where the last call stopped", hint="name a file, or drop --state")
    if args.log == "-" and args.baseline == "-":
        raise UsageError("standard input stands twice", hint="name it once")
    if not 0 < args.step < 100:  # noqa: PLR2004 — points
        raise UsageError(f"`--step {args.step:g}` is no change of a rate", hint="points above 0 and below 100")
    if not args.every > 0:
        raise UsageError(f"`--every {args.every:g}` is no time", hint="seconds above 0")
    band = _band(args)
    watched = Watched(args.log, band, read_kept(Path(args.state), band) if args.state else Kept())
    # An alarm that was raised stays raised: reading on could only make it look better.
    if watched.kept.state.alarm is None:
        announce(watched, quiet=args.json)
        _watch(watched, args)
    if not watched.kept.state.seen:
        raise EmptyInputError("no row could be judged", source=args.log, hint="an empty run is never a pass")
    conclude(watched, as_json=args.json)
    return 1 if watched.kept.state.alarm else 0


def _watch(watched: Watched, args: argparse.Namespace) -> None:
    """Read on until the alarm, or the end of what is there."""
    judge, counted = _Lines(args), frozenset(args.count)
    show = progress()

    def wait() -> bool:
        if not args.once:
            time.sleep(args.every)
        return not args.once

    # Without a state there is no next call that could read the end of a line that is still being written.
    finished = args.once and not args.state
    found = follow_lines(args.log, watched.kept.mark, input_limits(), wait=wait, finished=finished)
    for block, mark in found:
        rows = judge.outcomes(block)
        named = watched.kept.unreadable
        for error in rows.errors[: max(0, _MAX_NAMED - named)]:
            print(f"demur: {error.at('<stdin>' if args.log == '-' else args.log, error.line)}", file=sys.stderr)
        if named < _MAX_NAMED <= named + len(rows.errors):
            print("demur: further lines that cannot be read are counted only", file=sys.stderr)
        # What failed, is empty or was not read says nothing about refusals.
        hits = [outcome in counted for outcome in rows.outcomes if outcome in counted or outcome not in NOT_JUDGED]
        watched.kept = Kept(
            mark,
            watch_rows(watched.kept.state, watched.band, hits),
            unreadable=watched.kept.unreadable + len(rows.errors),
            failed=watched.kept.failed + rows.outcomes.count(Outcome.FAILED),
            empty=watched.kept.empty + (0 if Outcome.EMPTY in counted else rows.outcomes.count(Outcome.EMPTY)),
            unread=watched.kept.unread + rows.outcomes.count(Outcome.UNREAD),
        )
        if args.state:
            # After every block, so that a watch that is killed counts no row twice when it goes on.
            write_kept(Path(args.state), watched.kept, watched.band)
        show(watched)
        if watched.kept.state.alarm:
            break
    show(None)


@dataclass(frozen=True, slots=True)
class _Rows:
    outcomes: list[str]
    errors: tuple[InputError, ...]


class _Lines:
    """Judges blocks of lines; the format is that of the first records that came, where none is named."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._log = args.log
        self._columns = columns_of_flags(args)
        named = self._columns.format_for(args.format) or ""
        judge = BatchJudge(judge_of_flags(args))
        self._ingest = Ingest(format=named, named=bool(named), judge=judge, named_columns=self._columns)
        self._is_new = True
        if named:
            self._check_stands_alone(named)

    def outcomes(self, block: Block) -> _Rows:
        """Return the outcomes of the rows in a block, and what could not be read."""
        if isinstance(block.lines, InputError):
            return _Rows([], (block.lines.at("", block.first),))
        # A log may end in blank lines, which are no JSON and no error.
        if not block.lines.strip():
            return _Rows([], ())
        if self._is_new and (self._columns or not self._ingest.format):
            self._look_at(block.first, block.lines)
        judged = self._ingest.lines((block.first, block.lines))
        return _Rows(judged.rows.column("outcome").to_pylist(), judged.errors)

    def _look_at(self, line: int, lines: bytes) -> None:
        """Find the format of the first records where none is named, and the columns that are."""
        found = map(json_object, lines.split(b"\n"))
        records = [record for record in found if isinstance(record, dict)][:_MAX_TRIED]
        if not self._ingest.format:
            if not records:
                raise InputError("no JSON lines", source=self._log, line=line, hint="a log has one JSON object a line")
            known = format_of_all(records)
            if known is None:
                raise unknown_format(records[0]).at(self._log, line)
            self._check_stands_alone(known.NAME)
            self._ingest = self._ingest.with_format(known.NAME, named=bool(self._columns))
        if records:
            self._columns.check_format(self._ingest.format, self._log)
            self._columns.check_records(records, rows=f"none of the first {len(records)} rows has")
            self._is_new = False

    @staticmethod
    def _check_stands_alone(name: str) -> None:
        if not stands_alone(format_named(name).open_reader()):
            hint = "`demur scan` reads it once it is whole"
            raise UsageError(f"records of `{name}` belong together, so a growing log cannot be judged", hint=hint)


def _band(args: argparse.Namespace) -> Band:
    """Return the band that is asked for; a baseline's rate is known only so well, which half of alpha is spent on."""
    step, alpha, rows = args.step / 100, args.alpha, args.rows
    if args.expect:
        low, high = args.expect
        return Band(low, high, step=step, rows=rows, alpha=alpha)
    from demur.measure.watching import confidence_sequence
    from demur.runs.api import scan
    from demur.runs.options import ReadOptions

    reading = ReadOptions(judge=judge_of_flags(args), counted=args.count, jobs=None, columns=columns_of_flags(args))
    rate = scan(args.baseline, reading=reading).rate
    if not rate.n:
        raise EmptyInputError("no row could be judged", source=args.baseline, hint="an empty run says nothing")
    # Half of alpha pays for what is not known of the baseline (Bonferroni).
    likely = confidence_sequence(rate.count, rate.n, alpha=alpha / 2)
    return Band(likely.low, likely.high, step=step, rows=rows, alpha=alpha / 2)


def _rates(given: str) -> tuple[float, float]:
    """Return the two ends of a band; a single rate is both."""
    ends = [_RATE.fullmatch(word) for word in given.split("..")]
    if len(ends) > 2 or not all(ends):  # noqa: PLR2004 — a low and a high end
        raise argparse.ArgumentTypeError(f"`{given}` is no rate; write 5%, 0.05, or a band: 3%..8%")
    shares = [float(end[1]) / (100 if end[2] else 1) for end in ends if end]
    if not all(0 <= share <= 1 for share in shares):
        # Somebody who writes 5 means 5 %, but 500 is a mistake of another kind.
        meant = (
            f"; did you mean {given}%?" if len(ends) == 1 and not given.endswith("%") and shares[0] <= _WHOLE else ""
        )
        raise argparse.ArgumentTypeError(f"`{given}` is no rate between 0 and 100 %{meant}")
    if shares != sorted(shares):
        raise argparse.ArgumentTypeError(f"`{given}` is no rate: the low end of a band stands first")
    return shares[0], shares[-1]


_COLUMNS = 80
_NARROWEST = 20
_INDENT = " " * 7


@dataclass(slots=True)
class Watched:
    """A log, the band its rate should be in, and what was seen so far."""

    log: str
    band: Band
    kept: Kept


def announce(watched: Watched, *, quiet: bool) -> None:
    """Say what is watched for."""
    if not quiet:
        band = watched.band
        rates = percent(band.low) + (f" to {percent(band.high)}" if band.low != band.high else "")
        _say("", f"Watching {watched.log}: the refusal rate should be {rates}{PERCENT}.")


def progress() -> Callable[[Watched | None], None]:
    """Return what shows how far it is: a line on a terminal, which None takes away; nothing elsewhere."""
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda _: None

    def show(watched: Watched | None) -> None:
        text = "" if watched is None else f"{_counts_words(watched)}, no alarm"
        print(f"\r{text[: _COLUMNS - 1]}\x1b[K", end="", file=sys.stderr, flush=True)

    return show


def conclude(watched: Watched, *, as_json: bool) -> None:
    """Say how it ended."""
    if as_json:
        print(msgspec.json.encode(_object(watched)).decode())
        return
    state, band = watched.kept.state, watched.band
    if state.alarm is None:
        _say("OK", f"no alarm: {_counts_words(watched)}, compatible with {_interval_words(watched)}.")
    else:
        alarm = state.alarm
        way = "rose" if alarm.direction is Direction.INCREASE else "fell"
        since = f", most likely since row {alarm.since:,}" if alarm.since else ", by all rows together"
        what = f"refusals {way} (row {alarm.row:,}{since})"
        _say("ALARM", f"{what}: {_counts_words(watched)}, compatible with {_interval_words(watched)}.")
    kept = watched.kept
    if kept.failed:
        _say("", f"{kept.failed:,} rows are errors of the provider, neither refusal nor answer.")
    if kept.empty:
        _say("", f"{kept.empty:,} responses are empty and count for nothing.")
    if kept.unread:
        _say("", f"{kept.unread:,} responses could not be read and count for nothing: `demur scan` says why.")
    if kept.unreadable:
        _say("", f"{kept.unreadable:,} lines could not be read and count for nothing.")
    if kept.mark.restarts:
        _say("", f"The log was cut or replaced {kept.mark.restarts:,} times and read on from its new start.")
    # Beyond that number the bound on false alarms is no longer guaranteed.
    if state.seen > band.rows:
        _say("", f"More than the {band.rows:,} rows were seen that alpha is promised for: give --rows.")


def _counts_words(watched: Watched) -> str:
    state = watched.kept.state
    share = percent(state.abstained / state.seen if state.seen else None)
    return f"{state.abstained:,} of {state.seen:,} rows ({share}{PERCENT})"


def _interval_words(watched: Watched) -> str:
    found = watched.kept.state.interval(watched.band)
    return f"{percent(found.low)} to {percent(found.high)}{PERCENT} ({100 * found.level:g}{PERCENT}, at every moment)"


def _object(watched: Watched) -> dict[str, object]:
    kept, band = watched.kept, watched.band
    interval, evidence = kept.state.interval(band), kept.state.evidence(band)
    return {
        "log": watched.log,
        "alarm": kept.state.alarm,
        "rows": kept.state.seen,
        "abstained": kept.state.abstained,
        "rate": kept.state.abstained / kept.state.seen,
        "interval": interval,
        # JSON has no infinity (RFC 8259, section 6).
        "evidence": evidence if isfinite(evidence) else None,
        "band": band,
        "failed": kept.failed,
        "empty": kept.empty,
        "unread": kept.unread,
        "unreadable": kept.unreadable,
        "restarts": kept.mark.restarts,
    }


def _say(word: str, text: str) -> None:
    indent = _INDENT if word else ""
    width = min(shutil.get_terminal_size((_COLUMNS, 24)).columns, _COLUMNS)
    lines = textwrap.wrap(text, max(width - len(indent), _NARROWEST))
    head = f"{word:<7}" if word else ""
    print("\n".join(head + line if n == 0 else indent + line for n, line in enumerate(lines)))
