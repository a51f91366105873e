"""`demur passport verify`: what was checked, what was not, and the first entry that is bad.

What cannot be opened at all is bad input (exit 2); what opens and turns out to be damaged is a failed check (exit 1). What was
not checked is printed as plainly as what was, and a flag that does not apply is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from demur.cli.passport.words import open_log, place_of, print_object, print_row, print_wrapped
from demur.errors import InputError, StoreError, UsageError
from demur.model.passport import Check, FaultKind, Passport, PublicKey, Verification
from demur.record.checkpoint import NoteKey, read_checkpoint
from demur.record.keys import read_keys
from demur.record.seal import open_sealed
from demur.record.store.anchor_files import is_torn, most_signed, read_notes
from demur.record.store.checks import StoreCheck, StoreFault
from demur.record.store.exports import open_export
from demur.record.store.sealing import utc_now
from demur.record.verify import Evidence, Trust, Witnesses, check_bundle, read_bundle, verify
from demur.report.diff_words import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from demur.model.claim import Decision
    from demur.policy.gate import PolicyGate
    from demur.record.checkpoint import SignedCheckpoint
    from demur.record.replay import Replay

__all__ = ["run_verify"]

_MAX_SHOWN = 10
_HARDWARE = "no record carries evidence from hardware: a signature says who, not on which machine"
_BESIDE = "the keys were taken from beside the log: give --keys, had from its owner"
_MAX_SLACK_S = 366 * 86400.0
_OWN_CHECKPOINTS = "every checkpoint comes from beside the log: give --checkpoint, one that you kept"


@dataclass
class Findings:
    """The results of a verification, gathered for printing."""

    what: str
    origin: str
    checked: Verification | None = None
    faults: list[StoreFault] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing that was checked is wrong."""
        return not self.faults and (self.checked is None or self.checked.ok)


def run_verify(args: argparse.Namespace) -> int:
    """Return the exit code: 0 where what was checked is valid, 1 where something is not."""
    if not 0 <= args.clock_slack <= _MAX_SLACK_S:
        raise UsageError(
            f"`{args.clock_slack:g}` seconds are no slack", hint="give what clocks may differ by, such as 5"
        )
    path = Path(args.store)
    # By name first: an export need not be read to know what it is.
    if path.suffix.lower() in (".jsonl", ".ndjson", ".parquet"):
        found = _verify_export(path, args)
    elif path.is_file() and path.suffix != ".db":
        found = _verify_document(path, args)
    else:
        found = _verify_store(args)
    (_print_json if args.json else _print_text)(found)
    return 0 if found.ok else 1


def _verify_store(args: argparse.Namespace) -> Findings:
    place = place_of(args)
    if not place.is_database and not Path(place.store).exists():
        raise UsageError(
            f"there is no store at `{place.shown}`", hint="name a folder of records, an export, or a database"
        )
    limits = []
    keys = _given_keys(args)
    if not keys:
        # Only for a store, whose owner runs this command; the owner could have rewritten log and keys together.
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
    with open_log(place) as store:
        found.origin = args.origin or store.origin
        check = StoreCheck(store)
        # The arguments are read first: a mistake there is not a fault of the log.
        trust, sets = _trust(args, keys, found.origin), _PolicySets(args)
        try:
            # Only replaying needs texts, for the claims whose values were withheld from the log.
            with store.snapshot(), place.disclosing(utc_now, on=bool(args.policy)) as disclose:
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
    _check_no_folder(args, "an export")
    export = open_export(path)
    origin = args.origin or export.head.origin
    found = Findings("export", origin)
    kept = _kept_notes(args.checkpoint, found)
    if not kept:
        found.limits.append("every checkpoint comes from the export itself: give --checkpoint, one that you kept")
    notes = most_signed((*(note.encode() for note in export.head.checkpoints), *kept))
    trust, sets = _trust(args, keys, origin), _PolicySets(args)

    def envelopes() -> Iterator[bytes]:
        for index, (envelope, wrong) in enumerate(export.records, start=export.head.start):
            if wrong is not None:
                found.faults.append(StoreFault(wrong, index))
            yield envelope

    try:
        found.checked = verify(envelopes(), trust, Evidence(notes, sets.replays, start=export.head.before))
    except InputError as exc:
        found.faults.append(StoreFault(exc.what))
        return found
    # The head is not signed: an export cut short would pass every other check.
    if found.checked.records != export.head.stop - export.head.start:
        said = export.head.stop - export.head.start
        found.faults.append(StoreFault(f"the export says {said:,} records and holds {found.checked.records:,}"))
    found.limits += [*sets.unused(), _HARDWARE]
    return found


