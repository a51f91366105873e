"""`demur diff` as its users meet it: output, exit codes, bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import Capture, say
from tests.formats import examples as made
from tests.runs.run_files import NO, YES, json_lines, questions, zstd

BASE, SAME, WORSE = questions(60, range(4)), questions(60, range(4)), questions(60, range(2, 30))
LINES = "".join(json.dumps(row) + "\n" for row in WORSE).encode()
OPENAI = made.chat("x")


def run(capsys: Capture, *args: str) -> tuple[int, str, str]:
    return say(capsys, "diff", *args)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with three runs."""
    monkeypatch.chdir(tmp_path)
    for name, rows in (("base", BASE), ("same", SAME), ("worse", WORSE)):
        json_lines(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["base.jsonl", "same.jsonl"], 0),
        (["base.jsonl", "worse.jsonl"], 1),
        (["worse.jsonl", "base.jsonl"], 0),
        (["worse.jsonl", "base.jsonl", "--gate-on", "decrease"], 1),
        (["worse.jsonl", "base.jsonl", "--gate-on", "both", "--fail-on", "severe"], 1),
        (["base.jsonl", "worse.jsonl", "--fail-on", "never"], 0),
        (["base.jsonl", "worse.jsonl", "--gate", "shadow", "--seed", "1"], 1),
        (["base.jsonl", "worse.jsonl", "--gate", "seed", "--seed", "1"], 1),
        (["base.jsonl", "same.jsonl", "--fail-inconclusive", "--margin", "0.001"], 3),
        (["base.jsonl", "same.jsonl", "--fail-inconclusive", "--margin", "0.2"], 0),
        (["base.jsonl", "worse.jsonl", "--unpaired"], 1),
        (["base.jsonl", "worse.jsonl", "--pack", "shadow", "--jobs", "1"], 1),
        (["base.jsonl", "worse.jsonl", "--count", "filtered"], 0),
    ],
)
def test_exit_codes(capsys: Capture, args: list[str], code: int) -> None:
    """The exit code is the gate's, 3 only where inconclusive is asked to fail."""
    found, out, err = run(capsys, *args)
    assert (found, err) == (code, "")
    assert out.startswith("Refusal diff")


@pytest.mark.heavy
def test_reports_in_every_form(capsys: Capture, folder: Path) -> None:
    """One call writes every report, and they agree; a report to standard output is all that is there."""
    files = ["--markdown", "r.md", "--html", "r.html", "--junit", "r.xml", "--out", "pairs.parquet", "--json", "r.json"]
    code, out, _ = run(capsys, "base.jsonl", "worse.jsonl", "--by", "category", *files)
    assert (code, "By category" in out) == (1, True)
    report = json.loads((folder / "r.json").read_text())
    assert json.loads(run(capsys, "base.jsonl", "worse.jsonl", "--by", "category", "--json")[1]) == report
    printed = run(capsys, "base.jsonl", "worse.jsonl", "--by", "category", "--markdown")[1]
    assert printed == (folder / "r.md").read_text()
    assert "<html" in (folder / "r.html").read_text()
    assert ET.parse(folder / "r.xml").getroot().tag == "testsuites"  # noqa: S314 — our own file
    assert pq.read_table(folder / "pairs.parquet").num_rows == 60
    assert max(len(line) for line in out.splitlines()) <= 80


def test_flips_show_both_sides(capsys: Capture) -> None:
    """A flip stands with its question, its texts and the places where they are."""
    _, out, _ = run(capsys, "base.jsonl", "worse.jsonl", "--show", "1")
    assert "base.jsonl:11" in out
    assert "worse.jsonl:11" in out
    assert "> question 10" in out


