"""Verdicts on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.runs.run_files import csv_text, json_lines, questions

from demur.errors import EmptyInputError, UsageError
from demur.runs.api import compare, scan
from demur.runs.outputs import verdict_file

BASE, CAND = questions(5, [0]), questions(5, [1])


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
        return rows
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ["parquet", "jsonl", "ndjson"])
def test_every_pair_is_written(tmp_path: Path, ending: str) -> None:
    """A row a pair, with what came out on each side and where it stands; unmatched rows have one side; texts are not in it."""
    b, c = json_lines(tmp_path / "b.jsonl", BASE), tmp_path / "c.csv"
    c.write_text(csv_text(CAND[::-1][:4]))
    out = tmp_path / f"pairs.{ending}"
    compare(b, c, out=out)
    rows = read(out)
    assert [row["key"] for row in rows] == ["q0", "q1", "q2", "q3", "q4"]
    first, second = rows[0], rows[1]
    assert (first["baseline_outcome"], first["candidate_outcome"], first["candidate_row"]) == ("refused", None, None)
    assert (second["baseline_outcome"], second["candidate_outcome"]) == ("complied", "refused")
    assert (second["baseline_source"], second["baseline_line"], second["baseline_row"]) == (str(b), 2, 2)
    assert (second["candidate_source"], second["candidate_line"], second["candidate_row"]) == (str(c), None, 4)
    assert "Paris" not in str(rows)
    assert "question" not in str(rows)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_every_verdict_is_written(tmp_path: Path, ending: str) -> None:
    """A row an exchange over all runs, with its fields; a field called like a column of ours stands beside it."""
    rows = [{**row, "outcome": "mine"} for row in BASE]
    b, c = json_lines(tmp_path / "b.jsonl", rows), json_lines(tmp_path / "c.jsonl", CAND)
    out = tmp_path / f"verdicts.{ending}"
    scan(b, c, by=["category", "outcome"], out=out)
    found = read(out)
    assert [(row["run"], row["line"], row["row"], row["id"]) for row in found] == [
        (str(path), i + 1, i + 1, f"q{i}") for path in (b, c) for i in range(5)
    ]
    assert [row["outcome"] for row in found[:2]] == ["refused", "complied"]
    assert [row["field_outcome"] for row in found] == ["mine"] * 5 + [None] * 5
    assert [row["category"] for row in found[:3]] == ["a", "b", "a"]


def test_a_name_without_a_format_is_refused(tmp_path: Path) -> None:
    """The ending says how to write; a folder that is not there is said."""
    with pytest.raises(UsageError, match=r"`x.txt` names no format; end it in .jsonl or .ndjson or .parquet"):
        verdict_file(Path("x.txt"))
    with pytest.raises(UsageError, match="cannot be written; check the folder"):
        compare(BASE, CAND, out=tmp_path / "gone" / "x.parquet")


def test_nothing_is_written_of_what_was_not_compared(tmp_path: Path) -> None:
    """Where there is nothing to compare there is no file either."""
    failed = [{**row, "response": None} for row in CAND]
    with pytest.raises(EmptyInputError, match="no pair was judged"):
        compare(BASE, failed, out=tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []
