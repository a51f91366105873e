"""Exports of a log, as JSON lines or Parquet, complete enough to be verified without its store.

Every envelope is in them byte for byte, with the checkpoints and the tree before the first entry. Beside each envelope is what it
says, readable without decoding; reading compares the two.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from demur.errors import InputError, ShapeError, SizeLimitError, UsageError
from demur.io.files import bounded_lines, input_limits
from demur.model.passport import Passport
from demur.record.seal import open_sealed
from demur.record.store.log_store import entry_kind, rate_key
from demur.record.tree import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    import pyarrow.parquet as pq

    from demur.record.interface import SealedEntry

__all__ = ["Export", "ExportHead", "export_format", "open_export", "write_export"]

_FORMAT = "urn:demur:export:v1"
_META = b"demur"
_BATCH = 1000
_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class ExportHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The head of an export."""

    origin: str
    start: int
    stop: int
    frontier: str
    """The state of the tree before the first entry, in hex."""
    checkpoints: tuple[str, ...] = ()
    format: str = _FORMAT
    kind: str = "export"

    @property
    def before(self) -> Frontier:
        """The tree before the first entry."""
        try:
            return Frontier.from_bytes(bytes.fromhex(self.frontier))
        except ValueError as exc:
            raise ShapeError("the export's frontier is not in hex", hint="take the export again") from exc


@dataclass(frozen=True, slots=True)
class Export:
    """An open export: its head, and its envelopes with what is wrong with their readable part."""

    head: ExportHead
    records: Iterator[tuple[bytes, str | None]]


def export_format(name: str) -> str:
    """Return the format that a file's name asks for; standard output takes JSON lines."""
    found = "jsonl" if name == "-" else _ENDINGS.get(Path(name).suffix.lower())
    if found is None:
        raise UsageError(f"`{name}` names no format", hint=f"end it in {' or '.join(_ENDINGS)}")
    return found


def write_export(stream: IO[bytes], head: ExportHead, envelopes: Iterable[bytes], *, form: str) -> int:
    """Write an export; return how many entries are in it."""
    if form == "parquet":
        return _write_parquet(stream, head, envelopes)
    stream.write(msgspec.json.encode(head) + b"\n")
    count = 0
    for index, envelope in enumerate(envelopes, start=head.start):
        stream.write(_export_line(index, envelope) + b"\n")
        count += 1
    return count


def open_export(path: Path) -> Export:
    """Open an export; its entries are read as they are asked for."""
    if _ENDINGS.get(path.suffix.lower()) == "parquet":
        return _open_parquet(path)
    lines = _lines_of(path)
    try:
        head = msgspec.json.decode(next(lines, b""), type=ExportHead)
    except msgspec.MsgspecError as exc:
        hint = "expected what `demur passport export` wrote"
        raise ShapeError(f"no export ({str(exc).lower()})", source=str(path), hint=hint) from exc
    _check_format(head, path)
    return Export(head, _read_lines(lines, head.start))


def _check_format(head: ExportHead, path: Path) -> None:
    if head.format != _FORMAT:
        raise ShapeError(f"an export of format `{head.format}`", source=str(path), hint=f"expected `{_FORMAT}`")


def _export_line(index: int, envelope: bytes) -> bytes:
    """Return an entry's line: its index and kind, the envelope, and the predicate as it is in the envelope."""
    # Envelopes that cannot be opened are exported too: leaving one out would hide the damage from the reader.
    kind, predicate = "unreadable", b"null"
    with suppress(InputError):
        sealed = open_sealed(envelope)
        kind = entry_kind(sealed.entry)
        predicate = bytes(msgspec.json.decode(sealed.payload, type=_Payload).predicate)
    return b'{"index":%d,"kind":"%s","envelope":%s,"predicate":%s}' % (index, kind.encode(), envelope, predicate)


class _Payload(msgspec.Struct):
    predicate: msgspec.Raw


class _ExportLine(msgspec.Struct):
    index: int
    envelope: msgspec.Raw


def _lines_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as stream:
            for number, line in bounded_lines(stream, input_limits()):
                if isinstance(line, SizeLimitError):
                    raise line.at(str(path), number)
                yield line
    except OSError as exc:
        raise InputError((exc.strerror or "cannot be read").lower(), source=str(path), hint="check the path") from exc


