"""Files, folders, globs and pipes: what is found, and what is said of what is not."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.runs.run_files import gzipped, json_lines, questions, zstd

from demur.errors import EmptyInputError, EncodingError, InputError
from demur.io.sources import Kind, find_sources, head_of, open_bytes

LINES = b'{"response": "a"}\n{"response": "b"}\n'


@pytest.mark.parametrize(
    ("name", "data", "kind", "delimiter"),
    [
        *((name, LINES, Kind.LINES, ",") for name in ("a.jsonl", "a", "a.json")),
        ("a.agentlog", LINES[:18], Kind.LINES, ","),
        ("a.json", b'{\n "response": "a"\n}\n', Kind.DOCUMENT, ","),
        ("a.json", LINES[:18], Kind.DOCUMENT, ","),
        ("a.json", b" [1]", Kind.DOCUMENT, ","),
        ("a.json", b"42", Kind.DOCUMENT, ","),
        ("a.txt", b"[{}]", Kind.DOCUMENT, ","),
        ("a.csv", b"response\nx\n", Kind.CSV, ","),
        ("a.tsv", b"response\tid\nx\t1\n", Kind.CSV, "\t"),
        ("a", b"id,response\n1,x\n", Kind.CSV, ","),
        ("a", b"id\tresponse\n1\tx\n", Kind.CSV, "\t"),
        ("a.jsonl.gz", gzipped(LINES), Kind.LINES, ","),
        ("a.csv.zst", zstd(b"id,response\n"), Kind.CSV, ","),
        ("a.jsonl", gzipped(LINES), Kind.LINES, ","),
        ("a.eval", b"PK\x03\x04cut", Kind.ARCHIVE, ","),
        ("a.jsonl", b"PAR1cut", Kind.PARQUET, ","),
        ("a", b'{"response": \n{"response": "b"}\n', Kind.LINES, ","),
    ],
)
def test_layouts_are_known_by_name_or_by_how_they_start(
    tmp_path: Path, name: str, data: bytes, kind: Kind, delimiter: str
) -> None:
    """What a name does not say the first bytes do; compressed bytes are known by their mark."""
    path = tmp_path / name
    path.write_bytes(data)
    (source,) = find_sources([str(path)], tmp_path)
    assert (source.kind, source.delimiter, source.size_bytes) == (kind, delimiter, len(data))


def test_bytes_come_unpacked(tmp_path: Path) -> None:
    """Plain, gzip of several members and Zstandard give the same bytes; a mark at the start is no content."""
    packed = {"a": LINES, "b.gz": gzipped(LINES[:9]) + gzipped(LINES[9:]), "c.zst": zstd(LINES)}
    for name, data in packed.items():
        (tmp_path / name).write_bytes(data)
        (source,) = find_sources([str(tmp_path / name)], tmp_path)
        with open_bytes(source) as stream:
            assert stream.read() == LINES
    (tmp_path / "d.jsonl").write_bytes(b"\xef\xbb\xbf" + LINES)
    assert head_of(find_sources([str(tmp_path / "d.jsonl")], tmp_path)[0]) == LINES


def test_a_folder_is_read_in_order(tmp_path: Path) -> None:
    """A folder gives its traces by name, those below it included, hidden ones and others left out, each once."""
    for name in ("b.jsonl", "a/z.jsonl", "a/.x.jsonl", ".git/c.jsonl", "notes.txt", "c.JSONL"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(LINES)
    named = [str(tmp_path), str(tmp_path / "b.jsonl"), f"{tmp_path}/*.jsonl"]
    found = [source.path.relative_to(tmp_path).as_posix() for source in find_sources(named, tmp_path)]
    assert found == ["a/z.jsonl", "b.jsonl", "c.JSONL"]


def test_a_name_that_looks_like_a_pattern_is_a_name_first(tmp_path: Path) -> None:
    """A file with brackets in its name is that file."""
    (tmp_path / "a[1].jsonl").write_bytes(LINES)
    (tmp_path / "a1.jsonl").write_bytes(LINES)
    (source,) = find_sources([str(tmp_path / "a[1].jsonl")], tmp_path)
    assert source.path.name == "a[1].jsonl"


@pytest.mark.posix(reason="a named pipe")
def test_a_pipe_is_copied_whole(tmp_path: Path) -> None:
    """What can be read only once is copied first, so that its first bytes are not lost on the look at them."""
    pipe, spool = tmp_path / "pipe", tmp_path / "spool"
    spool.mkdir()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(LINES,))
    writer.start()
    (source,) = find_sources([str(pipe)], spool)
    writer.join()
    assert (source.name, source.path.parent) == (str(pipe), spool)
    for _ in range(2):
        with open_bytes(source) as stream:
            assert stream.read() == LINES


@pytest.mark.parametrize(
    ("name", "data", "error", "says"),
    [
        ("gone.jsonl", None, InputError, "gone.jsonl`: no such file or directory; check the path"),
        ("*.jsonl", None, EmptyInputError, "no file matches; check the pattern"),
        ("folder", None, EmptyInputError, "no traces in this folder; expected files ending in .agentlog"),
        ("a.jsonl", b"", EmptyInputError, "a.jsonl`: nothing in it"),
        ("a.jsonl", b" \n\n", EmptyInputError, "nothing in it"),
        ("a.jsonl", '{"response": "a"}'.encode("utf-16"), EncodingError, "not UTF-8 but UTF-16; convert it: iconv"),
        ("a.txt", b"hello there", InputError, "neither JSON, CSV nor Parquet; a run is .jsonl"),
        ("a.gz", gzipped(LINES)[:-9], InputError, "a.gz`: gzip: truncated .*; the file is damaged or was cut"),
        ("a.gz", gzipped(LINES) + b"tail", InputError, "a.gz`: gzip: .*; the file is damaged"),
        ("a.zst", zstd(LINES)[:-9], InputError, "a.zst`: zstd: truncated .*; the file is damaged or was cut"),
        ("a.zst", zstd(LINES) + b"tail", InputError, "a.zst`: zstd: .*; the file is damaged"),
        ("a.gz", b"\x1f\x8bjunk", InputError, "a.gz`: gzip: "),
    ],
)
def test_what_is_not_there_or_damaged_is_named(
    tmp_path: Path, name: str, data: bytes | None, error: type[InputError], says: str
) -> None:
    """Every source that cannot be read is an error that names it and says what to do."""
    (tmp_path / "folder").mkdir()
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(error, match=says):
        find_sources([str(tmp_path / name)], tmp_path)
    with pytest.raises(EmptyInputError, match="no files to read"):
        find_sources([], tmp_path)


@pytest.mark.posix(reason="permissions of folders")
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_an_error(tmp_path: Path) -> None:
    """A folder that cannot be listed is named, also below one that can: its files are not left out in silence."""
    json_lines(tmp_path / "a.jsonl", questions(1, ()))
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        for name in (closed, tmp_path):
            with pytest.raises(InputError, match=r"closed`: permission denied"):
                find_sources([str(name)], tmp_path)
    finally:
        closed.chmod(0o700)
