"""`demur passport show`, `prove` and `export`: records out of a log, for people, for strangers and for other tools."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec

from demur.cli.passport.words import found_row, opened, place_of, print_object, print_row, print_said, write_bytes
from demur.errors import InputError, UsageError
from demur.model.passport import Erasure, KeyRotation, Passport, Restart
from demur.record.bundle import prove, read_bundle
from demur.record.checkpoint import read_checkpoint
from demur.record.seal import SealedEntry, open_sealed
from demur.record.store.entries import entry_kind
from demur.record.store.exports import ExportHead, export_format, write_export
from demur.record.tree import Frontier
from demur.report.diff_words import counted

if TYPE_CHECKING:
    import argparse

    from demur.model.passport import PhaseRecord
    from demur.record.store.log_store import LogStore

__all__ = ["run_export", "run_prove", "run_show"]


def run_show(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    path = Path(args.store)
    if path.is_file() and path.suffix != ".db":
        envelope, index = _in_document(path)
    else:
        with opened(place_of(args)) as store:
            row = found_row(store, args)
        envelope, index = row.envelope, row.index
    sealed = open_sealed(envelope)
    if args.json:
        statement = msgspec.json.decode(sealed.payload)
        facts = {"index": index, "kind": entry_kind(sealed.entry), "leaf": sealed.leaf.hex(), "key_id": sealed.key_id}
        print_object({**facts, "statement": statement})
        return 0
    _print_record(sealed, index)
    return 0


def _in_document(path: Path) -> tuple[bytes, int | None]:
    data = path.read_bytes().strip()
    try:
        if b"payloadType" in data and b'"proof"' not in data:
            return data, None
        bundle = read_bundle(data)
    except InputError as exc:
        raise exc.at(str(path)) from exc
    return bundle.envelope, bundle.index


def _print_record(sealed: SealedEntry, index: int | None) -> None:
    entry = sealed.entry
    place = "" if index is None else f"record {index:,}: "
    print_said(f"{place}{entry_kind(entry)} of {entry.at}")
    match entry:
        case Passport():
            _print_passport(entry)
        case KeyRotation(new=new):
            print_row("  new key", f"{new.key_id}, from {new.not_before or 'now'}")
        case Erasure(digests=digests, reason=reason):
            print_row("  erased", f"{counted(len(digests), 'text')}: {reason}")
        case Restart():
            print_row("  found", f"{counted(entry.size, 'record')}, left {'in order' if entry.clean else 'by a crash'}")
        case _:
            assert_never(entry)
    print_row("  leaf", sealed.leaf.hex())
    print_row("  signed", f"by key {sealed.key_id} (not checked here)" if sealed.key_id else "by nobody: signing none")


def _print_passport(passport: Passport) -> None:
    print_row("  session", f"{passport.session}, number {passport.seq}")
    served = passport.model_served or "none"
    print_row("  model", f"asked {passport.model_asked}, served {served}")
    status = "never asked" if passport.upstream_status is None else f"status {passport.upstream_status}"
    print_row("  provider", ", ".join((status, *passport.finish_reasons)))
    print_row("  withheld by", ", ".join(passport.causes) or "nobody")
    for phase in passport.phases:
        _print_phase(phase)
    for gap in passport.gaps:
        print_row("  gap", f"{gap.phase}: {gap.what}" + (f" ({gap.auditor})" if gap.auditor else ""))
    for name, commitment in (("request", passport.request), ("response", passport.response)):
        if commitment is not None:
            print_row(f"  {name} text", f"{commitment.size_bytes:,} bytes, committed to as {commitment.digest[:16]}…")
    print_row("  policy", passport.policy_digest)
    print_row("  hardware", passport.attestation or "no evidence: the slot is empty")


def _print_phase(phase: PhaseRecord) -> None:
    print_row(f"  {phase.phase}", phase.decision.effect.word)
    for rule in phase.decision.rules:
        print_row("    fired", f"{rule.id} ({rule.effect.word}){f': {rule.reason}' if rule.reason else ''}")
    for error in phase.decision.errors:
        print_row("    error", error)
    for run in phase.auditors:
        mode = f", applied {run.failure_mode}" if run.failure_mode else ""
        print_row("    auditor", f"{run.auditor} {run.version}: {run.status}, {run.took_us:,} µs{mode}")
    for claim in phase.claims:
        print_row("    claim", f"{claim.name} = {'withheld' if claim.value is None else claim.value}")


def run_prove(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    place = place_of(args)
    with opened(place) as store, store.snapshot():
        row = found_row(store, args)
        notes = list(store.checkpoints(row.index + 1))
        if not notes:
            hint = "gateways sign one every minute and when they stop; try again then"
            raise UsageError(f"no checkpoint covers record {row.index} yet", hint=hint)
        keys = () if place.folder is None else place.keys().public()
        bundle = prove(row.envelope, row.index, checkpoint=notes[-1], node=store.node, keys=keys)
        size = read_checkpoint(notes[-1]).checkpoint.size
    write_bytes(args.out, bundle)
    if args.out != "-":
        told = {"record": row.index, "checkpoint": size, "file": args.out}
        if args.json:
            print_object(told)
        else:
            print_said(f"record {row.index} proved against the checkpoint of {size}: {args.out}")
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Return the exit code of one call."""
    form = export_format(args.out)
    with opened(place_of(args)) as store, store.snapshot():
        size = store.frontier().size
        stop = size if args.stop is None else min(args.stop, size)
        if not 0 <= args.start < stop:
            raise UsageError(f"no records from {args.start} to {stop}", hint=f"the log has {size:,}")
        notes = tuple(note.decode() for note in store.checkpoints(args.start))
        held = tuple(note for note in notes if read_checkpoint(note.encode()).checkpoint.size <= stop)
        before = _frontier_at(args.start, store).to_bytes().hex()
        head = ExportHead(store.origin, args.start, stop, before, held)
        count = _written(args.out, head, store, form=form)
    if args.out != "-":
        told = {"records": count, "start": args.start, "stop": stop, "checkpoints": len(held), "file": args.out}
        if args.json:
            print_object(told)
        else:
            print_said(f"{counted(count, 'record')} and {counted(len(held), 'checkpoint')}: {args.out}")
    return 0


def _written(name: str, head: ExportHead, store: LogStore, *, form: str) -> int:
    envelopes = store.read(head.start, head.stop)
    if name == "-":
        return write_export(sys.stdout.buffer, head, envelopes, form=form)
    beside = Path(f"{name}.{os.getpid()}")
    try:
        with beside.open("wb") as stream:
            count = write_export(stream, head, envelopes, form=form)
        beside.replace(name)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{name}` cannot be written: {what}", hint="check the folder") from exc
    finally:
        beside.unlink(missing_ok=True)
    return count


def _frontier_at(size: int, store: LogStore) -> Frontier:
    """Return the tree as it was at a size: the perfect subtrees, largest first."""
    roots, start = [], 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            roots.append(store.node(level, start >> level))
            start += 1 << level
    return Frontier(size, tuple(roots))
