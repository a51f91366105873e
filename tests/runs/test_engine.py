"""The engine: what is in its tables, and what is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.formats.examples import chat
from tests.runs.run_files import Heard, csv_text, json_lines, layouts, questions

from demur.errors import EmptyInputError, InputError, ShapeError, UsageError
from demur.io.files import InputLimits
from demur.runs.engine import Workers, open_engine
from demur.runs.ingest import Ingest

LIMITS = InputLimits()
LAYOUTS = ("jsonl", "blank lines", "gzip", "zstd", "array", "csv", "csv gzip", "tsv", "parquet")
PORT = Ingest(fields=("category",))


@pytest.mark.parametrize("layout", ["jsonl", "csv", "parquet", "array", "gzip"])
def test_texts_are_in_no_table_and_no_file(tmp_path: Path, layout: str) -> None:
    """Neither the tables nor the engine's folder hold what was asked and answered."""
    rows = [{**row, "prompt": f"a zanzibar question {i}"} for i, row in enumerate(questions(50, [1]))]
    path = layouts(tmp_path, rows)[layout]
    with open_engine() as engine:
        engine.load("run", [str(path)], name="run", port=PORT, limits=LIMITS)
        dump = str(engine.ask("SELECT * FROM run"))
        engine.ask("CHECKPOINT")
        stored = b"".join(file.read_bytes() for file in engine.folder.rglob("*") if file.is_file())
        folder = engine.folder
    assert "q49" in dump
    for word in ("zanzibar", "Paris", "sorry"):
        assert word not in dump
        assert word.encode() not in stored
    assert not folder.exists()


def test_rows_are_in_the_order_of_their_files(tmp_path: Path) -> None:
    """A row's place, its source and where each source starts are kept."""
    first = json_lines(tmp_path / "1.jsonl", questions(3, ()))
    second = tmp_path / "2.csv"
    second.write_text(csv_text(questions(4, ())))
    with open_engine() as engine:
        run = engine.load("run", [str(first), str(second)], name="run", port=PORT, limits=LIMITS)
        rows = engine.ask("SELECT rowid, source, line, id FROM run ORDER BY rowid")
    assert (run.starts, run.rows, run.format) == ((0, 3), 7, "flat")
    assert rows[:4] == [(0, 0, 1, "q0"), (1, 0, 2, "q1"), (2, 0, 3, "q2"), (3, 1, None, "q0")]
    assert [name for *_, name in rows[3:]] == ["q0", "q1", "q2", "q3"]


def test_a_run_has_one_format(tmp_path: Path) -> None:
    """Two formats in a folder are an error that names a file of each; a format that is named is taken."""
    json_lines(tmp_path / "a.jsonl", questions(2, ()))
    json_lines(tmp_path / "b.jsonl", [chat("x")])
    with open_engine() as engine:
        other = r"b.jsonl`: in format openai-chat, but .*a.jsonl` is in format flat; a run"
        with pytest.raises(ShapeError, match=other):
            engine.load("run", [str(tmp_path)], name="run", port=PORT, limits=LIMITS)
        with pytest.raises(UsageError, match="unknown trace format `falt`; did you mean `flat`"):
            engine.load("run", [str(tmp_path)], name="run", port=PORT, limits=LIMITS, format_name="falt")
        found = engine.load("run", [str(tmp_path)], name="run", port=PORT, limits=LIMITS, format_name="flat")
        assert (found.rows, found.unreadable) == (2, 1)


def test_a_run_without_exchanges_says_why(tmp_path: Path) -> None:
    """Rows that are all skipped are no run, and the reasons are counted."""
    embedded = {
        "custom_id": "q",
        "response": {"status_code": 200, "body": {"object": "list", "data": []}},
        "error": None,
    }
    path = json_lines(tmp_path / "a.jsonl", [embedded] * 2)
    with (
        open_engine() as engine,
        pytest.raises(EmptyInputError, match=r"no exchanges \(2 rows skipped: a batch answer"),
    ):
        engine.load("run", [str(path)], name="run", port=PORT, limits=LIMITS)


