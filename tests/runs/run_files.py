"""Runs for tests: rows of questions, written in every layout that a run can have."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NO = "I'm sorry, but I can't help with that."
YES = "Paris is the capital of France."

Row = dict[str, Any]


class Heard:
    """Hears how far the reading came."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def start(self, name: str, size_bytes: int) -> None:
        """Take note of another run."""
        self.told.append((name, size_bytes))

    def read(self, size_bytes: int) -> None:
        """Take note of bytes read."""
        self.told.append(("read", size_bytes))

    def rows(self, count: int) -> None:
        """Take note of rows judged."""
        self.told.append(("rows", count))

    def total(self, what: str) -> int:
        """Return the sum of what was told under a name."""
        return sum(number for name, number in self.told if name == what)


def questions(count: int, refused: Iterable[int], **extra: Any) -> list[Row]:
    """Return rows of which some are refused, in two categories."""
    said = set(refused)
    return [
        {
            "id": f"q{i}",
            "prompt": f"question {i}",
            "response": NO if i in said else f"{YES} ({i})",
            "category": "ab"[i % 2],
            **extra,
        }
        for i in range(count)
    ]


def json_lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def csv_text(rows: Sequence[Row], delimiter: str = ",") -> str:
    """Return rows as CSV, with the columns of the first."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def gzipped(data: bytes) -> bytes:
    """Return bytes packed by gzip, without the time of packing: it would make test ids differ between workers."""
    return gzip.compress(data, mtime=0)


def zstd(data: bytes) -> bytes:
    """Return bytes packed by Zstandard."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


def layouts(folder: Path, rows: Sequence[Row]) -> dict[str, Path]:
    """Write the same rows in every layout that flat rows have."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    files = {
        "jsonl": ("run.jsonl", lines),
        "crlf": ("crlf.jsonl", lines.replace(b"\n", b"\r\n")),
        "bom": ("bom.jsonl", b"\xef\xbb\xbf" + lines),
        "no last newline": ("open.jsonl", lines.rstrip()),
        "blank lines": ("blank.jsonl", lines.replace(b"\n", b"\n\n")),
        "gzip": ("run.jsonl.gz", gzipped(lines)),
        "two gzips": ("two.jsonl.gz", gzipped(lines[:100]) + gzipped(lines[100:])),
        "gzip without a name for it": ("run.log", gzipped(lines)),
        "zstd": ("run.jsonl.zst", zstd(lines)),
        "array": ("run.json", json.dumps(rows, indent=1).encode()),
        "csv": ("run.csv", csv_text(rows).encode()),
        "csv with a mark": ("marked.csv", b"\xef\xbb\xbf" + csv_text(rows).encode()),
        "csv gzip": ("packed.csv.gz", gzipped(csv_text(rows).encode())),
        "csv zstd": ("packed.csv.zst", zstd(csv_text(rows).encode())),
        "tsv": ("run.tsv", csv_text(rows, "\t").encode()),
        "csv that is no pattern": ("[a]*?.csv", csv_text(rows).encode()),
    }
    found = {}
    for layout, (name, data) in files.items():
        found[layout] = folder / name
        found[layout].write_bytes(data)
    found["parquet"] = folder / "run.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), found["parquet"])
    found["hive"] = folder / "category=z" / "run.parquet"
    found["hive"].parent.mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows)), found["hive"])
    return found
