"""`demur watch` as its users meet it: a quiet log, an alarm, a log that grows, cron, bad input."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.cli.calling import Capture, say, server_process
from tests.runs.run_files import json_lines, questions

from demur.cli.main import main

WATCHED = ("quiet.jsonl", "--expect", "5%..15%", "--every", "0.01")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a quiet log (one in ten refused) and one that refuses everything."""
    monkeypatch.chdir(tmp_path)
    json_lines(tmp_path / "quiet.jsonl", questions(100, range(0, 100, 10)))
    json_lines(tmp_path / "loud.jsonl", questions(60, range(60)))
    return tmp_path


def test_quiet_and_loud(capsys: Capture) -> None:
    """A log within its band ends with 0, one that left it with 1, and both say what was seen."""
    code, out, err = say(capsys, "watch", "quiet.jsonl", "--expect", "5%..15%", "--once")
    assert (code, err) == (0, "")
    assert "no alarm: 10 of 100 rows (10.0 %)" in out
    code, out, _ = say(capsys, "watch", "loud.jsonl", "--expect", "0.05", "--once")
    assert code == 1
    assert "ALARM  refusals rose (row" in out
    assert max(map(len, out.splitlines())) <= 80


def test_rows_without_a_verdict_count_for_nothing(capsys: Capture, folder: Path) -> None:
    """Empty and failed responses are in no rate, and each kind is counted by itself."""
    rows = [*questions(10, [0]), {"prompt": "a", "response": ""}, {"prompt": "b", "response": None}]
    json_lines(folder / "mixed.jsonl", rows)
    found = json.loads(say(capsys, "watch", "mixed.jsonl", "--expect", "5%..15%", "--once", "--json")[1])
    assert [found[name] for name in ("rows", "abstained", "empty", "failed", "unread")] == [10, 1, 1, 1, 0]
    assert "1 responses are empty" in say(capsys, "watch", "mixed.jsonl", "--expect", "5%..15%", "--once")[1]


def test_a_baseline_is_known_only_so_well(capsys: Capture) -> None:
    """The band of a baseline is as wide as its size leaves it, and the loud log is outside."""
    code, out, _ = say(capsys, "watch", "quiet.jsonl", "--baseline", "quiet.jsonl", "--once", "--json")
    band = json.loads(out)["band"]
    assert code == 0
    assert band["low"] < 0.1 < band["high"]
    assert say(capsys, "watch", "loud.jsonl", "--baseline", "quiet.jsonl", "--once")[0] == 1


def test_cron(capsys: Capture, folder: Path) -> None:
    """A state goes on where the last call stopped, holds no text, stays alarmed, and is of one band."""
    args = ("quiet.jsonl", "--expect", "5%..15%", "--once", "--state", "w.json", "--json")
    assert json.loads(say(capsys, "watch", *args)[1])["rows"] == 100
    assert json.loads(say(capsys, "watch", *args)[1])["rows"] == 100
    with (folder / "quiet.jsonl").open("a") as log:
        log.write((folder / "loud.jsonl").read_text())
    code, out, _ = say(capsys, "watch", *args)
    assert (code, json.loads(out)["alarm"]["direction"]) == (1, "increase")
    assert say(capsys, "watch", *args)[0] == 1
    assert "question" not in (folder / "w.json").read_text()
    code, _, err = say(capsys, "watch", "quiet.jsonl", "--expect", "6%", "--once", "--state", "w.json")
    assert (code, "another band" in err) == (2, True)
    (folder / "w.json").write_text("{}")
    assert say(capsys, "watch", *args)[0] == 2


def test_bad_lines_are_named_and_counted(capsys: Capture, folder: Path) -> None:
    """Lines that cannot be read are named up to ten, counted all, and the others are judged."""
    with (folder / "quiet.jsonl").open("a") as log:
        log.write("no json\n" * 12)
    code, out, err = say(capsys, "watch", "quiet.jsonl", "--expect", "5%..15%", "--once")
    assert code == 0
    assert "12 lines could not be read" in out
    assert err.count("`quiet.jsonl` line") == 10
    assert "counted only" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("none.jsonl", "--expect", "5%"), "no such file"),
        (("empty.jsonl", "--expect", "5%", "--once"), "no row could be judged"),
        (("quiet.jsonl", "--expect", "5"), "did you mean 5%?"),
        (("quiet.jsonl", "--expect", "500%"), "is no rate between 0 and 100 %; see"),
        (("quiet.jsonl", "--expect", "9%..5%"), "the low end of a band stands first"),
        (("quiet.jsonl", "--expect", "five"), "is no rate"),
        (("quiet.jsonl",), "required"),
        (("quiet.jsonl", "--expect", "5%", "--step", "0"), "no change"),
        (("quiet.jsonl", "--expect", "5%", "--every", "0"), "no time"),
        (("quiet.jsonl", "--expect", "5%", "--alpha", "2"), "between 0 and 1"),
        (("-", "--expect", "5%", "--state", "s"), "a pipe cannot"),
        (("-", "--baseline", "-"), "stands twice"),
        (("text.txt", "--expect", "5%", "--once"), "no JSON lines"),
        (("odd.jsonl", "--expect", "5%", "--once"), "no trace format"),
        (("quiet.jsonl", "--expect", "5%", "--format", "none"), "unknown trace format"),
        (("quiet.jsonl", "--expect", "5%", "--format", "braintrust"), "belong together"),
        (("quiet.jsonl", "--expect", "5%", "--once", "--state", "no/where"), "cannot be written"),
    ],
)
def test_bad_input(capsys: Capture, folder: Path, args: tuple[str, ...], said: str) -> None:
    """Bad input is one line that says what is wrong, and exit code 2."""
    (folder / "empty.jsonl").touch()
    (folder / "text.txt").write_text("hello\n")
    (folder / "odd.jsonl").write_text('{"a": 1}\n')
    try:
        code = main(["watch", *args])
    except SystemExit as exc:
        code = int(str(exc.code))
    err = capsys.readouterr().err
    assert (code, said in err, err.count("\n")) == (2, True, 1), err


@pytest.mark.heavy
def test_a_log_that_grows(folder: Path) -> None:
    """A watch waits for rows, and ends with 1 as soon as they alarm."""
    with server_process("watch", *WATCHED, cwd=folder) as (watch, _):
        with (folder / "quiet.jsonl").open("a") as out:
            out.write((folder / "loud.jsonl").read_text())
        assert watch.stdout is not None
        assert "ALARM" in watch.stdout.read()
        assert watch.wait() == 1


def test_a_watch_that_is_stopped(folder: Path) -> None:
    """Ctrl-C ends a quiet watch without a traceback."""
    with server_process("watch", *WATCHED, cwd=folder) as (watch, line):
        assert line.startswith("Watching quiet.jsonl")
        watch.send_signal(signal.SIGINT)
        said, _ = watch.communicate()
    assert (watch.returncode, "Traceback" in said) == (130, False)