def test_progress_is_told(tmp_path: Path) -> None:
    """Lines are told by their bytes, tables and documents by their rows."""
    written = layouts(tmp_path, questions(30, ()))
    size = written["jsonl"].stat().st_size
    for layout, read, rows in (("jsonl", size, 0), ("csv", 0, 30), ("array", 0, 30)):
        heard = Heard()
        with open_engine() as engine:
            engine.load("run", [str(written[layout])], name="r", port=PORT, limits=LIMITS, progress=heard)
        assert heard.told[0] == ("run", written[layout].stat().st_size)
        assert [heard.total(what) for what in ("run", "read", "rows")] == [written[layout].stat().st_size, read, rows]


@pytest.mark.heavy
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_place_gives_its_own_exchange(tmp_path: Path, layout: str) -> None:
    """Whichever rows are asked for, in whichever order, each comes back with its id, its text and its line."""
    rows = questions(30, range(5))
    path = layouts(tmp_path, rows)[layout]
    with open_engine() as engine:
        run = engine.load("run", [str(path)], name="run", port=Ingest(), limits=LIMITS)
        found = engine.excerpts(run, [29, 0, 7, 7])
        assert engine.excerpts(run, []) == {}
        assert engine.field_names(run) == ("category",)
    assert sorted(found) == [0, 7, 29]
    for place, (source, line, traced) in found.items():
        response = traced.exchange.response
        assert response is not None
        assert (traced.exchange.id, response.choices[0].text) == (f"q{place}", rows[place]["response"])
        assert source == str(path)
        step, first = (2, 1) if layout == "blank lines" else (1, 2 if "csv" in layout or layout == "tsv" else 1)
        assert line == place * step + first


def test_rows_are_found_beyond_bad_ones_and_in_later_files(tmp_path: Path) -> None:
    """Unreadable rows before a row, and files before its own, do not shift it."""
    rows = questions(6, ())
    first = json_lines(tmp_path / "1.jsonl", [rows[0], {"y": 5}, {"x": 1}, rows[1]])
    first.write_text(first.read_text() + "{\n")
    second = json_lines(tmp_path / "2.jsonl", [{"y": 5}, rows[2], 7, rows[3]])
    third = tmp_path / "3.csv"
    third.write_text("id,response,category\n9\nq4,hello,b\n\nq5,there,b\n")
    names = [str(first), str(second), str(third)]
    with open_engine() as engine:
        run = engine.load("run", names, name="run", port=Ingest(), limits=LIMITS)
        found = engine.excerpts(run, range(6))
    assert [found[i][2].exchange.id for i in range(6)] == [f"q{i}" for i in range(6)]
    assert [found[i][1] for i in range(6)] == [1, 4, 2, 4, 3, 5]
    assert (run.unreadable, dict(run.skipped)) == (6, {})


def test_one_process_is_this_one() -> None:
    """A single worker needs no other process, and reads its work as it goes."""
    workers = Workers(1)
    results = workers.ordered(lambda n: (os.getpid(), n), count())
    assert [next(results), next(results)] == [(os.getpid(), 0), (os.getpid(), 1)]
    assert workers.call(str, 5) == "5"
    assert Workers(0).count == 1


def test_several_processes_keep_the_order_and_the_bound() -> None:
    """Results come in order, and only a few pieces of work are taken ahead of them; faults come through."""
    workers = Workers(1)
    workers.grow(2)
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    try:
        results = workers.ordered(abs, pieces())
        assert next(results) == 0
        assert len(taken) <= 5
        assert list(results) == list(range(1, 40))
        assert workers.call(os.getpid) != os.getpid()
        workers.grow(8)
        assert workers.count == 2
        with pytest.raises(ValueError, match="invalid literal"):
            workers.call(int, "x")
    finally:
        workers.close()


def test_a_process_that_dies_is_said() -> None:
    """A worker that was lost is an error of one line, not a wait without end."""
    workers = Workers(2)
    try:
        with pytest.raises(InputError, match=r"a worker process was lost; .*--jobs 1"):
            workers.call(os._exit, 1)
    finally:
        workers.close()
