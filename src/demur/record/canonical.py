"""Canonical JSON (RFC 8785), so that anyone can make the signed bytes of a value again.

Records hold no fractions (scores are decimal strings) and no integers beyond ±(2^53 - 1).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from demur.errors import JsonError, ShapeError

__all__ = ["JsonValue", "as_object", "canonical", "is_canonical", "read_exact", "read_object", "read_plain"]

JsonValue = None | bool | int | str | list["JsonValue"] | dict[str, "JsonValue"]

# Beyond this, readers that hold numbers as IEEE 754 doubles (RFC 8785 assumes them) would see another integer.
_MAX_EXACT = 2**53 - 1
_MAX_DEPTH = 4
"""How deeply the quick reader takes objects and lists: a context of ours is no deeper."""


class _FractionError(Exception):
    """A number with a fraction or an exponent."""


def _raise_on_fraction(literal: str) -> float:
    # Not a ValueError: the decoder would wrap it, and the literal would be lost.
    raise _FractionError(literal)


# The decoder itself rejects fractions and inexact integers, several times faster than a walk through the decoded value.
_SCALAR: Any = None | bool | Annotated[int, msgspec.Meta(ge=-_MAX_EXACT, le=_MAX_EXACT)] | str
_NESTED: Any = _SCALAR
for _ in range(_MAX_DEPTH - 1):
    _NESTED = _SCALAR | list[_NESTED] | dict[str, _NESTED]

_READER = msgspec.json.Decoder(float_hook=_raise_on_fraction)
_EXACT: msgspec.json.Decoder[dict[str, JsonValue]] = msgspec.json.Decoder(dict[str, _NESTED])
_SORTED = msgspec.json.Encoder(order="sorted")
_AS_GIVEN = msgspec.json.Encoder()


def canonical(value: object) -> bytes:
    """Return the canonical bytes of plain values or msgspec Structs of them; they must hold no fractions."""
    try:
        data = _SORTED.encode(value)
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as exc:
        raise ShapeError(f"cannot be written as JSON ({exc})", hint="expected JSON values in UTF-8") from exc
    # The encoder sorts by code point, RFC 8785 (section 3.2.3) by UTF-16 unit: the orders differ only beyond ASCII.
    return data if data.isascii() else _AS_GIVEN.encode(_in_utf16_order(_READER.decode(data)))


def read_exact(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object; raise on what the canonical form cannot hold."""
    try:
        return _EXACT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Nested deeper than usual, or wrong: saying what is wrong takes a walk through the value.
        value = read_object(text)
        _check_exact(value)
        return value


def read_object(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object; raise on any other value and on fractions."""
    return as_object(read_plain(text))


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """Return the value if it is an object; raise otherwise."""
    if not isinstance(value, dict):
        raise ShapeError("the context is not an object of objects", hint="expected {`claims`: {…}, …}")
    return value


def is_canonical(data: bytes) -> bool:
    """Whether these are the canonical bytes of the JSON value they hold."""
    try:
        return canonical(read_plain(data)) == data
    except (JsonError, ShapeError):
        return False


def read_plain(text: str | bytes) -> JsonValue:
    """Return the JSON value; raise on fractions."""
    try:
        value: JsonValue = _READER.decode(text)
    except _FractionError as exc:
        raise ShapeError(f"a fraction, `{exc}`, in a record", hint="write scores as decimal strings") from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise JsonError(f"not JSON ({str(exc).lower()})") from exc
    return value


def _check_exact(value: JsonValue) -> None:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_exact(item)
    elif isinstance(value, int) and not -_MAX_EXACT <= value <= _MAX_EXACT:
        raise ShapeError(f"the integer `{value}` is beyond 2^53 - 1", hint="write it as a string")


def _in_utf16_order(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
        return {key: _in_utf16_order(item) for key, item in ordered}
    if isinstance(value, list):
        return [_in_utf16_order(item) for item in value]
    return value
