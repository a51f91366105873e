"""`demur watch` as its users meet it: a quiet log, an alarm, a log that grows, cron, bad input."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.cli.calling import Capture, say, server_process
from tests.runs.run_files import json_lines, questions
from tests.wire.loopback import answering

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
    assert "ALARM  refusals rose at row 1 (95 %: 1 to 2): 3 of 3 rows since (100 %)" in " ".join(out.split("\n       "))
    assert max(map(len, out.splitlines())) <= 80


def test_rows_without_a_verdict_count_for_nothing(capsys: Capture, folder: Path) -> None:
    """Empty and failed responses are in no rate, and each kind is counted by itself."""
    rows = [*questions(10, [0]), {"prompt": "a", "response": ""}, {"prompt": "b", "response": None}]
    json_lines(folder / "mixed.jsonl", rows)
    found = json.loads(say(capsys, "watch", "mixed.jsonl", "--expect", "5%..15%", "--once", "--json")[1])
    assert [found[name] for name in ("rows", "abstained", "empty", "failed", "unread")] == [10, 1, 1, 1, 0]
    assert "1 responses are empty" in say(capsys, "watch", "mixed.jsonl", "--expect", "5%..15%", "--once")[1]


def failing(folder: Path) -> None:
    """Write a log of which nine in ten rows are errors."""
    rows = [*questions(10, [0]), *({"id": f"f{i}", "prompt": "a", "response": None, "error": "500"} for i in range(90))]
    json_lines(folder / "failing.jsonl", rows)


def test_errors_are_not_all_well(capsys: Capture, folder: Path) -> None:
    """A log of which nine in ten rows are errors is not OK (audit 16): nothing is concluded from the tenth."""
    failing(folder)
    code, out, _ = say(capsys, "watch", "failing.jsonl", "--expect", "5%..15%", "--once")
    assert (code, "OK" in out) == (3, False)
    assert "UNDECIDED  no alarm, but 90.0 % of 100 rows have no verdict" in out


@pytest.mark.parametrize(("limit", "code", "word"), [("5%", 1, "FAIL"), ("95%", 0, "OK")])
def test_limits(capsys: Capture, folder: Path, limit: str, code: int, word: str) -> None:
    """Above a limit for rows without a verdict the watch fails with a line; within it, they were allowed for."""
    failing(folder)
    found, out, err = say(capsys, "watch", "failing.jsonl", "--expect", "5%..15%", "--once", "--max-failed", limit)
    assert (found, word in out) == (code, True)
    assert err == (
        f"demur: `failing.jsonl`: 90.0 % of the rows are failed, more than {limit.replace('%', ' %')}\n" * code
    )


def sessions(folder: Path, name: str, refused: range) -> None:
    """Write a log of 20 sessions of ten rows, some of which are refused throughout."""
    rows = [{**row, "session_id": f"s{i // 10}"} for i, row in enumerate(questions(200, refused))]
    json_lines(folder / name, rows)


def test_sessions_count_together(capsys: Capture, folder: Path) -> None:
    """A session that is refused throughout is one refusal more, not ten (audit 6), unless the user says otherwise."""
    sessions(folder, "sessions.jsonl", range(100, 120))
    args = ("watch", "sessions.jsonl", "--expect", "5%", "--once")
    code, out, _ = say(capsys, *args)
    assert code == 0
    assert "200 rows of 20 sessions were tested" in out
    assert say(capsys, *args, "--cluster", "none")[0] == 1
    found = json.loads(say(capsys, *args, "--json")[1])
    assert (found["sessions"], found["open_sessions"], found["conclusion"]) == (20, 0, "ok")


def test_one_session_says_little(capsys: Capture, folder: Path) -> None:
    """A log that is one session is too little to say that all is well, and is not OK."""
    json_lines(folder / "one.jsonl", questions(100, range(100), session_id="s"))
    code, out, _ = say(capsys, "watch", "one.jsonl", "--expect", "5%", "--once")
    assert (code, "UNDECIDED" in out) == (3, True)
    assert "100 rows of 1 sessions are too few" in " ".join(out.split())


def test_sessions_go_on_in_the_next_call(capsys: Capture, folder: Path) -> None:
    """With a state, sessions at the end of the log stay open for the next call, and the state holds none of their names."""
    sessions(folder, "sessions.jsonl", range(5))
    args = ("watch", "sessions.jsonl", "--expect", "1%..15%", "--once", "--state", "w.json")
    code, out, _ = say(capsys, *args)
    assert (code, "50 rows are of sessions that may still go on" in out) == (0, True)
    assert "s19" not in (folder / "w.json").read_text()
    assert "another band, alpha, rows or --cluster" in say(capsys, *args, "--cluster", "none")[2]


def test_a_baseline_is_known_only_so_well(capsys: Capture, folder: Path) -> None:
    """The band of a baseline is its exact interval (audit 19), wider with sessions, and its width is said; the loud log is outside."""
    code, out, _ = say(capsys, "watch", "quiet.jsonl", "--baseline", "quiet.jsonl", "--once", "--json")
    band = json.loads(out)["band"]
    assert code == 0
    # By scipy.stats.binomtest, its proportion_ci of 10 in 100 at 0.975 with the method "exact".
    assert (band["low"], band["high"]) == pytest.approx((0.0438357229, 0.1877745406), abs=1e-9)
    code, out, _ = say(capsys, "watch", "loud.jsonl", "--baseline", "quiet.jsonl", "--once")
    assert code == 1
    assert "10 of 100 rows, a band 14.4 points wide (97.5 %, Clopper-Pearson)" in " ".join(out.split())
    sessions(folder, "sessions.jsonl", range(20))
    _, out, _ = say(capsys, "watch", "quiet.jsonl", "--baseline", "sessions.jsonl", "--once")
    assert "20 of 200 rows in 20 sessions" in " ".join(out.split())
    assert "Korn-Graubard" in out


def test_a_step_is_no_longer_needed(capsys: Capture) -> None:
    """`--step` is accepted, ignored, and said to be."""
    code, _, err = say(capsys, "watch", "quiet.jsonl", "--expect", "5%..15%", "--once", "--step", "5")
    assert (code, err.count("\n")) == (0, 1)
    assert "no longer needed" in err


def test_a_webhook_hears_of_the_alarm_once(capsys: Capture, folder: Path) -> None:
    """The alarm is posted as the JSON object, without a text of the log; with a state it is posted once."""
    with answering(b"{}") as stub:
        args = ("loud.jsonl", "--expect", "5%", "--once", "--state", "w.json", "--webhook", f"{stub.url}/hook?k=1")
        assert [say(capsys, "watch", *args)[0] for _ in range(2)] == [1, 1]
        assert say(capsys, "watch", "quiet.jsonl", "--expect", "5%..15%", "--once", "--webhook", stub.url)[0] == 0
    assert stub.paths == ["/hook?k=1"]
    body = stub.bodies[0]
    assert (body["conclusion"], body["alarm"]["direction"], body["alarm"]["change"]["since"]) == (
        "alarm",
        "increase",
        1,
    )
    assert "question" not in json.dumps(body)
    assert json.loads((folder / "w.json").read_text())["kept"]["told"] is True


@pytest.mark.parametrize(("status", "times"), [(503, 2), (404, 1), (302, 1)])
def test_a_webhook_that_fails_does_not_lose_the_alarm(capsys: Capture, status: int, times: int) -> None:
    """A webhook that answers with an error costs one line, is asked again only where that may help, and the alarm is there."""
    with answering(b"", status=status) as stub:
        args = ("loud.jsonl", "--expect", "5%", "--once", "--webhook", f"{stub.url}/secret")
        code, out, err = say(capsys, "watch", *args)
    assert (code, "ALARM" in out, len(stub.paths), err.count("\n")) == (1, True, times, 1)
    assert f"did not take the alarm: `{stub.url.removeprefix('http://')}` answered {status}" in err


def test_a_webhook_that_nobody_answers(capsys: Capture) -> None:
    """A webhook that cannot be reached costs one line, which does not show what of its URL may be secret."""
    with answering(b"") as stub:
        gone = stub.url
    code, out, err = say(capsys, "watch", "loud.jsonl", "--expect", "5%", "--once", "--webhook", f"{gone}/secret")
    assert (code, "ALARM" in out, err.count("\n"), "secret" in err) == (1, True, 1, False)


def test_metrics(capsys: Capture, folder: Path) -> None:
    """The gauges are in the file whether there is an alarm or not."""
    for log, band, alarm in (("quiet.jsonl", "5%..15%", 0), ("loud.jsonl", "5%", 1)):
        say(capsys, "watch", log, "--expect", band, "--once", "--metrics", "demur.prom")
        lines = (folder / "demur.prom").read_text().splitlines()
        assert f'demur_watch_alarm{{log="{log}"}} {alarm}' in lines
        assert "# TYPE demur_watch_rows gauge" in lines
    assert not (folder / "demur.prom.new").exists()


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
    (folder / "w.json").write_text('{"version": 1, "band": {"low": 0.05}, "kept": {}}')
    code, _, err = say(capsys, "watch", *args)
    assert (code, "is of version 1 of the state" in err) == (2, True)


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
        (("quiet.jsonl", "--expect", "5%", "--webhook", "ftp://host/x"), "no http or https URL"),
        (("quiet.jsonl", "--expect", "5%", "--once", "--metrics", "no/where"), "cannot be written"),
        (("quiet.jsonl", "--expect", "5%", "--once", "--metrics", "quiet.jsonl"), "it is an input"),
        (("quiet.jsonl", "--expect", "5%", "--max-failed", "2"), "not a share"),
        (("quiet.jsonl", "--expect", "5%", "--every", "0"), "no time"),
        (("quiet.jsonl", "--expect", "5%", "--alpha", "2"), "between 0 and 1"),
        (("-", "--expect", "5%", "--state", "s"), "a pipe cannot"),
        (("-", "--baseline", "-"), "named twice"),
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