BAD: dict[str, tuple[str, bytes | None, str]] = {
    "missing": ("gone.jsonl", None, "`: no such file or directory; check the path"),
    "no match": ("gone*.jsonl", None, "`: no file matches; check the pattern"),
    "empty": ("bad.jsonl", b"", "`: nothing in it; an empty run is never a pass"),
    "cut gzip": ("bad.jsonl.gz", gzip.compress(LINES)[:-20], "`: gzip: truncated compressed stream; the file"),
    "gzip with a tail": ("bad.jsonl.gz", gzip.compress(LINES) + b"tail", "`: gzip: "),
    "cut zstd": ("bad.jsonl.zst", zstd(LINES)[:-20], "`: zstd: truncated compressed stream; the file"),
    "cut csv gzip": ("bad.csv.gz", gzip.compress(b"id,response\nq1,a\n" * 50)[:-6], "`: gzip: truncated"),
    "UTF-16": ("bad.jsonl", LINES.decode().encode("utf-16"), "`: not UTF-8 but UTF-16; convert it: iconv"),
    "number": ("bad.json", b"42", "`: expected a JSON object; a document is an object, or an array"),
    "text": ("bad.txt", b"hello", "`: neither JSON, CSV nor Parquet; a run is .jsonl, .json"),
    "unknown": ("bad.jsonl", b'{"foo": 1}\n', "`: no trace format has the columns `foo`; name the column of"),
    "csv columns": (
        "bad.csv",
        b"id,said\nq1,a\n",
        "`: no trace format has the columns `id`, `said`; name the column of",
    ),
    "csv header": ("bad.csv", b"id,response\n", "`: no records in it; an empty run is never a pass"),
    "csv quote": ("bad.csv", b'id,response\nq1,a\nq2,"b\n', "` line 3: not CSV (unexpected end of data); close the"),
    "csv names": ("bad.csv", b"id,response,id\nq1,a,b\n", "` line 1: two columns are called `id`; give every"),
    "zip": ("bad.eval", None, "`: a zip without samples; expected an Inspect .eval log"),
    "cut zip": ("bad.eval", b"PK\x03\x04cut", "`: not a whole zip (file is not a zip file); copy it again"),
    "cut parquet": ("bad.parquet", None, "`: not a whole Parquet file ("),
    "empty array": ("bad.json", b"[]", "`: an empty array; an empty run is never a pass"),
    "empty folder": ("folder", None, "`: no traces in this folder; expected files ending in"),
    "mixed": ("mixed", None, "/b.jsonl`: in format openai-chat, but `mixed/a.jsonl` is in format flat; a run has one"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("flags", [[], ["--skip-bad"]])
def test_bad_files_are_one_line_and_exit_two(capsys: Capture, folder: Path, case: str, flags: list[str]) -> None:
    """A file that cannot be read is named in one line with what to do; leaving out bad rows never shortens a file."""
    name, data, says = BAD[case]
    if data is not None:
        (folder / name).write_bytes(data)
    with zipfile.ZipFile(folder / "zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    if case == "zip":
        (folder / "zip").rename(folder / name)
    if case == "cut parquet":
        pq.write_table(pa.Table.from_pylist(WORSE), folder / name)
        os.truncate(folder / name, 900)
    for inner in ("folder", "mixed"):
        (folder / inner).mkdir()
    json_lines(folder / "mixed" / "a.jsonl", WORSE)
    json_lines(folder / "mixed" / "b.jsonl", [OPENAI])
    for args in (["base.jsonl", name], [name, "base.jsonl"]):
        code, out, err = run(capsys, *args, *flags)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"demur: `{name}{says}")


ROWS: dict[str, tuple[bytes, str]] = {
    "NaN": (b'{"id": "q1", "response": "a", "score": NaN}', "not JSON (`NaN` is no number there); write null"),
    "cut": (b'{"id": "q1", "resp', "not JSON (input data was truncated); expected a JSON object"),
    "bytes": (b'{"id": "q1", "response": "\xe9"}', "not UTF-8"),
    "list": (b"[1, 2]", "expected a JSON object; each line is one record of the run"),
    "no format": (b'{"id": "q1", "reply": "a"}', "no response field; name it one of response, output"),
    "long": (b'{"id": "%s"}' % (b"x" * 3000), "a line of more than 2000 bytes; raise DEMUR_MAX_LINE"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("case", ROWS)
def test_bad_rows_are_named_or_left_out(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, folder: Path, case: str
) -> None:
    """A bad row stops the comparison with its file and line; left out on request, it is counted in the report."""
    monkeypatch.setenv("DEMUR_MAX_LINE_BYTES", "2000")
    row, says = ROWS[case]
    lines = LINES.splitlines()
    (folder / "bad.jsonl").write_bytes(b"\n".join([*lines[:30], row, *lines[30:]]) + b"\n")
    code, out, err = run(capsys, "base.jsonl", "bad.jsonl")
    assert (code, out) == (2, "")
    assert f"demur: `bad.jsonl` line 31: {says}" in err
    stopped = "demur: stopped there; mend them, or pass --skip-bad to leave them out and count them"
    assert err.splitlines()[1:] == [stopped]
    code, out, err = run(capsys, "base.jsonl", "bad.jsonl", "--skip-bad")
    assert (code, err) == (1, "")
    assert ["not", "readable", "0", "1"] in [line.split() for line in out.splitlines()]
    assert "60 pairs" in out


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"q1,a,b,c", "4 cells where the header has 3; quote cells"),
        (b"q1", "1 cells where"),
        (b"q1,\xe9,b", "not UTF-8; con"),
    ],
)
def test_bad_rows_of_a_table(capsys: Capture, folder: Path, row: bytes, says: str) -> None:
    """Ragged and unreadable rows of a CSV are named by line, and left out on request."""
    rows = [f"{r['id']},{r['response']},x".replace("I'm sorry, but", "Sorry").encode() for r in WORSE]
    (folder / "bad.csv").write_bytes(b"\n".join([b"id,response,kind", *rows[:9], row, *rows[9:]]))
    code, out, err = run(capsys, "base.jsonl", "bad.csv")
    assert (code, out) == (2, "")
    assert err.startswith(f"demur: `bad.csv` line 11: {says}")
    code, out, _ = run(capsys, "base.jsonl", "bad.csv", "--skip-bad")
    assert "60 pairs" in out


def test_many_bad_rows_are_counted(capsys: Capture, folder: Path) -> None:
    """Ten are named, the rest counted; a run of which nothing is left is an error also where bad rows may be left out."""
    with (folder / "bad.jsonl").open("wb") as out:
        out.write(LINES + b"{\n" * 2500)
    _, _, err = run(capsys, "base.jsonl", "bad.jsonl")
    assert err.count("\n") == 12
    assert "demur: … and 2,490 more" in err
    (folder / "lost.jsonl").write_bytes(b"{\n" * 3)
    code, out_text, err = run(capsys, "base.jsonl", "lost.jsonl", "--skip-bad", "--format", "flat")
    assert (code, out_text, "no row of the run can be read" in err) == (2, "", True)


def test_duplicates_are_clusters(capsys: Capture, folder: Path) -> None:
    """Ids that stand twice are repeats, and the report says so."""
    json_lines(folder / "twice.jsonl", BASE * 2)
    json_lines(folder / "again.jsonl", WORSE * 2)
    code, out, err = run(capsys, "twice.jsonl", "again.jsonl")
    assert (code, err) == (1, "")
    assert "120 pairs" in out


def test_runs_that_do_not_match(capsys: Capture, folder: Path) -> None:
    """Other questions under the same ids, no common question, and runs without an answer are errors of one line."""
    json_lines(folder / "other.jsonl", [{**row, "prompt": f"another {i}"} for i, row in enumerate(BASE)])
    json_lines(folder / "unmatched.jsonl", [{**row, "id": f"x{i}", "prompt": f"x{i}"} for i, row in enumerate(BASE)])
    json_lines(folder / "failed.jsonl", [{**row, "response": None} for row in BASE])
    cases = {
        "other": "`base.jsonl` line 1: id `q0` asks another prompt in `other.jsonl`, and so do 60 of 60 ids; compare",
        "unmatched": "no id and no prompt is in both runs (`base.jsonl`: 60 rows, 60 with an id; `unmatched.jsonl`",
        "failed": "no pair was judged in both runs (baseline and candidate: failed 0 and 60); check",
    }
    for name, says in cases.items():
        code, out, err = run(capsys, "base.jsonl", f"{name}.jsonl")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"demur: {says}")


