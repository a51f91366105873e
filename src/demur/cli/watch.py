"""`demur watch`: a growing log → an alarm as soon as the refusal rate has left its band, however often one looks."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.cli.columns import add_column_flags, columns_of_flags
from demur.cli.options import (
    add_counting_flags,
    add_judge_flags,
    add_limit_flags,
    check_outputs,
    judge_of_flags,
    limits_of_flags,
    whole_number,
)
from demur.detect.batch import BatchJudge
from demur.errors import EmptyInputError, InputError, UsageError
from demur.formats.interface import stands_alone
from demur.formats.registry import format_named, format_of_all, unknown_format
from demur.io.files import input_limits, json_object
from demur.measure.session_sums import exact_interval
from demur.measure.watching import Band, close_sessions, watch_rows
from demur.model.estimate import Direction
from demur.model.verdict import NOT_JUDGED, Outcome
from demur.report.numbers import PERCENT, percent
from demur.runs.alerts import Webhook, metrics_text
from demur.runs.ingest import Ingest
from demur.runs.watch import Kept, baseline_sums, follow_lines, key_of_session, read_kept, replace_file, write_kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.io.records import Block
    from demur.measure.watching import Alarm
    from demur.model.estimate import Interval

__all__ = ["add_parser"]

_EXAMPLES = """\
examples:
  demur watch app.jsonl --expect 5%
  demur watch app.jsonl --expect 3%..8%
  demur watch app.jsonl --baseline last_week.jsonl
  kubectl logs -f app | demur watch - --expect 5%
  demur watch app.jsonl --expect 5% --once --state watch.json   # from cron

the alarm may be looked for after every row, for as long as you like: a rate
that stays in its band alarms in at most ALPHA of all streams; rows of one
session count together, sessions are taken to be independent of each other