def _kept_notes(names: list[str], found: Findings) -> list[bytes]:
    """Return the checkpoints in these files; add a limit for each file whose last one is unfinished."""
    paths = [Path(name) for name in names]
    torn = [path for path in paths if is_torn(path)]
    found.limits += [f"an unfinished checkpoint at the end of {path}, left out" for path in torn]
    return [note for path in paths for note in read_notes(path)]


def _check_no_folder(args: argparse.Namespace, what: str) -> None:
    if args.folder is not None:
        raise UsageError(f"{what} has no folder beside it", hint="leave out --folder; its keys come with --keys")


def _verify_document(path: Path, args: argparse.Namespace) -> Findings:
    """Check a bundle, or a single envelope."""
    keys = _required_keys(args)
    _check_no_folder(args, "one record")
    data = path.read_bytes()
    # An envelope and a bundle are both JSON objects; only a bundle has a proof.
    if b"payloadType" in data and b'"proof"' not in data:
        if args.witness or args.checkpoint:
            what = "an envelope alone has no checkpoint to hold --checkpoint or --witness against"
            raise UsageError(what, hint="ask for a bundle of `demur passport prove`")
        found, sets = Findings("envelope", args.origin or "a log unknown"), _PolicySets(args)
        found.checked = _check_single(data.strip(), 0, trust=_trust(args, keys, found.origin), sets=sets)
        unknown = "whether any log holds it: ask for a bundle of `demur passport prove`"
        found.limits += [unknown, *sets.unused(), _HARDWARE]
        return found
    # A proof leads to a root, and only the signature under the root says whose log it is of.
    if args.allow_unsigned:
        raise UsageError("a bundle is signed or proves nothing", hint="leave out --allow-unsigned")
    try:
        bundle = read_bundle(data)
    except InputError as exc:
        raise exc.at(str(path)) from exc
    found = Findings("bundle", args.origin or "")
    # The arguments are read first: a mistake there is not a fault of the bundle.
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
    _compare_checkpoint(note, trust, kept, found=found)
    single = _check_single(bundle.envelope, bundle.index, trust=trust, sets=sets)
    found.checked = replace(single, root=note.checkpoint.root.hex())
    found.limits += ["the records before and after it, and so its place in the session", *sets.unused()]
    entry = open_sealed(bundle.envelope).entry
    if not isinstance(entry, Passport) or entry.attestation is None:
        found.limits.append(_HARDWARE)
    return found


def _compare_checkpoint(note: SignedCheckpoint, trust: Trust, kept: list[bytes], *, found: Findings) -> None:
    """Check a bundle's checkpoint: its countersignatures, and the checkpoints of the same size that the reader kept."""
    # The log's own key is no second signer, whatever name it uses.
    own_keys = {key.ed25519 for key in trust.keys}
    signed = {key.key.ed25519 for key in note.signers(trust.witnesses.keys)} - own_keys
    if len(signed) < trust.witnesses.needed:
        what = f"the checkpoint has {len(signed)} of {trust.witnesses.needed} countersignatures"
        found.faults.append(StoreFault(f"{what} ({FaultKind.NOT_COUNTERSIGNED})"))
    # Comparing another size would take a consistency proof, which a bundle does not have.
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


def _check_single(envelope: bytes, index: int, *, trust: Trust, sets: _PolicySets) -> Verification:
    """Check what can be checked of one entry without the others."""
    checked = verify([envelope], trust, Evidence((), sets.replays))
    # Alone, it is neither the first of its session nor in any tree.
    meant = (Check.SIGNATURE, Check.GAPS, Check.REPLAY)
    not_meant = (FaultKind.SEQUENCE, FaultKind.ROOT_MISMATCH)
    faults = tuple(replace(fault, index=index) for fault in checked.faults if fault.kind not in not_meant)
    tallies = tuple(tally for tally in checked.tallies if tally.check in meant)
    return Verification(1, tallies, faults, checked.root)


def _given_keys(args: argparse.Namespace) -> tuple[PublicKey, ...]:
    if not args.keys:
        return ()
    try:
        return read_keys(Path(args.keys).read_bytes())
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=args.keys, hint="check the path") from exc


