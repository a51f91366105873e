"""Instances of schemas, as clients that parse structured output send them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demur.simulate.instance import instance_of

NODE: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, "simulated"),
        ([], {}),
        ({"type": "object"}, {}),
        ({"type": "integer"}, 1),
        ({"type": ["null", "string"]}, None),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 5}, 5),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
        ({"type": "array", "items": {"type": "number"}, "minItems": 2}, [1.0, 1.0]),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "simulated"),
        ({"properties": {"a": {"type": "string"}}}, {"a": "simulated"}),
    ],
)
def test_the_plainest_value_of_a_schema(schema: object, value: object) -> None:
    """Each kind of schema gets its plainest value."""
    assert json.loads(instance_of(json.dumps(schema).encode())) == value


def test_schemas_that_hold_themselves_end() -> None:
    """A definition that refers to itself gives a value of bounded depth."""
    text = instance_of(json.dumps({"$ref": "#/$defs/node", "$defs": {"node": NODE}}).encode())
    assert 2 < text.count("next") < 12


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 12, "items": {"$ref": "#"}},
        {"properties": {str(number): {"$ref": "#"} for number in range(50)}},
    ],
)
def test_schemas_that_hold_themselves_many_times_stay_small(schema: object) -> None:
    """A definition that refers to itself in many places does not multiply without end."""
    assert len(instance_of(json.dumps(schema).encode())) < 100_000
