"""The file of checkpoints: it only grows, and takes no checkpoint that contradicts the last one.

So a log that was cut or rewritten is noticed where it is written, not only where it is verified. A file beside the log guards
against accidents; against the log's owner only a copy elsewhere or a second signer does.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import InputError, ShapeError, StoreError
from demur.record.checkpoint import countersign, read_checkpoint
from demur.record.tree import consistency_proof, is_consistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from demur.record.checkpoint import Checkpoint
    from demur.record.keys import Signer
    from demur.record.tree import NodeReader

if sys.platform != "win32":
    import fcntl

__all__ = ["AnchorFile", "SecondSigner", "is_torn", "most_signed", "read_notes"]

_SIGNATURE = "\u2014 "
_DASH = _SIGNATURE.encode()
_TORN_BODY = rb"[ -~\x80-\xff]{1,512}(?:\n(?:[0-9]*|[0-9]+\n(?:[A-Za-z0-9+/=]*|[A-Za-z0-9+/=]+\n\n?)))?"
_TORN_LINE = rb"\n?(?:\xe2|\xe2\x80|\xe2\x80\x94[^\n]*)"
# The beginning of a note, or of one more signature under one: what a crash leaves of a write.
_TORN = re.compile(rb"(?:%s)?|%s|%s" % (_TORN_LINE, _TORN_BODY, _TORN_BODY + _TORN_LINE))


@dataclass(frozen=True, slots=True)
class SecondSigner:
    """The key that countersigns, and its name."""

    name: str
    signer: Signer


class AnchorFile:
    """A file of checkpoints, one after the other; each is appended whole or not at all."""

    def __init__(self, path: Path, *, second: SecondSigner | None = None) -> None:
        """Open the file and cut off a note that a crash has left unfinished: `torn_bytes` says how much that was."""
        self._path, self._second = path, second
        self.torn_bytes = self._cut_torn() if path.exists() else 0
        notes = read_notes(path) if path.exists() else ()
        self._last = notes[-1] if notes else None

    def add(self, note: bytes, node: NodeReader) -> bytes:
        """Return the checkpoint, countersigned where there is a second signer, once it is durable in the file."""
        # Before the second signature: a witness vouches that the log only grew.
        self.check_extends(read_checkpoint(note).checkpoint, node)
        if self._second is not None:
            note = countersign(note, self._second.signer, self._second.name)
        with self._locked() as handle:
            before = os.fstat(handle).st_size
            try:
                left = memoryview(note)
                while left:
                    left = left[os.write(handle, left) :]
                os.fsync(handle)
            except OSError:
                # The disk is full: half a note would make those after it unreadable.
                os.ftruncate(handle, before)
                raise
        self._last = note
        return note

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending, under a lock that other writers of the same log take too."""
        try:
            # Without O_BINARY, Windows would write a carriage return before each line's end, and the signatures would not match.
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
            handle = os.open(self._path, flags, 0o644)
            try:
                if sys.platform != "win32":
                    fcntl.flock(handle, fcntl.LOCK_EX)
                yield handle
            finally:
                os.close(handle)
        except OSError as exc:
            what = (exc.strerror or "cannot be written").lower()
            raise StoreError(f"the checkpoint cannot be kept in `{self._path}`: {what}", hint="check the disk") from exc

    def _cut_torn(self) -> int:
        """Cut off an unfinished note at the end; return how many bytes it had."""
        if not _torn_bytes(_bytes_of(self._path)):
            return 0
        with self._locked() as handle:
            # Read again under the lock: it may have been unfinished because another process was writing it.
            data = _bytes_of(self._path)
            torn = _torn_bytes(data)
            if torn:
                os.ftruncate(handle, len(data) - torn)
                os.fsync(handle)
        return torn

    def check_extends(self, now: Checkpoint, node: NodeReader) -> None:
        """Raise where the log does not extend the last checkpoint here."""
        if self._last is None:
            return
        # Another writer of the same log may have been faster, so either one can be the larger.
        old, new = sorted((read_checkpoint(self._last).checkpoint, now), key=lambda each: each.size)
        try:
            proof = consistency_proof(old.size, new.size, node)
            extends = is_consistent((old.size, old.root), (new.size, new.root), proof)
        except ShapeError:
            extends = False
        if not extends:
            what = f"the log does not fit the checkpoint of {old.size} records in `{self._path}`"
            raise StoreError(what, hint="it was cut or rewritten; see `demur passport verify`")


def read_notes(path: Path) -> tuple[bytes, ...]:
    """Return the checkpoints in a file, in its order; an unfinished one at the end is left out."""
    data = _bytes_of(path)
    whole = data[: len(data) - _torn_bytes(data)]
    try:
        lines = whole.decode().splitlines(keepends=True)
    except UnicodeDecodeError as exc:
        raise ShapeError("no checkpoints in it", source=str(path), hint="expected signed notes") from exc
    notes: list[str] = []
    # A note ends with its signatures, so the first line after one begins the next note.
    for number, line in enumerate(lines):
        if number == 0 or (lines[number - 1].startswith(_SIGNATURE) and not line.startswith(_SIGNATURE)):
            notes.append("")
        notes[-1] += line
    if data and not notes:
        raise ShapeError("no checkpoints in it", source=str(path), hint="expected signed notes")
    return tuple(note.encode() for note in notes)


def is_torn(path: Path) -> bool:
    """Whether the last note in a file is unfinished, and so left out of its checkpoints."""
    return _torn_bytes(_bytes_of(path)) > 0


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=str(path), hint="check the path") from exc


def _torn_bytes(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of a note and no more."""
    # Anything of another form is damage, not a torn write: it stays, and reading it is an error.
    lines = data.splitlines(keepends=True)
    tail: list[bytes] = []
    while lines and not (lines[-1].startswith(_DASH) and lines[-1].endswith(b"\n")):
        tail.append(lines.pop())
    torn = b"".join(reversed(tail))
    return len(torn) if _TORN.fullmatch(torn) else 0


def most_signed(notes: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the notes; of those with the same text, the one with the most signatures. Unreadable ones stay."""
    best: dict[bytes, bytes] = {}
    for note in notes:
        body, _, _ = note.rpartition(b"\n\n")
        held = best.get(body or note)
        if held is None or note.count(b"\n") > held.count(b"\n"):
            best[body or note] = note
    return tuple(best.values())
