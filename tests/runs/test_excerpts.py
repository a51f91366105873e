"""Rows read again are the rows that were judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.runs.run_files import json_lines, layouts, questions

from demur.io.config import InputLimits
from demur.runs.engine import open_engine
from demur.runs.excerpts import field_names, read_excerpts
from demur.runs.ingest import Ingest

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = InputLimits()
LAYOUTS = ("jsonl", "blank lines", "gzip", "zstd", "array", "csv", "csv gzip", "tsv", "parquet")


@pytest.mark.heavy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_place_gives_its_own_exchange(tmp_path: Path, layout: str) -> None:
    """Whichever rows are asked for, in whichever order, each comes back with its id, its text and its line."""
    rows = questions(30, range(5))
    path = layouts(tmp_path, rows)[layout]
    with open_engine() as engine:
        run = engine.load("run", [str(path)], name="run", port=Ingest(), limits=LIMITS)
        found = read_excerpts(engine, run, [29, 0, 7, 7], limits=LIMITS)
        assert read_excerpts(engine, run, [], limits=LIMITS) == {}
        assert field_names(run, limits=LIMITS) == ("category",)
    assert sorted(found) == [0, 7, 29]
    for place, (source, line, traced) in found.items():
        response = traced.exchange.response
        assert response is not None
        assert (traced.exchange.id, response.choices[0].text) == (f"q{place}", rows[place]["response"])
        assert source == str(path)
        step, first = (2, 1) if layout == "blank lines" else (1, 2 if "csv" in layout or layout == "tsv" else 1)
        assert line == place * step + first


def test_rows_are_found_beyond_bad_ones_and_in_later_files(tmp_path: Path) -> None:
    """Skipped and unreadable rows before a row, and files before its own, do not shift it."""
    rows = questions(6, ())
    first = json_lines(tmp_path / "1.jsonl", [rows[0], {"response": 5}, {"x": 1}, rows[1]])
    first.write_text(first.read_text() + "{\n")
    second = json_lines(tmp_path / "2.jsonl", [{"response": 5}, rows[2], 7, rows[3]])
    third = tmp_path / "3.csv"
    third.write_text("id,response,category\n9\nq4,hello,b\n\nq5,there,b\n")
    names = [str(first), str(second), str(third)]
    with open_engine() as engine:
        run = engine.load("run", names, name="run", port=Ingest(), limits=LIMITS)
        found = read_excerpts(engine, run, range(6), limits=LIMITS)
    assert [(found[i][2].exchange.id, found[i][1]) for i in range(6)] == [
        ("q0", 1),
        ("q1", 4),
        ("q2", 2),
        ("q3", 4),
        ("q4", 3),
        ("q5", 5),
    ]
    assert (run.unreadable, dict(run.skipped)) == (4, {"a row whose answer is no text": 2})
