"""The records of a source: JSON objects one by one with their lines, or blocks of whole lines for workers.

No line, document or archive entry is held beyond the limits; a record that cannot be decoded is an error in its place.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from demur.errors import EmptyInputError, InputError, JsonError, ShapeError
from demur.formats.registry import format_of, format_of_all, unknown_format
from demur.io.files import BOM, bounded_document, csv_rows, json_object, json_rows, too_large
from demur.io.sources import Kind, find_sources, open_bytes
from demur.wire.fields import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from demur.io.files import InputLimits
    from demur.io.sources import Source
    from demur.wire.fields import JsonObject

__all__ = ["Block", "Record", "blocks_from", "line_blocks", "lines_at", "named_rows", "read_records", "sniff"]

Record = tuple[int | None, "JsonObject | InputError"]
"""A line (None where a source has none) and what stands there."""

# A block is a piece of work for a process: long enough to pay for its transport.
_BLOCK_BYTES = 4 << 20
# One odd row at the start must not name the format of the others.
_RECORDS_TRIED = 50
# APPNOTE 4.4.5: 93 is Zstandard, 20 its deprecated number.
_ZSTD_METHODS = (93, 20)


def read_records(source: Source, limits: InputLimits, *, only: AbstractSet[int] | None = None) -> Iterator[Record]:
    """Yield the records of a source; a cut or damaged source raises once what came before it was given.

    `only` are the lines of a file of lines that are wanted: the others are not taken apart.
    """
    if source.kind in (Kind.LINES, Kind.CSV):
        with open_bytes(source) as raw:
            stream = io.BufferedReader(raw) if source.compression else raw  # type: ignore[type-var]  # an Arrow stream is raw
            if source.kind is Kind.LINES:
                yield from json_rows(stream, limits, only=only)
                return
            try:
                for line, row in csv_rows(stream, limits, delimiter=source.delimiter):
                    # CSV has no null: an empty cell is the only way to leave a field out (RFC 4180 says nothing of it).
                    yield (
                        line,
                        row if isinstance(row, InputError) else {name: cell or None for name, cell in row.items()},
                    )
            except InputError as exc:
                raise exc.at(source.name, exc.line) from exc
    elif source.kind is Kind.DOCUMENT:
        yield from _document(source, limits)
    elif source.kind is Kind.PARQUET:
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
    else:
        yield from _archive(source, limits)


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole lines of a source: the number of the first, where it begins and ends (in bytes, decompressed), and the lines."""

    first: int
    offset: int
    end: int
    lines: bytes | InputError

    @property
    def next_line(self) -> int:
        """The number of the line behind the block."""
        return self.first + (1 if isinstance(self.lines, InputError) else self.lines.count(b"\n") + 1)


def line_blocks(source: Source, limits: InputLimits) -> Iterator[Block]:
    """Yield the lines of a source in blocks; a line beyond the limit is an error in its place."""
    with open_bytes(source) as stream:
        yield from blocks_from(stream.read, limits)


def blocks_from(
    read: Callable[[int], bytes], limits: InputLimits, *, number: int = 1, offset: int = 0, growing: bool = False
) -> Iterator[Block]:
    """Yield the lines that `read` gives, in blocks, from a line and an offset on; one that is `growing` has no last line yet."""
    rest = b""
    while piece := read(_BLOCK_BYTES):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            yield from _within_limit(number, offset, whole, limits)
            number += whole.count(b"\n") + 1
            offset += len(whole) + 1
        # A line without an end would fill the memory.
        if len(rest) > limits.line_bytes:
            end, tail = offset + len(rest), b""
            while piece := read(_BLOCK_BYTES):
                line, newline, tail = piece.partition(b"\n")
                end += len(line) + len(newline)
                if newline:
                    break
            yield Block(number, offset, end, too_large("line", limits.line_bytes, "DEMUR_MAX_LINE_BYTES"))
            number, offset, rest = number + 1, end, tail
    if rest.strip() and not growing:
        yield from _within_limit(number, offset, rest, limits)


def _within_limit(number: int, offset: int, lines: bytes, limits: InputLimits) -> Iterator[Block]:
    """Yield whole lines as a block, cut at those beyond the limit: most blocks are shorter than one such line."""
    if len(lines) <= limits.line_bytes:
        yield _block(number, offset, lines)
        return
    kept = list[bytes]()
    for line in lines.split(b"\n"):
        if len(line) <= limits.line_bytes:
            kept.append(line)
            continue
        if kept:
            yield (block := _block(number, offset, b"\n".join(kept)))
            number, offset, kept = block.next_line, block.end, []
        end = offset + len(line) + 1
        yield Block(number, offset, end, too_large("line", limits.line_bytes, "DEMUR_MAX_LINE_BYTES"))
        number, offset = number + 1, end
    if kept:
        yield _block(number, offset, b"\n".join(kept))


def _block(number: int, offset: int, lines: bytes) -> Block:
    return Block(number, offset, offset + len(lines) + 1, lines if offset else lines.removeprefix(BOM))