def _read_lines(lines: Iterator[bytes], start: int) -> Iterator[tuple[bytes, str | None]]:
    for index, line in enumerate(lines, start=start):
        try:
            row = msgspec.json.decode(line, type=_ExportLine)
        except (msgspec.MsgspecError, UnicodeError) as exc:
            # The line is a leaf all the same: the tree shows that it is not the one that was sealed.
            yield line, f"the line is no record ({str(exc).lower()})"
            continue
        envelope = bytes(row.envelope)
        if row.index != index:
            yield envelope, f"the line says that it is record {row.index}"
        else:
            # Compared as a whole, so that the line can hold neither an unknown field nor the same field twice.
            same = line.strip() == _export_line(index, envelope)
            yield envelope, None if same else "the readable part is not what the envelope says"


def _parquet_schema(head: ExportHead | None = None) -> pa.Schema:
    import pyarrow as pa

    text, number, words = pa.string(), pa.int64(), pa.list_(pa.string())
    columns = [("index", number), ("kind", text), ("at", text), ("session", text), ("seq", number)]
    columns += [("model_asked", text), ("model_served", text), ("decision", text), ("causes", words)]
    columns += [("upstream_status", number), ("gaps", number), ("policy_digest", text), ("config_digest", text)]
    schema = pa.schema([*columns, ("envelope", pa.binary())])
    return schema if head is None else schema.with_metadata({_META: msgspec.json.encode(head)})


def _parquet_row(index: int, envelope: bytes) -> dict[str, object]:
    row: dict[str, object] = {"index": index, "kind": "unreadable", "envelope": envelope}
    sealed: SealedEntry | None = None
    with suppress(InputError):
        sealed = open_sealed(envelope)
    if sealed is None:
        return row
    entry = sealed.entry
    row |= {"kind": entry_kind(entry), "at": entry.at}
    if isinstance(entry, Passport):
        row |= {"session": entry.session, "seq": entry.seq, "model_asked": entry.model_asked}
        row |= {"model_served": entry.model_served, "decision": rate_key(entry).decision}
        row |= {"causes": [str(cause) for cause in entry.causes], "upstream_status": entry.upstream_status}
        row |= {"gaps": len(entry.gaps), "policy_digest": entry.policy_digest, "config_digest": entry.config_digest}
    return row


def _write_parquet(stream: IO[bytes], head: ExportHead, envelopes: Iterable[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _parquet_schema(head)
    count = 0
    # In row groups, so that a log of any size is exported in constant memory.
    rows: list[dict[str, object]] = []
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for envelope in envelopes:
            rows.append(_parquet_row(head.start + count, envelope))
            count += 1
            if len(rows) == _BATCH:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return count


def _open_parquet(path: Path) -> Export:
    import pyarrow as pa
    import pyarrow.parquet as pq

    hint = "expected what `demur passport export` wrote"
    try:
        file = pq.ParquetFile(path)
        head = msgspec.json.decode((file.schema_arrow.metadata or {}).get(_META, b""), type=ExportHead)
    except (OSError, pa.ArrowException) as exc:
        raise InputError("cannot be read as Parquet", source=str(path), hint=hint) from exc
    except msgspec.MsgspecError as exc:
        raise ShapeError("no export of a log", source=str(path), hint=hint) from exc
    _check_format(head, path)
    return Export(head, _read_parquet(file, path, start=head.start))


def _read_parquet(file: pq.ParquetFile, path: Path, *, start: int) -> Iterator[tuple[bytes, str | None]]:
    import pyarrow as pa

    # A column that is not ours could hold what the envelopes do not say, and be believed.
    names = _parquet_schema().names
    wrong = None if file.schema_arrow.names == names else "the columns are not those of an export"
    index = start
    try:
        for batch in file.iter_batches(_BATCH):
            for row in batch.to_pylist():
                envelope = row.get("envelope")
                envelope = envelope if isinstance(envelope, bytes) else b""
                made = _parquet_row(index, envelope)
                same = all(row.get(name) == made.get(name) for name in names)
                yield envelope, wrong if same else "the columns are not what the envelope says"
                index += 1
    except (OSError, pa.ArrowException) as exc:
        raise InputError("the file is damaged", source=str(path), hint="take the export again") from exc
