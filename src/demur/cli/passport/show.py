"""`demur passport show`, `prove`, `export` and `rates`: what a log holds, for people, for others to verify, and for tools."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec

from demur.cli.options import fields_of_flag
from demur.cli.passport.words import find_entry, open_log, place_of, print_object, print_row, print_wrapped, write_bytes
from demur.errors import EmptyInputError, InputError, UsageError
from demur.model.passport import Erasure, KeyRotation, Passport, Restart
from demur.record.checkpoint import read_checkpoint
from demur.record.seal import open_sealed
from demur.record.store.exports import ExportHead, export_format, write_export
from demur.record.store.log_store import entry_kind
from demur.record.store.rates import GroupRates, rates_of
from demur.record.tree import Frontier
from demur.record.verify import prove, read_bundle
from demur.report.columns import padded, printable
from demur.report.diff_words import counted
from demur.report.json import rate_object, safe_text
from demur.report.numbers import UNKNOWN, percent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


__all__ = ["run_export", "run_prove", "run_rates", "run_show"]

# The beginning of a time of RFC 3339, from the year on.
_DAY = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01])(?:T(?:[01]\d|2[0-3])[\d:.]*Z?)?)?)?")
# Widths that add up, with the spaces between, to less than 80 columns.
_GROUP, _COUNT, _RATE = 18, 10, 16
_HEADS = ("exchanges", "denied, %", "filtered, %", "refused, %")


def run_show(args: argparse.Namespace) -> int:
    """Return the exit code."""
    path = Path(args.store)
    if path.is_file() and path.suffix != ".db":
        envelope, index = _read_document(path)
    else:
        with open_log(place_of(args)) as store:
            row = find_entry(store, args)
        envelope, index = row.envelope, row.index
    sealed = open_sealed(envelope)
    if args.json:
        statement = msgspec.json.decode(sealed.payload)
        facts = {"index": index, "kind": entry_kind(sealed.entry), "leaf": sealed.leaf.hex(), "key_id": sealed.key_id}
        print_object({**facts, "statement": statement})
        return 0
    entry = sealed.entry
    place = "" if index is None else f"record {index:,}: "
    print_wrapped(f"{place}{entry_kind(entry)} of {entry.at}")
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
    # The key is only named: checking a signature takes keys that the reader trusts, which is what `verify` asks for.
    print_row("  signed", f"by key {sealed.key_id} (not checked here)" if sealed.key_id else "by nobody: signing none")
    return 0


def _read_document(path: Path) -> tuple[bytes, int | None]:
    data = path.read_bytes().strip()
    try:
        if b"payloadType" in data and b'"proof"' not in data:
            return data, None
        bundle = read_bundle(data)
    except InputError as exc:
        raise exc.at(str(path)) from exc
    return bundle.envelope, bundle.index


def _print_passport(passport: Passport) -> None:
    print_row("  session", f"{passport.session}, number {passport.seq}")
    served = passport.model_served or "none"
    print_row("  model", f"asked {passport.model_asked}, served {served}")
    status = "never asked" if passport.upstream_status is None else f"status {passport.upstream_status}"
    print_row("  provider", ", ".join((status, *passport.finish_reasons)))
    print_row("  withheld by", ", ".join(passport.causes) or "nobody")
    for phase in passport.phases:
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
    for gap in passport.gaps:
        print_row("  gap", f"{gap.phase}: {gap.what}" + (f" ({gap.auditor})" if gap.auditor else ""))
    for name, commitment in (("request", passport.request), ("response", passport.response)):
        if commitment is not None:
            print_row(f"  {name} text", f"{commitment.size_bytes:,} bytes, committed to as {commitment.digest[:16]}…")
    print_row("  policy", passport.policy_digest)
    print_row("  hardware", passport.attestation or "no evidence: the slot is empty")


def run_prove(args: argparse.Namespace) -> int:
    """Return the exit code."""
    place = place_of(args)
    with open_log(place) as store, store.snapshot():
        row = find_entry(store, args)
        notes = list(store.checkpoints(row.index + 1))
        if not notes:
            hint = "gateways sign one every minute and when they stop; try again then"
            raise UsageError(f"no checkpoint covers record {row.index} yet", hint=hint)
        keys = () if place.folder is None else place.keys().public()
        # The newest checkpoint: it covers the most, so the proof says the most about the rest of the log.
        bundle = prove(row.envelope, row.index, checkpoint=notes[-1], node=store.node, keys=keys)
        size = read_checkpoint(notes[-1]).checkpoint.size
    write_bytes(args.out, bundle)
    if args.out != "-":
        if args.json:
            print_object({"record": row.index, "checkpoint": size, "file": args.out})
        else:
            print_wrapped(f"record {row.index} proved against the checkpoint of {size}: {args.out}")
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Return the exit code."""
    form = export_format(args.out)
    with open_log(place_of(args)) as store, store.snapshot():
        size = store.frontier().size
        stop = size if args.stop is None else min(args.stop, size)
        if not 0 <= args.start < stop:
            raise UsageError(f"no records from {args.start} to {stop}", hint=f"the log has {size:,}")
        notes = tuple(note.decode() for note in store.checkpoints(args.start))
        # A checkpoint beyond the export would make it look truncated.
        held = tuple(note for note in notes if read_checkpoint(note.encode()).checkpoint.size <= stop)
        # The tree before the first entry: its perfect subtrees, largest first.
        levels = [level for level in reversed(range(args.start.bit_length())) if args.start >> level & 1]
        roots = tuple(store.node(level, (args.start >> level) - 1) for level in levels)
        before = Frontier(args.start, roots).to_bytes().hex()
        head = ExportHead(store.origin, args.start, stop, before, held)
        envelopes = store.read(args.start, stop)
        if args.out == "-":
            write_export(sys.stdout.buffer, head, envelopes, form=form)
            return 0
        # Written beside and renamed, so that nobody finds half an export under its name.
        beside = Path(f"{args.out}.{os.getpid()}")
        try:
            with beside.open("wb") as stream:
                count = write_export(stream, head, envelopes, form=form)
            beside.replace(args.out)
        except OSError as exc:
            what = (exc.strerror or "cannot be written").lower()
            raise UsageError(f"`{args.out}` cannot be written: {what}", hint="check the folder") from exc
        finally:
            beside.unlink(missing_ok=True)
    if args.json:
        facts = {"records": count, "start": args.start, "stop": stop, "checkpoints": len(held), "file": args.out}
        print_object(facts)
    else:
        print_wrapped(f"{counted(count, 'record')} and {counted(len(held), 'checkpoint')}: {args.out}")
    return 0


