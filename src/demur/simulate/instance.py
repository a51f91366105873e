"""What is the plainest JSON that a schema allows?

For clients that ask for structured output and parse it. Laws: every required field is there; `enum`, `const`, `$ref` into the
schema's own definitions, the first of `anyOf` and the first of several types are followed; what is not understood
is a string; depth and size are bounded, since definitions may refer to themselves, once or many times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import msgspec

__all__ = ["instance_of"]

_MOST_DEPTH = 12
_MOST_ITEMS = 12
_MOST_VALUES = 5_000
_PLAIN: dict[str, object] = {"string": "simulated", "integer": 1, "number": 1.0, "boolean": True, "null": None}


def instance_of(schema: bytes) -> str:
    """Return a JSON text of the schema; an empty object where it is none."""
    whole: object = msgspec.json.decode(schema)
    found = _Schema(whole).value(whole, _MOST_DEPTH) if _is_table(whole) else {}
    return msgspec.json.encode(found).decode()


@dataclass(slots=True)
class _Schema:
    """A schema that values are made of, and how many more of them may be."""

    whole: object
    left: int = _MOST_VALUES

    def value(self, schema: object, depth: int) -> object:
        """Return a value of a part of the schema; null beyond the bounds."""
        self.left -= 1
        if not _is_table(schema) or depth == 0 or self.left < 0:
            return None
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "anyOf", "oneOf", "allOf"):
            found = schema.get(key)
            if isinstance(found, list) and found:
                return found[0] if key == "enum" else self.value(found[0], depth - 1)
        if isinstance(schema.get("$ref"), str):
            return self.value(_resolved(str(schema["$ref"]), self.whole), depth - 1)
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, object], depth: int) -> object:
        """Return a value of the type that a schema names."""
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if kind == "object" or "properties" in schema:
            fields = schema.get("properties")
            return {name: self.value(part, depth - 1) for name, part in fields.items()} if _is_table(fields) else {}
        if kind == "array":
            least = schema.get("minItems")
            count = min(least, _MOST_ITEMS) if isinstance(least, int) else 1
            return [self.value(schema.get("items", {}), depth - 1) for _ in range(count)]
        return _PLAIN.get(kind, "simulated") if isinstance(kind, str) else "simulated"


def _resolved(ref: str, whole: object) -> object:
    found = whole
    for step in ref.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if step and _is_table(found) else found
    return found


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
