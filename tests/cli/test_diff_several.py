"""`demur diff` with several candidates, and `demur diff --sequential`: output, exit codes, bad input."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator
from tests.cli.calling import Capture, say
from tests.runs.run_files import json_lines, questions

from demur.report.several_view import SEVERAL_SCHEMA

RUNS = {
    "base": questions(200, range(6)),
    "same": questions(200, range(6)),
    "other": questions(200, range(7)),
    "worse": questions(200, range(50)),
    "unclear": questions(200, range(11)),
    "few": questions(20, range(2)),
}


def run(capsys: Capture, *args: str) -> tuple[int, str, str]:
    return say(capsys, "diff", *args)


def schema(name: str) -> Any:
    return json.loads((files("demur.report") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with some runs."""
    monkeypatch.chdir(tmp_path)
    for name, rows in RUNS.items():
        json_lines(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["same.jsonl", "other.jsonl"], 0, "PASS"),
        (["same.jsonl", "worse.jsonl", "other.jsonl"], 1, "FAIL"),
        (["same.jsonl", "unclear.jsonl"], 0, "UNDECIDED"),
        (["same.jsonl", "unclear.jsonl", "--fail-inconclusive"], 3, "UNDECIDED"),
        (["worse.jsonl", "few.jsonl", "--fail-inconclusive"], 1, "FAIL"),
        (["worse.jsonl", "same.jsonl", "--fail-on", "never"], 0, "FAIL"),
        (["same.jsonl", "other.jsonl", "--prove-no-increase", "5%"], 0, "PASS"),
        (["same.jsonl", "worse.jsonl", "--unpaired"], 1, "FAIL"),
    ],
)
def test_exit_codes_of_several(capsys: Capture, args: list[str], code: int, word: str) -> None:
    """One exit code for all: 1 where any candidate fails, else 3 where one stops the gate, else 0."""
    found, out, err = run(capsys, "base.jsonl", *args)
    assert (found, err) == (code, "")
    assert any(line.startswith(word) for line in out.splitlines()[:8])


@pytest.mark.heavy
def test_every_report_of_several(capsys: Capture, folder: Path) -> None:
    """Terminal, JSON, Markdown, HTML and JUnit name every candidate, with figures that agree."""
    reports = ["--json", "r.json", "--markdown", "r.md", "--html", "r.html", "--junit", "r.xml", "--show", "2"]
    code, out, _ = run(capsys, "base.jsonl", "same.jsonl", "worse.jsonl", *reports)
    assert code == 1
    texts = [out, *((folder / f"r.{kind}").read_text(encoding="utf-8") for kind in ("json", "md", "html", "xml"))]
    assert all(name in text for text in texts for name in ("same.jsonl", "worse.jsonl"))
    table = next(line for line in out.splitlines() if line.strip().startswith("worse.jsonl"))
    assert "+22.0" in table
    assert table.split()[-2:] == ["increased", "FAIL"]
    cases = ET.fromstring(texts[4]).findall(".//testcase")  # noqa: S314 — our own file
    assert [(case.get("name"), case.find("failure") is not None) for case in cases] == [
        ("same.jsonl", False),
        ("worse.jsonl", True),
    ]


@pytest.mark.heavy
def test_the_json_of_several_follows_its_schema(capsys: Capture) -> None:
    """It follows its own schema, and each comparison in it the schema of a diff."""
    rules = schema("diff_several")
    Draft202012Validator.check_schema(rules)
    _, out, _ = run(capsys, "base.jsonl", "same.jsonl", "worse.jsonl", "few.jsonl", "--json", "--pool-slices")
    value = json.loads(out)
    Draft202012Validator(rules).validate(value)
    assert value["schema"] == SEVERAL_SCHEMA == rules["properties"]["schema"]["const"]
    for one in value["candidates"]:
        Draft202012Validator(schema("diff")).validate(one["comparison"])
        assert one["comparison"]["settings"]["candidates"] == 3
        assert one["comparison"]["difference"]["p"] >= one["p_unadjusted"]


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["same.jsonl", "worse.jsonl", "--out", "pairs.jsonl"], "`--out` is for one candidate, not 2"),
        (["same.jsonl", "worse.jsonl", "--labels", "l.csv"], "`--labels` is for one candidate, not 2"),
        (["same.jsonl", "worse.jsonl", "--axes", "all"], "`--axes` is for one candidate, not 2"),
        (["same.jsonl", "worse.jsonl", "--sequential"], "`--sequential` is for one candidate, not 2"),
        (["same.jsonl", "same.jsonl"], "the candidate `same.jsonl` is named twice"),
        (["-", "-"], "two runs are standard input"),
        (["same.jsonl", "--sequential", "--unpaired"], "runs without pairs cannot be looked at after every pair"),
        (["same.jsonl", "--sequential", "--gate", "shadow"], "Shadow's gate cannot be looked at after every pair"),
    ],
)
def test_what_does_not_go_together(capsys: Capture, args: list[str], what: str) -> None:
    """One line says what is for two runs alone, or for one look."""
    code, out, err = run(capsys, "base.jsonl", *args)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("candidate", "args", "code", "words"),
    [
        ("worse", [], 1, "stop: proven, refusals rose by 22.0 points"),
        ("same", [], 0, "stop: proven, refusals did not rise by 5 points or more"),
        ("few", [], 3, "go on: neither a change nor its absence is proven"),
        ("same", ["--prove-no-increase", "1%"], 3, "go on"),
        ("worse", ["--prove-no-increase", "2%"], 1, "stop: proven, refusals rose by more than 2 points"),
        ("worse", ["--fail-on", "never"], 0, "stop: proven"),
    ],
)
def test_sequential(capsys: Capture, candidate: str, args: list[str], code: int, words: str) -> None:
    """Exit code 1 where a change is proven, 0 where it is excluded, 3 to go on; the report says so."""
    found, out, err = run(capsys, "base.jsonl", f"{candidate}.jsonl", "--sequential", "--show", "0", *args)
    assert (found, err) == (code, "")
    assert words in " ".join(out.split())
    assert "evidence of a change" in out
    assert "minimum detectable difference" not in out


@pytest.mark.heavy
def test_sequential_json(capsys: Capture) -> None:
    """The evidence is in the JSON, and it follows the schema; without the flag it is null."""
    for flags in (["--sequential"], []):
        _, out, _ = run(capsys, "base.jsonl", "worse.jsonl", "--json", *flags)
        value = json.loads(out)
        Draft202012Validator(schema("diff")).validate(value)
        assert (value["evidence"] is not None) is bool(flags)
        assert value["settings"]["sequential"] is bool(flags)


@pytest.mark.heavy
def test_pooled_slices(capsys: Capture, folder: Path) -> None:
    """Pooled slices stand beside the raw ones, only where asked for, and leave the gate alone."""
    for name in ("base", "worse"):
        rows = [row | {"topic": "xyzuv"[i % 5]} for i, row in enumerate(RUNS[name])]
        json_lines(folder / f"{name}_topics.jsonl", rows)
    runs = ["base_topics.jsonl", "worse_topics.jsonl", "--by", "topic", "--show", "0"]
    plain, out, _ = run(capsys, *runs)
    assert "pooled" not in out
    pooled, out, _ = run(capsys, *runs, "--pool-slices")
    assert plain == pooled == 1
    assert "By topic, pooled" in out
    _, out, _ = run(capsys, *runs, "--pool-slices", "--json")
    value = json.loads(out)
    Draft202012Validator(schema("diff")).validate(value)
    assert all(0 <= part["pooled"]["towards"] <= 1 for part in value["slices"])
