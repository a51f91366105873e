"""Files and standard input, read within limits: small texts whole, JSON lines and CSV row by row.

No line and no document is held in memory beyond the limits, and nothing is silently shortened: what is too large is an error.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from demur.errors import EncodingError, InputError, ShapeError, SizeLimitError, UsageError
from demur.wire.fields import parse_json, parse_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from demur.wire.fields import JsonObject

__all__ = [
    "BOM",
    "InputLimits",
    "bounded_document",
    "bounded_lines",
    "csv_rows",
    "input_limits",
    "is_json",
    "json_object",
    "json_rows",
    "open_source",
    "read_text",
    "too_large",
    "unreadable",
]

BOM = b"\xef\xbb\xbf"
# The rest of a line that is too long is skipped in pieces of this size, not held.
_SKIP_BYTES = 1 << 20
# `surrogateescape` (PEP 383) makes these of bytes that are no UTF-8; valid UTF-8 never decodes to them.
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_MIB = 1024 * 1024
# No table of responses is as wide; every row of one that were would cost as much as a book.
_MAX_COLUMNS = 10_000


@dataclass(frozen=True, slots=True)
class InputLimits:
    """How much of an input is read before it is refused."""

    line_bytes: int = 16 * _MIB
    """`DEMUR_MAX_LINE_BYTES`: the longest line of a many-line file."""
    document_bytes: int = 64 * _MIB
    """`DEMUR_MAX_DOCUMENT_BYTES`: the largest file that is read as one document."""


def input_limits(environ: Mapping[str, str] | None = None) -> InputLimits:
    """Return the limits in force."""
    env = os.environ if environ is None else environ
    default = InputLimits()
    return InputLimits(
        _size(env, "DEMUR_MAX_LINE_BYTES", default.line_bytes),
        _size(env, "DEMUR_MAX_DOCUMENT_BYTES", default.document_bytes),
    )


def _size(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, "").strip()
    if not value:
        return default
    # No limit at all would let one line fill the memory, so 0 is no way to switch it off.
    if not value.isdecimal() or int(value) == 0:
        raise UsageError(f"`{name}` is `{value}`", hint="give a number of bytes above 0")
    return int(value)


class _Readable(Protocol):
    """Bytes that are read line by line."""

    def readline(self, size: int, /) -> bytes:
        """Return up to `size` bytes of the next line."""
        ...


def read_text(name: str) -> str:
    """Return a small text file of the user's, such as a pack, whole."""
    try:
        return parse_utf8(Path(name).read_bytes())
    except OSError as exc:
        raise unreadable(exc, name) from exc


def unreadable(exc: OSError, source: str) -> InputError:
    """Return the error for a file that the system does not let us read."""
    return InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")


