"""Sources to records: every layout, every limit, every kind of damage."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runs.run_files import questions, zstd

from demur.errors import EmptyInputError, EncodingError, InputError, JsonError, ShapeError, SizeLimitError
from demur.io.files import InputLimits
from demur.io.records import line_blocks, lines_at, read_records, sniff
from demur.io.sources import Source, find_sources

LIMITS = InputLimits()


def source_of(path: Path, data: bytes | None = None) -> Source:
    if data is not None:
        path.write_bytes(data)
    (source,) = find_sources([str(path)], path.parent)
    return source


def outline(source: Source, limits: InputLimits = LIMITS) -> list[tuple[int | None, Any]]:
    """Return lines with their records, errors being named by their types."""
    return [(line, type(r) if isinstance(r, InputError) else r) for line, r in read_records(source, limits)]


def test_bad_lines_stand_in_their_places(tmp_path: Path) -> None:
    """A line that is no JSON object is an error where it stands, and the next is read."""
    source = source_of(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"a": 1}\n\n{\n[1]\n\xff\n{"a": NaN}\n{"a": 2}')
    errors = [(3, JsonError), (4, ShapeError), (5, EncodingError), (6, JsonError)]
    assert outline(source) == [(1, {"a": 1}), *errors, (7, {"a": 2})]


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.lists(st.binary(max_size=30).filter(lambda b: b"\n" not in b), max_size=12), st.integers(1, 40), st.booleans()
)
def test_blocks_and_lines_agree(tmp_path: Path, lines: list[bytes], limit: int, last: bool) -> None:  # noqa: FBT001 — drawn
    """Blocks hold the lines within the limit with their numbers, and an error for each line beyond it."""
    data = b'{"a": 0}\n' + b"\n".join(lines) + (b"\n" if last else b"")
    path = tmp_path / "a.jsonl"
    source = source_of(path, data)
    limits = InputLimits(line_bytes=max(limit, 8))
    found: dict[int, bytes | None] = {}
    for block in line_blocks(source, limits):
        kept = [None] if isinstance(block.lines, InputError) else block.lines.split(b"\n")
        assert kept[0] is None or data[block.offset :].startswith(kept[0])
        for number, line in enumerate(kept, block.first):
            assert number not in found
            found[number] = line
    for number, line in enumerate(data.split(b"\n"), 1):
        expected = line if len(line) <= limits.line_bytes else None
        assert found.get(number, b"") == expected or (not line.strip() and number not in found)


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.integers(1, 40), st.sets(st.integers(1, 40)), st.sets(st.integers(2, 40)))
def test_lines_are_found_from_their_marks(tmp_path: Path, rows: int, wanted: set[int], marked: set[int]) -> None:
    """Lines read from the nearest mark are those read from the start, wherever the marks are."""
    lines = [b'{"a": %d}' % number for number in range(1, rows + 1)]
    source = source_of(tmp_path / "a.jsonl", b"\n".join(lines))
    marks = [(n, sum(len(line) + 1 for line in lines[: n - 1])) for n in sorted({1, *marked}) if n <= rows]
    asked = {n for n in wanted if n <= rows}
    assert list(lines_at(source, asked, marks)) == list(read_records(source, LIMITS, only=asked))


@pytest.mark.heavy
def test_a_line_longer_than_a_block_and_than_the_limit(tmp_path: Path) -> None:
    """Lines beyond the limit are errors whether or not they end within what is read at once; those after are read."""
    long, short = b'{"a": "' + b"x" * 17_000_000 + b'"}', b'{"a": 1}'
    fits = b'{"a": "' + b"y" * 9_000_000 + b'"}'
    source = source_of(tmp_path / "a.jsonl", b"\n".join([short, long, short, fits, long]))
    blocks = [(b.first, None if isinstance(b.lines, InputError) else b.lines) for b in line_blocks(source, LIMITS)]
    starts = [b.offset for b in line_blocks(source, LIMITS)]
    assert [source.path.read_bytes()[at : at + 2] for at in starts] == [b'{"'] * len(starts)
    assert [n for n, b in blocks if b is None] == [2, 5]
    kept = {n + i: line for n, b in blocks if b is not None for i, line in enumerate(b.split(b"\n")) if line}
    assert kept == {1: short, 3: short, 4: fits}
    assert [line for line, r in outline(source) if r is SizeLimitError] == [2, 5]


def test_a_first_line_of_megabytes_is_recognised(tmp_path: Path) -> None:
    """The format of a run whose first line is very long is known."""
    row = {"response": "x" * 2_000_000}
    source = source_of(tmp_path / "a.jsonl", json.dumps(row).encode() + b"\n")
    assert sniff(source, LIMITS) == "flat"


def test_a_cut_stream_raises_after_what_came_before(tmp_path: Path) -> None:
    """The rows before a cut are given, the cut itself is never silent."""
    rows = "".join(
        json.dumps({**row, "response": str(i * 7919) * 300}) + "\n" for i, row in enumerate(questions(3000, ()))
    )
    for name, packed in (("a.jsonl.gz", gzip.compress(rows.encode(), 1)), ("a.jsonl.zst", zstd(rows.encode()))):
        source = source_of(tmp_path / name, packed)
        source.path.write_bytes(packed[: len(packed) - 30])
        for read in (read_records, line_blocks):
            with pytest.raises(InputError, match=rf"{name}`: .*truncated"):
                list(read(source, LIMITS))


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"42", ShapeError, "a.json`: expected a JSON object; a document is an object, or an array of them"),
        (b'"text"', ShapeError, "expected a JSON object"),
        (b"[]", EmptyInputError, "an empty array"),
        (b"[1]", ShapeError, "line 1: expected a JSON object"),
        (b'[{"response": "a"}', JsonError, "a.json`: not JSON"),
        (b'{"response": "a"', JsonError, "a.json`: not JSON"),
        (b'[{"response": "\xff"}]', EncodingError, "a.json`: not UTF-8"),
        (b'{"foo": 1}', ShapeError, "no trace format has the columns `foo`; name the column of"),
        (b"{}", ShapeError, "no trace format has the columns of an empty object"),
        (b"[" + b" " * 2000 + b"]", SizeLimitError, "a document of more than 1000 bytes; raise DEMUR_MAX_DOCUMENT"),
    ],
)
def test_documents_that_are_no_run(tmp_path: Path, data: bytes, error: type[InputError], says: str) -> None:
    """A JSON document that holds no records is named with what was expected."""
    with pytest.raises(error, match=says):
        sniff(source_of(tmp_path / "a.json", data), InputLimits(document_bytes=1000))


def test_csv_rows_have_their_first_line(tmp_path: Path) -> None:
    """A row is known by the line that it begins at; empty cells are null; ragged and unreadable rows are errors in place."""
    data = b'\xef\xbb\xbf id , response\r\n1,"two\nlines"\r\n2,\r\n3\r\n\r\n4,\xe9t\xe9\r\n5,""\r\n'
    assert outline(source_of(tmp_path / "a.csv", data)) == [
        (2, {"id": "1", "response": "two\nlines"}),
        (4, {"id": "2", "response": None}),
        (5, ShapeError),
        (7, EncodingError),
        (8, {"id": "5", "response": None}),
    ]


def test_a_long_cell_is_read(tmp_path: Path) -> None:
    """A cell may be as long as a line."""
    text = "word " * 60_000
    source = source_of(tmp_path / "a.csv", f"id,response\n1,{text}\n".encode())
    assert outline(source) == [(2, {"id": "1", "response": text})]
    with pytest.raises(SizeLimitError, match=r"a.csv` line 2: a line of more than 1000 bytes"):
        outline(source, InputLimits(line_bytes=1000))


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b'id,response\n1,a\n2,"open\n3,b\n', InputError, r"a.csv` line 3: not CSV \(unexpected end of data\); close"),
        (b'id,response\n1,"a"b\n', InputError, r"a.csv` line 2: not CSV"),
        (b"id,response,id\n1,a,2\n", ShapeError, "a.csv` line 1: two columns are called `id`"),
        (b"id,response\n", EmptyInputError, "a.csv`: no records in it"),
        (b"id,said\n1,a\n", ShapeError, "a.csv`: no trace format has the columns `id`, `said`; .*--response-field"),
        (b"id,response\n1,\xff\n", EncodingError, "a.csv` line 2: not UTF-8; convert it: iconv"),
    ],
)
def test_tables_that_are_no_run(tmp_path: Path, data: bytes, error: type[InputError], says: str) -> None:
    """A CSV that cannot be read is named with the line and what to do."""
    source = source_of(tmp_path / "a.csv", data)
    with pytest.raises(error, match=says):
        list(read_records(source, LIMITS)) if sniff(source, LIMITS) else None


def test_parquet_rows_are_objects(tmp_path: Path) -> None:
    """Rows keep their types and are known by their number; a file that was cut is an error."""
    path = tmp_path / "a.parquet"
    rows = [{"id": i, "response": "x", "tags": {"a": "b"}} for i in range(3000)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert outline(source_of(path)) == list(enumerate(rows, 1))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"a.parquet`: not a whole Parquet file \(.*; copy it again"):
        sniff(source_of(path), LIMITS)


def zipped(path: Path, entries: dict[str, bytes]) -> Source:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return source_of(path)


def zipped_by_zstd(path: Path, name: str, data: bytes) -> Source:
    """Write an archive of one entry whose method is 93, after APPNOTE 4.3 and 4.4.5."""
    packed, label = zstd(data), name.encode()
    sizes = struct.pack("<IIIHH", zlib.crc32(data), len(packed), len(data), len(label), 0)
    fixed = struct.pack("<HHHHH", 63, 0, 93, 0, 33)
    entry = b"PK\x03\x04" + fixed + sizes + label + packed
    listing = b"PK\x01\x02" + struct.pack("<H", 63) + fixed + sizes + struct.pack("<HHHII", 0, 0, 0, 0, 0) + label
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listing), len(entry), 0)
    return source_of(path, entry + listing + end)


def test_archives_give_header_and_samples(tmp_path: Path) -> None:
    """The header comes first, then the samples in order; an entry that is no JSON is an error in its place."""
    entries = {"samples/b.json": b'{"b": 1}', "samples/a.json": b"{", "header.json": b'{"h": 1}', "x.txt": b"?"}
    assert outline(zipped(tmp_path / "a.eval", entries)) == [(None, {"h": 1}), (None, JsonError), (None, {"b": 1})]


def test_entries_packed_by_zstandard_are_read(tmp_path: Path) -> None:
    """Inspect packs its logs by Zstandard; a byte that was changed is found, and the limit holds."""
    source = zipped_by_zstd(tmp_path / "a.eval", "samples/a.json", b'{"a": 1}')
    assert outline(source) == [(None, {"a": 1})]
    assert outline(source, InputLimits(document_bytes=7)) == [(None, SizeLimitError)]
    data = source.path.read_bytes()
    source.path.write_bytes(data.replace(zlib.crc32(b'{"a": 1}').to_bytes(4, "little"), b"\0\0\0\0"))
    with pytest.raises(InputError, match=r"a.eval`: not a whole zip \(bad crc of samples/a.json\)"):
        outline(source)


def test_archives_that_are_no_logs(tmp_path: Path) -> None:
    """Another zip, a cut one and one with damaged entries are named."""
    with pytest.raises(ShapeError, match=r"a.zip`: a zip without samples; expected an Inspect .eval log"):
        outline(zipped(tmp_path / "a.zip", {"a.txt": b"hello"}))
    whole = zipped(tmp_path / "b.eval", {"samples/a.json": json.dumps({"a": "b" * 500}).encode()})
    data = whole.path.read_bytes()
    for damaged in (data[:-30], data[:46] + b"\xff" * 8 + data[54:]):
        with pytest.raises(InputError, match=r"c.eval`: not a whole zip \(.*; copy it again"):
            outline(source_of(tmp_path / "c.eval", damaged))


def test_a_bad_first_row_hides_no_format(tmp_path: Path) -> None:
    """The format is that of the first row that can be read; where none can, the first error is raised."""
    good = source_of(tmp_path / "a.jsonl", b'{\n{"x": 1}\n{"response": "a"}\n')
    assert sniff(good, LIMITS) == "flat"
    with pytest.raises(JsonError, match=r"b.jsonl` line 2: not JSON"):
        sniff(source_of(tmp_path / "b.jsonl", b"\n{\n[\n"), LIMITS)
