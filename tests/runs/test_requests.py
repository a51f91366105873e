"""Inputs of batches joined to their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runs.run_files import YES, json_lines

from demur.errors import EmptyInputError, InputError
from demur.io.config import InputLimits
from demur.runs.engine import open_engine
from demur.runs.ingest import Ingest, key_of_prompt
from demur.runs.requests import join_requests, prompts_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demur.runs.engine import Engine

LIMITS = InputLimits()


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
    join_requests(engine, run, names, limits=LIMITS, key=key_of_prompt)
    found = engine.ask("SELECT prompt FROM run ORDER BY rowid")
    assert [prompt for (prompt,) in found] == [key_of_prompt("question a"), key_of_prompt("own"), None]
    assert prompts_of(engine, names, {"a", "z", "gone"}, limits=LIMITS) == {"a": "question a", "z": "question z"}
    assert prompts_of(engine, [], {"a"}, limits=LIMITS) == {}
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
        join_requests(engine, run, [str(json_lines(tmp_path / "in.jsonl", rows))], limits=LIMITS, key=key_of_prompt)
