"""Do the records grow into the roots that were signed? Checkpoints held against the tree that the records make.

Laws: a record counts as included once a signed checkpoint at or after it has the root of our own tree; two signed checkpoints
that no one log can have are a fork; a signed checkpoint beyond the last record is a truncated tail; where nothing is signed,
nothing is said to be included.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.model.passport import Check, Fault, FaultKind
from demur.record.checkpoint import NoteKey, SignedCheckpoint, read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demur.record.keys import KeyRing
    from demur.record.tree import Frontier
    from demur.record.verification import Scorebook

__all__ = ["Anchors", "Witnesses"]


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Second signers, and how many of them a checkpoint must have."""

    keys: tuple[NoteKey, ...] = ()
    needed: int = 0


class Anchors:
    """The checkpoints of one log, met one after the other while the tree grows."""

    def __init__(
        self, notes: Iterable[bytes], origin: str, *, witnesses: Witnesses, book: Scorebook, start: int
    ) -> None:
        self._origin, self._witnesses, self._book = origin, witnesses, book
        ordered = sorted(self._readable(notes, start), key=lambda note: note.checkpoint.size)
        groups = groupby(ordered, key=lambda note: note.checkpoint.size)
        self._ahead = [(size, list(group)) for size, group in groups][::-1]
        self._good = self._compared = start
        self._met = 0
        self._mismatched = False

    def _readable(self, notes: Iterable[bytes], start: int) -> Iterator[SignedCheckpoint]:
        for number, note in enumerate(notes):
            try:
                signed = read_checkpoint(note)
            except ShapeError as exc:
                what = f"checkpoint {number} cannot be read: {exc.what}"
                self._book.failed(Check.CONSISTENCY, Fault(FaultKind.BAD_CHECKPOINT, start, what))
                continue
            if signed.checkpoint.size < start:
                self._book.unchecked(Check.CONSISTENCY, "the checkpoint lies before this range")
            else:
                yield signed

    def reached(self, frontier: Frontier, ring: KeyRing) -> None:
        """Hold the checkpoints of this size, if there are any, against the tree."""
        if not self._ahead or self._ahead[-1][0] != frontier.size:
            return
        size, notes = self._ahead.pop()
        trusted = self._trusted(notes, ring)
        if trusted:
            self._compare(size, {note.checkpoint.root for note in trusted}, frontier.root())

    def close(self, frontier: Frontier, ring: KeyRing) -> None:
        """Say what became of the checkpoints never reached and of the records after the last one."""
        beyond = [size for size, notes in self._ahead if self._trusted(notes, ring)]
        if beyond:
            size = max(beyond)
            what = f"a checkpoint of {size} records is signed, there are {frontier.size}"
            fault = Fault(FaultKind.TRUNCATED, frontier.size, what, until=size - 1)
            self._book.failed(Check.INCLUSION, fault, size - frontier.size)
        why = "after the last checkpoint" if self._met else "no checkpoint was given that counts"
        self._book.unchecked(Check.INCLUSION, why, frontier.size - self._compared)

    def _compare(self, size: int, signed: set[bytes], root: bytes) -> None:
        holds = root in signed
        forked = len(signed) > 1 or (holds and self._mismatched)
        if forked:
            what = f"two histories of this log are signed, told apart by the checkpoint of {size}"
            self._book.failed(Check.CONSISTENCY, Fault(FaultKind.FORKED, self._good, what, until=max(size - 1, 0)))
        elif holds and self._met:
            self._book.passed(Check.CONSISTENCY)
        if holds:
            self._book.passed(Check.INCLUSION, size - self._compared)
            self._good, self._mismatched = size, False
        else:
            self._mismatch(size)
        self._compared = size
        self._met += 1

    def _mismatch(self, size: int) -> None:
        what = f"the records do not make the root signed at {size}"
        # The first mismatch tells it all: whatever follows rests on the same wrong leaf.
        fault = None if self._mismatched else Fault(FaultKind.ROOT_MISMATCH, self._good, what, until=max(size - 1, 0))
        self._book.failed(Check.INCLUSION, fault, size - self._compared)
        self._mismatched = True

    def _trusted(self, notes: list[SignedCheckpoint], ring: KeyRing) -> list[SignedCheckpoint]:
        return [note for note in notes if self._is_trusted(note, ring)]

    def _is_trusted(self, note: SignedCheckpoint, ring: KeyRing) -> bool:
        """Whether the log's own key signed; count the countersignatures on the way."""
        size = note.checkpoint.size
        own = [NoteKey(self._origin, key) for key in ring.current]
        signers = note.signers([*own, *self._witnesses.keys]) if note.checkpoint.origin == self._origin else ()
        if not any(key in own for key in signers):
            what = f"the checkpoint of {size} is not signed by a key of `{self._origin}` trusted at that size"
            self._book.failed(Check.CONSISTENCY, Fault(FaultKind.BAD_CHECKPOINT, self._good, what, until=size))
            return False
        # Whoever signs under two names, or is the log itself, is not a second signer.
        others = {key.key.ed25519 for key in signers if key in self._witnesses.keys}
        self._count_witnesses(size, len(others - {key.ed25519 for key in ring.known}))
        return True

    def _count_witnesses(self, size: int, found: int) -> None:
        if not self._witnesses.needed:
            self._book.unchecked(Check.COUNTERSIGNATURE, "no second signer is asked for")
            return
        fault = None
        if found < self._witnesses.needed:
            what = f"the checkpoint of {size} has {found} of {self._witnesses.needed} countersignatures"
            fault = Fault(FaultKind.NOT_COUNTERSIGNED, self._good, what, until=size)
        self._book.settle(Check.COUNTERSIGNATURE, fault)
