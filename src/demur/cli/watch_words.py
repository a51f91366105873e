"""What a watch says: at its start, on the way, and at its end."""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from demur.model.estimate import Direction
from demur.report.numbers import PERCENT, percent

if TYPE_CHECKING:
    from collections.abc import Callable

    from demur.measure.watching import Alarm, Band
    from demur.runs.watch.alarms import Kept

__all__ = ["Watched", "announce", "conclude", "progress"]

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
        _say("", f"Watching {watched.log}: the refusal rate should be {_band_words(watched.band)}.")


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
        _say(
            "ALARM",
            f"{_alarm_words(state.alarm)}: {_counts_words(watched)}, compatible with {_interval_words(watched)}.",
        )
    for said in _watch_notes(watched):
        _say("", said)
    if state.seen > band.rows:
        _say("", f"More than the {band.rows:,} rows were seen that alpha is promised for: give --rows.")


def _alarm_words(alarm: Alarm) -> str:
    way = "rose" if alarm.direction is Direction.INCREASE else "fell"
    since = f", most likely since row {alarm.since:,}" if alarm.since else ", by all rows together"
    return f"refusals {way} (row {alarm.row:,}{since})"


def _counts_words(watched: Watched) -> str:
    state = watched.kept.state
    share = percent(state.abstained / state.seen if state.seen else None)
    return f"{state.abstained:,} of {state.seen:,} rows ({share}{PERCENT})"


def _interval_words(watched: Watched) -> str:
    found = watched.kept.state.interval(watched.band)
    return f"{percent(found.low)} to {percent(found.high)}{PERCENT} ({100 * found.level:g}{PERCENT}, at every moment)"


def _band_words(band: Band) -> str:
    if band.low == band.high:
        return f"{percent(band.low)}{PERCENT}"
    return f"{percent(band.low)} to {percent(band.high)}{PERCENT}"


def _watch_notes(watched: Watched) -> list[str]:
    kept = watched.kept
    notes = []
    if kept.failed:
        notes.append(f"{kept.failed:,} rows are errors of the provider, neither refusal nor answer.")
    if kept.unreadable:
        notes.append(f"{kept.unreadable:,} lines could not be read and count for nothing.")
    if kept.mark.restarts:
        notes.append(f"The log was cut or replaced {kept.mark.restarts:,} times and read on from its new start.")
    return notes


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
        "evidence": evidence if isfinite(evidence) else None,
        "band": band,
        "failed": kept.failed,
        "unreadable": kept.unreadable,
        "restarts": kept.mark.restarts,
    }


def _say(word: str, text: str) -> None:
    indent = _INDENT if word else ""
    width = min(shutil.get_terminal_size((_COLUMNS, 24)).columns, _COLUMNS)
    lines = textwrap.wrap(text, max(width - len(indent), _NARROWEST))
    head = f"{word:<7}" if word else ""
    print("\n".join(head + line if n == 0 else indent + line for n, line in enumerate(lines)))
