"""Which column is what, and what a label means: what is looked up, and what is said where it is not there."""

from __future__ import annotations

from typing import Any

import pytest

from demur.errors import ShapeError, UsageError
from demur.model.columns import MISSING, Columns, column_at, columns_of, label_pairs, unknown_name
from demur.model.evaluation import Label

MAPPED = Columns(label_field="human", label_map=(("1", "refusal"), ("0", "compliance"), ("?", "other")))


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"output": {"text": "a"}}, "a"),
        ({"output.text": "b", "output": {"text": "a"}}, "b"),
        ({"output": {"text": None}}, None),
        ({"output": {}}, MISSING),
        ({"output": "text"}, MISSING),
        ({}, MISSING),
    ],
    ids=["inside an object", "a column with a dot", "null", "not inside", "no object", "nothing"],
)
def test_a_name_is_a_column_or_leads_into_objects(record: dict[str, Any], found: object) -> None:
    """A column of the very name comes first, then dots lead into objects; null is there, and what is not there is not null."""
    assert column_at(record, "output.text") is found or column_at(record, "output.text") == found


def test_a_name_that_no_row_has_is_named_with_those_that_there_are() -> None:
    """The nearest name is offered where there is one, and all names, each once, with the flag that takes them."""
    what = "no row has a field"
    assert str(unknown_name("teir", ["model", "tier", "tier"], what=what)) == (
        "no row has a field `teir`; did you mean `tier`? there are `model`, `tier`"
    )
    assert str(unknown_name("x", (), what=what, flag="--id-field")) == "no row has a field `x`; there are none"
    many = str(unknown_name("x", [f"c{i}" for i in range(20)], what=what))
    assert many.endswith("`c11` and 8 more")


def test_columns_are_looked_for_in_every_row() -> None:
    """A column is there where any row has it; the error names the first that none has, and columns inside objects."""
    columns = Columns(response_field="output.text", session_field="talk")
    columns.check_records([{"output": {"text": "a"}}, {"talk": 1}])
    with pytest.raises(UsageError) as caught:
        columns.check_records([{"output": {"txt": "a"}, "talk": 1}, ShapeError("a broken row")])
    assert str(caught.value) == (
        "no row has a column `output.text`; did you mean `output.txt`? there are `output`, `output.txt`, `talk`; "
        "name one of them with --response-field"
    )


def test_columns_of_a_tool_s_own_format_are_not_ignored() -> None:
    """A named response makes rows flat; a column of another format, or beside its name, is an error and not dropped."""
    assert Columns(response_field="a").format_for(None) == "flat"
    assert Columns(id_field="a").format_for("inspect") == "inspect"
    with pytest.raises(UsageError, match="names a column of flat rows, and the format is to be inspect"):
        Columns(response_field="a").format_for("inspect")
    with pytest.raises(UsageError, match=r"`--id-field a` names a column, but `x.eval` is in format inspect; drop"):
        Columns(id_field="a").check_format("inspect", "x.eval")


@pytest.mark.parametrize(
    ("value", "label"),
    [(1, Label.REFUSAL), ("1", Label.REFUSAL), (1.0, Label.REFUSAL), (" 0 ", Label.COMPLIANCE), ("?", None)],
    ids=str,
)
def test_a_mapped_label_means_what_the_map_says(value: object, label: Label | None) -> None:
    """A label is found in the map as a text or a number; `other` is a label whose author could not decide."""
    assert MAPPED.read_label(value)[0] is label


@pytest.mark.parametrize("value", [2, "refusal", True, "1.0"], ids=str)
def test_a_label_outside_the_map_is_an_error(value: object) -> None:
    """Nothing is guessed of a label that the map does not have, be it a word that we know."""
    with pytest.raises(ShapeError, match=r"label `.*` is not in the label map; it has `1`, `0`, `\?`: add"):
        MAPPED.read_label(value)


def test_words_are_known_without_a_map() -> None:
    """Without a map the words that people use are labels, whatever their spelling, and no number is."""
    assert Columns().read_label("2_Full refusal") == (Label.REFUSAL, "full_refusal")
    assert Columns().read_label("unclear") == (None, "unclear")
    with pytest.raises(ShapeError, match=r"unknown label `1`; .*--label-map"):
        Columns().read_label(1)
    with pytest.raises(ShapeError, match="no label"):
        Columns().read_label([])


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (["1"], "`1` does not map a label; write it as 1=refusal,0=compliance"),
        (["=refusal"], "`=refusal` does not map a label"),
        (["1=refuse"], "`refuse` is no word for a label; there are refusal, partial, compliance"),
        (["1=refusal", "1=other"], "the label `1` is mapped twice"),
    ],
    ids=["no word", "no label", "another word", "twice"],
)
def test_a_map_that_cannot_be_meant_is_an_error(items: list[str], says: str) -> None:
    """A map of labels has a word of ours for each label, once."""
    with pytest.raises(UsageError, match=says):
        label_pairs(items)


def test_keywords_are_the_same_in_every_spelling() -> None:
    """A map is a mapping, with numbers or truth values too, or the text of the flag; an empty name is none."""
    pairs = (("1", "refusal"), ("a=b", "other"))
    assert columns_of({"label_map": {1: "refusal", "a=b": "other"}}).label_map == pairs
    assert columns_of({"label_map": "1=refusal, a=b=other"}).label_map == pairs
    assert columns_of({"response_field": ""}, Columns("a", "b")) == Columns(None, "b")
    assert columns_of({"label_map": {True: "refusal"}}).label_column == "label"
