"""A log that somebody is still writing, followed line by line, and where the last look at it stopped.

A line is given once, when its end is there. What is kept between calls is a small file without any text of the log.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import InputError, UsageError
from demur.io.records import blocks_from
from demur.measure.session_sums import SessionSums
from demur.measure.watching import Band, WatchState
from demur.model.verdict import NOT_JUDGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from demur.io.files import InputLimits
    from demur.io.records import Block
    from demur.runs.options import ReadOptions

__all__ = ["Kept", "Mark", "baseline_sums", "follow_lines", "key_of_session", "read_kept", "replace_file", "write_kept"]

# The longest of the marks below.
_HEAD_BYTES = 4
# How compressed files, Parquet and zips begin.
_NO_LINES = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"PK\x03\x04")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a log was read: the bytes behind us, the next line, which file it was, and how often it began anew."""

    offset: int = 0
    line: int = 1
    inode: int = 0
    restarts: int = 0

    def at(self, found: os.stat_result) -> Mark:
        """Return the mark for the file that is there now: its start, where it is another one or was cut."""
        # Log rotation: another file under the name, or the same one cut.
        if self.inode and (found.st_ino != self.inode or found.st_size < self.offset):
            return Mark(inode=found.st_ino, restarts=self.restarts + 1)
        return Mark(self.offset, self.line, found.st_ino, self.restarts)

    def behind(self, block: Block) -> Mark:
        """Return the mark behind a block."""
        return Mark(block.end, block.next_line, self.inode, self.restarts)


def follow_lines(
    name: str, mark: Mark, limits: InputLimits, *, wait: Callable[[], bool], finished: bool = False
) -> Iterator[tuple[Block, Mark]]:
    """Yield the lines of a log from a mark on, with the mark behind them; `wait` waits for more, or says False: that was all.

    A log that is `finished` may lack the end of its last line.
    """
    if name == "-":
        if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
            raise InputError("nothing is piped into standard input", hint="pipe a log into it, or name a file")
        pipe = sys.stdin.buffer
        # A pipe gives what is there; waiting for a whole block would keep an alarm back.
        read = pipe.read1 if isinstance(pipe, io.BufferedReader) else pipe.read
        for block in blocks_from(read, limits):
            yield block, Mark(block.end, block.next_line)
        return
    going = True
    try:
        while going:
            with Path(name).open("rb") as stream:
                replaced = False
                while going and not replaced:
                    # Asked before it is read to its end: a writer that renames a log has written it to the end by then.
                    replaced = _is_replaced(name, stream)
                    for block, behind in _beyond(stream, name, mark, limits, growing=not finished):
                        mark = behind
                        yield block, mark
                    going = replaced or wait()
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=name, hint="check the path") from exc


def _is_replaced(name: str, stream: IO[bytes]) -> bool:
    """Return whether another file bears the name by now; one that is gone may come back."""
    try:
        return Path(name).stat().st_ino != os.fstat(stream.fileno()).st_ino
    except FileNotFoundError:
        return False


def _beyond(
    stream: IO[bytes], name: str, mark: Mark, limits: InputLimits, *, growing: bool
) -> Iterator[tuple[Block, Mark]]:
    """Yield what a file holds beyond a mark."""
    mark = mark.at(os.fstat(stream.fileno()))
    stream.seek(0)
    if mark.offset == 0 and stream.read(_HEAD_BYTES).startswith(_NO_LINES):
        raise InputError("no log of JSON lines", source=name, hint="`demur scan` reads compressed files and tables")
    stream.seek(mark.offset)
    for block in blocks_from(stream.read, limits, number=mark.line, offset=mark.offset, growing=growing):
        yield block, mark.behind(block)


def key_of_session(name: str | None) -> int | None:
    """Return 64 bits that stand for a session, None where a row has none: its name may be a person's."""
    if name is None:
        return None
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def baseline_sums(run: str, options: ReadOptions, *, is_grouped: bool) -> SessionSums:
    """Return what the sessions of a run add up to; each row is one where they are not to be grouped, or it has none."""
    from demur.runs.engine import open_engine

    counted = ", ".join(f"'{outcome}'" for outcome in options.counted)
    unjudged = ", ".join(f"'{outcome}'" for outcome in NOT_JUDGED if outcome not in options.counted)
    with open_engine(jobs=options.jobs) as engine:
        table = engine.load_run("baseline", run, fields=(), options=options).table
        group = "coalesce('v' || session, 'r' || rowid)" if is_grouped else "rowid"
        rows = (
            f"SELECT count(*) AS m, count(*) FILTER (outcome IN ({counted})) AS k FROM {table} "  # noqa: S608 — all of it is ours
            f"WHERE outcome NOT IN ({unjudged}) GROUP BY {group}"
        )
        sums = f"SELECT count(*), sum(m), sum(k), sum(k * k), sum(k * m), sum(m * m) FROM ({rows})"  # noqa: S608 — as above
        return SessionSums(*(int(total or 0) for total in engine.ask(sums)[0]))


@dataclass(frozen=True, slots=True)
class Kept:
    """How far the log was read, what was seen in it, the lines that could not be parsed, and the rows without a verdict.

    `told` says that the webhook has heard of the alarm.
    """

    mark: Mark = field(default_factory=Mark)
    state: WatchState = field(default_factory=WatchState)
    unreadable: int = 0
    failed: int = 0
    empty: int = 0
    unread: int = 0
    told: bool = False

    @property
    def rows(self) -> int:
        """All rows, those without a verdict included."""
        return self.state.seen + self.failed + self.empty + self.unread


# Version 1 kept cumulative sums of single rows, from which neither bets nor sessions can be made.
_VERSION = 2


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the file."""

    version: int
    band: Band
    is_grouped: bool
    kept: Kept


class _Version(msgspec.Struct, frozen=True):
    version: int


def read_kept(path: Path, band: Band, *, is_grouped: bool) -> Kept:
    """Return what was kept for this band; nothing was yet where there is no file."""
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Version).version
        if version != _VERSION:
            what = f"`{path}` is of version {version} of the state, and this is version {_VERSION}"
            raise UsageError(what, hint="remove it, or name another file: the log is then read from its start")
        found = msgspec.json.decode(data, type=_File)
    except FileNotFoundError:
        return Kept()
    except (OSError, msgspec.DecodeError) as exc:
        hint = "it is written by `demur watch --state`; take another file, or remove this one"
        raise InputError("no state of a watch", source=str(path), hint=hint) from exc
    # The bets on another band mean something else.
    if found.band != band or found.is_grouped != is_grouped:
        what = f"`{path}` was kept for another band, alpha, rows or --cluster"
        raise UsageError(what, hint="ask as before, or remove it")
    return found.kept


def write_kept(path: Path, kept: Kept, band: Band, *, is_grouped: bool) -> None:
    """Replace the file of a state."""
    replace_file(path, msgspec.json.encode(_File(_VERSION, band, is_grouped, kept)))


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file whole or not at all (POSIX rename), so that a crash leaves the old one and no reader sees half."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{path}` cannot be written: {what}", hint="check the folder") from exc
