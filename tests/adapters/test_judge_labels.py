"""Labels of people are of a rubric and of a pair, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.adapters.run_files import json_lines

from demur.adapters.config import InputLimits
from demur.adapters.judge_labels import PersonLabel, read_judge_labels
from demur.adapters.rubric_files import read_rubric
from demur.errors import EmptyInputError, InputError

if TYPE_CHECKING:
    from pathlib import Path

MEDICAL, LEGAL = read_rubric("harmful_medical"), read_rubric("harmful_legal")
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
