"""A JSON Schema as a user writes it, into the value that answers are held against.

Laws: a keyword that is not known, or is of the wrong kind, is an error with its path: half a schema would pass what it should not;
keywords that only describe are left aside.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import msgspec

from demur.axes.rules.json_schema import Schema, settled
from demur.errors import ShapeError
from demur.io.yaml import typed_yaml

__all__ = ["json_schema_of"]

_COMMENTS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})
_Type = Literal["array", "boolean", "integer", "null", "number", "object", "string"]


class _SchemaRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    type: _Type | tuple[_Type, ...] = ()
    enum: tuple[Any, ...] | None = None
    const: Any = msgspec.UNSET
    properties: dict[str, Any] = {}
    required: tuple[str, ...] = ()
    additional_properties: Any = msgspec.UNSET
    items: Any = msgspec.UNSET
    min_items: int = 0
    max_items: int | None = None
    min_length: int = 0
    max_length: int | None = None
    minimum: float = -math.inf
    maximum: float = math.inf
    pattern: str | None = None
    all_of: tuple[Any, ...] = ()
    any_of: tuple[Any, ...] = ()
    one_of: tuple[Any, ...] = ()


def json_schema_of(given: object, path: str = "schema") -> Schema:
    """Return the schema in plain values: an object of keywords, true (anything) or false (nothing)."""
    if isinstance(given, bool):
        return Schema(never=not given)
    if isinstance(given, dict):
        given = {key: value for key, value in given.items() if key not in _COMMENTS}
    known = ", ".join(_SchemaRow.__struct_encode_fields__)
    row = typed_yaml(given, _SchemaRow, what=f"`{path}`", hint=f"known are {known}")
    try:
        pattern = None if row.pattern is None else re.compile(row.pattern).pattern
    except re.error as exc:
        raise ShapeError(f"`{path}.pattern` is no pattern: {exc}", hint="mend the pattern") from exc
    return Schema(
        types=(row.type,) if isinstance(row.type, str) else row.type,
        enum=_allowed(row),
        properties=tuple((name, json_schema_of(part, f"{path}.{name}")) for name, part in row.properties.items()),
        required=row.required,
        additional=_inner(row.additional_properties, f"{path}.additionalProperties"),
        items=_inner(row.items, f"{path}.items"),
        counts=(row.min_items, math.inf if row.max_items is None else row.max_items),
        lengths=(row.min_length, math.inf if row.max_length is None else row.max_length),
        limits=(row.minimum, row.maximum),
        pattern=pattern,
        all_of=tuple(json_schema_of(part, f"{path}.allOf") for part in row.all_of),
        any_of=tuple(json_schema_of(part, f"{path}.anyOf") for part in row.any_of),
        one_of=tuple(json_schema_of(part, f"{path}.oneOf") for part in row.one_of),
    )


def _allowed(row: _SchemaRow) -> tuple[str, ...] | None:
    listed = None if row.enum is None else tuple(settled(value) for value in row.enum)
    if row.const is msgspec.UNSET:
        return listed
    const = settled(row.const)
    return (const,) if listed is None or const in listed else ()


def _inner(given: object, path: str) -> Schema | None:
    return None if given is msgspec.UNSET else json_schema_of(given, path)
