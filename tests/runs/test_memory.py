"""Rows in memory as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openai.types.chat import ChatCompletion

from demur.errors import EmptyInputError, UsageError
from demur.runs.memory import spool_rows

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_of_every_kind_become_lines(tmp_path: Path) -> None:
    """Texts and nulls get their place for an id, dicts go in as they are, half characters included."""
    rows = ["hello", None, {"x": 1, "y": [float("nan")]}, "\ud800"]
    lines = [json.loads(line) for line in spool_rows(rows, tmp_path / "run").read_bytes().splitlines()]
    assert lines == [
        {"id": "1", "response": "hello"},
        {"id": "2", "response": None},
        {"x": 1, "y": [None]},
        {"id": "4", "response": "\ud800"},
    ]


def test_a_providers_object_is_a_row(tmp_path: Path) -> None:
    """An SDK's response is taken apart under its place."""
    said = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [said]}
    (line,) = spool_rows([ChatCompletion.model_validate(body)], tmp_path / "run").read_bytes().splitlines()
    assert json.loads(line)["id"] == "1"
    assert json.loads(line)["response"]["choices"][0]["message"]["content"] == "hi"


def test_tables_become_parquet(tmp_path: Path) -> None:
    """Arrow tables and batches keep their types."""
    table = pa.table({"id": [1, 2], "response": ["a", None]})
    for given in (table, table.to_batches()[0]):
        path = spool_rows(given, tmp_path / "run")
        assert (path.suffix, pq.read_table(path)) == (".parquet", table)


@pytest.mark.parametrize("nothing", [5, None, "text", b"bytes", {"response": "x"}])
def test_what_is_no_run_is_refused(tmp_path: Path, nothing: object) -> None:
    """A lone row, a text or a number is no run."""
    with pytest.raises(UsageError, match="neither a path nor rows; pass a path"):
        spool_rows(nothing, tmp_path / "run")


def test_empty_rows_and_rows_that_are_no_json(tmp_path: Path) -> None:
    """An empty run is an error, and so is a row that cannot be written, by its number."""
    with pytest.raises(EmptyInputError, match="no rows in the run"):
        spool_rows([], tmp_path / "run")
    with pytest.raises(UsageError, match=r"row 2 is no JSON \(.*; rows hold texts, numbers"):
        spool_rows(["a", {"x": object()}], tmp_path / "run")
