"""Where does a checkpoint go so that the log's owner cannot take it back? Into a file, and under a second signature.

Laws: the file only grows; before a checkpoint is added or countersigned, the log is shown to extend the last one in the file,
so a log that was cut or rewritten is noticed where it is written, not only where it is verified. A file beside the log
guards against accidents; against its owner only a copy elsewhere does. A note that could not be written whole is taken out again,
and one that a crash has torn is left out and counted: what follows it must stay readable.
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
_TORN = re.compile(rb"(?:%s)?|%s|%s" % (_TORN_LINE, _TORN_BODY, _TORN_BODY + _TORN_LINE))
"""The beginning of a note, or of one more signature under one."""


@dataclass(frozen=True, slots=True)
class SecondSigner:
    """Who countersigns, and under which name."""

    name: str
    signer: Signer


class AnchorFile:
    """A file of checkpoints, one after the other."""

    def __init__(self, path: Path, *, second: SecondSigner | None = None) -> None:
        """Open the file; a note that a crash has torn at its end is cut off, `torn_bytes` says how much that was."""
        self._path, self._second = path, second
        self.torn_bytes = self._mended() if path.exists() else 0
        notes = read_notes(path) if path.exists() else ()
        self._last = notes[-1] if notes else None

    def add(self, note: bytes, node: NodeReader) -> bytes:
        """Return the checkpoint, countersigned where there is a second signer, once it is in the file for good."""
        self.refuse_contradiction(read_checkpoint(note).checkpoint, node)
        if self._second is not None:
            note = countersign(note, self._second.signer, self._second.name)
        with self._held() as handle:
            _append_whole(handle, note)
        self._last = note
        return note

    @contextmanager
    def _held(self) -> Iterator[int]:
        """Give the file, which nobody else who holds it so can change meanwhile."""
        try:
            # Without O_BINARY Windows would write other bytes than were signed: a carriage return before each line's end.
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

    def _mended(self) -> int:
        """Cut off what a crash has left of a note; return how many bytes."""
        if not _torn_bytes(_bytes_of(self._path)):
            return 0
        with self._held() as handle:
            # Looked at again: by now whoever was writing has finished.
            data = _bytes_of(self._path)
            torn = _torn_bytes(data)
            if torn:
                os.ftruncate(handle, len(data) - torn)
                os.fsync(handle)
        return torn

    def refuse_contradiction(self, now: Checkpoint, node: NodeReader) -> None:
        """Refuse a log that does not extend the last checkpoint here."""
        if self._last is None:
            return
        # Another writer of the same log may have been faster, so either can be the larger.
        old, new = sorted((read_checkpoint(self._last).checkpoint, now), key=lambda each: each.size)
        try:
            proof = consistency_proof(old.size, new.size, node)
            extends = is_consistent((old.size, old.root), (new.size, new.root), proof)
        except ShapeError:
            extends = False
        if not extends:
            what = f"the log does not fit the checkpoint of {old.size} records in `{self._path}`"
            raise StoreError(what, hint="it was cut or rewritten; see `demur passport verify`")


def _append_whole(handle: int, note: bytes) -> None:
    """Append a note durably; where that fails, leave the file as it was."""
    before = os.fstat(handle).st_size
    try:
        left = memoryview(note)
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, before)
        raise


def read_notes(path: Path) -> tuple[bytes, ...]:
    """Return the checkpoints in a file, in its order, a torn one at the end left out; one alone is a file of one."""
    data = _bytes_of(path)
    whole = data[: len(data) - _torn_bytes(data)]
    try:
        notes = tuple(_notes(whole.decode()))
    except UnicodeDecodeError as exc:
        raise ShapeError("no checkpoints in it", source=str(path), hint="expected signed notes") from exc
    if data and not notes:
        raise ShapeError("no checkpoints in it", source=str(path), hint="expected signed notes")
    return notes


def is_torn(path: Path) -> bool:
    """Whether the last note in a file was left unfinished, and so is none of its checkpoints."""
    return _torn_bytes(_bytes_of(path)) > 0


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=str(path), hint="check the path") from exc


def _torn_bytes(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of a note and no more; what is of another form is damage, and stays."""
    lines = data.splitlines(keepends=True)
    tail: list[bytes] = []
    while lines and not (lines[-1].startswith(_DASH) and lines[-1].endswith(b"\n")):
        tail.append(lines.pop())
    torn = b"".join(reversed(tail))
    return len(torn) if _TORN.fullmatch(torn) else 0


def _notes(text: str) -> Iterator[bytes]:
    note: list[str] = []
    signed = False
    for line in text.splitlines(keepends=True):
        if signed and not line.startswith(_SIGNATURE):
            yield "".join(note).encode()
            note = []
        signed = line.startswith(_SIGNATURE)
        note.append(line)
    if note:
        yield "".join(note).encode()


def most_signed(notes: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the notes, of those that say the same the one with the most signatures; unreadable ones stay."""
    best: dict[bytes, bytes] = {}
    for note in notes:
        body, _, _ = note.rpartition(b"\n\n")
        held = best.get(body or note)
        if held is None or note.count(b"\n") > held.count(b"\n"):
            best[body or note] = note
    return tuple(best.values())
