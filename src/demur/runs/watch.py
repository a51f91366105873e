"""A log that somebody is still writing, followed line by line, and where the last look at it stopped.

A line is given once, when its end is there. What is kept between calls is a small file without any text of the log.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import InputError, UsageError
from demur.io.records import blocks_from
from demur.measure.watching import Band, WatchState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from demur.io.files import InputLimits
    from demur.io.records import Block

__all__ = ["Kept", "Mark", "follow_lines", "read_kept", "write_kept"]

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


@dataclass(frozen=True, slots=True)
class Kept:
    """How far the log was read, what was seen in it, the lines that could not be parsed, and the rows without a verdict."""

    mark: Mark = field(default_factory=Mark)
    state: WatchState = field(default_factory=WatchState)
    unreadable: int = 0
    failed: int = 0
    empty: int = 0
    unread: int = 0


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in the file."""

    version: int
    band: Band
    kept: Kept


def read_kept(path: Path, band: Band) -> Kept:
    """Return what was kept for this band; nothing was yet where there is no file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return Kept()
    except (OSError, msgspec.DecodeError) as exc:
        hint = "it is written by `demur watch --state`; take another file, or remove this one"
        raise InputError("no state of a watch", source=str(path), hint=hint) from exc
    # The sums of another band mean something else.
    if found.band != band:
        raise UsageError(f"`{path}` was kept for another band, step, alpha or rows", hint="ask as before, or remove it")
    return found.kept


def write_kept(path: Path, kept: Kept, band: Band) -> None:
    """Replace the file."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(msgspec.json.encode(_File(1, band, kept)))
        # Replaced whole or not at all (POSIX rename), so that a crash leaves the old state.
        new.replace(path)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{path}` cannot be written: {what}", hint="check the folder") from exc