@contextmanager
def open_source(name: str) -> Iterator[IO[bytes]]:
    """Give the bytes of a file, or of standard input, which stays open, where `name` is `-`."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(0, "standard input is closed")
        # Not closed: whoever called us may still read from it.
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as stream:
            yield stream


def bounded_document(stream: IO[bytes], limits: InputLimits, *, head: bytes = b"") -> bytes:
    """Return the whole of a stream whose `head` has been read already, or raise where it is beyond the limit."""
    whole = head + stream.read(limits.document_bytes + 1 - len(head))
    if len(whole) > limits.document_bytes:
        raise too_large("document", limits.document_bytes, "DEMUR_MAX_DOCUMENT_BYTES")
    return whole


def bounded_lines(stream: _Readable, limits: InputLimits) -> Iterator[tuple[int, bytes | SizeLimitError]]:
    """Yield each line with its number, from 1 on; one beyond the limit is skipped whole and its error takes its place."""
    number = 0
    while line := stream.readline(limits.line_bytes + 1):
        number += 1
        # One byte more than the limit was asked for, so a line of exactly the limit passes.
        if len(line) > limits.line_bytes and not line.endswith(b"\n"):
            while (piece := stream.readline(_SKIP_BYTES)) and not piece.endswith(b"\n"):
                pass
            yield number, too_large("line", limits.line_bytes, "DEMUR_MAX_LINE_BYTES")
        else:
            yield number, line


def too_large(what: str, limit: int, setting: str) -> SizeLimitError:
    """Return the error for what is beyond a limit, which names the setting that raises it."""
    return SizeLimitError(f"a {what} of more than {limit} bytes", hint=f"raise {setting} if that is meant")


def json_object(data: bytes, *, hint: str = "one record a line", nan_is_null: bool = False) -> JsonObject | InputError:
    """Return the JSON object in some bytes, or the error that there is none."""
    try:
        record = parse_json(data, nan_is_null=nan_is_null)
    except InputError as exc:
        return exc
    return record if isinstance(record, dict) else ShapeError("expected a JSON object", hint=hint)


def is_json(data: bytes) -> bool:
    """Return whether some bytes are a JSON value."""
    try:
        parse_json(data)
    except InputError:
        return False
    return True


def json_rows(
    stream: _Readable, limits: InputLimits, *, only: AbstractSet[int] | None = None, hint: str = "one record a line"
) -> Iterator[tuple[int, JsonObject | InputError]]:
    """Yield the object in each line that is not blank, or the error in its place; `only` are the lines that are wanted."""
    for number, line in bounded_lines(stream, limits):
        if only is not None and number not in only:
            continue
        if isinstance(line, InputError):
            yield number, line
        elif line.strip():
            yield number, json_object(line.removeprefix(BOM) if number == 1 else line, hint=hint)


def csv_rows(
    stream: _Readable, limits: InputLimits, *, delimiter: str = ","
) -> Iterator[tuple[int, dict[str, str] | InputError]]:
    """Yield the cells of each row by the names in the header, with the line that the row starts on.

    A row of another length, or in another encoding, is an error in its place; a file that is no CSV raises.
    """
    # The module's own limit of 128 KiB, a setting of the whole process, is less than a long response.
    csv.field_size_limit(limits.line_bytes)
    # Strict, since a quotation that never ends would swallow the rest of the file as one cell.
    rows = csv.reader(_csv_lines(stream, limits), delimiter=delimiter, strict=True)
    header: list[str] = []
    line = 1
    try:
        for row in rows:
            if not header:
                header = _csv_header(row)
            elif row and len(row) != len(header):
                hint = "quote cells with commas in them"
                yield line, ShapeError(f"{len(row)} cells where the header has {len(header)}", hint=hint)
            elif any(_NOT_UTF8.search(cell) for cell in row):
                yield line, EncodingError("not UTF-8", hint="convert it: iconv -f LATIN1 -t UTF-8")
            elif row:
                yield line, dict(zip(header, row, strict=True))
            line = rows.line_num + 1
    except csv.Error as exc:
        hint = "close the quotation marks of the cell, and double those inside it"
        raise InputError(f"not CSV ({exc})", line=line, hint=hint) from exc


def _csv_header(row: list[str]) -> list[str]:
    if len(row) > _MAX_COLUMNS:
        hint = "keep one row for each response"
        raise ShapeError(f"{len(row)} columns, more than {_MAX_COLUMNS}", line=1, hint=hint)
    header = [name.strip() for name in row]
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        hint = "give every column a name of its own"
        raise ShapeError(f"two columns are called `{twice[0]}`", line=1, hint=hint)
    return header


def _csv_lines(stream: _Readable, limits: InputLimits) -> Iterator[str]:
    """Yield lines as text; bytes that are no UTF-8 become lone surrogates, which no UTF-8 has."""
    for number, line in bounded_lines(stream, limits):
        if isinstance(line, InputError):
            raise line.at("", number)
        yield (line.removeprefix(BOM) if number == 1 else line).decode("utf-8", "surrogateescape")
