"""Rubrics that ship are sound, and one that is not is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demur.axes.rubric_files import builtin_rubrics, parse_rubric, read_rubric
from demur.errors import DemurError

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "name: r\ndomain: d\npolicy: be kind\nlabels:\n  kind: {score: 1, meaning: kind}\n  mean: {score: 0, meaning: mean, bad: true}\n"


def test_what_ships_can_be_read() -> None:
    """Each rubric in the package bears the name of its file and says what is bad."""
    assert [read_rubric(name).name for name in builtin_rubrics()] == list(builtin_rubrics())
    bad = {label.name for label in read_rubric("refusal_appropriate").labels if label.bad}
    assert bad == {"over_refusal", "under_refusal"}
    assert {read_rubric(name).domain for name in builtin_rubrics()} >= {"medical", "legal", "eating disorders"}


def test_a_rubric_of_ones_own(tmp_path: Path) -> None:
    """A file is a rubric, by its path."""
    file = tmp_path / "kind.yaml"
    file.write_text(GOOD, encoding="utf-8")
    assert read_rubric(str(file)) == parse_rubric(GOOD)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (GOOD.replace("be kind", "' '"), "without a name or a policy"),
        (GOOD.replace("score: 1", "score: 2"), "scores from 0 to 1"),
        (GOOD.replace(", bad: true", ""), "no label is `bad`"),
        (GOOD + "mode: pairwise\n", "first_worse, same, second_worse"),
        (GOOD + "colour: red\n", "unknown field `colour`"),
        ("[1]", "rubric: expected keys with values"),
    ],
)
def test_what_is_wrong_is_said(text: str, what: str) -> None:
    """A rubric that would count nothing, or count wrong, is an error."""
    with pytest.raises(DemurError, match=what):
        parse_rubric(text)


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    """A name that is neither a file nor shipped is answered with those that are; a bad file with its own name."""
    with pytest.raises(DemurError, match="refusal_appropriate"):
        read_rubric("refusal_apropriate")
    file = tmp_path / "r.yaml"
    file.write_text("[1]", encoding="utf-8")
    with pytest.raises(DemurError, match=r"r\.yaml"):
        read_rubric(str(file))