def run_rates(args: argparse.Namespace) -> int:
    """Return the exit code."""
    by = fields_of_flag(args.by) or ["model"]
    for given in (args.since, args.until):
        if given not in ("", "~") and not _DAY.fullmatch(given):
            raise UsageError(f"`{given}` is no date", hint="write 2026-11-16, or 2026-11-16T08")
    with open_log(place_of(args)) as store:
        counts = list(store.rollup())
        origin = store.origin
    whole = rates_of(counts, (), since=args.since, until=args.until)
    groups = rates_of(counts, by, since=args.since, until=args.until)
    # Nothing counted has no rate; a table of zeros would look like a quiet day.
    if not whole:
        raise EmptyInputError("no passports in this log and time", hint="see `demur passport show`, or other days")
    if args.json:
        total = _rates_object(whole[0], ())
        print_object({"origin": origin, "by": by, **total, "groups": [_rates_object(group, by) for group in groups]})
        return 0
    print(_table_line(", ".join(by), _HEADS))
    for group in groups:
        print(_table_line(" ".join(group.group), _cells(group)))
    if len(groups) > 1:
        print(_table_line("all", _cells(whole[0])))
    print()
    print_wrapped(
        "denied: by the gateway, of all exchanges; filtered: by the provider, refused: by the model, "
        f"of those that a provider answered ({whole[0].unanswered:,} were not) with something that could be judged "
        f"({whole[0].unjudged:,} were empty or unread). In brackets: 95% intervals (Wilson)."
    )
    return 0


def _cells(group: GroupRates) -> list[str]:
    cells = [f"{group.exchanges:,}"]
    for rate in (group.gateway_denied, group.provider_filtered, group.model_refused):
        interval = f"({percent(rate.interval.low)}–{percent(rate.interval.high)})"
        cells.append(UNKNOWN if rate.value is None else f"{percent(rate.value)} {interval}")
    return cells


def _table_line(name: str, cells: Sequence[str]) -> str:
    widths = (_COUNT, _RATE, _RATE, _RATE)
    numbers = "".join(f" {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return padded(printable(name, most=_GROUP), _GROUP) + numbers


def _rates_object(group: GroupRates, by: Sequence[str]) -> dict[str, object]:
    return {
        **{field: safe_text(value) for field, value in zip(by, group.group, strict=True)},
        "exchanges": group.exchanges,
        "unanswered": group.unanswered,
        "unjudged": group.unjudged,
        "gateway_denied": rate_object(group.gateway_denied),
        "provider_filtered": rate_object(group.provider_filtered),
        "model_refused": rate_object(group.model_refused),
    }
