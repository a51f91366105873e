"""Where does a checkpoint go so that the log's owner cannot take it back? Into a file, and under a second signature.

Laws: the file only grows; before a checkpoint is added or countersigned, the log is shown to extend the last one in the file,
so a log that was cut or rewritten is noticed where it is written, not only where it is verified. A file beside the log
guards against accidents; against its owner only a copy elsewhere does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import InputError, ShapeError, StoreError
from demur.record.checkpoint import countersign, read_checkpoint
from demur.record.proof import consistency_proof, is_consistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from demur.record.checkpoint import Checkpoint
    from demur.record.keys import Signer
    from demur.record.tree import NodeReader

__all__ = ["AnchorFile", "SecondSigner", "most_signed", "read_notes"]

_SIGNATURE = "\u2014 "


@dataclass(frozen=True, slots=True)
class SecondSigner:
    """Who countersigns, and under which name."""

    name: str
    signer: Signer


class AnchorFile:
    """A file of checkpoints, one after the other."""

    def __init__(self, path: Path, *, second: SecondSigner | None = None) -> None:
        self._path, self._second = path, second
        notes = read_notes(path) if path.exists() else ()
        self._last = notes[-1] if notes else None

    def add(self, note: bytes, node: NodeReader) -> bytes:
        """Return the checkpoint, countersigned where there is a second signer, once it is in the file for good."""
        self.refuse_contradiction(read_checkpoint(note).checkpoint, node)
        if self._second is not None:
            note = countersign(note, self._second.signer, self._second.name)
        try:
            with self._path.open("ab") as stream:
                stream.write(note)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as exc:
            what = (exc.strerror or "cannot be written").lower()
            raise StoreError(f"the checkpoint cannot be kept in `{self._path}`: {what}", hint="check the disk") from exc
        self._last = note
        return note

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


def read_notes(path: Path) -> tuple[bytes, ...]:
    """Return the checkpoints in a file, in its order; one alone is a file of one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=str(path), hint="check the path") from exc
    except UnicodeDecodeError as exc:
        raise ShapeError("no checkpoints in it", source=str(path), hint="expected signed notes") from exc
    return tuple(_notes(text))


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
