"""`demur passport verify`: what was checked, what was not, and the first record that is bad.

Laws: what is checked is never more than what is said; a source that cannot be opened at all is bad input, one that opens and
turns out damaged is a failed check; keys that lie beside a log are used only for a store, and it is said that they were; a flag is
honoured or refused, never passed over.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.passport.findings import Findings, print_findings, print_findings_object
from demur.cli.passport.words import opened, place_of
from demur.errors import InputError, StoreError, UsageError
from demur.model.passport import Check, FaultKind, Passport, PublicKey, Verification
from demur.record.bundle import check_bundle, read_bundle
from demur.record.checkpoint import NoteKey, read_checkpoint
from demur.record.keys import read_keys
from demur.record.seal import open_sealed
from demur.record.store.anchor_files import is_torn, most_signed, read_notes
from demur.record.store.checks import StoreCheck, StoreFault
from demur.record.store.exports import open_export
from demur.record.verify import Evidence, Trust, Witnesses, verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from demur.model.claim import Decision
    from demur.policy.gate import PolicyGate
    from demur.record.checkpoint import SignedCheckpoint
    from demur.record.commit import Disclose
    from demur.record.replay import Replay

__all__ = ["run_verify"]

_HARDWARE = "no record carries evidence from hardware: a signature says who, not on which machine"
_BESIDE = "the keys were taken from beside the log: give --keys, had from its owner"
_LONGEST_SLACK_S = 366 * 86400.0
_OWN_CHECKPOINTS = "every checkpoint comes from beside the log: give --checkpoint, one that you kept"


def run_verify(args: argparse.Namespace) -> int:
    """Return the exit code of one call: 0 holds, 1 does not."""
    if not 0 <= args.clock_slack <= _LONGEST_SLACK_S:
        raise UsageError(
            f"`{args.clock_slack:g}` seconds are no slack", hint="give what clocks may differ by, such as 5"
        )
    path = Path(args.store)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".parquet"):
        found = _verify_export(path, args)
    elif path.is_file() and path.suffix != ".db":
        found = _verify_document(path, args)
    else:
        found = _verify_store(args)
    (print_findings_object if args.json else print_findings)(found)
    return 0 if found.ok else 1


def _verify_store(args: argparse.Namespace) -> Findings:
    place = place_of(args)
    if not place.is_database and not Path(place.store).exists():
        raise UsageError(
            f"there is no store at `{place.shown}`", hint="name a folder of records, an export, or a database"
        )
    limits = []
    keys = _trusted(args)
    if not keys:
        keys = () if place.folder is None else place.keys().public()
        limits.append(_BESIDE)
    if not keys and not args.allow_unsigned:
        raise UsageError("no keys to check with", hint="give --keys, or --allow-unsigned")
    found = Findings("store", place.shown, limits=limits)
    kept = _kept_notes(args.checkpoint, found)
    if not kept:
        limits.append(_OWN_CHECKPOINTS)
    if place.anchors is not None and place.anchors.exists() and place.anchors.stat().st_size:
        kept += _kept_notes([str(place.anchors)], found)
    with opened(place) as store:
        found.origin = args.origin or store.origin
        check = StoreCheck(store)
        # What the call itself brings is read first: a mistake there is no fault of the log.
        trust, sets = _trust(args, keys, found.origin), _PolicySets(args)
        try:
            with store.snapshot(), _disclosing(args) as disclose:
                evidence = Evidence(most_signed((*store.checkpoints(), *kept)), sets.replays, disclose)
                found.checked = verify(check.envelopes(), trust, evidence)
                check.close()
        except (StoreError, InputError) as exc:
            check.faults.append(StoreFault(exc.what))
        found.faults = check.faults
    found.limits += sets.unused()
    if not check.attested:
        found.limits.append(_HARDWARE)
    return found


def _verify_export(path: Path, args: argparse.Namespace) -> Findings:
    keys = _required_keys(args)
    _refuse_folder(args, "an export")
    export = open_export(path)
    origin = args.origin or export.head.origin
    found = Findings("export", origin)
    kept = _kept_notes(args.checkpoint, found)
    if not kept:
        found.limits.append("every checkpoint comes from the export itself: give --checkpoint, one that you kept")
    notes = most_signed((*(note.encode() for note in export.head.checkpoints), *kept))
    trust, sets = _trust(args, keys, origin), _PolicySets(args)
    envelopes = _compared(export.records, export.head.start, found)
    try:
        found.checked = verify(envelopes, trust, Evidence(notes, sets.replays, start=export.head.before))
    except InputError as exc:
        found.faults.append(StoreFault(exc.what))
        return found
    if found.checked.records != export.head.stop - export.head.start:
        said = export.head.stop - export.head.start
        found.faults.append(StoreFault(f"the export says {said:,} records and holds {found.checked.records:,}"))
    found.limits += [*sets.unused(), _HARDWARE]
    return found


def _kept_notes(names: list[str], found: Findings) -> list[bytes]:
    """Return the checkpoints in these files; say where the last of one was left unfinished."""
    paths = [Path(name) for name in names]
    torn = [path for path in paths if is_torn(path)]
    found.limits += [f"an unfinished checkpoint at the end of {path}, left out" for path in torn]
    return [note for path in paths for note in read_notes(path)]


def _refuse_folder(args: argparse.Namespace, what: str) -> None:
    if args.folder is not None:
        raise UsageError(f"{what} has no folder beside it", hint="leave out --folder; its keys come with --keys")


def _compared(records: Iterator[tuple[bytes, str | None]], start: int, found: Findings) -> Iterator[bytes]:
    for index, (envelope, wrong) in enumerate(records, start=start):
        if wrong is not None:
            found.faults.append(StoreFault(wrong, index))
        yield envelope


def _verify_document(path: Path, args: argparse.Namespace) -> Findings:
    """Check a bundle, or an envelope that stands alone."""
    keys = _required_keys(args)
    _refuse_folder(args, "one record")
    data = path.read_bytes()
    if b"payloadType" in data and b'"proof"' not in data:
        return _verify_envelope(data.strip(), keys, args)
    if args.allow_unsigned:
        raise UsageError("a bundle is signed or proves nothing", hint="leave out --allow-unsigned")
    try:
        bundle = read_bundle(data)
    except InputError as exc:
        raise exc.at(str(path)) from exc
    found = Findings("bundle", args.origin or "")
    # What the call itself brings is read first: a mistake there is no fault of the bundle.
    trust, sets, kept = _trust(args, keys, found.origin), _PolicySets(args), _kept_notes(args.checkpoint, found)
    try:
        note = read_checkpoint(bundle.checkpoint.encode())
        found.origin = args.origin or note.checkpoint.origin
        fault = check_bundle(bundle, keys, origin=found.origin, slack_s=args.clock_slack)
    except InputError as exc:
        found.faults.append(StoreFault(exc.what, bundle.index))
        return found
    if fault is not None:
        found.faults.append(StoreFault(f"{fault.what} ({fault.kind})", fault.index))
    _hold_against_witnesses(note, trust, found)
    _hold_against_kept(note, kept, found)
    alone = _record_alone(bundle.envelope, bundle.index, trust=trust, sets=sets)
    found.checked = replace(alone, root=note.checkpoint.root.hex())
    found.limits += ["the records before and after it, and so its place in the session", *sets.unused()]
    entry = open_sealed(bundle.envelope).entry
    if not isinstance(entry, Passport) or entry.attestation is None:
        found.limits.append(_HARDWARE)
    return found


def _hold_against_witnesses(note: SignedCheckpoint, trust: Trust, found: Findings) -> None:
    """Ask for every second signature that the call names; the log's own key is none."""
    own = {key.ed25519 for key in trust.keys}
    signed = {key.key.ed25519 for key in note.signers(trust.witnesses.keys)} - own
    if len(signed) < trust.witnesses.needed:
        what = f"the checkpoint has {len(signed)} of {trust.witnesses.needed} countersignatures"
        found.faults.append(StoreFault(f"{what} ({FaultKind.NOT_COUNTERSIGNED})"))


