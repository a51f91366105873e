"""`--engine` and `--master` as users meet them where Spark, Java or PySpark are not there, or cannot do what is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.cli.calling import Capture
from tests.runs.run_files import json_lines, questions

from demur.cli.main import main

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.posix(reason="a named pipe")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a run and a pipe."""
    monkeypatch.chdir(tmp_path)
    json_lines(tmp_path / "a.jsonl", questions(9, range(3)))
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def line(capsys: Capture, *words: str) -> str:
    """Return the one line that a bad call prints."""
    code = main(list(words))
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scan", "a.jsonl", "--out", "v.parquet"], "`--out` is not for Spark; drop it, or --engine spark"),
        (["scan", "a.jsonl", "--requests", "a.jsonl"], "`--requests` is not for Spark"),
        (["scan", "a.jsonl", "--jobs", "2", "--verify"], "`--verify`, `--jobs` are not for Spark; drop them"),
        (["scan", "-"], "standard input is no run for Spark; name a path"),
        (["scan", "pipe"], "the pipe `pipe` is no run for Spark; name a path"),
        (["scan", "gone.jsonl"], "`gone.jsonl`: no such file or directory"),
        (["diff", "a.jsonl", "a.jsonl", "--labels", "l.csv"], "`--labels` is not for Spark"),
        (["diff", "a.jsonl", "a.jsonl", "--out", "p.parquet"], "`--out` is not for Spark"),
        (["diff", "a.jsonl", "a.jsonl", "--axes", "all", "--axis-gate", "cost"], "`--axes`, `--axis-gate` are not"),
        (["diff", "a.jsonl", "a.jsonl", "--rules", "r.yaml"], "`--rules` is not for Spark"),
        (["diff", "a.jsonl", "a.jsonl", "--rubric", "x"], "`--rubric` is not for Spark"),
    ],
)
def test_what_spark_does_not_do_is_refused(capsys: Capture, words: list[str], said: str) -> None:
    """A call that asks Spark for what it does not do is one line, before Spark is started."""
    assert line(capsys, *words, "--engine", "spark").startswith(f"demur: {said}")


def test_a_master_needs_its_engine(capsys: Capture) -> None:
    """A master without Spark would be ignored, and is refused instead."""
    assert line(capsys, "scan", "a.jsonl", "--master", "yarn") == (
        "demur: `--master` is Spark's; add --engine spark, or drop it\n"
    )


def test_no_java_and_old_java(capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java, or with one that Spark does not run on, the line says which one to install."""
    pytest.importorskip("pyspark", reason="no PySpark")
    call = ("scan", "a.jsonl", "--engine", "spark", "--master", "local[1]")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    assert "the Spark engine needs Java, and there is none; install Java 17 or later" in line(capsys, *call)
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))
    assert f"Java 11 at `{java}` is too old for Spark; install Java 17 or later" in line(capsys, *call)


@pytest.mark.heavy
@pytest.mark.parametrize("absent", [("pyspark", "py4j"), ("pandas",)])
def test_no_pyspark(folder: Path, absent: tuple[str, ...]) -> None:
    """Without PySpark, or the pandas it asks for, the line says what to install, and the local engine is none the worse for it."""
    packages = folder / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith((*absent, "demur")) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    done = [
        subprocess.run(  # noqa: S603 — our own interpreter
            [sys.executable, "-S", "-m", "demur", "scan", "a.jsonl", "--json", "--engine", engine],
            env={"PYTHONPATH": f"{packages}:{ROOT / 'src'}", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        for engine in ("spark", "local")
    ]
    told = "demur: the Spark engine needs PySpark and pandas; pip install 'demur[cluster]'\n"
    assert [(d.returncode, d.stderr) for d in done] == [(2, told), (0, "")]
