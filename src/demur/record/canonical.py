"""Which bytes stand for a JSON value? Those of RFC 8785, so that anyone can make them again.

Laws: keys in UTF-16 order, no white space, the shortest escapes; integers within ±(2^53 - 1); no fractions at all, since a
score that decided is a decimal string by then and two writers of floats can differ; one value, one sequence of bytes.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from demur.errors import JsonError, ShapeError

__all__ = ["JsonValue", "as_object", "canonical", "is_canonical", "read_exact", "read_object", "read_plain"]

JsonValue = None | bool | int | str | list["JsonValue"] | dict[str, "JsonValue"]

_MAX_EXACT = 2**53 - 1
_DEEPEST = 4
"""Objects and lists inside each other that the quick reader takes: a context of ours has as many."""


class _FractionError(Exception):
    """A number with a fraction or an exponent; no ValueError, which the decoder would wrap."""


def _no_fraction(literal: str) -> float:
    raise _FractionError(literal)


def _exact_object() -> Any:  # noqa: ANN401 — the type of a type
    """Return what an object without fractions and inexact integers is to the decoder."""
    exact: Any = None | bool | Annotated[int, msgspec.Meta(ge=-_MAX_EXACT, le=_MAX_EXACT)] | str
    plain = exact
    for _ in range(_DEEPEST - 1):
        exact = plain | list[exact] | dict[str, exact]
    return dict[str, exact]


_READER = msgspec.json.Decoder(float_hook=_no_fraction)
_EXACT: msgspec.json.Decoder[dict[str, JsonValue]] = msgspec.json.Decoder(_exact_object())
_SORTED = msgspec.json.Encoder(order="sorted")
_AS_GIVEN = msgspec.json.Encoder()


def canonical(value: object) -> bytes:
    """Return the canonical bytes of plain values or msgspec Structs of them, already free of fractions."""
    try:
        data = _SORTED.encode(value)
    except (TypeError, UnicodeEncodeError, msgspec.MsgspecError) as exc:
        raise ShapeError(f"cannot be written as JSON ({exc})", hint="expected JSON values in UTF-8") from exc
    # The encoder sorts by code point, RFC 8785 by UTF-16 unit: they part only beyond ASCII.
    return data if data.isascii() else _AS_GIVEN.encode(_in_utf16_order(_READER.decode(data)))


def read_exact(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object, refusing what the canonical form cannot hold."""
    try:
        return _EXACT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Nested deeper than usual, or wrong: to say what is wrong takes a walk through the value.
        value = read_object(text)
        _refuse_inexact(value)
        return value


def read_object(text: str | bytes) -> dict[str, JsonValue]:
    """Return the JSON object, refusing any other value and fractions."""
    return as_object(read_plain(text))


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """Return the value if it is an object; refuse it otherwise."""
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
    """Return the JSON value, refusing fractions."""
    try:
        value: JsonValue = _READER.decode(text)
    except _FractionError as exc:
        raise ShapeError(f"a fraction, `{exc}`, in a record", hint="write scores as decimal strings") from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise JsonError(f"not JSON ({str(exc).lower()})") from exc
    return value


def _refuse_inexact(value: JsonValue) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _refuse_inexact(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_inexact(item)
    elif isinstance(value, int) and not -_MAX_EXACT <= value <= _MAX_EXACT:
        raise ShapeError(f"the integer `{value}` is beyond 2^53 - 1", hint="write it as a string")


def _in_utf16_order(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
        return {key: _in_utf16_order(item) for key, item in ordered}
    if isinstance(value, list):
        return [_in_utf16_order(item) for item in value]
    return value