def _hold_against_kept(note: SignedCheckpoint, kept: list[bytes], found: Findings) -> None:
    """Compare with the checkpoints that the reader kept, as far as one record allows: those of the same size."""
    others = [read_checkpoint(each).checkpoint for each in kept]
    own = [each for each in others if (each.origin, each.size) == (note.checkpoint.origin, note.checkpoint.size)]
    if any(each.root != note.checkpoint.root for each in own):
        found.faults.append(
            StoreFault(f"the checkpoint that you kept at this size has another root ({FaultKind.FORKED})")
        )
    if others and not own:
        size = note.checkpoint.size
        found.limits.append(
            f"the checkpoints that you kept: none is of {size:,} records, the size that this proof is of"
        )


def _record_alone(envelope: bytes, index: int, *, trust: Trust, sets: _PolicySets) -> Verification:
    """Check what can be checked of one record: alone, it is neither the first of its session nor in any tree."""
    checked = verify([envelope], trust, Evidence((), sets.replays))
    meant = (Check.SIGNATURE, Check.GAPS, Check.REPLAY)
    told = (FaultKind.SEQUENCE, FaultKind.ROOT_MISMATCH)
    faults = tuple(replace(fault, index=index) for fault in checked.faults if fault.kind not in told)
    tallies = tuple(tally for tally in checked.tallies if tally.check in meant)
    return Verification(1, tallies, faults, checked.root)


