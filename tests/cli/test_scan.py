"""`demur scan` as its users meet it: output, exit codes, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.calling import Capture, say
from tests.runs.run_files import csv_text, json_lines, questions


def run(capsys: Capture, *args: str) -> tuple[int, str, str]:
    return say(capsys, "scan", *args)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two runs."""
    monkeypatch.chdir(tmp_path)
    json_lines(tmp_path / "a.jsonl", questions(40, range(4), model="m"))
    (tmp_path / "b.csv").write_text(csv_text(questions(40, range(0, 40, 2), model="n")))
    return tmp_path


def test_rates_by_run_and_group(capsys: Capture, folder: Path) -> None:
    """The rates of runs and groups are in every report, and every verdict in its file."""
    args = ["a.jsonl", "b.csv", "--by", "category,model", "--by", "category"]
    files = ["--out", "v.parquet", "--html", "r.html", "--markdown", "r.md", "--json", "r.json"]
    code, out, err = run(capsys, *args, *files)
    assert (code, err) == (0, "")
    assert "30.0 %" in out
    assert max(map(len, out.splitlines())) <= 80
    assert json.loads(run(capsys, *args, "--json")[1]) == json.loads((folder / "r.json").read_text())
    assert run(capsys, *args, "--markdown")[1] == (folder / "r.md").read_text()
    assert pq.read_table(folder / "v.parquet").num_rows == 80
    assert "<html" in (folder / "r.html").read_text()


def test_bad_rows_are_named_or_left_out(capsys: Capture, folder: Path) -> None:
    """A bad row stops the scan; left out on request, the report says how many."""
    with (folder / "a.jsonl").open("a") as out:
        out.write("{\n")
    code, text, err = run(capsys, "a.jsonl")
    assert (code, text) == (2, "")
    assert err.startswith("demur: `a.jsonl` line 41: not JSON")
    code, text, err = run(capsys, "a.jsonl", "--skip-bad")
    assert (code, err) == (0, "")
    assert any("not read" in line and " 1" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["gone.jsonl"], "`gone.jsonl`: no such file or directory"),
        (["-", "-"], "standard input is named twice"),
        (["a.jsonl", "--by", "modle"], "no row has a field `modle`; did you mean `model`?"),
        (["a.jsonl", "--out", "a.jsonl"], "`a.jsonl` cannot be written: it is an input"),
        (["a.jsonl", "--out", "no/v.parquet"], "`no/v.parquet` cannot be written: its folder is not there"),
        (["a.jsonl", "--out", "v.csv"], "`v.csv` names no format"),
        (["a.jsonl", "--json", "--markdown"], "two reports to standard output"),
        (["a.jsonl", "--verify"], "`a.jsonl` is in format flat, whose ids cannot be verified"),
    ],
)
def test_bad_calls_are_one_line(capsys: Capture, args: list[str], says: str) -> None:
    """What is wrong with a call or its files is one line and exit 2."""
    code, out, err = run(capsys, *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"demur: {says}")


def test_a_run_that_all_failed_is_no_rate_of_nought(capsys: Capture, folder: Path) -> None:
    """Where no row was answered there is no rate, and the report says what there was."""
    json_lines(folder / "f.jsonl", [{**row, "response": None} for row in questions(5, ())])
    code, out, err = run(capsys, "f.jsonl")
    assert (code, err) == (0, "")
    assert "0.0 %" not in out
    assert any(line.split()[:2] == ["failed", "5"] for line in out.splitlines())


@pytest.mark.heavy
@pytest.mark.posix(reason="a pseudo-terminal")
def test_progress_is_shown_on_a_terminal_and_taken_away(folder: Path) -> None:
    """Standard error says how far the reading came where it is a terminal, and ends as an empty line."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "demur", "scan", "a.jsonl", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, check=True, timeout=60, cwd=folder)  # noqa: S603 — our own interpreter
    assert os.read(leader, 4096).endswith(b"\r\x1b[K")
    os.close(leader)
    os.close(follower)
    assert json.loads(done.stdout)
