"""`demur scan` and `demur diff` with `--engine spark` beside the same calls on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.patience import until
from tests.runs.run_files import NO, json_lines, questions
from tests.runs.spark.trap_runs import trap_rows, write_lines, write_tables

from demur.cli.main import main

ROOT = Path(__file__).parents[3]
REPORTS = ("--json", "r.json", "--markdown", "r.md", "--html", "r.html")


def called(capsys: pytest.CaptureFixture[str], folder: Path, words: Sequence[str]) -> tuple[int, str, str, list[bytes]]:
    """Return the exit code, what was printed, and the bytes of every report, which are taken away."""
    code = main(list(words))
    out, err = capsys.readouterr()
    reports = sorted(folder.glob("r.*"))
    found = [path.read_bytes() for path in reports]
    for path in reports:
        path.unlink()
    return code, out, err, found


@pytest.mark.usefixtures("spark")
def test_a_diff_is_the_same_to_its_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, JSON, Markdown, HTML, JUnit and the exit code of a gate that fails are the same on both engines."""
    monkeypatch.chdir(tmp_path)
    write_tables(Path("b"), trap_rows(0))
    write_tables(Path("c"), [{**row, "response": NO} for row in trap_rows(1)])
    call = ["diff", "b", "c", *REPORTS, "--junit", "r.xml", "--fail-on", "minor", "--by", "category"]
    expected = called(capsys, tmp_path, call)
    assert called(capsys, tmp_path, [*call, "--engine", "spark"]) == expected
    assert (expected[0], len(expected[3]), expected[2]) == (1, 4, "")


@pytest.mark.usefixtures("spark")
def test_a_scan_is_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal, JSON, Markdown and HTML of a scan are the same on both engines, and so is what cannot be read."""
    monkeypatch.chdir(tmp_path)
    write_lines(Path("b"), trap_rows(0))
    call = ["scan", "b", *REPORTS, "--by", "category,tier"]
    expected = called(capsys, tmp_path, call)
    assert called(capsys, tmp_path, [*call, "--engine", "spark"]) == expected
    assert (expected[0], len(expected[3])) == (0, 3)
    with (tmp_path / "b" / "deep" / "3%41.jsonl").open("a") as out:
        out.write("{\n")
    assert called(capsys, tmp_path, [*call, "--engine", "spark"]) == called(capsys, tmp_path, call)


def test_a_call_from_a_shell_prints_its_report_alone(tmp_path: Path) -> None:
    """A command that starts and stops a Spark of its own prints the report of this machine, and nothing of Java's."""
    json_lines(tmp_path / "a.jsonl", questions(12, range(4), model="m"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "80"}
    printed = [
        subprocess.run(  # noqa: S603 — our own interpreter
            [sys.executable, "-m", "demur", "scan", "a.jsonl", *more],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for more in ((), ("--engine", "spark", "--master", "local[1]"))
    ]
    assert [(done.returncode, done.stderr) for done in printed] == [(0, ""), (0, "")]
    assert printed[0].stdout == printed[1].stdout


def test_an_interrupt_leaves_no_java_behind(tmp_path: Path) -> None:
    """Ctrl-C while Java starts ends the command with its code, and Java with it."""
    json_lines(tmp_path / "a.jsonl", questions(12, range(4)))
    call = [sys.executable, "-m", "demur", "scan", "a.jsonl", "--engine", "spark", "--master", "local[1]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(call, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as command:  # noqa: S603 — our own interpreter
        until(lambda: _is_starting_java(command.pid) or command.poll() is not None)
        command.send_signal(signal.SIGINT)
        # Java has this pipe too: the end of it is the end of both.
        printed, _ = command.communicate(timeout=60)
    assert (command.returncode, printed) == (130, b"")


def _is_starting_java(process: int) -> bool:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return any(b"org.apache.spark" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)
    except FileNotFoundError:
        return False
