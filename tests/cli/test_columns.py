"""Columns of the user's own, as flags, variables and `[columns]` in demur.toml, in every command that reads rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calling import Capture, say
from tests.runs.run_files import csv_text, json_lines, questions

from demur.cli.columns import COLUMN_SETTINGS

MAP = ("--label-field", "human", "--label-map", "1=refusal,0=compliance,?=other")
TOML = '[columns]\nresponse_field = "out"\nprompt_field = "asked"\nid_field = "uid"\nsession_field = "talk"\n'


def own_rows(count: int, refused: range) -> list[dict[str, Any]]:
    """Return rows under names that nobody else has."""
    return [
        {
            "uid": row["id"],
            "asked": row["prompt"],
            "out": row["response"],
            "talk": i // 2,
            "human": i % 2,
            "category": row["category"],
        }
        for i, row in enumerate(questions(count, refused))
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two runs, in which nothing goes by a name of ours."""
    monkeypatch.chdir(tmp_path)
    json_lines(tmp_path / "a.jsonl", own_rows(40, range(4)))
    (tmp_path / "b.csv").write_text(csv_text(own_rows(40, range(20))))
    return tmp_path


def as_json(capsys: Capture, *words: str) -> dict[str, Any]:
    code, out, err = say(capsys, *words, "--json")
    assert (code, err) == (0, ""), err
    found: dict[str, Any] = json.loads(out)
    return found


