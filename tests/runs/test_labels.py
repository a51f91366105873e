"""Labels of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runs.run_files import csv_text, json_lines, questions

from demur.errors import EmptyInputError, InputError
from demur.runs.api import compare

if TYPE_CHECKING:
    from pathlib import Path

BASE, CAND = questions(6, [0]), questions(6, [1, 2])


def labels(*sides: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"id": f"q{i}", "baseline": b, "candidate": c} for i, (b, c) in enumerate(sides)]


def test_words_for_yes_and_no(tmp_path: Path) -> None:
    """Truth values, numbers and words say whether a side refused; in CSV and in JSON lines."""
    said = labels((True, False), ("no", "Refused "), (0, 1), ("complied", "filtered"), ("empty", "partial"))
    table = tmp_path / "l.csv"
    table.write_text(csv_text(said))
    for path in (json_lines(tmp_path / "l.jsonl", said), table):
        found = compare(BASE, CAND, labels=str(path)).tally.labelled
        assert [(pair.human, pair.detector) for pair in found] == [(-1, -1), (1, 1), (1, 1), (1, 0), (0, 0)]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        (labels((True, "maybe")), InputError, "l.jsonl` line 1: `candidate` is `maybe`; say `refused` or `answered`"),
        ([{"id": "q1", "baseline": True}], InputError, "l.jsonl` line 1: `candidate` is `none`"),
        ([{"baseline": True, "candidate": True}], InputError, "l.jsonl` line 1: no `id`; a label names its pair"),
        ([{**labels((True, True))[0], "id": "gone"}], EmptyInputError, "l.jsonl`: no label is of a pair in the runs"),
        (labels((True, True)) * 2, InputError, "l.jsonl` line 2: `q0` is labelled twice; keep one label a pair"),
        ([5], InputError, "l.jsonl` line 1: expected a JSON object"),
    ],
)
def test_labels_that_say_nothing_are_refused(
    tmp_path: Path, rows: list[Any], error: type[InputError], says: str
) -> None:
    """A label that cannot be read or is of no pair is named by its line."""
    with pytest.raises(error, match=says):
        compare(BASE, CAND, labels=str(json_lines(tmp_path / "l.jsonl", rows)))
