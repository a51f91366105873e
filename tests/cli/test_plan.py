"""`demur plan` as its users meet it: questions, pilots, JSON, and calls that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.calling import Capture, say
from tests.runs.run_files import json_lines, questions

from demur.cli.main import main


def test_stated(capsys: Capture) -> None:
    """A question and what is known of the runs give the pairs, what half and twice as many give, and what that rests on."""
    code, out, err = say(capsys, "plan", "--detect", "5%", "--churn", "4%")
    assert (code, err) == (0, "")
    assert "To detect +5 points: 270 pairs." in out
    assert "detect +5 points  270 pairs     48.6 %      98.1 %" in out
    assert "flips without a change  4.0 % (stated)" in out
    assert max(map(len, out.splitlines())) <= 80


def test_all_questions_in_sessions(capsys: Capture) -> None:
    """Several questions are one plan, in sessions where turns are stated, and the pairs at hand say what they can show."""
    words = "--detect 8% --prove-no-increase 6% --estimate 4% --rate 5% --churn 4% --icc 0.1 --turns 10 --pairs 300"
    code, out, _ = say(capsys, "plan", *words.split())
    assert code == 0
    for said in ("sessions", "prove less than +6 points", "responses in", "300 pairs in 30 sessions detect +"):
        assert said in out
    assert max(map(len, out.splitlines())) <= 80


def test_too_few_sessions(capsys: Capture) -> None:
    """Four sessions are said to support no test (audit 1); few planned ones are warned of."""
    code, out, _ = say(capsys, "plan", *["--pairs", "40", "--churn", "4%", "--icc", "0.1", "--turns", "10"])
    assert code == 0
    assert "4 sessions cannot support a test at 5 %: 5 are the fewest." in out
    _, out, _ = say(capsys, "plan", *["--detect", "40%", "--churn", "4%", "--icc", "0.1", "--turns", "30"])
    assert "one unusual session decides" in out


def test_labels(capsys: Capture) -> None:
    """Labels are a part of the pairs at hand; where all of them would not do, more pairs are asked for."""
    known = ["--pairs", "5000", "--rate", "5%", "--churn", "4%", "--sensitivity", "90%", "--false-alarms", "1%"]
    assert "label 1,737 of the 5,000 pairs" in say(capsys, "plan", "--correct", "1%", *known)[1]
    assert "more pairs than these are needed" in say(capsys, "plan", "--correct", "0.1%", *known)[1]


def test_a_pilot_as_json(capsys: Capture, folder: Path) -> None:
    """JSON has every number of the plan, with where each assumption comes from."""
    json_lines(folder / "a.jsonl", questions(100, range(10)))
    json_lines(folder / "b.jsonl", questions(100, range(2, 12)))
    code, out, _ = say(
        capsys, "plan", "--prove-no-increase", "2%", "--pilot", "a.jsonl", "b.jsonl", "--json", "--power", "90%"
    )
    found = json.loads(out)
    assert code == 0
    assert (found["schema"], found["power"], found["pairs"]) == ("demur-plan/1", 0.9, None)
    need = found["needs"][0]
    assert [need[name] for name in ("question", "size", "unit", "sessions")] == [
        "prove_no_increase",
        0.02,
        "pairs",
        None,
    ]
    assert need["curve"][1]["power"] >= 0.9 > need["curve"][0]["power"]
    rate, churn, *_ = found["assumptions"]
    assert (rate["value"], churn["value"]) == (0.1, pytest.approx(5 / 102))
    assert churn["source"].startswith("measured: 4 of 100")


def test_a_pilot_that_cannot_be_read(capsys: Capture, folder: Path) -> None:
    """Rows of a pilot that cannot be read are named, as in every command."""
    rows = [json.dumps(row) for row in questions(40, [1])]
    (folder / "a.jsonl").write_text("\n".join([*rows, "{"]), encoding="utf-8")
    code, _, err = say(capsys, "plan", "--estimate", "2%", "--pilot", "a.jsonl")
    assert code == 2
    assert "`a.jsonl` line 41" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--churn 4%", "no question to plan for"),
        ("--detect 5%", "`--detect` needs the churn"),
        ("--detect 5% --churn 4% --turns 10", "`--turns` says nothing without `--icc`"),
        ("--detect 5% --pilot a b c", "a pilot is one run or two, not 3"),
        ("--detect 5% --churn 4% --labels l.jsonl", "`--labels` are of pairs"),
        ("--detect 5% --churn 4% --power 3%", "a power of 3 % is a coin toss or less"),
        ("--detect 5% --churn 4% --json no/where.json", "its folder is not there"),
    ],
    ids=["question", "churn", "turns", "runs", "labels", "power", "json"],
)
def test_calls_that_cannot_be_meant(capsys: Capture, folder: Path, words: str, said: str) -> None:
    """Each is one line that says what is wrong and what to do, and exit code 2."""
    code, out, err = say(capsys, "plan", *words.split())
    assert folder.is_dir()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--detect 0", "`0` is not between 0 and 100 %"),
        ("--prove-no-increase 100%", "`100%` is not between 0 and 100 %"),
        ("--estimate 5", "`5` is not a share; write 1% or 0.01"),
        ("--detect -1%", "expected one argument"),
        ("--pairs 0", "`0` is too few"),
        ("--detect 5% --detect 2%", "--detect stands twice"),
    ],
    ids=["zero", "one", "percent", "negative", "pairs", "twice"],
)
def test_margins_outside_the_possible(capsys: Capture, words: str, said: str) -> None:
    """Margins outside (0, 1) are rejected before anything is read."""
    with pytest.raises(SystemExit) as stopped:
        main(["plan", *words.split()])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
