"""How is decoded JSON taken apart, and put together again, with errors that name the place?

A `Field` is a value and the path that led to it, as in `choices[0].message.content`; shapes read through it.
Laws: asking for a field of the wrong kind raises `ShapeError` with the path, what was expected and what is there;
`null` counts as absent; unknown fields are ignored; nothing that is asked here raises anything but `ShapeError`, whatever the JSON.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from demur.errors import ShapeError
from demur.model.exchange import OpaquePart

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Field", "canonical", "decode", "encode", "join_path", "opaque", "put", "root"]

_ENCODER = msgspec.json.Encoder()
_CANONICAL = msgspec.json.Encoder(order="deterministic")
_MAX_TAG_CHARS = 100
_PLAIN_NAME = re.compile(r'[^.\[\]"]+')
_STEP = re.compile(r'(?:^|\.)([^.\[\]"]+)|\[([0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "a string"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)


class Field(msgspec.Struct, frozen=True, gc=False):
    """A decoded JSON value and the path that led to it; the path of the whole body is empty."""

    value: Any
    path: str = ""

    def get(self, key: str) -> Field | None:
        """Return the field of this object, or None where it is absent or null."""
        value = self.value.get(key) if isinstance(self.value, dict) else self._wrong("an object")
        return None if value is None else Field(value, f"{self.path}.{key}" if self.path else key)

    def need(self, key: str) -> Field:
        """Return the field of this object; its absence is an error."""
        field = self.get(key)
        if field is None:
            raise ShapeError(f"`{self.path + '.' if self.path else ''}{key}`: expected a value, got nothing")
        return field

    def __iter__(self) -> Iterator[Field]:
        """Yield the items of this list."""
        for index, value in enumerate(self.list()):
            yield Field(value, f"{self.path}[{index}]")

    def each(self, key: str) -> Iterator[Field]:
        """Yield the items of the list in this object's field; none where the field is absent."""
        field = self.get(key)
        return iter(()) if field is None else iter(field)

    def fields(self) -> Iterator[tuple[str, Field]]:
        """Yield the name and the field of everything in this object that is not null."""
        for key in self.object():
            field = self.get(key)
            if field is not None:
                yield key, field

    def text_at(self, key: str) -> str | None:
        """Return the string in this object's field, or None where it is absent."""
        value = self.object().get(key)
        return value if value is None or isinstance(value, str) else self.need(key).text()

    def integer_at(self, key: str) -> int | None:
        """Return the whole number in this object's field, or None where it is absent."""
        value = self.object().get(key)
        return value if value is None or type(value) is int else self.need(key).integer()

    def flag_at(self, key: str) -> bool | None:
        """Return the truth value in this object's field, or None where it is absent."""
        value = self.object().get(key)
        return value if value is None or isinstance(value, bool) else self.need(key).flag()

    def tag_at(self, key: str) -> str:
        """Return a short string such as a part's `type`, or "" where there is none: what has no name is opaque."""
        value = self.object().get(key)
        return value[:_MAX_TAG_CHARS] if isinstance(value, str) else ""

    def text(self) -> str:
        """Return the string."""
        return self.value if isinstance(self.value, str) else self._wrong("a string")

    def integer(self) -> int:
        """Return the whole number; `3.0` is one, as some servers write it."""
        if isinstance(self.value, float) and self.value.is_integer():
            return int(self.value)
        return self.value if isinstance(self.value, int) and not self.is_flag else self._wrong("a whole number")

    def flag(self) -> bool:
        """Return the truth value."""
        return self.value if isinstance(self.value, bool) else self._wrong("true or false")

    def object(self) -> dict[str, Any]:
        """Return the object as it is."""
        return self.value if isinstance(self.value, dict) else self._wrong("an object")

    def list(self) -> list[Any]:
        """Return the list as it is."""
        return self.value if isinstance(self.value, list) else self._wrong("a list")

    @property
    def is_text(self) -> bool:
        """Whether this is a string."""
        return isinstance(self.value, str)

    @property
    def is_flag(self) -> bool:
        """Whether this is true or false."""
        return isinstance(self.value, bool)

    @property
    def is_object(self) -> bool:
        """Whether this is an object."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether this is a list."""
        return isinstance(self.value, list)

    def json(self) -> bytes:
        """Return the value as compact JSON, its fields in the order they came in."""
        return _encode(_ENCODER, self.value, self.path)

    def _wrong(self, expected: str) -> Any:
        place = f"`{self.path}`" if self.path else "the body"
        raise ShapeError(f"{place}: expected {expected}, got {_kind(self.value)}")


def root(body: Any) -> Field:
    """Return the whole body as a field; anything but an object is an error."""
    field = Field(body)
    field.object()
    return field


def opaque(field: Field, kind: str | None = None) -> OpaquePart:
    """Return the part that we do not read, under its own `type` unless the caller knows a better word."""
    tag = field.tag_at("type") if kind is None and field.is_object else kind
    return OpaquePart(tag or "unknown", field.json())


def put(body: dict[str, Any], path: str, *, value: Any) -> None:
    """Set the value at a path, making the objects and lists on the way."""
    steps = [
        name or (int(index) if index else str(decode(quoted)))
        for name, index, quoted in (match.groups() for match in _STEP.finditer(path))
    ]
    node: Any = body
    for step, after in zip(steps, (*steps[1:], None), strict=True):
        fresh = value if after is None else {} if isinstance(after, str) else []
        if isinstance(step, int):
            node.extend({} for _ in range(len(node), step + 1))
            if after is None or not node[step]:
                node[step] = fresh
        elif after is None or step not in node:
            node[step] = fresh
        node = node[step]


def join_path(path: str, step: str | int) -> str:
    """Return the path one step further; names that a path could misread are quoted."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN_NAME.fullmatch(step):
        return f"{path}.{step}" if path else step
    return f"{path}[{encode(step).decode()}]"


def canonical(value: Any) -> bytes:
    """Return compact JSON with the fields of every object sorted: equal values have equal bytes."""
    return _encode(_CANONICAL, value, "")


def encode(value: Any) -> bytes:
    """Return compact JSON."""
    return _encode(_ENCODER, value, "")


def decode(text: bytes | str) -> Any:
    """Return the decoded JSON of a part's body or a stream event."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ShapeError("expected JSON, got something else", hint=str(exc)) from exc


def _encode(encoder: msgspec.json.Encoder, value: Any, path: str) -> bytes:
    # Python's own json module lets through what JSON on the wire cannot hold: huge integers, lone surrogates, depth.
    try:
        return encoder.encode(value)
    except (OverflowError, RecursionError, TypeError, ValueError) as exc:
        place = f"`{path}`" if path else "the body"
        raise ShapeError(f"{place}: expected plain JSON, got something that cannot be written", hint=str(exc)) from exc


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    # `bool` stands before `int`, whose subclass it is.
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "something that is not JSON")
