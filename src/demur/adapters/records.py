"""A source → its records: JSON objects one by one with their lines, or blocks of whole lines for workers.

Laws: no line, document or archive entry is held beyond the limits; a record that cannot be decoded is an error in its place;
a row of a table is the object of its columns, empty cells of a CSV being absent.
"""

from __future__ import annotations

import csv
import io
import zipfile
from typing import IO, TYPE_CHECKING, Any

from demur.adapters.files import bounded_document, bounded_lines, too_large
from demur.adapters.sources import Kind, head_of, open_bytes
from demur.errors import EmptyInputError, EncodingError, InputError, ShapeError, UsageError
from demur.wire.document import parse_json
from demur.wire.traces.formats import format_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.adapters.config import InputLimits
    from demur.adapters.sources import Source
    from demur.wire.interface import JsonObject

__all__ = ["Record", "line_blocks", "read_records", "sniff"]

Record = tuple[int | None, "JsonObject | InputError"]
"""A line (None where a source has none) and what stands there."""

_BLOCK_BYTES = 4 << 20
_RECORDS_TRIED = 50
_BOM = b"\xef\xbb\xbf"


def read_records(source: Source, limits: InputLimits, *, only: AbstractSet[int] | None = None) -> Iterator[Record]:
    """Yield the records of a source; a cut or damaged source raises once what came before it was given.

    `only` are the lines of a file of lines that are wanted: the others are not taken apart.
    """
    if source.kind is Kind.LINES:
        yield from _lines(source, limits, only)
    elif source.kind is Kind.DOCUMENT:
        yield from _document(source, limits)
    elif source.kind is Kind.CSV:
        yield from _csv_rows(source)
    elif source.kind is Kind.PARQUET:
        yield from _parquet_rows(source)
    else:
        yield from _archive(source, limits)


def line_blocks(source: Source, limits: InputLimits) -> Iterator[tuple[int, bytes | InputError]]:
    """Yield blocks of whole lines, each with the number of its first line; a line beyond the limit is an error."""
    with open_bytes(source) as stream:
        number, rest = 1, b""
        while piece := stream.read(_BLOCK_BYTES):
            piece = piece.removeprefix(_BOM) if number == 1 and not rest else piece
            whole, newline, tail = (rest + piece).rpartition(b"\n")
            if newline:
                yield number, whole
                number += whole.count(b"\n") + 1
            rest = tail
            if len(rest) > limits.line_bytes:
                yield number, too_large("line", limits.line_bytes, "DEMUR_MAX_LINE_BYTES")
                rest = _after_line(stream)
                number += 1
        if rest.strip():
            yield number, rest


def _after_line(stream: IO[bytes]) -> bytes:
    """Return what follows the line that is being skipped, from what was read last."""
    while piece := stream.read(_BLOCK_BYTES):
        _, newline, tail = piece.partition(b"\n")
        if newline:
            return tail
    return b""


def sniff(source: Source, limits: InputLimits) -> str:
    """Return the name of the format that a source is in, by the first records that can be read."""
    first: InputError | None = None
    seen: JsonObject | None = None
    for count, (line, record) in enumerate(_first_records(source, limits)):
        if isinstance(record, InputError):
            first = first or record.at(source.name, line)
        else:
            seen = seen or record
            known = format_of(record)
            if known is not None:
                return known.NAME
        if count >= _RECORDS_TRIED:
            break
    if seen is None:
        raise first or EmptyInputError("no records in it", source=source.name, hint="an empty run is never a pass")
    raise ShapeError(
        f"no trace format has the fields {_named(seen)}",
        source=source.name,
        hint="name it with --format, or give rows with a `prompt` and a `response`",
    )


def _first_records(source: Source, limits: InputLimits) -> Iterator[Record]:
    if source.kind is not Kind.LINES:
        yield from read_records(source, limits)
        return
    head = head_of(source)
    whole = head.splitlines(keepends=True)
    if len(whole) > 1 and not whole[-1].endswith(b"\n"):
        whole = whole[:-1]
    for number, line in enumerate(whole, 1):
        if line.strip():
            yield number, _decoded(line)


