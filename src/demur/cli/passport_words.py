"""How the steps of `demur passport` find a record and print: 80 columns for people, one object for machines."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.adapters.log_location import LogPlace, log_place
from demur.errors import UsageError
from demur.report.columns import wrapped
from demur.report.json_values import safe_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from demur.adapters.log_growth import LogStore, StoredRow

__all__ = ["WIDTH", "found_row", "opened", "place_of", "print_object", "print_row", "print_said", "write_bytes"]

WIDTH = 80
_LABEL = 16


def place_of(args: argparse.Namespace) -> LogPlace:
    """Return where the log of a call is."""
    return log_place(args.store, args.folder)


@contextmanager
def opened(place: LogPlace, *, read_only: bool = True) -> Iterator[LogStore]:
    """Give the log, and close it afterwards."""
    store = place.open(read_only=read_only)
    try:
        yield store
    finally:
        store.close()


def found_row(store: LogStore, args: argparse.Namespace) -> StoredRow:
    """Return the record that a call names."""
    if (args.index is None) == (args.session is None):
        raise UsageError("which record?", hint="give its place in the log, or --session")
    if args.session is not None:
        row = store.row_of(args.session, args.seq)
        which = f"session `{args.session}`" + (f" of number {args.seq}" if args.seq is not None else "")
    else:
        row = next(store.rows(args.index, args.index + 1), None) if 0 <= args.index < store.frontier().size else None
        which = f"place {args.index}"
    if row is None:
        raise UsageError(f"no record at {which}", hint=f"the log has {store.frontier().size:,} records")
    return row


def print_object(value: object) -> None:
    """Print one JSON object."""
    print(msgspec.json.encode(value, enc_hook=str).decode())


def print_said(text: str, indent: str = "") -> None:
    """Print a text within the columns, without what could control a terminal."""
    for number, line in enumerate(wrapped(text, WIDTH - len(indent) - 2)):
        print(f"{indent}{'  ' if number else ''}{line}")


def print_row(label: str, text: str) -> None:
    """Print a label and what belongs to it, aligned and within the columns."""
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
