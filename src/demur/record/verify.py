"""Verification of a log: entries stream past once, and everything that can be checked about them is.

Per entry: signature, clock, sequence in its session, gaps and replay; for the log as a whole: inclusion under signed checkpoints
and their consistency. Every check ends as passed, failed or unchecked with a reason. A fault does not stop the verification.

Bundles: one entry with its inclusion proof, a checkpoint and the public keys, for a reader who has nothing else.

A bundle is plain JSON that can be checked without our code. The keys in it only say which keys are meant: `check_bundle` takes
the keys that the reader got elsewhere, never the bundle's own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from demur.errors import InputError, ShapeError, UsageError
from demur.model.passport import (
    Check,
    Fault,
    FaultKind,
    KeyRotation,
    LogEntry,
    Passport,
    PublicKey,
    Restart,
    Tally,
    Verification,
)
from demur.record.checkpoint import NoteKey, SignedCheckpoint, read_checkpoint
from demur.record.commit import Disclose, full_context
from demur.record.interface import SessionTail
from demur.record.keys import CLOCK_SLACK_S, KeyForm, KeyRing, key_form, parse_time
from demur.record.replay import Replay, contradiction, hidden_gap, misplacement
from demur.record.seal import open_sealed, seal_fault
from demur.record.tree import HASH_BYTES, Frontier, grow, inclusion_proof, is_included, leaf_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from demur.model.passport import PublicKey
    from demur.record.interface import SealedEntry
    from demur.record.tree import NodeReader

__all__ = ["Bundle", "Evidence", "Trust", "Verifier", "Witnesses", "check_bundle", "prove", "read_bundle", "verify"]

_FORMAT = "urn:demur:bundle:v1"


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry and all that shows it to be in the log; bytes are base64 in JSON."""

    format: str
    envelope: bytes
    index: int
    proof: tuple[bytes, ...]
    checkpoint: str
    keys: tuple[KeyForm, ...]


def prove(envelope: bytes, index: int, *, checkpoint: bytes, node: NodeReader, keys: Sequence[PublicKey]) -> bytes:
    """Return the bundle for the entry at `index`, proved against a checkpoint that covers it."""
    tree = read_checkpoint(checkpoint).checkpoint
    proof = inclusion_proof(index, tree.size, node)
    # A store whose nodes are damaged, or the checkpoint of another log, must not become a bundle that fails elsewhere.
    if not is_included(leaf_hash(envelope), index, size=tree.size, root=tree.root, proof=proof):
        raise UsageError(f"record {index} is not under this checkpoint", hint="give the checkpoint of the same log")
    bundle = Bundle(_FORMAT, envelope, index, proof, checkpoint.decode(), tuple(key_form(key) for key in keys))
    return msgspec.json.format(msgspec.json.encode(bundle), indent=1) + b"\n"


def read_bundle(data: bytes) -> Bundle:
    """Return what is in a bundle, not yet verified."""
    try:
        bundle = msgspec.json.decode(data, type=Bundle)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise ShapeError(f"no bundle ({str(exc).lower()})", hint="expected what `demur passport prove` wrote") from exc
    if bundle.format != _FORMAT or any(len(step) != HASH_BYTES for step in bundle.proof):
        raise ShapeError(f"a bundle of format `{bundle.format}`", hint=f"expected `{_FORMAT}` with SHA-256 hashes")
    return bundle


def check_bundle(
    bundle: Bundle, keys: Sequence[PublicKey], *, origin: str, slack_s: float = CLOCK_SLACK_S
) -> Fault | None:
    """Return what is wrong with a bundle for someone who trusts these keys of this log; None where nothing is."""
    # The order of the checks: a proof about an entry that nobody signed would say nothing.
    sealed = open_sealed(bundle.envelope)
    kind = seal_fault(sealed, KeyRing(keys, slack_s=slack_s))
    if kind is not None:
        return Fault(kind, bundle.index, "the record's signature does not count")
    note = read_checkpoint(bundle.checkpoint.encode())
    if note.checkpoint.origin != origin or not note.signers([NoteKey(origin, key) for key in keys]):
        return Fault(FaultKind.BAD_CHECKPOINT, bundle.index, "the checkpoint is not this log's")
    size, root = note.checkpoint.size, note.checkpoint.root
    if not is_included(sealed.leaf, bundle.index, size=size, root=root, proof=bundle.proof):
        return Fault(FaultKind.ROOT_MISMATCH, bundle.index, "the proof does not lead to the checkpoint's root")
    return None


_MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Second signers, and how many of them a checkpoint must have."""

    keys: tuple[NoteKey, ...] = ()
    needed: int = 0


@dataclass(frozen=True, slots=True)
class Trust:
    """What the reader brings: the log's origin, keys from a trusted source, second signers, and what is tolerated."""

    origin: str
    keys: tuple[PublicKey, ...]
    witnesses: Witnesses = Witnesses()
    allow_unsigned: bool = False
    clock_slack_s: float = CLOCK_SLACK_S


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the entries are compared with: checkpoints, policies by digest, disclosures; and the tree before the first entry."""

    checkpoints: tuple[bytes, ...] = ()
    replays: Mapping[str, Replay] = field(default_factory=dict)
    disclose: Disclose | None = None
    start: Frontier = Frontier()  # noqa: RUF009 — a frozen value


def verify(envelopes: Iterable[bytes], trust: Trust, evidence: Evidence) -> Verification:
    """Return what a check of these entries, in the order of the log, finds."""
    verifier = Verifier(trust, evidence)
    for envelope in envelopes:
        verifier.feed(envelope)
    return verifier.close()


class Verifier:
    """Checks entries as they come; memory grows with the number of sessions, not of entries."""

    def __init__(self, trust: Trust, evidence: Evidence) -> None:
        self._trust, self._evidence = trust, evidence
        self._ring = KeyRing(trust.keys, slack_s=trust.clock_slack_s)
        self._results = _Results()
        self._frontier = evidence.start
        self._checkpoints = _CheckpointChecks(
            evidence.checkpoints, trust, results=self._results, start=evidence.start.size
        )
        self._sessions = _SessionChecks(trust.clock_slack_s)
        self._checkpoints.compare_at(self._frontier, self._ring)

    def feed(self, envelope: bytes) -> None:
        """Take the next entry."""
        index = self._frontier.size
        try:
            sealed = open_sealed(envelope)
        except InputError as exc:
            # It is a leaf all the same: the tree must grow by the bytes that are there.
            self._results.failed(Check.SIGNATURE, Fault(FaultKind.MALFORMED, index, exc.what))
            leaf = leaf_hash(envelope)
        else:
            leaf = sealed.leaf
            self._check_entry(sealed, index)
        self._frontier, _ = grow(self._frontier, [leaf])
        self._checkpoints.compare_at(self._frontier, self._ring)

    def close(self) -> Verification:
        """Return what was found."""
        self._checkpoints.close(self._frontier, self._ring)
        return self._results.verification(self._frontier.size - self._evidence.start.size, self._frontier)

    def _check_entry(self, sealed: SealedEntry, index: int) -> None:
        kind = seal_fault(sealed, self._ring)
        if kind is FaultKind.UNSIGNED and self._trust.allow_unsigned:
            self._results.unchecked(Check.SIGNATURE, "stamped as unsigned")
        else:
            signer = f"key `{sealed.key_id}`" if sealed.key_id else "no key"
            fault = None if kind is None else Fault(kind, index, f"signed with {signer}: {kind}")
            self._results.settle(Check.SIGNATURE, fault)
        entry = sealed.entry
        self._results.settle(Check.CLOCK, self._sessions.clock_fault(entry, index=index))
        match entry:
            case Passport():
                self._check_passport(entry, sealed.leaf, index)
            # Only a key that is trusted can hand over to another one.
            case KeyRotation(new=new) if kind is None and sealed.key_id is not None:
                try:
                    self._ring.rotate(sealed.key_id, new)
                except InputError as exc:
                    self._results.failed(Check.SIGNATURE, Fault(FaultKind.MALFORMED, index, exc.what))
            case Restart():
                fault = None
                if (entry.size, entry.root) != (index, self._frontier.root().hex()):
                    what = f"the restart says it found {entry.size} records and another root"
                    fault = Fault(FaultKind.ROOT_MISMATCH, index, what)
                self._results.settle(Check.CONSISTENCY, fault)
            case _:
                pass

    def _check_passport(self, passport: Passport, leaf: bytes, index: int) -> None:
        # The predecessor of a range's first passport is not in the range.
        partial = self._evidence.start.size > 0 and passport.seq > 0 and not self._sessions.knows(passport.session)
        fault = self._sessions.sequence_fault(passport, leaf, index=index)
        if partial:
            self._results.unchecked(Check.SEQUENCE, "the session began before this range")
        else:
            self._results.settle(Check.SEQUENCE, fault)
        hidden = hidden_gap(passport)
        self._results.settle(Check.GAPS, None if hidden is None else Fault(FaultKind.HIDDEN_GAP, index, hidden))
        # The policy is found by its digest; another version of it could well decide otherwise.
        replay = self._evidence.replays.get(passport.policy_digest)
        if replay is None:
            why = f"no policy of digest {passport.policy_digest} was given"
            self._results.unchecked(Check.REPLAY, why, len(passport.phases))
            return
        for phase in passport.phases:
            try:
                context = full_context(phase, self._evidence.disclose)
            except InputError as exc:
                self._results.failed(Check.REPLAY, Fault(FaultKind.REPLAY, index, f"{phase.phase}: {exc.what}"))
                continue
            if context is None:
                self._results.unchecked(Check.REPLAY, "a withheld value was not disclosed")
                continue
            wrong = misplacement(passport, phase) or contradiction(phase, context, replay)
            self._results.settle(Check.REPLAY, None if wrong is None else Fault(FaultKind.REPLAY, index, wrong))


class _Results:
    """Counts what passed, failed and was not checked, while entries stream past."""

    def __init__(self) -> None:
        self._passed: Counter[Check] = Counter()
        self._failed: Counter[Check] = Counter()
        self._unchecked: dict[Check, Counter[str]] = {}
        self._faults: list[Fault] = []

    def passed(self, check: Check, count: int = 1) -> None:
        """Count checks that passed."""
        self._passed[check] += count

    def unchecked(self, check: Check, why: str, count: int = 1) -> None:
        """Count checks that could not be made."""
        if count:
            self._unchecked.setdefault(check, Counter())[why] += count

    def failed(self, check: Check, fault: Fault | None, count: int = 1) -> None:
        """Count checks that failed, and list the fault unless it is None (already listed)."""
        self._failed[check] += count
        # A log that is broken from end to end must not fill the memory.
        if fault is not None and len(self._faults) < _MAX_LISTED:
            self._faults.append(fault)

    def settle(self, check: Check, fault: Fault | None) -> None:
        """Count one check as passed where there is no fault, as failed otherwise."""
        if fault is None:
            self.passed(check)
        else:
            self.failed(check, fault)

    def verification(self, records: int, frontier: Frontier) -> Verification:
        """Return what was found."""
        tallies: list[Tally] = []
        for check in Check:
            reasons = tuple(sorted(self._unchecked.get(check, Counter()).items()))
            if self._passed[check] or self._failed[check] or reasons:
                tallies.append(Tally(check, self._passed[check], self._failed[check], reasons))
        return Verification(records, tuple(tallies), tuple(self._faults), frontier.root().hex())


class _SessionChecks:
    """Follows the numbers, links and times of each session, and the time of the log."""

    def __init__(self, slack_s: float) -> None:
        self._tails: dict[str, SessionTail] = {}
        self._slack = timedelta(seconds=slack_s)
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._latest_of: dict[str, datetime] = {}

    def knows(self, session: str) -> bool:
        """Whether a passport of this session has been seen."""
        return session in self._tails

    def sequence_fault(self, passport: Passport, leaf: bytes, *, index: int) -> Fault | None:
        """Take the session's next passport; return what is wrong with its number or link."""
        tail = self._tails.get(passport.session)
        self._tails[passport.session] = SessionTail(passport.seq, leaf.hex(), passport.at)
        expected = 0 if tail is None else tail.seq + 1
        if passport.seq != expected:
            problem = "missing before it" if passport.seq > expected else "repeated or out of order"
            what = f"session `{passport.session}`: number {passport.seq} where {expected} belongs ({problem})"
            return Fault(FaultKind.SEQUENCE, index, what)
        # The link shows a swap inside a session even where no checkpoint is at hand.
        if passport.previous != (None if tail is None else tail.leaf):
            what = f"session `{passport.session}`: number {passport.seq} does not follow the record before it"
            return Fault(FaultKind.SEQUENCE, index, what)
        return None

    def clock_fault(self, entry: LogEntry, *, index: int) -> Fault | None:
        """Take the next entry; return how its time runs backwards."""
        time = parse_time(entry.at)
        latest, self._latest = self._latest, max(self._latest, time)
        if isinstance(entry, Passport):
            before = self._latest_of.get(entry.session, time)
            self._latest_of[entry.session] = max(before, time)
            if time < before:
                what = f"session `{entry.session}`: {entry.at} is before the record before it"
                return Fault(FaultKind.CLOCK, index, what)
        # Several writers have several clocks, so the log as a whole gets some slack. Compared as a difference, since
        # `datetime.min` minus the slack would overflow.
        if latest - time > self._slack:
            return Fault(FaultKind.CLOCK, index, f"{entry.at} is before what the log had reached")
        return None


