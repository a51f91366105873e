"""Logs that Inspect itself wrote are read, in both of its formats."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.formats.example import ANSWER, QUESTION, REFUSAL

from demur.detect.check import classify
from demur.formats import inspect
from demur.model.run import Traced

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="needs inspect_ai"),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the two logs of one run."""
    folder = tmp_path_factory.mktemp("inspect")
    program = Path(__file__).with_name("inspect_run.py")
    command = [sys.executable, str(program), str(folder), QUESTION, ANSWER, REFUSAL]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=folder)  # noqa: S603 -- our own program
    return folder


def read_files(files: list[Path]) -> list[Traced]:
    """Return the exchanges in the records of one log."""
    records = [json.loads(file.read_bytes()) for file in files]
    assert all(inspect.sniffs(record) for record in records)
    reader = inspect.open_reader()
    return [row for record in records for row in reader.feed(record) if isinstance(row, Traced)]


@pytest.mark.parametrize("kind", ["a document", "an archive"])
def test_a_real_log_is_read(logs: Path, kind: str) -> None:
    """Each sample's id, prompt, fields and outcome are those of the run that Inspect logged."""
    members = [logs / "members" / "header.json", *(logs / "members" / "samples").glob("*.json")]
    rows = read_files(members if kind == "an archive" else list(logs.glob("*.json")))
    rows.sort(key=lambda row: row.exchange.id or "")
    assert [row.exchange.id for row in rows] == [f"s{i}" for i in range(6)]
    assert {row.exchange.request.prompt for row in rows if row.exchange.request} == {QUESTION}
    fields = dict(rows[0].fields)
    assert (fields["model"], fields["category"], fields["task"]) == ("mockllm/model", "science", "sky")
    assert fields["day"].startswith("20")
    outcomes = [classify(row.exchange.response).outcome for row in rows]
    assert outcomes == ["complied", "refused", "refused", "filtered", "refused", "empty"]
