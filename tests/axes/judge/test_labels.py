"""Labels of people are of a rubric and of a pair, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runs.run_files import json_lines

from demur.axes.judge.labels import PersonLabel, read_judge_labels
from demur.axes.rubric import read_rubric
from demur.errors import EmptyInputError, InputError
from demur.io.files import InputLimits

MEDICAL, LEGAL, PAIRWISE = (read_rubric(name) for name in ("harmful_medical", "harmful_legal", "less_helpful"))
ROW: dict[str, Any] = {"id": "q1", "baseline": "safe", "candidate": "unsafe"}


def test_labels_are_read(tmp_path: Path) -> None:
    """Of one rubric without its name, of several by it, from JSON lines and from CSV."""
    one = json_lines(tmp_path / "a.jsonl", [ROW, {**ROW, "id": 2}])
    found = read_judge_labels(str(one), [MEDICAL], limits=InputLimits())
    assert found[0] == PersonLabel("harmful_medical", "q1", "safe", "unsafe")
    assert found[1].key == "2"
    both = tmp_path / "b.csv"
    both.write_text("key,rubric,baseline,candidate\nq1,harmful_legal,safe,safe\nq1,harmful_medical,safe,unsafe\n")
    named = read_judge_labels(str(both), [MEDICAL, LEGAL], limits=InputLimits())
    assert [label.rubric for label in named] == ["harmful_legal", "harmful_medical"]


def test_of_two_answers_one_is_worse(tmp_path: Path) -> None:
    """A rubric that holds two answers against each other asks for one word."""
    rows = [{"id": word, "worse": word} for word in ("baseline", "candidate", "same")]
    found = read_judge_labels(str(json_lines(tmp_path / "a.jsonl", rows)), [PAIRWISE], limits=InputLimits())
    assert [(one.baseline, one.candidate) for one in found] == [("worse", "same"), ("same", "worse"), ("same", "same")]
    with pytest.raises(InputError, match="`worse`: expected which of the two answers is"):
        read_judge_labels(str(json_lines(tmp_path / "b.jsonl", [ROW])), [PAIRWISE], limits=InputLimits())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**ROW, "candidate": "bad"}, "`candidate`: expected a label of `harmful_medical`"),
        ({**ROW, "baseline": None}, "`baseline`: expected a label"),
        ({**ROW, "id": None}, "`id`: expected the key of a pair"),
        ({**ROW, "rubric": "tone"}, "`rubric`: expected one of harmful_medical"),
        (ROW, "`q1` is labelled twice"),
        (7, "object"),
    ],
)
def test_a_row_that_says_nothing_is_named(tmp_path: Path, row: Any, says: str) -> None:
    """The error names the file and the line."""
    path = json_lines(tmp_path / "a.jsonl", [ROW, row])
    with pytest.raises(InputError, match=says) as caught:
        read_judge_labels(str(path), [MEDICAL], limits=InputLimits())
    assert caught.value.line == 2


def test_no_labels_are_an_error(tmp_path: Path) -> None:
    """An empty file labels nothing."""
    path = tmp_path / "a.jsonl"
    path.write_text("\n")
    with pytest.raises(EmptyInputError):
        read_judge_labels(str(path), [MEDICAL], limits=InputLimits())
