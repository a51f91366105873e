"""Is this log what it says to be? Records stream past once; everything that can be checked about them is.

Laws: the order is signature, inclusion and consistency, sequence, clock, gaps, replay; keys come from the reader, and change
only by a rotation that the old key signed; nothing is skipped in silence; a fault does not stop the check, and the
first bad record is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.errors import InputError
from demur.model.passport import Check, Fault, FaultKind, KeyRotation, Passport, PublicKey, Restart
from demur.record.anchors import Anchors, Witnesses
from demur.record.commit import Disclose, full_context
from demur.record.keys import CLOCK_SLACK_S, KeyRing
from demur.record.replay import Replay, contradiction, hidden_gap, misplacement
from demur.record.seal import open_sealed, seal_refusal
from demur.record.sequence import ClockWatch, SequenceWatch
from demur.record.tree import Frontier, grow, leaf_hash
from demur.record.verification import Scorebook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.model.passport import PhaseRecord, Verification
    from demur.record.seal import Sealed

__all__ = ["Evidence", "Trust", "Verifier", "verify"]


@dataclass(frozen=True, slots=True)
class Trust:
    """What the reader brings: the log's name, keys had from elsewhere, second signers, and how much is forgiven."""

    origin: str
    keys: tuple[PublicKey, ...]
    witnesses: Witnesses = Witnesses()  # noqa: RUF009 — a frozen value
    allow_unsigned: bool = False
    clock_slack_s: float = CLOCK_SLACK_S


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the records are held against: checkpoints, policies by digest, disclosures; and where the records begin."""

    checkpoints: tuple[bytes, ...] = ()
    replays: Mapping[str, Replay] = field(default_factory=dict)
    disclose: Disclose | None = None
    start: Frontier = Frontier()  # noqa: RUF009 — a frozen value


def verify(envelopes: Iterable[bytes], trust: Trust, evidence: Evidence) -> Verification:
    """Return what a check of these records, in the order of the log, finds."""
    verifier = Verifier(trust, evidence)
    for envelope in envelopes:
        verifier.feed(envelope)
    return verifier.close()


class Verifier:
    """Checks records as they come; memory grows with the number of sessions, not of records."""

    def __init__(self, trust: Trust, evidence: Evidence) -> None:
        self._trust, self._evidence = trust, evidence
        self._ring = KeyRing(trust.keys, slack_s=trust.clock_slack_s)
        self._book = Scorebook()
        self._frontier = evidence.start
        start = evidence.start.size
        self._anchors = Anchors(
            evidence.checkpoints, trust.origin, witnesses=trust.witnesses, book=self._book, start=start
        )
        self._sequence = SequenceWatch()
        self._clock = ClockWatch(trust.clock_slack_s)
        self._anchors.reached(self._frontier, self._ring)

    def feed(self, envelope: bytes) -> None:
        """Take the next record."""
        index = self._frontier.size
        try:
            sealed = open_sealed(envelope)
        except InputError as exc:
            self._book.failed(Check.SIGNATURE, Fault(FaultKind.MALFORMED, index, exc.what))
            leaf = leaf_hash(envelope)
        else:
            leaf = sealed.leaf
            self._check_entry(sealed, index)
        self._frontier, _ = grow(self._frontier, leaf)
        self._anchors.reached(self._frontier, self._ring)

    def close(self) -> Verification:
        """Return what was found."""
        self._anchors.close(self._frontier, self._ring)
        return self._book.result(self._frontier.size - self._evidence.start.size, self._frontier)

    def _check_entry(self, sealed: Sealed, index: int) -> None:
        genuine = self._check_signature(sealed, index)
        entry = sealed.entry
        session = entry.session if isinstance(entry, Passport) else None
        self._book.settle(Check.CLOCK, self._clock.follow(entry, session, index=index))
        match entry:
            case Passport():
                self._check_sequence(entry, sealed.leaf, index)
                self._check_decisions(entry, index)
            case KeyRotation(new=new) if genuine and sealed.key_id is not None:
                self._rotate(sealed.key_id, new, index)
            case Restart():
                self._check_restart(entry, index)
            case _:
                pass

    def _check_signature(self, sealed: Sealed, index: int) -> bool:
        refused = seal_refusal(sealed, self._ring)
        if refused is FaultKind.UNSIGNED and self._trust.allow_unsigned:
            self._book.unchecked(Check.SIGNATURE, "stamped as unsigned")
            return False
        signer = f"key `{sealed.key_id}`" if sealed.key_id else "no key"
        fault = None if refused is None else Fault(refused, index, f"signed with {signer}: {refused}")
        self._book.settle(Check.SIGNATURE, fault)
        return refused is None

    def _rotate(self, old_id: str, new: PublicKey, index: int) -> None:
        try:
            self._ring.rotate(old_id, new)
        except InputError as exc:
            self._book.failed(Check.SIGNATURE, Fault(FaultKind.MALFORMED, index, exc.what))

    def _check_restart(self, entry: Restart, index: int) -> None:
        if (entry.size, entry.root) != (index, self._frontier.root().hex()):
            what = f"the restart says it found {entry.size} records and another root"
            self._book.failed(Check.CONSISTENCY, Fault(FaultKind.ROOT_MISMATCH, index, what))
        else:
            self._book.passed(Check.CONSISTENCY)

    def _check_sequence(self, passport: Passport, leaf: bytes, index: int) -> None:
        if self._evidence.start.size and passport.seq and not self._sequence.knows(passport.session):
            self._sequence.start(passport, leaf)
            self._book.unchecked(Check.SEQUENCE, "the session began before this range")
        else:
            self._book.settle(Check.SEQUENCE, self._sequence.follow(passport, leaf, index=index))

    def _check_decisions(self, passport: Passport, index: int) -> None:
        hidden = hidden_gap(passport)
        self._book.settle(Check.GAPS, None if hidden is None else Fault(FaultKind.HIDDEN_GAP, index, hidden))
        replay = self._evidence.replays.get(passport.policy_digest)
        if replay is None:
            why = f"no policy of digest {passport.policy_digest} was given"
            self._book.unchecked(Check.REPLAY, why, len(passport.phases))
            return
        for phase in passport.phases:
            self._replay_phase(passport, phase, replay, index=index)

    def _replay_phase(self, passport: Passport, phase: PhaseRecord, replay: Replay, *, index: int) -> None:
        try:
            context = full_context(phase, self._evidence.disclose)
        except InputError as exc:
            self._book.failed(Check.REPLAY, Fault(FaultKind.REPLAY, index, f"{phase.phase}: {exc.what}"))
            return
        if context is None:
            self._book.unchecked(Check.REPLAY, "a withheld value was not disclosed")
            return
        wrong = misplacement(passport, phase) or contradiction(phase, context, replay)
        self._book.settle(Check.REPLAY, None if wrong is None else Fault(FaultKind.REPLAY, index, wrong))