def _named(record: JsonObject) -> str:
    names = [f"`{name}`" for name in list(record)[:6]]
    return ", ".join(names) if names else "of an empty object"


def _lines(source: Source, limits: InputLimits, only: AbstractSet[int] | None) -> Iterator[Record]:
    with open_bytes(source) as raw:
        stream = io.BufferedReader(raw) if source.compression else raw  # type: ignore[type-var]  # an Arrow stream is raw
        for number, line in bounded_lines(stream, limits):
            if only is not None and number not in only:
                continue
            if isinstance(line, InputError):
                yield number, line
            elif line.strip():
                yield number, _decoded(line.removeprefix(_BOM) if number == 1 else line)


def _decoded(data: bytes) -> JsonObject | InputError:
    try:
        record = parse_json(data)
    except InputError as exc:
        return exc
    return record if isinstance(record, dict) else ShapeError("expected a JSON object", hint="one record a line")


def _document(source: Source, limits: InputLimits) -> Iterator[Record]:
    with open_bytes(source) as stream:
        try:
            body = parse_json(bounded_document(stream, limits).removeprefix(_BOM))
        except InputError as exc:
            raise exc.at(source.name) from exc
    elements = body if isinstance(body, list) else [body]
    if not elements:
        raise EmptyInputError("an empty array", source=source.name, hint="an empty run is never a pass")
    for number, element in enumerate(elements, 1):
        place = number if isinstance(body, list) else None
        yield place, element if isinstance(element, dict) else ShapeError("expected a JSON object")


def _csv_rows(source: Source) -> Iterator[Record]:
    with open_bytes(source) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        rows = csv.reader(text, delimiter=source.delimiter, strict=True)
        header: list[str] = []
        line = 1
        try:
            for row in rows:
                if not header:
                    header = [name.strip() for name in row]
                elif row:
                    yield line, _csv_record(header, row)
                line = rows.line_num + 1
        except UnicodeDecodeError as exc:
            raise EncodingError(
                "not UTF-8", source=source.name, line=line, hint="convert it: iconv -f LATIN1 -t UTF-8"
            ) from exc
        except csv.Error as exc:
            raise InputError(f"not CSV ({exc})", source=source.name, line=line, hint="quote the cell") from exc


def _csv_record(header: list[str], row: list[str]) -> JsonObject | InputError:
    if len(row) != len(header):
        return ShapeError(
            f"{len(row)} cells where the header has {len(header)}", hint="quote cells with commas in them"
        )
    return {name: cell for name, cell in zip(header, row, strict=True) if cell}


def _parquet_rows(source: Source) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source.path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=2048):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError) as exc:
        what = str(exc).splitlines()[0].lower()
        raise InputError(f"not a whole Parquet file ({what})", source=source.name, hint="copy it again") from exc


def _archive(source: Source, limits: InputLimits) -> Iterator[Record]:
    """Yield the records of a zipped log: its header, then every sample."""
    try:
        with zipfile.ZipFile(source.path) as archive:
            names = archive.namelist()
            samples = sorted(n for n in names if n.startswith("samples/") and n.endswith(".json"))
            if not samples:
                raise UsageError(f"`{source.name}` is a zip without samples", hint="expected an Inspect .eval log")
            for name in [*(n for n in ("header.json",) if n in names), *samples]:
                with archive.open(name) as entry:
                    yield None, _entry(entry, limits)
    except (zipfile.BadZipFile, OSError) as exc:
        raise InputError(f"not a whole zip ({exc})", source=source.name, hint="copy it again") from exc


def _entry(entry: IO[bytes], limits: InputLimits) -> Any:  # noqa: ANN401 — decoded JSON, or the error in its place
    try:
        return _decoded(bounded_document(entry, limits))
    except InputError as exc:
        return exc