def _verify_envelope(envelope: bytes, keys: tuple[PublicKey, ...], args: argparse.Namespace) -> Findings:
    if args.witness or args.checkpoint:
        what = "an envelope alone has no checkpoint to hold --checkpoint or --witness against"
        raise UsageError(what, hint="ask for a bundle of `demur passport prove`")
    found = Findings("envelope", args.origin or "a log unknown")
    sets = _PolicySets(args)
    found.checked = _record_alone(envelope, 0, trust=_trust(args, keys, found.origin), sets=sets)
    found.limits += ["whether any log holds it: ask for a bundle of `demur passport prove`", *sets.unused(), _HARDWARE]
    return found


def _trusted(args: argparse.Namespace) -> tuple[PublicKey, ...]:
    if not args.keys:
        return ()
    try:
        return read_keys(Path(args.keys).read_bytes())
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=args.keys, hint="check the path") from exc


def _required_keys(args: argparse.Namespace) -> tuple[PublicKey, ...]:
    keys = _trusted(args)
    if not keys and not args.allow_unsigned:
        raise UsageError("whose keys?", hint="give --keys, the list of `demur passport keys`, had from the log's owner")
    return keys


def _trust(args: argparse.Namespace, keys: tuple[PublicKey, ...], origin: str) -> Trust:
    witnesses = tuple(NoteKey.from_text(text) for text in args.witness)
    return Trust(
        origin,
        keys,
        Witnesses(witnesses, len(witnesses)),
        allow_unsigned=args.allow_unsigned,
        clock_slack_s=args.clock_slack,
    )


class _PolicySets:
    """The policy of each set given, by its digest, and which of them had something to decide; every --policy is a set."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.replays: dict[str, Replay] = {}
        self._names: dict[str, str] = {}
        self._used: set[str] = set()
        if args.vocabulary and not args.policy:
            raise UsageError("--vocabulary says nothing without a policy", hint="give --policy, the set to replay with")
        for name in args.policy:
            gate = _gate_of(name, args)
            self._names[gate.digest] = name
            self.replays[gate.digest] = self._noting(gate)

    def _noting(self, gate: PolicyGate) -> Replay:
        def replayed(context: str) -> Decision:
            self._used.add(gate.digest)
            return gate.replay(context)

        return replayed

    def unused(self) -> list[str]:
        """Return what to say of the sets that no record was decided with."""
        left = {digest: name for digest, name in self._names.items() if digest not in self._used}
        return [
            f"the policy {name}: nothing here was decided with it (digest {digest})" for digest, name in left.items()
        ]


def _gate_of(name: str, args: argparse.Namespace) -> PolicyGate:
    from demur.policy.files import read_policies, read_vocabulary
    from demur.policy.gate import load_gate
    from demur.policy.vocabulary import SAFETY_VOCABULARY

    vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else SAFETY_VOCABULARY
    return load_gate(read_policies([name]).sources, default=args.default, vocabulary=vocabulary)


@contextmanager
def _disclosing(args: argparse.Namespace) -> Iterator[Disclose | None]:
    """Give the texts beside the log, which replaying withheld claims needs; None where there are none."""
    from demur.record.store.sealing import utc_now

    try:
        texts = place_of(args).disclosures(utc_now, read_only=True) if args.policy else None
    except StoreError:
        texts = None
    try:
        yield None if texts is None else texts.get
    finally:
        if texts is not None:
            texts.close()