def _required_keys(args: argparse.Namespace) -> tuple[PublicKey, ...]:
    # Keys that came with the document would verify whatever its sender signed.
    keys = _given_keys(args)
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
    """The policies given, by their digest, and which of them were used; every --policy is a set."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.replays: dict[str, Replay] = {}
        self._names: dict[str, str] = {}
        self._used: set[str] = set()
        if args.vocabulary and not args.policy:
            raise UsageError("--vocabulary says nothing without a policy", hint="give --policy, the set to replay with")
        if not args.policy:
            # The policy engine takes longer to load than most verifications take.
            return
        from demur.policy.files import read_policies, read_vocabulary
        from demur.policy.gate import load_gate
        from demur.policy.values import SAFETY_VOCABULARY

        for name in args.policy:
            vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else SAFETY_VOCABULARY
            gate = load_gate(read_policies([name]).sources, default=args.default, vocabulary=vocabulary)
            self._names[gate.digest] = name
            self.replays[gate.digest] = partial(self._replay, gate)

    def _replay(self, gate: PolicyGate, context: str) -> Decision:
        self._used.add(gate.digest)
        return gate.replay(context)

    def unused(self) -> list[str]:
        """Return a limit for each set that no entry was decided with."""
        left = {digest: name for digest, name in self._names.items() if digest not in self._used}
        return [
            f"the policy {name}: nothing here was decided with it (digest {digest})" for digest, name in left.items()
        ]


def _bad(found: Findings) -> list[tuple[int | None, str]]:
    """Return every fault: those of one entry first, then those of a range, then those of the whole."""
    # The first bad entry is what a reader looks at, so a fault with an exact place goes before one without.
    exact = [(fault.index, fault.what) for fault in found.faults if fault.index is not None]
    vague: list[tuple[int | None, str]] = [(None, fault.what) for fault in found.faults if fault.index is None]
    stretches: list[tuple[int | None, str]] = []
    for fault in found.checked.faults if found.checked else ():
        if fault.until is None:
            exact.append((fault.index, fault.what))
        else:
            stretches.append((None, f"records {fault.index} to {fault.until}: {fault.what} ({fault.kind})"))
    return [*sorted(exact, key=lambda bad: bad[0]), *stretches, *vague]


def _verdict(found: Findings) -> str:
    bad = _bad(found)
    if found.ok:
        return "holds, as far as it was checked"
    if not bad:
        return "nothing to check: the log is empty"
    index, what = bad[0]
    return f"does not hold; first: record {index}: {what}" if index is not None else f"does not hold; first: {what}"


def _print_text(found: Findings) -> None:
    """Print what was checked, what was not, and what is bad."""
    records = f": {counted(found.checked.records, 'record')}, root {found.checked.root[:16]}…" if found.checked else ""
    print_wrapped(f"{found.what} of {found.origin}{records}")
    for tally in found.checked.tallies if found.checked else ():
        failed = f", {tally.failed:,} failed" if tally.failed else ""
        if tally.passed or tally.failed:
            print_row(f"  {tally.check}", f"{tally.passed:,} held{failed}")
    if found.what == "store":
        print_row("  store", "its tree, columns and counts " + ("differ" if found.faults else "agree with its records"))
    if found.what == "bundle":
        print_row("  bundle", "signature, checkpoint, inclusion" + (": failed" if found.faults else " hold"))
    # As plain as what was checked: "valid" alone would promise more than was looked at.
    print("not checked")
    for tally in found.checked.tallies if found.checked else ():
        for why, count in tally.unchecked:
            print_row(f"  {tally.check}", f"{count:,}: {why}")
    for limit in found.limits:
        print_wrapped(f"- {limit}", "  ")
    bad = _bad(found)
    for index, what in bad[:_MAX_SHOWN]:
        print_wrapped(f"bad: record {index}: {what}" if index is not None else f"bad: {what}")
    if len(bad) > _MAX_SHOWN:
        print(f"bad: … and {len(bad) - _MAX_SHOWN:,} more")
    print_wrapped(_verdict(found))


def _print_json(found: Findings) -> None:
    """Print the same as one JSON object."""
    bad = _bad(found)
    tallies = found.checked.tallies if found.checked else ()
    print_object(
        {
            "ok": found.ok,
            "what": found.what,
            "origin": found.origin,
            "records": found.checked.records if found.checked else None,
            "root": found.checked.root if found.checked else None,
            "first_bad": bad[0][0] if bad else None,
            "faults": [{"record": index, "what": what} for index, what in bad],
            "checks": {
                tally.check: {
                    "held": tally.passed,
                    "failed": tally.failed,
                    "unchecked": [{"why": why, "count": count} for why, count in tally.unchecked],
                }
                for tally in tallies
            },
            "kinds": sorted({fault.kind for fault in (found.checked.faults if found.checked else ())}),
            "not_checked": found.limits,
            "verdict": _verdict(found),
        }
    )