def test_a_changed_log_is_found(capsys: Capture, folder: Path) -> None:
    """With `--verify` a payload that is not what its id says stops the comparison at its line."""
    log = made.agentlog(made.payload(made.text_part(YES)))
    json_lines(folder / "a.agentlog", log)
    changed = {**log[2], "payload": made.payload(made.text_part(NO))}
    json_lines(folder / "b.agentlog", [*log[:2], changed])
    assert run(capsys, "a.agentlog", "a.agentlog", "--verify", "--key", "prompt")[0] == 0
    assert run(capsys, "a.agentlog", "b.agentlog", "--key", "prompt", "--fail-on", "never")[0] == 0
    code, out, err = run(capsys, "a.agentlog", "b.agentlog", "--verify")
    assert (code, out) == (2, "")
    assert err.startswith("demur: `b.agentlog` line 3: id `sha256:")
    assert "is not the hash of the payload" in err
    code, _, err = run(capsys, "base.jsonl", "same.jsonl", "--verify")
    assert (code, err) == (2, "demur: `base.jsonl` is in format flat, whose ids cannot be verified; drop --verify\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("- -", "both runs are standard input; name a file for one"),
        ("A B --html base.jsonl", "`base.jsonl` cannot be written: it is an input; name another"),
        ("A B --json other.jsonl", "`--json other.jsonl` would write the report there; put --json behind the runs"),
        ("A B --out ./same.jsonl", "`./same.jsonl` cannot be written: it is an input"),
        ("A *same.jsonl --out same.jsonl", "`same.jsonl` cannot be written: it is an input"),
        (". B --html x.html", "`x.html` cannot be written: it lies in the input `.`; name"),
        ("A B --labels l.csv --html l.csv", "`l.csv` cannot be written: it is an input"),
        ("A B --html r --markdown r", "`r` cannot be written: it is named twice"),
        ("A B --html no/r.html", "`no/r.html` cannot be written: its folder is not there; name"),
        ("A B --out no/r.jsonl", "`no/r.jsonl` cannot be written: its folder is not there"),
        ("A B --out pairs.txt", "`pairs.txt` names no format; end it in"),
        ("A B --json --markdown", "two reports to standard output"),
        ("A B --unpaired --by category", "`--unpaired` has no pairs; drop --by"),
        ("A B --format flt", "unknown trace format `flt`; did you mean `flat`"),
        ("A B --by categry", "no row has a field `categry`; did you mean `category`?"),
        ("A B --key x", "no row has a field `x`"),
        ("A B --cluster session", "no row has a session"),
        ("A B --requests base.jsonl", "`base.jsonl` line 1: no request of a batch"),
        ("A B --labels gone.csv", "`gone.csv`: no such file or directory"),
        ("A B --pack shadow --threshold 0.5", "`--threshold` is for the learned"),
    ],
)
def test_contradictions_are_refused(capsys: Capture, folder: Path, words: str, says: str) -> None:
    """A call that contradicts itself, or that names what is not there, is one line and leaves every file as it was."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    named = {"A": "base.jsonl", "B": "same.jsonl"}
    code, out, err = run(capsys, *(named.get(word, word) for word in words.split()))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"demur: {says}")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.heavy
def test_standard_input_in_a_process_of_its_own(folder: Path) -> None:
    """A run is piped in, packed or not; nothing there is an error; nobody is asked to wait at a progress line."""

    def diff(*names: str, piped: bytes) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "demur", "diff", *names]
        return subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=folder, input=piped)  # noqa: S603 — our own interpreter

    for piped in (LINES, gzip.compress(LINES), zstd(LINES)):
        done = diff("base.jsonl", "-", piped=piped)
        assert (done.returncode, done.stderr) == (1, b"")
        assert b"standard input" in done.stdout
    done = diff("-", "base.jsonl", piped=b"")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"demur: `<stdin>`: nothing in it; an empty run is never a pass\n"