def test_flags_and_file_say_the_same(capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are named by flags, variables or demur.toml, each winning over the next."""
    flags = as_json(capsys, "scan", "a.jsonl", "--response-field", "out", "--session-field", "talk", "--by", "category")
    assert (flags["rate"]["count"], flags["rate"]["n"]) == (4, 40)
    (folder / "demur.toml").write_text(TOML.replace('"out"', '"gone"'))
    monkeypatch.setenv("DEMUR_COLUMNS_RESPONSE_FIELD", "out")
    assert as_json(capsys, "scan", "a.jsonl", "--by", "category") == flags
    monkeypatch.delenv("DEMUR_COLUMNS_RESPONSE_FIELD")
    assert "no row has a column `gone`" in say(capsys, "scan", "a.jsonl")[2]
    assert as_json(capsys, "scan", "a.jsonl", "--by", "category", "--response-field", "out") == flags
    empty = say(capsys, "scan", "a.jsonl", "--response-field", "")[2]
    assert "no trace format has the columns `uid`, `asked`, `out`" in empty
    assert empty.endswith("name the column of the responses with --response-field, or the format with --format\n")


def test_pairs_and_sessions_are_those_that_are_named(capsys: Capture, folder: Path) -> None:
    """A diff pairs by the named id and clusters by the named session, over lines and a table."""
    (folder / "demur.toml").write_text(TOML)
    found = as_json(capsys, "diff", "a.jsonl", "b.csv", "--fail-on", "never")
    assert (found["pairing"], found["pairs"]["n"], found["pairs"]["candidate_only"]) == ("id", 40, 16)
    assert (found["clustering"]["field"], found["clustering"]["count"]) == ("session", 20)
    (folder / "demur.toml").write_text(TOML.replace('id_field = "uid"\n', ""))
    assert as_json(capsys, "diff", "a.jsonl", "b.csv", "--fail-on", "never")["pairing"] == "prompt"


def test_a_watch_reads_named_columns(capsys: Capture) -> None:
    """A log and its baseline are read by the same columns; a name that the first rows lack ends the watch."""
    found = as_json(capsys, "watch", "a.jsonl", "--baseline", "a.jsonl", "--once", "--response-field", "out")
    assert (found["rows"], found["abstained"]) == (40, 4)
    code, _, err = say(capsys, "watch", "a.jsonl", "--expect", "10%", "--once", "--response-field", "oout")
    assert code == 2
    assert "none of the first 40 rows has a column `oout`; did you mean `out`? there are `uid`, `asked`, `out`" in err


@pytest.mark.parametrize("name", ["a.jsonl", "b.csv"])
def test_labels_of_people_settle_the_verdict(capsys: Capture, name: str) -> None:
    """A scan of labelled rows counts what people say, and shows that it was people who said it."""
    found = as_json(capsys, "scan", name, "--response-field", "out", *MAP)
    assert (found["rate"]["count"], found["rate"]["n"]) == (20, 40)
    assert found["runs"][0]["causes"] == {"person": 40}


def test_labels_that_are_not_in_the_map_are_counted(capsys: Capture, folder: Path) -> None:
    """A label outside the map is a line with its place, and is left out only on request; an undecided one is skipped."""
    rows = own_rows(6, range(3))
    json_lines(folder / "c.jsonl", [rows[0] | {"human": 2}, rows[1] | {"human": "?"}, *rows[2:]])
    words = ("scan", "c.jsonl", "--response-field", "out", *MAP)
    code, out, err = say(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith(
        "demur: `c.jsonl` line 1: label `2` is not in the label map; it has `1`, `0`, `?`: add `2=…` to"
    )
    (run,) = as_json(capsys, *words, "--skip-bad")["runs"]
    assert (run["rows"], run["unreadable"], run["skipped"]) == (4, 1, {"a row labelled other": 1})


def test_an_evaluation_reads_named_columns(capsys: Capture) -> None:
    """Texts, labels and ids of a labelled set stand where the user says."""
    for name in ("a.jsonl", "b.csv"):
        words = ("evaluate", name, "--response-field", "out", "--id-field", "uid", *MAP)
        (side,) = as_json(capsys, *words)["sides"]
        assert sum(side["labels"].values()) == 40
    code, out, err = say(capsys, "evaluate", "a.jsonl", "--response-field", "oout", *MAP)
    assert (code, out) == (2, "")
    assert err.startswith("demur: no row of `a.jsonl` has a column `oout`; did you mean `out`? there are `uid`")
    assert err.count("\n") == 1
    code, _, err = say(capsys, "evaluate", "b.csv", "--response-field", "out")
    assert (
        "no `label` in the header; there are `uid`, `asked`, `out`, `talk`, `human`, `category`; name the column of"
        in err
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--response-field", "out", "--format", "inspect"],
            "names a column of flat rows, and the format is to be inspect",
        ),
        (["--response-field", "out", "--response-field", "b"], "--response-field stands twice"),
        (["--label-map", "1"], "`1` does not map a label"),
        (["--response-field", "out", "--label-map", "1=no"], "`no` is no word for a label; there are refusal"),
        (["--response-field", "out", "--session-field", "tlk"], "a column `tlk`; did you mean `talk`?"),
    ],
    ids=["format", "twice", "no map", "no word", "session"],
)
def test_what_cannot_be_meant_is_one_line(capsys: Capture, words: list[str], says: str) -> None:
    """A flag that cannot be meant ends the command with one line, before anything is judged."""
    try:
        code, _, err = say(capsys, "scan", "a.jsonl", *words)
    except SystemExit as exc:
        code, err = int(str(exc.code)), capsys.readouterr().err
    assert code == 2
    assert says in err


def test_columns_of_another_format_are_not_dropped(capsys: Capture, folder: Path) -> None:
    """An id of a provider's own log cannot be named unless its response is: the flag would do nothing."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}]}
    json_lines(folder / "chat.jsonl", [{"object": "chat.completion", "uid": 1, **body}] * 3)
    code, _, err = say(capsys, "scan", "chat.jsonl", "--id-field", "uid")
    assert code == 2
    assert "`--id-field uid` names a column, but `chat.jsonl` is in format openai-chat; drop --id-field, or name" in err


def test_a_table_that_is_misspelt_is_named(capsys: Capture, folder: Path) -> None:
    """A misspelt name in demur.toml is an error with its line."""
    (folder / "demur.toml").write_text('[columns]\nresponse = "out"\n')
    assert "`demur.toml` line 2: `columns.response` is no setting; did you mean" in say(capsys, "scan", "a.jsonl")[2]
    (folder / "demur.toml").write_text('[colums]\nresponse_field = "out"\n')
    assert "did you mean [columns]?" in say(capsys, "scan", "a.jsonl")[2]


def test_every_column_is_documented() -> None:
    """The page of settings has the table of columns that the command line reads."""
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert COLUMN_SETTINGS.as_markdown() in page.read_text(encoding="utf-8")