exit codes: 0 no alarm; 1 alarm, or more responses without a verdict than
--max-unread, --max-empty or --max-failed allow; 2 bad input; 3 no alarm, but
too few verdicts or sessions to say that all is well
"""
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*")
# As many as `sniff` looks at: one odd row at the start must not name the format.
_MAX_TRIED = 50
_MAX_NAMED = 10
_WHOLE = 100
# As in `demur diff`: where fewer than four in five rows can be used, nothing is concluded from the others.
_MOST_WITHOUT_VERDICT = 0.2
# A convention, not a bound: an alarm from fewer sessions is possible at low rates and is raised, but its absence says little.
_FEWEST_SESSIONS, _ROWS_OF_SOME_SESSIONS = 5, 50
# A share of fewer rows is not a reason to end a watch that goes on.
_ROWS_FOR_A_LIMIT = 100


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
    command.add_argument("--alpha", metavar="P", type=float, default=0.05, help="chance of any false alarm (0.05)")
    command.add_argument(
        "--rows",
        metavar="N",
        type=whole_number,
        default=1_000_000,
        help="rows within which a change is likely (1000000)",
    )
    # The size of a sudden change had to be named once; scripts that still do go on working, until the next version.
    command.add_argument("--step", metavar="POINTS", type=float, help="ignored: changes of any size are looked for")
    command.add_argument(
        "--cluster", choices=("session", "none"), default="session", help="what rows count together (session)"
    )
    command.add_argument("--once", action="store_true", help="read what is there, and stop")
    command.add_argument("--state", metavar="FILE", help="go on where the last call stopped, and keep it there")
    command.add_argument("--every", metavar="SECONDS", type=float, default=1.0, help="how often to look (1)")
    add_judge_flags(command)
    add_counting_flags(command)
    add_column_flags(command)
    add_limit_flags(command)
    command.add_argument("--json", action="store_true", help="the end as one JSON object")
    command.add_argument("--webhook", metavar="URL", help="POST the same object there at the alarm")
    command.add_argument("--metrics", metavar="FILE", help="gauges for Prometheus' node exporter (a .prom file)")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    if args.log == "-" and args.state:
        raise UsageError("a pipe cannot be read on where the last call stopped", hint="name a file, or drop --state")
    if args.log == "-" and args.baseline == "-":
        raise UsageError("standard input is named twice", hint="name it once")
    if args.step is not None:
        print("demur: `--step` is no longer needed and is ignored: changes of any size are looked for", file=sys.stderr)
    if not args.every > 0:
        raise UsageError(f"`--every {args.every:g}` is no time", hint="seconds above 0")
    check_outputs((args.metrics, args.state), [args.log, *([args.baseline] if args.baseline else [])])
    webhook = Webhook(args.webhook) if args.webhook else None
    band, said = _band(args)
    kept = read_kept(Path(args.state), band, is_grouped=_is_grouped(args)) if args.state else Kept()
    watched = Watched(args.log, band, kept, dict(limits_of_flags(args)))
    # An alarm that was raised stays raised: reading on could only make it look better.
    if watched.kept.state.alarm is None:
        announce(watched, said, quiet=args.json)
        _watch(watched, args)
    if not watched.kept.rows:
        raise EmptyInputError("no row could be judged", source=args.log, hint="an empty run is never a pass")
    if args.metrics:
        _write_metrics(watched, args)
    if webhook is not None and watched.kept.state.alarm is not None and not watched.kept.told:
        _post(webhook, watched, args)
    conclude(watched, as_json=args.json)
    for line in watched.over_limits():
        print(f"demur: {line}", file=sys.stderr)
    return _EXIT_CODES[watched.conclusion]


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
        _name_errors(rows.errors, watched.kept.unreadable, "<stdin>" if args.log == "-" else args.log)
        # What failed, is empty or was not read says nothing about refusals.
        hits = [
            (outcome in counted, key_of_session(session) if _is_grouped(args) else None)
            for outcome, session in zip(rows.outcomes, rows.sessions, strict=True)
            if outcome in counted or outcome not in NOT_JUDGED
        ]
        watched.kept = replace(
            watched.kept,
            mark=mark,
            state=watch_rows(watched.kept.state, watched.band, hits),
            unreadable=watched.kept.unreadable + len(rows.errors),
            failed=watched.kept.failed + rows.outcomes.count(Outcome.FAILED),
            empty=watched.kept.empty + (0 if Outcome.EMPTY in counted else rows.outcomes.count(Outcome.EMPTY)),
            unread=watched.kept.unread + rows.outcomes.count(Outcome.UNREAD),
        )
        # After every block, so that a watch that is killed counts no row twice when it goes on.
        _keep(watched, args)
        if args.metrics:
            _write_metrics(watched, args)
        show(watched)
        if watched.kept.state.alarm or (watched.kept.rows >= _ROWS_FOR_A_LIMIT and any(watched.over_limits())):
            break
    else:
        # A log that is read to its end, without a next call that could read on, ends its sessions.
        if finished or args.log == "-":
            watched.kept = replace(watched.kept, state=close_sessions(watched.kept.state, watched.band))
    show(None)


def _is_grouped(args: argparse.Namespace) -> bool:
    return bool(args.cluster == "session")


def _keep(watched: Watched, args: argparse.Namespace) -> None:
    if args.state:
        write_kept(Path(args.state), watched.kept, watched.band, is_grouped=_is_grouped(args))


def _name_errors(errors: tuple[InputError, ...], named: int, log: str) -> None:
    """Print the lines that cannot be read, up to ten in all."""
    for error in errors[: max(0, _MAX_NAMED - named)]:
        print(f"demur: {error.at(log, error.line)}", file=sys.stderr)
    if named < _MAX_NAMED <= named + len(errors):
        print("demur: further lines that cannot be read are counted only", file=sys.stderr)


def _post(webhook: Webhook, watched: Watched, args: argparse.Namespace) -> None:
    """Send the alarm, once; with a state, a call that failed is made again at the next look."""
    why = webhook.post(msgspec.json.encode(_object(watched)))
    if why is not None:
        print(f"demur: the webhook did not take the alarm: {why}", file=sys.stderr)
        return
    watched.kept = replace(watched.kept, told=True)
    _keep(watched, args)


def _write_metrics(watched: Watched, args: argparse.Namespace) -> None:
    kept, state = watched.kept, watched.kept.state
    values: dict[str, tuple[str, float]] = {
        "demur_watch_alarm": ("Whether the refusal rate has left its band.", float(state.alarm is not None)),
        "demur_watch_rows": ("Rows with a verdict.", state.seen),
        "demur_watch_abstained": ("Rows that were refused or filtered.", state.abstained),
        "demur_watch_evidence": ("Evidence that the rate left its band, an e-value.", state.evidence(watched.band)),
        "demur_watch_failed": ("Rows that are errors of the provider.", kept.failed),
        "demur_watch_empty": ("Empty responses.", kept.empty),
        "demur_watch_unread": ("Responses that could not be read.", kept.unread),
    }
    replace_file(Path(args.metrics), metrics_text(watched.log, values).encode())


@dataclass(frozen=True, slots=True)
class _Rows:
    outcomes: list[str]
    sessions: list[str | None]
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
            return _Rows([], [], (block.lines.at("", block.first),))
        # A log may end in blank lines, which are no JSON and no error.
        if not block.lines.strip():
            return _Rows([], [], ())
        if self._is_new and (self._columns or not self._ingest.format):
            self._look_at(block.first, block.lines)
        judged = self._ingest.lines((block.first, block.lines))
        outcomes, sessions = (judged.rows.column(name).to_pylist() for name in ("outcome", "session"))
        return _Rows(outcomes, sessions, judged.errors)

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


def _band(args: argparse.Namespace) -> tuple[Band, str]:
    """Return the band that is asked for, and where it comes from: of a baseline, a rate that is known only so well."""
    if args.expect:
        low, high = args.expect
        return Band(low, high, rows=args.rows, alpha=args.alpha), ""
    from demur.runs.options import ReadOptions

    # Half of alpha pays for what is not known of the baseline (Bonferroni).
    half = args.alpha / 2
    Band(0.0, 1.0, rows=args.rows, alpha=half)
    reading = ReadOptions(judge=judge_of_flags(args), counted=args.count, jobs=None, columns=columns_of_flags(args))
    sums = baseline_sums(args.baseline, reading, is_grouped=_is_grouped(args))
    if not sums.rows:
        raise EmptyInputError("no row could be judged", source=args.baseline, hint="an empty run says nothing")
    likely = exact_interval(sums, alpha=half)
    sessions = f" in {sums.sessions:,} sessions" if sums.sessions < sums.rows else ""
    said = (
        f", as in {args.baseline}: {sums.abstained:,} of {sums.rows:,} rows{sessions}, a band "
        f"{100 * (likely.high - likely.low):.1f} points wide ({100 * likely.level:g}{PERCENT}, {_METHODS[likely.method]})"
    )
    return Band(likely.low, likely.high, rows=args.rows, alpha=half), said


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


_METHODS = {"clopper-pearson": "Clopper-Pearson", "korn-graubard": "Korn-Graubard"}


class Conclusion(StrEnum):
    """How a watch ended."""

    OK = "ok"
    ALARM = "alarm"
    OVER_LIMIT = "over_limit"
    """More responses without a verdict than the user allows."""
    UNDECIDED = "undecided"
    """No alarm, and too little to say that all is well."""


_EXIT_CODES = {Conclusion.OK: 0, Conclusion.ALARM: 1, Conclusion.OVER_LIMIT: 1, Conclusion.UNDECIDED: 3}
_WORDS = {
    Conclusion.OK: "OK",
    Conclusion.ALARM: "ALARM",
    Conclusion.OVER_LIMIT: "FAIL",
    Conclusion.UNDECIDED: "UNDECIDED",
}


@dataclass(slots=True)
class Watched:
    """A log, the band its rate should be in, what was seen so far, and how many rows may be without a verdict."""

    log: str
    band: Band
    kept: Kept
    limits: dict[Outcome, float] = field(default_factory=dict)

    @property
    def conclusion(self) -> Conclusion:
        """How it stands."""
        if self.kept.state.alarm is not None:
            return Conclusion.ALARM
        if any(self.over_limits()):
            return Conclusion.OVER_LIMIT
        return Conclusion.UNDECIDED if self.doubt() else Conclusion.OK

    def over_limits(self) -> Iterator[str]:
        """Yield what is above a limit that was set for responses without a verdict."""
        for outcome, limit in self.limits.items():
            share = self._unjudged(outcome) / max(1, self.kept.rows)
            if share > limit:
                yield f"`{self.log}`: {100 * share:.1f} % of the rows are {outcome}, more than {100 * limit:g} %"

    def doubt(self) -> str | None:
        """Return why no alarm does not mean that all is well, None where it does."""
        kept, state = self.kept, self.kept.state
        # Of an outcome with a limit the user has said how many there may be.
        without = sum(self._unjudged(outcome) for outcome in NOT_JUDGED if outcome not in self.limits)
        if without > _MOST_WITHOUT_VERDICT * kept.rows or not state.seen:
            return f"{percent(without / kept.rows)}{PERCENT} of {kept.rows:,} rows have no verdict"
        sessions = state.history.sums.sessions + len(state.sessions.open)
        if sessions < _FEWEST_SESSIONS and state.seen >= _ROWS_OF_SOME_SESSIONS:
            return f"{state.seen:,} rows of {sessions:,} sessions are too few to say that all is well (--cluster none counts rows)"
        return None

    def _unjudged(self, outcome: Outcome) -> int:
        return {Outcome.FAILED: self.kept.failed, Outcome.EMPTY: self.kept.empty, Outcome.UNREAD: self.kept.unread}[
            outcome
        ]


def announce(watched: Watched, said: str, *, quiet: bool) -> None:
    """Say what is watched for."""
    if not quiet:
        _say("", f"Watching {watched.log}: the refusal rate should be {_band_words(watched.band)}{said}.")


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
    kept, state = watched.kept, watched.kept.state
    if state.alarm is not None:
        _say("ALARM", _alarm_words(watched, state.alarm))
    else:
        why = watched.doubt()
        but = f", but {why}" if why else ""
        rates = (
            f", compatible with {_interval_words(state.interval(watched.band))}, at every moment" if state.seen else ""
        )
        _say(_WORDS[watched.conclusion], f"no alarm{but}: {_counts_words(watched)}{rates}.")
    for note in _notes(kept):
        _say("", note)


def _notes(kept: Kept) -> Iterator[str]:
    """Yield what else the rows were: in sessions, not tested, or without a verdict."""
    sums, sessions = kept.state.history.sums, kept.state.sessions
    if sums.sessions < sums.rows:
        yield f"Rows of one session count together: {sums.rows:,} rows of {sums.sessions:,} sessions were tested."
    counts = (
        (sum(each.rows for each in sessions.open), "rows are of sessions that may still go on and are not tested yet"),
        (sessions.late, "rows came long after the rest of their session and are not tested"),
        (kept.failed, "rows are errors of the provider, neither refusal nor answer"),
        (kept.empty, "responses are empty and count for nothing"),
        (kept.unread, "responses could not be read and count for nothing: `demur scan` says why"),
        (kept.unreadable, "lines could not be read and count for nothing"),
    )
    yield from (f"{count:,} {what}." for count, what in counts if count)
    if kept.mark.restarts:
        yield f"The log was cut or replaced {kept.mark.restarts:,} times and read on from its new start."


def _alarm_words(watched: Watched, alarm: Alarm) -> str:
    """Return since when the rate has been different, how sure that is, and what it has been since."""
    change = alarm.change
    way = "rose" if alarm.direction is Direction.INCREASE else "fell"
    when = f"{change.earliest:,} to {change.latest:,}" if change.earliest < change.latest else f"{change.latest:,}"
    rate = percent(change.abstained / change.rows)
    return (
        f"refusals {way} at row {change.since:,} (95{PERCENT}: {when}): {change.abstained:,} of {change.rows:,} rows "
        f"since ({rate}{PERCENT}), compatible with {_interval_words(change.interval)}; {_band_words(watched.band)} is "
        f"right. Alarm at row {alarm.row:,}. All rows: {_counts_words(watched)}."
    )


def _band_words(band: Band) -> str:
    return percent(band.low) + (f" to {percent(band.high)}" if band.low != band.high else "") + PERCENT


def _counts_words(watched: Watched) -> str:
    state = watched.kept.state
    share = percent(state.abstained / state.seen if state.seen else None)
    return f"{state.abstained:,} of {state.seen:,} rows ({share}{PERCENT})"


def _interval_words(found: Interval) -> str:
    return f"{percent(found.low)} to {percent(found.high)}{PERCENT} ({100 * found.level:g}{PERCENT})"


def _object(watched: Watched) -> dict[str, object]:
    kept, band, state = watched.kept, watched.band, watched.kept.state
    evidence = state.evidence(band)
    return {
        "log": watched.log,
        "conclusion": watched.conclusion,
        "alarm": state.alarm,
        "rows": state.seen,
        "abstained": state.abstained,
        "rate": state.abstained / state.seen if state.seen else None,
        "interval": state.interval(band),
        # JSON has no infinity (RFC 8259, section 6).
        "evidence": evidence if isfinite(evidence) else None,
        "band": band,
        "sessions": state.history.sums.sessions,
        "open_sessions": len(state.sessions.open),
        "late": state.sessions.late,
        "failed": kept.failed,
        "empty": kept.empty,
        "unread": kept.unread,
        "unreadable": kept.unreadable,
        "restarts": kept.mark.restarts,
    }


def _say(word: str, text: str) -> None:
    head = f"{word:<5}  " if word else ""
    indent = " " * len(head)
    width = min(shutil.get_terminal_size((_COLUMNS, 24)).columns, _COLUMNS)
    lines = textwrap.wrap(text, max(width - len(indent), _NARROWEST), break_on_hyphens=False)
    print("\n".join(head + line if n == 0 else indent + line for n, line in enumerate(lines)))
