"""What the steps of `demur passport` share: finding an entry, and printing in 80 columns or as one JSON object."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import UsageError
from demur.model.passport import Passport
from demur.record.seal import open_sealed
from demur.record.store.location import LogPlace, log_place
from demur.record.tree import leaf_hash
from demur.report.columns import wrapped
from demur.report.json import safe_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from demur.record.store.log_store import LogStore, StoredEntry

__all__ = ["WIDTH", "find_entry", "open_log", "place_of", "print_object", "print_row", "print_wrapped", "write_bytes"]

WIDTH = 80
_LABEL = 16
# Digits of a digest: the fewest that may name an entry, and all of them.
_MIN_DIGITS, _ALL_DIGITS = 8, 64
_DIGEST = re.compile(f"[0-9a-f]{{{_MIN_DIGITS},{_ALL_DIGITS}}}")
_INDEX = re.compile(r"-?[0-9]{1,18}")
_ENTRIES_AT_ONCE = 1000


def place_of(args: argparse.Namespace) -> LogPlace:
    """Return where the log is that the arguments name."""
    return log_place(args.store, args.folder)


@contextmanager
def open_log(place: LogPlace, *, read_only: bool = True) -> Iterator[LogStore]:
    """Open the log, and close it afterwards."""
    store = place.open(read_only=read_only)
    try:
        yield store
    finally:
        store.close()


def find_entry(store: LogStore, args: argparse.Namespace) -> StoredEntry:
    """Return the entry that the arguments name."""
    if (args.index is None) == (args.session is None):
        raise UsageError("which record?", hint="give its place in the log, a digest, or --session")
    if args.session is not None:
        row = store.session_entry(args.session, args.seq)
        which = f"session `{args.session}`" + (f" of number {args.seq}" if args.seq is not None else "")
    else:
        row = _entry_named(store, args.index)
        which = f"`{args.index}`"
    if row is None:
        raise UsageError(f"no record at {which}", hint=f"the log has {store.frontier().size:,} records")
    return row


def _entry_named(store: LogStore, name: str) -> StoredEntry | None:
    """Return the entry at an index, or the one in which a digest begins with this name."""
    size = store.frontier().size
    # Eight decimal digits may be either; an index that the log has goes first.
    if _INDEX.fullmatch(name) and (int(name) < size or len(name) < _MIN_DIGITS):
        return next(store.entries(int(name), int(name) + 1), None) if 0 <= int(name) < size else None
    digest = name.lower().rstrip(".…")
    if not _DIGEST.fullmatch(digest):
        raise UsageError(
            f"`{name}` is neither a place nor a digest",
            hint=f"give a number, or {_MIN_DIGITS} hexadecimal digits or more",
        )
    found: StoredEntry | None = None
    # From the end: people ask for what has just happened.
    for stop in range(size, 0, -_ENTRIES_AT_ONCE):
        for row in store.entries(max(0, stop - _ENTRIES_AT_ONCE), stop):
            if _has_digest(row, digest):
                if found is not None:
                    raise UsageError(f"`{digest}` is in records {row.index} and {found.index}", hint="give more of it")
                found = row
        if found is not None and len(digest) == _ALL_DIGITS:
            break
    return found


def _has_digest(row: StoredEntry, digest: str) -> bool:
    if leaf_hash(row.envelope).hex().startswith(digest):
        return True
    # Most entries need not be opened.
    if digest.encode() not in row.payload:
        return False
    entry = open_sealed(row.envelope).entry
    named = (entry.request, entry.response) if isinstance(entry, Passport) else ()
    return any(commitment is not None and commitment.digest.startswith(digest) for commitment in named)


def print_object(value: object) -> None:
    """Print one JSON object."""
    print(msgspec.json.encode(value, enc_hook=str).decode())


def print_wrapped(text: str, indent: str = "") -> None:
    """Print a text within the columns, without control characters."""
    for number, line in enumerate(wrapped(text, WIDTH - len(indent) - 2)):
        print(f"{indent}{'  ' if number else ''}{line}")


def print_row(label: str, text: str) -> None:
    """Print a label and its text, aligned and within the columns."""
    lines = list(wrapped(text, WIDTH - max(_LABEL, len(label) + 1)))
    for number, line in enumerate(lines):
        print(f"{'' if number else label:<{_LABEL - 1}} {line}")


def write_bytes(name: str, data: bytes) -> None:
    """Write to a file, or to standard output where it is called `-`."""
    if name == "-":
        sys.stdout.write(safe_text(data.decode()))
        return
    try:
        Path(name).write_bytes(data)
    except OSError as exc:
        what = (exc.strerror or "cannot be written").lower()
        raise UsageError(f"`{name}` cannot be written: {what}", hint="check the folder") from exc
