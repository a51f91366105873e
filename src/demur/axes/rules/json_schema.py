"""Whether a text is JSON of a given schema: the part of JSON Schema (2020-12) that responses of models need.

For the keywords here the verdict is that of a full validator; any other keyword is rejected.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from demur.errors import ShapeError
from demur.io.yaml import typed_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Schema", "json_schema_of", "schema_breach", "settled", "text_breach"]


@dataclass(frozen=True, slots=True)
class Schema:
    """What a value must be. None, and an empty tuple of `types`, require nothing; `never` rejects everything.

    `enum` holds values as `settled` JSON. `additional` is for properties that `properties` does not name.
    """

    types: tuple[str, ...] = ()
    enum: tuple[str, ...] | None = None
    properties: tuple[tuple[str, Schema], ...] = ()
    required: tuple[str, ...] = ()
    additional: Schema | None = None
    items: Schema | None = None
    counts: tuple[int, float] = (0, math.inf)
    lengths: tuple[int, float] = (0, math.inf)
    limits: tuple[float, float] = (-math.inf, math.inf)
    pattern: str | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    never: bool = False


def text_breach(text: str, schema: Schema) -> str | None:
    """Return why a text is not JSON of a schema, None where it is; one code fence around it is ignored."""

    def no_constant(word: str) -> object:
        # NaN and Infinity, which `json` reads but JSON does not have (RFC 8259, section 6).
        raise ValueError(f"{word} is not JSON")

    bare = text.strip()
    fenced = re.fullmatch(r"```(?:json)?\s*\n(.*?)\n?```", bare, re.DOTALL)
    try:
        value: object = json.loads(fenced[1] if fenced else bare, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    try:
        return schema_breach(value, schema)
    except RecursionError:
        return "the answer is nested too deeply"


def schema_breach(value: object, schema: Schema, path: str = "the answer") -> str | None:
    """Return the first breach of a schema by a JSON value, None where there is none."""
    return next(_breaches(value, schema, path), None)


def settled(value: object) -> str:
    """Return a JSON value as text that is the same for equal values: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_settled_numbers(value), sort_keys=True)


def _settled_numbers(value: object) -> object:
    match value:
        case dict():
            return {key: _settled_numbers(item) for key, item in value.items()}
        case list():
            return [_settled_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _breaches(value: object, schema: Schema, path: str) -> Iterator[str]:
    if schema.never:
        yield f"{path} is not allowed"
    if schema.types and not any(_is(value, kind) for kind in schema.types):
        yield f"{path} is no {' or '.join(schema.types)}"
    if schema.enum is not None and settled(value) not in schema.enum:
        yield f"{path} is none of the values allowed"
    if isinstance(value, dict):
        yield from _object_breaches(value, schema, path)
    elif isinstance(value, list):
        if not schema.counts[0] <= len(value) <= schema.counts[1]:
            yield f"{path} has {len(value)} items"
        for i, item in enumerate(value if schema.items is not None else ()):
            yield from _breaches(item, schema.items or Schema(), f"{path}[{i}]")
    else:
        yield from _scalar_breaches(value, schema, path)
    yield from _joined_breaches(value, schema, path)


def _is(value: object, kind: str) -> bool:  # noqa: PLR0911 - one a kind
    # A bool is an int in Python but not in JSON, and 1.0 is an integer to JSON Schema.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            return number and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
        case _:
            return number


def _object_breaches(value: dict[str, object], schema: Schema, path: str) -> Iterator[str]:
    for name in schema.required:
        if name not in value:
            yield f"{path} has no `{name}`"
    known = dict(schema.properties)
    for name, item in value.items():
        inner = known.get(name, schema.additional)
        if inner is not None:
            yield from _breaches(item, inner, f"{path}.{name}")


def _scalar_breaches(value: object, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if not schema.lengths[0] <= len(value) <= schema.lengths[1]:
            yield f"{path} has {len(value)} characters"
        if schema.pattern is not None and not re.search(schema.pattern, value):
            yield f"{path} does not match `{schema.pattern}`"
    elif _is(value, "number") and isinstance(value, int | float) and not schema.limits[0] <= value <= schema.limits[1]:
        yield f"{path} is out of its limits"


def _joined_breaches(value: object, schema: Schema, path: str) -> Iterator[str]:
    for part in schema.all_of:
        yield from _breaches(value, part, path)
    if schema.any_of and all(schema_breach(value, part) for part in schema.any_of):
        yield f"{path} fits none of the shapes allowed"
    if schema.one_of and sum(schema_breach(value, part) is None for part in schema.one_of) != 1:
        yield f"{path} does not fit exactly one of the shapes allowed"


_COMMENTS = frozenset({"$schema", "$id", "$comment", "title", "description", "default", "examples"})
_Type = Literal["array", "boolean", "integer", "null", "number", "object", "string"]


# Unknown keywords are forbidden: a schema that is half understood would pass what it should not.
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
    enum = None if row.enum is None else tuple(settled(value) for value in row.enum)
    if row.const is not msgspec.UNSET:
        # `const` and `enum` together ask for both.
        const = settled(row.const)
        enum = (const,) if enum is None or const in enum else ()
    return Schema(
        types=(row.type,) if isinstance(row.type, str) else row.type,
        enum=enum,
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


def _inner(given: object, path: str) -> Schema | None:
    return None if given is msgspec.UNSET else json_schema_of(given, path)
