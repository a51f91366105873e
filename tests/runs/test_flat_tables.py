"""Tables read by DuckDB against the exact reader."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runs.run_files import NO, YES, questions

from demur.errors import InputError, UsageError
from demur.io.files import InputLimits
from demur.io.records import read_records
from demur.io.sources import find_sources
from demur.model.columns import NO_COLUMNS, Columns
from demur.runs.engine import Engine, open_engine
from demur.runs.flat_tables import flat_table
from demur.runs.ingest import Ingest

FIELDS = ("category", "language", "model", "task", "day", "label", "id", "metadata.category")
COLUMNS = (
    *("prompt", "question", "input", "output", "text", "id", "custom_id", "session_id", "conversation_id"),
    *("finish_reason", "stop_reason", "done_reason", "error", "refusal", "is_refusal", "label", "messages"),
    *("model", "model_name", "category", "Category", "lang", "language", "task", "day", "timestamp", "metadata", "v"),
)
ODD = ("", " ", "a,b", 'q"q', "two\nlines", "x" * 201, "true", "0", "nan", "2024-01-31")
TEXTS = st.sampled_from([*ODD, NO, YES, "stop", "content_filter"])
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "whole": st.integers(-5, 2**40),
    "truth": st.booleans(),
    "fraction": st.floats(allow_nan=False, width=32),
    "list": st.lists(st.sampled_from(["a", "b"]), max_size=2),
    "object": st.fixed_dictionaries({"category": TEXTS, "model": TEXTS}),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine() as opened:
        yield opened


@st.composite
def tables(draw: st.DrawFn, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
    """Draw a table with a response and some other columns, each of one kind, with nulls."""
    names = draw(st.lists(st.sampled_from(COLUMNS), max_size=6, unique=True))
    height = draw(st.integers(1, 4))
    table: dict[str, list[Any]] = {"response": draw(st.lists(TEXTS | st.none(), min_size=height, max_size=height))}
    for name in names:
        cells = CELLS[draw(st.sampled_from(kinds))] | st.none()
        table[name] = draw(st.lists(cells, min_size=height, max_size=height))
    return table


def bare(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without its line, which DuckDB does not know; an empty key is none."""
    return {**row, "line": None, "id": row["id"] or None, "session": row["session"] or None}


COLUMN = st.none() | st.sampled_from(["response", "v", "metadata.category", *COLUMNS])
NAMED = st.just(NO_COLUMNS) | st.builds(Columns, st.sampled_from(["response", "output", "v"]), COLUMN, COLUMN, COLUMN)


def assert_the_same(engine: Engine, path: Path, columns: Columns = NO_COLUMNS) -> bool:
    """Compare what the engine loads with what the exact reader gives; return whether DuckDB read it."""
    (source,) = find_sources([str(path)], engine.folder)
    port = Ingest(fields=FIELDS, named_columns=columns)
    exact = list(port.records(read_records(source, InputLimits())))
    rows = [bare(row) for judged in exact for row in judged.rows.to_pylist()]
    if not rows or any(judged.errors for judged in exact):
        return False
    try:
        columns.check_records(record for _, record in read_records(source, InputLimits()))
    except UsageError:
        # No row has the column: the engine says so before it reads.
        return False
    loaded = engine.load("run", [str(path)], name="run", port=port, limits=InputLimits(), format_name="flat")
    try:
        names = port.schema().names
        found = [dict(zip(names, row[1:], strict=True)) for row in engine.ask("SELECT * FROM run ORDER BY rowid")]
    finally:
        engine.ask("DROP TABLE run")
    assert list(map(bare, found)) == rows
    assert loaded.rows == len(rows)
    return flat_table(source, FIELDS, columns) is not None


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(tables(("text",) * 4 + tuple(CELLS)), NAMED)
def test_parquet_is_read_as_the_exact_reader_reads_it(
    engine: Engine, tmp_path: Path, table: dict[str, list[Any]], columns: Columns
) -> None:
    """Whatever columns a Parquet file has, and of whatever types, the rows in the engine are the exact reader's."""
    path = tmp_path / "run.parquet"
    table["response"][0] = YES
    pq.write_table(pa.table(table), path)
    assert_the_same(engine, path, columns)


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(tables(("text",)), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.sampled_from(["\n", "\r\n"]), NAMED)
def test_csv_is_read_as_the_exact_reader_reads_it(
    engine: Engine, tmp_path: Path, table: dict[str, list[Any]], quoting: Any, newline: str, columns: Columns
) -> None:
    """Whatever columns a CSV has, quoted or not, the rows in the engine are the exact reader's."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=quoting, lineterminator=newline)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    path = tmp_path / "run.csv"
    path.write_bytes(out.getvalue().encode())
    assert_the_same(engine, path, columns)


def test_plain_tables_go_by_duckdb(engine: Engine, tmp_path: Path) -> None:
    """The tables that most people have are read by DuckDB, and no other way."""
    path = tmp_path / "run.parquet"
    plain = questions(9, [1], finish_reason="stop", error=None, model="m")
    rows = [{**row, "id": i} for i, row in enumerate(plain)]
    schema = pa.Table.from_pylist(rows).schema
    error = schema.get_field_index("error")
    pq.write_table(pa.Table.from_pylist(rows, schema.set(error, pa.field("error", pa.string()))), path)
    assert not assert_the_same(engine, path.rename(tmp_path / "[run].parquet"))
    assert assert_the_same(engine, (tmp_path / "[run].parquet").rename(path))
    path = tmp_path / "run.csv"
    path.write_text("id,prompt,response,category\n1,a,b,c\n\n2,d,,e\n")
    assert assert_the_same(engine, path)
    path.write_text("uid,q,out.answr,talk,text\n1,a,b,c,d\n2,d,,e,f\n")
    assert assert_the_same(engine, path, Columns("out.answr", "q", "uid", "talk"))


@pytest.mark.parametrize("line", ["3,c", "3,c,d,e", "3,\xff,e"])
def test_what_duckdb_cannot_read_is_left_to_the_exact_reader(engine: Engine, tmp_path: Path, line: str) -> None:
    """A faulty row is no row less: nothing of the table stays but what the exact reader gives."""
    path = tmp_path / "run.csv"
    many = "".join(f"{i},{YES},x\n" for i in range(5000))
    path.write_bytes(f"id,response,category\n{many}{line}\n".encode("latin-1"))
    (source,) = find_sources([str(path)], engine.folder)
    assert flat_table(source, ()) is not None
    loaded = engine.load("run", [str(path)], name="run", port=Ingest(), limits=InputLimits())
    numbered = engine.ask("SELECT count(*), min(rowid), max(rowid), min(line), max(line) FROM run")
    engine.ask("DROP TABLE run")
    assert numbered == [(5000, 0, 4999, 2, 5001)]
    assert [error.line for error in loaded.errors] == [5002]


def test_an_open_quotation_is_an_error_of_the_file(engine: Engine, tmp_path: Path) -> None:
    """Where a cell never ends nobody knows what the rows after it were."""
    path = tmp_path / "open.csv"
    path.write_text('id,response\n1,a\n2,"b\n3,c\n')
    with pytest.raises(InputError, match=r"open.csv` line 3: not CSV"):
        engine.load("run", [str(path)], name="run", port=Ingest(), limits=InputLimits())
    engine.ask("DROP TABLE IF EXISTS run")
