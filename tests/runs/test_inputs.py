"""What comes beside the files of a run: rows in memory, and the requests of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openai.types.chat import ChatCompletion
from tests.formats.examples import chat
from tests.runs.run_files import YES, json_lines, questions

from demur.errors import EmptyInputError, InputError, UsageError
from demur.io.files import InputLimits
from demur.runs.engine import Engine, open_engine
from demur.runs.ingest import Ingest, key_of_prompt
from demur.runs.inputs import prompts_of, spool_rows

LIMITS = InputLimits()
BASE, CAND = questions(6, [0]), questions(6, [1, 2])


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
    (line,) = spool_rows([ChatCompletion.model_validate(chat("hi"))], tmp_path / "run").read_bytes().splitlines()
    assert json.loads(line)["id"] == "1"
    assert json.loads(line)["response"]["choices"][0]["message"]["content"] == "hi"


def test_tables_become_parquet(tmp_path: Path) -> None:
    """Arrow tables and batches keep their types."""
    table = pa.table({"id": [1, 2], "response": ["a", None]})
    for given in (table, table.to_batches()[0]):
        path = spool_rows(given, tmp_path / "run")
        assert (path.suffix, pq.read_table(path)) == (".parquet", table)


def test_a_text_is_no_run_and_rows_are_counted_from_one(tmp_path: Path) -> None:
    """A lone text is no run, and a row that cannot be written is named by its number."""
    with pytest.raises(UsageError, match="neither a path nor rows; pass a path"):
        spool_rows("text", tmp_path / "run")
    with pytest.raises(UsageError, match=r"row 2 is no JSON"):
        spool_rows(["a", {"x": object()}], tmp_path / "run")


@pytest.fixture
def engine() -> Iterator[Engine]:
    with open_engine() as opened:
        yield opened


def sent(label: str, *, anthropic: bool = False) -> dict[str, Any]:
    asked = {"model": "m", "messages": [{"role": "user", "content": f"question {label}"}]}
    return {"custom_id": label, "params": asked} if anthropic else {"custom_id": label, "url": "/v1", "body": asked}


def test_rows_without_a_prompt_get_their_requests(engine: Engine, tmp_path: Path) -> None:
    """OpenAI's and Anthropic's inputs join by `custom_id`; a row's own prompt is kept, a row without a request stays bare."""
    rows = [{"id": "a", "response": YES}, {"id": "b", "response": YES, "prompt": "own"}, {"id": "c", "response": YES}]
    path = json_lines(tmp_path / "a.jsonl", rows)
    names = [
        str(json_lines(tmp_path / "in1.jsonl", [sent("a"), sent("b")])),
        str(json_lines(tmp_path / "in2.jsonl", [sent("z", anthropic=True)])),
    ]
    run = engine.load("run", [str(path)], name="run", port=Ingest(), limits=LIMITS)
    engine.join_requests(run, names, limits=LIMITS)
    found = engine.ask("SELECT prompt FROM run ORDER BY rowid")
    assert [prompt for (prompt,) in found] == [key_of_prompt("question a"), key_of_prompt("own"), None]
    assert prompts_of(names, tmp_path, {"a", "z", "gone"}, limits=LIMITS) == {"a": "question a", "z": "question z"}
    assert prompts_of([], tmp_path, {"a"}, limits=LIMITS) == {}
    assert "question" not in str(engine.ask("SELECT * FROM requests"))


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        ([{"custom_id": "a"}], InputError, "in.jsonl` line 1: no request of a batch; expected `custom_id` with `body`"),
        ([sent("a"), 5], InputError, "in.jsonl` line 2: expected a JSON object"),
        ([sent("other")], EmptyInputError, "in.jsonl`: no request is of a row in `run`; name the file that was sent"),
        ([{"custom_id": "a", "body": {"messages": 5}}], InputError, "in.jsonl` line 1"),
    ],
)
def test_other_files_are_refused(
    engine: Engine, tmp_path: Path, rows: list[Any], error: type[InputError], says: str
) -> None:
    """A file that is no batch's input, or another batch's, is named."""
    path = json_lines(tmp_path / "a.jsonl", [{"id": "a", "response": YES}])
    run = engine.load("run", [str(path)], name="run", port=Ingest(), limits=LIMITS)
    with pytest.raises(error, match=says):
        engine.join_requests(run, [str(json_lines(tmp_path / "in.jsonl", rows))], limits=LIMITS)
