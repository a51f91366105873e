"""Where a run is: files, folders, globs and standard input become sources that can be read, and read again.

What a user names and is not there is an error, never an empty run. Compressed bytes are known by their first bytes, not by a name.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING

from demur.errors import EmptyInputError, EncodingError, InputError
from demur.io.files import is_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Kind", "Source", "find_sources", "head_of", "open_bytes"]

_HEAD_BYTES = 1 << 20
_READ_AT_ONCE = 1 << 20
_BOM = b"\xef\xbb\xbf"
# RFC 1952 (gzip), RFC 8878 (Zstandard).
_MAGICS = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_PARQUET, _ZIP = b"PAR1", b"PK\x03\x04"
_TABLES = {".csv": ",", ".tsv": "\t"}
_TRACE_ENDINGS = frozenset(
    {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".agentlog", ".eval", ".gz", ".zst", ".zstd"}
)
_CSV_HEAD = re.compile(rb'\s*"?[A-Za-z_][\w .-]*"?(?:[,\t]"?[A-Za-z_][\w .-]*"?)+\s*\n')


class Kind(StrEnum):
    """How the bytes of a source are laid out."""

    LINES = "lines"
    DOCUMENT = "document"
    CSV = "csv"
    PARQUET = "parquet"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Source:
    """A file of a run: what the user calls it, where it is, how it is laid out and compressed."""

    name: str
    path: Path
    kind: Kind
    compression: str | None
    size_bytes: int
    delimiter: str = ","


def find_sources(names: Sequence[str], spool: Path) -> tuple[Source, ...]:
    """Return the sources that the names stand for; `spool` is the folder that standard input is kept in."""
    found = [source for name in names for source in _found(name, spool)]
    if not found:
        raise EmptyInputError("no files to read", hint="name a file, a folder, a glob, or - for standard input")
    once: dict[str, Source] = {}
    for source in found:
        # A glob and a folder in it may both name a file, in two spellings.
        once.setdefault(os.path.realpath(source.path), source)
    return tuple(once.values())


@contextmanager
def open_bytes(source: Source) -> Iterator[IO[bytes]]:
    """Give the bytes of a source, decompressed; a cut or unreadable one is an `InputError` that names it."""
    import pyarrow as pa

    try:
        with source.path.open("rb") as raw:
            if source.compression is None:
                yield raw
            else:
                yield pa.CompressedInputStream(raw, source.compression)
    except OSError as exc:
        raise _unreadable(exc, source.name, source.compression) from exc


def head_of(source: Source) -> bytes:
    """Return the first megabyte of a source, decompressed, without a byte-order mark."""
    with open_bytes(source) as stream:
        return stream.read(_HEAD_BYTES).removeprefix(_BOM)


def _found(name: str, spool: Path) -> Iterator[Source]:
    if name == "-":
        yield _source("<stdin>", _spooled(spool))
        return
    path = Path(name)
    if path.is_dir():
        # Hidden files are editors' and version control's.
        files = [
            p
            for p in _files_in(path)
            if p.suffix.lower() in _TRACE_ENDINGS
            and not any(part.startswith(".") for part in p.relative_to(path).parts)
        ]
        if not files:
            endings = ", ".join(sorted(_TRACE_ENDINGS))
            raise EmptyInputError("no traces in this folder", source=name, hint=f"expected files ending in {endings}")
        yield from (_source(str(p), p) for p in files)
    elif path.exists() or not glob.has_magic(name):
        # A shell's `<(…)` gives its bytes only once.
        if path.is_fifo() or path.is_char_device() or path.is_socket():
            copy = spool / f"pipe-{len(list(spool.glob('pipe-*')))}"
            try:
                with path.open("rb") as pipe, copy.open("wb") as out:
                    shutil.copyfileobj(pipe, out, _READ_AT_ONCE)
            except OSError as exc:
                raise _unreadable(exc, name, None) from exc
            path = copy
        yield _source(name, path)
    else:
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 — the pattern may be absolute or reach upwards
        if not matches:
            raise EmptyInputError("no file matches", source=name, hint="check the pattern, and quote it for the shell")
        yield from (s for match in matches for s in _found(match, spool) if match != name)


def _files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and those below it, in order; one that cannot be listed is an error."""

    def fail(exc: OSError) -> None:
        raise _unreadable(exc, str(exc.filename), None) from exc

    # Folders that are links are left out: they may lead in a circle.
    walk = os.walk(folder, onerror=fail)
    # Read in the order of their names, so that a run is the same on every file system.
    return sorted(path for here, _, names in walk for name in names if (path := Path(here, name)).is_file())


def _spooled(spool: Path) -> Path:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed", hint="pipe a run into it, or name a file")
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal", hint="pipe a run into it, or name a file")
    # Standard input and pipes are copied to a file of ours, so that every source can be read twice.
    path = spool / "stdin"
    if not path.exists():
        with path.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out, _READ_AT_ONCE)
    return path


def _source(name: str, path: Path) -> Source:
    try:
        size = path.stat().st_size
        with path.open("rb") as raw:
            magic = raw.read(4)
        compression = next((word for mark, word in _MAGICS if magic.startswith(mark)), None)
        if magic == _PARQUET:
            return Source(name, path, Kind.PARQUET, None, size)
        if magic == _ZIP:
            return Source(name, path, Kind.ARCHIVE, None, size)
    except OSError as exc:
        raise _unreadable(exc, name, None) from exc
    bare = Source(name, path, Kind.LINES, compression, size)
    kind, delimiter = _layout(name, head_of(bare))
    return Source(name, path, kind, compression, size, delimiter)


def _layout(name: str, head: bytes) -> tuple[Kind, str]:
    """Return how text is laid out, by the name's ending (a `.gz` at its end aside) or else by how it starts."""
    start = head.lstrip()
    if not start:
        raise EmptyInputError("nothing in it", source=name, hint="an empty run is never a pass")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise EncodingError("not UTF-8 but UTF-16", source=name, hint="convert it: iconv -f UTF-16 -t UTF-8")
    stem = Path(name.lower().removesuffix(".gz").removesuffix(".zst").removesuffix(".zstd"))
    if stem.suffix in _TABLES:
        return Kind.CSV, _TABLES[stem.suffix]
    if stem.suffix in (".jsonl", ".ndjson", ".agentlog"):
        return Kind.LINES, ","
    if start.startswith(b"["):
        return Kind.DOCUMENT, ","
    if stem.suffix == ".json" and not start.startswith(b"{"):
        return Kind.DOCUMENT, ","
    if start.startswith(b"{"):
        first, _, rest = start.partition(b"\n")
        # Lines, where the first object ends with its line and another follows. A first line that was cut is still a line where the
        # next one begins like an object of its own.
        is_lines = rest.strip() and (is_json(first) or rest.lstrip(b" \t").startswith(b'{"'))
        return (Kind.LINES if is_lines else Kind.DOCUMENT), ","
    if _CSV_HEAD.match(start):
        first = start.split(b"\n", 1)[0]
        return Kind.CSV, "\t" if first.count(b"\t") > first.count(b",") else ","
    raise InputError(
        "neither JSON, CSV nor Parquet", source=name, hint="a run is .jsonl, .json, .csv, .parquet, .agentlog or .eval"
    )


def _unreadable(exc: OSError, name: str, compression: str | None) -> InputError:
    if compression and exc.errno is None:
        what = str(exc).splitlines()[0].lower() or "cannot be decompressed"
        return InputError(f"{compression}: {what}", source=name, hint="the file is damaged or was cut; copy it again")
    return InputError((exc.strerror or str(exc) or "cannot be read").lower(), source=name, hint="check the path")
