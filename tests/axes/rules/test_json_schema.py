"""Our part of JSON Schema says what a full validator says."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.axes.rules.json_schema import json_schema_of, schema_breach, text_breach
from demur.errors import ShapeError

NAMES = st.sampled_from(["a", "b"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 1.5]), st.sampled_from(["", "a", "ab"])
)
VALUES = st.recursive(
    SCALARS, lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(NAMES, v, max_size=2)), max_leaves=5
)
KINDS = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.one_of(KINDS, st.lists(KINDS, min_size=1, max_size=2, unique=True)),
        "enum": st.lists(SCALARS, min_size=1, max_size=3),
        "const": SCALARS,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "pattern": st.sampled_from(["^a", "b$", "."]),
        "description": st.just("what it is"),
    },
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    more = {
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "additionalProperties": inner,
        "items": inner,
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
    }
    return st.fixed_dictionaries({}, optional=more)


SCHEMAS = st.recursive(st.one_of(LEAVES, st.booleans()), _nested, max_leaves=4)


@pytest.mark.heavy
@settings(max_examples=500)
@given(SCHEMAS, VALUES)
def test_the_verdict_is_a_validators(schema: Any, value: Any) -> None:
    """A value keeps a schema here where `jsonschema` says that it does."""
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (schema_breach(value, json_schema_of(schema)) is None) == expected


@given(
    st.sampled_from(["minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"]), st.integers(0, 2), VALUES
)
def test_each_limit_is_a_validators(keyword: str, limit: int, value: Any) -> None:
    """Alone as well, each limit lets through what `jsonschema` lets through, and so does a pattern."""
    for schema in ({keyword: limit}, {"pattern": "^a"}):
        expected = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert (schema_breach(value, json_schema_of(schema)) is None) == expected


def test_a_breach_has_its_path() -> None:
    """What is wrong is said with the place."""
    schema = json_schema_of({"properties": {"items": {"items": {"required": ["id"]}}}})
    assert schema_breach({"items": [{"id": 1}, {}]}, schema) == "the answer.items[1] has no `id`"


@pytest.mark.parametrize(("text", "kept"), [('{"a": 1}', True), ('```json\n{"a": 1}\n```', True), ("a: 1", False)])
def test_answers_are_json_or_not(text: str, kept: bool) -> None:  # noqa: FBT001 - a table
    """A fence of code about an answer does not count, prose is no JSON."""
    assert (text_breach(text, json_schema_of({"type": "object"})) is None) == kept


@pytest.mark.parametrize(
    "schema", [{"format": "date"}, {"type": "text"}, {"minItems": "2"}, {"pattern": "("}, 3, {"items": {"$ref": "#"}}]
)
def test_half_a_schema_is_refused(schema: Any) -> None:
    """What is not understood is an error with its path, never passed over."""
    with pytest.raises(ShapeError, match="schema"):
        json_schema_of(schema)


def test_words_that_are_no_json_are_no_numbers() -> None:
    """`NaN` and `Infinity`, which some readers take, are not JSON."""
    for word in ("NaN", "-Infinity", '{"a": Infinity}'):
        assert text_breach(word, json_schema_of({})) == "the answer is not JSON"


def test_an_answer_nested_very_deeply_is_a_breach() -> None:
    """No answer is too deep to be told wrong."""
    assert text_breach("[" * 900 + "]" * 900, json_schema_of({"enum": [1]})) is not None