class _CheckpointChecks:
    """Compares the checkpoints of a log with the tree that its entries make, while the tree grows."""

    def __init__(self, notes: Iterable[bytes], trust: Trust, *, results: _Results, start: int) -> None:
        self._origin, self._witnesses, self._results = trust.origin, trust.witnesses, results
        readable: list[SignedCheckpoint] = []
        for number, note in enumerate(notes):
            try:
                signed = read_checkpoint(note)
            except ShapeError as exc:
                what = f"checkpoint {number} cannot be read: {exc.what}"
                results.failed(Check.CONSISTENCY, Fault(FaultKind.BAD_CHECKPOINT, start, what))
                continue
            if signed.checkpoint.size < start:
                results.unchecked(Check.CONSISTENCY, "the checkpoint lies before this range")
            else:
                readable.append(signed)
        ordered = sorted(readable, key=lambda note: note.checkpoint.size)
        groups = groupby(ordered, key=lambda note: note.checkpoint.size)
        self._ahead = [(size, list(group)) for size, group in groups][::-1]
        self._good = self._compared = start
        self._met = 0
        self._mismatched = False

    def compare_at(self, frontier: Frontier, ring: KeyRing) -> None:
        """Compare the checkpoints of this size, if there are any, with the tree."""
        if not self._ahead or self._ahead[-1][0] != frontier.size:
            return
        size, notes = self._ahead.pop()
        signed = {note.checkpoint.root for note in notes if self._is_trusted(note, ring)}
        if not signed:
            return
        matches = frontier.root() in signed
        # Two roots at one size, or a match after a mismatch: no single log has both.
        if len(signed) > 1 or (matches and self._mismatched):
            what = f"two histories of this log are signed, told apart by the checkpoint of {size}"
            fault = Fault(FaultKind.FORKED, self._good, what, until=max(size - 1, 0))
            self._results.failed(Check.CONSISTENCY, fault)
        elif matches and self._met:
            self._results.passed(Check.CONSISTENCY)
        if matches:
            # All entries up to here are covered, not only the last.
            self._results.passed(Check.INCLUSION, size - self._compared)
            self._good = size
        else:
            what = f"the records do not make the root signed at {size}"
            mismatch = Fault(FaultKind.ROOT_MISMATCH, self._good, what, until=max(size - 1, 0))
            # Only the first mismatch is listed: those that follow come from the same wrong leaf.
            self._results.failed(Check.INCLUSION, None if self._mismatched else mismatch, size - self._compared)
        self._mismatched = not matches
        self._compared = size
        self._met += 1

    def close(self, frontier: Frontier, ring: KeyRing) -> None:
        """Count the checkpoints that were never reached and the entries after the last one."""
        beyond = [size for size, notes in self._ahead for note in notes if self._is_trusted(note, ring)]
        if beyond:
            size = max(beyond)
            what = f"a checkpoint of {size} records is signed, there are {frontier.size}"
            fault = Fault(FaultKind.TRUNCATED, frontier.size, what, until=size - 1)
            self._results.failed(Check.INCLUSION, fault, size - frontier.size)
        why = "after the last checkpoint" if self._met else "no checkpoint was given that counts"
        self._results.unchecked(Check.INCLUSION, why, frontier.size - self._compared)

    def _is_trusted(self, note: SignedCheckpoint, ring: KeyRing) -> bool:
        """Whether the log's own key signed; count the countersignatures on the way."""
        size, needed = note.checkpoint.size, self._witnesses.needed
        own = [NoteKey(self._origin, key) for key in ring.current]
        signers = note.signers([*own, *self._witnesses.keys]) if note.checkpoint.origin == self._origin else ()
        if not any(key in own for key in signers):
            what = f"the checkpoint of {size} is not signed by a key of `{self._origin}` trusted at that size"
            self._results.failed(Check.CONSISTENCY, Fault(FaultKind.BAD_CHECKPOINT, self._good, what, until=size))
            return False
        if not needed:
            self._results.unchecked(Check.COUNTERSIGNATURE, "no second signer is asked for")
            return True
        # By key and not by name: one key under two names is one witness, and the log's own key is none.
        others = {key.key.ed25519 for key in signers if key in self._witnesses.keys}
        found = len(others - {key.ed25519 for key in ring.known})
        fault = None
        if found < needed:
            what = f"the checkpoint of {size} has {found} of {needed} countersignatures"
            fault = Fault(FaultKind.NOT_COUNTERSIGNED, self._good, what, until=size)
        self._results.settle(Check.COUNTERSIGNATURE, fault)
        return True