def lines_at(source: Source, wanted: AbstractSet[int], marks: Sequence[tuple[int, int]]) -> Iterator[Record]:
    """Yield the records at some lines of a source that is not compressed.

    `marks` are lines with the bytes at which they begin, in order, the first line among them: from the nearest one on the lines
    are counted, so that a large file is not read for a few of its lines.
    """
    with open_bytes(source) as stream:
        for (first, offset), (beyond, _) in pairwise([*marks, (sys.maxsize, 0)]):
            here = sorted(line for line in wanted if first <= line < beyond)
            # Seeking to the mark before a line spares a large file's reading for a few of its lines.
            stream.seek(offset)
            number = first
            for line in here:
                for _ in range(line - number):
                    stream.readline()
                yield line, json_object(stream.readline().removeprefix(BOM))
                number = line + 1


def named_rows(names: Sequence[str], spool: Path, limits: InputLimits) -> Iterator[tuple[str, int | None, JsonObject]]:
    """Yield the rows of a user's file of labels or requests, each with its source and line; one that cannot be read raises."""
    for source in find_sources(names, spool):
        for line, record in read_records(source, limits):
            if isinstance(record, InputError):
                raise record.at(source.name, line)
            yield source.name, line, record


def sniff(source: Source, limits: InputLimits) -> str:
    """Return the name of the format that a source is in, by the first records that can be read."""
    first: InputError | None = None
    seen: list[JsonObject] = []
    for line, record in islice(read_records(source, limits), _RECORDS_TRIED):
        if isinstance(record, InputError):
            first = first or record.at(source.name, line)
        else:
            seen.append(record)
    if not seen:
        raise first or EmptyInputError("no records in it", source=source.name, hint="an empty run is never a pass")
    known = format_of_all(seen)
    if known is not None:
        return known.NAME
    raise unknown_format(seen[0]).at(source.name)


def _document(source: Source, limits: InputLimits) -> Iterator[Record]:
    with open_bytes(source) as stream:
        try:
            data = bounded_document(stream, limits).removeprefix(BOM)
            try:
                body: Any = parse_json(data)
            except JsonError:
                # Inspect writes `NaN` for a score that there is none of; in any other document it stays an error (RFC 8259).
                body = parse_json(data, nan_is_null=True)
                known = format_of(body) if isinstance(body, dict) else None
                if known is None or known.NAME != "inspect":
                    raise
        except InputError as exc:
            raise exc.at(source.name) from exc
    elements = body if isinstance(body, list) else [body]
    if not elements:
        raise EmptyInputError("an empty array", source=source.name, hint="an empty run is never a pass")
    for number, element in enumerate(elements, 1):
        record = element
        if not isinstance(element, dict):
            record = ShapeError("expected a JSON object", hint="a document is an object, or an array of them")
        yield number if isinstance(body, list) else None, record


def _archive(source: Source, limits: InputLimits) -> Iterator[Record]:
    """Yield the records of a zipped log: its header, then every sample."""
    try:
        with zipfile.ZipFile(source.path) as archive:
            names = archive.namelist()
            samples = sorted(n for n in names if n.startswith("samples/") and n.endswith(".json"))
            if not samples:
                raise ShapeError("a zip without samples", source=source.name, hint="expected an Inspect .eval log")
            for name in [*(n for n in ("header.json",) if n in names), *samples]:
                info = archive.getinfo(name)
                record: JsonObject | InputError
                try:
                    if info.compress_type in _ZSTD_METHODS:
                        data = _zstd_entry(archive, info, limits)
                    else:
                        with archive.open(info) as entry:
                            data = bounded_document(entry, limits)
                    record = json_object(data, nan_is_null=True)
                except InputError as exc:
                    record = exc
                yield None, record
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as exc:
        what = str(exc).lower() or "it ends early"
        raise InputError(f"not a whole zip ({what})", source=source.name, hint="copy it again") from exc
    except (NotImplementedError, RuntimeError) as exc:
        # A method that this Python has no code for, or a password.
        hint = "unpack it and zip it anew, or convert it to .json"
        raise InputError(f"a zip that cannot be read ({str(exc).lower()})", source=source.name, hint=hint) from exc


def _zstd_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limits: InputLimits) -> bytes:
    """Return an entry packed by Zstandard, as Inspect packs them, which Python's own reader does not unpack."""
    import pyarrow as pa

    file = archive.fp
    if file is None or info.compress_size > limits.document_bytes:
        raise too_large("document", limits.document_bytes, "DEMUR_MAX_DOCUMENT_BYTES")
    # APPNOTE 4.3.7: 30 bytes, the last four being the lengths of the name and of what follows it.
    file.seek(info.header_offset)
    lengths = struct.unpack("<HH", file.read(30)[26:])
    file.seek(sum(lengths), io.SEEK_CUR)
    data = bounded_document(pa.CompressedInputStream(pa.BufferReader(file.read(info.compress_size)), "zstd"), limits)
    # Python's reader would have checked it.
    if zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile(f"bad CRC of {info.filename}")
    return data
