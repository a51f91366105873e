"""What every provider's format is read and written with: the interface of a codec, fields with paths, and shared parts.

`read_response(write_response(r)) == r` for every response that a format can express, and `open_stream` fed with
`write_stream(r)` closes to the same `r`. A field of the wrong kind is a `ShapeError` with its path, what was expected and
what is there; `null` counts as absent, and unknown fields are ignored.

Plain JSON out of bytes, text, dicts and the objects of providers' SDKs, with errors that a person can act on.

Whatever the bytes, `parse_json` raises nothing but `JsonError` and `EncodingError`; whatever the object, `plain` raises
nothing but `ShapeError`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from demur.errors import EncodingError, JsonError, ShapeError
from demur.model.exchange import Choice, Finish, OpaquePart, SignalKind, Usage, kind_of_input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.model.exchange import Delta, Request, Response

__all__ = [
    "SYSTEM_ROLES",
    "Codec",
    "Field",
    "JsonObject",
    "ReadBody",
    "ServerEvent",
    "StreamReader",
    "arguments_of",
    "canonical",
    "cut",
    "decode",
    "encode",
    "event_body",
    "event_of",
    "extra_inputs",
    "finish_word",
    "input_of",
    "join_path",
    "only_choice",
    "opaque",
    "parse_json",
    "parse_utf8",
    "plain",
    "present",
    "put",
    "root",
    "says_words",
    "tool_input",
    "unread_beside",
    "usage_of",
]


def parse_json(data: bytes, *, nan_is_null: bool = False) -> Any:
    """Return the decoded JSON in `data`; `NaN` is an error, or null for a tool that is known to write it."""
    try:
        return msgspec.json.decode(data)
    except UnicodeError:
        parse_utf8(data)
        raise
    except RecursionError as exc:
        raise JsonError("not JSON (nested too deeply)", hint="expected a JSON object") from exc
    except msgspec.DecodeError as exc:
        return _lenient(data, str(exc).removeprefix("JSON is ").lower(), nan_is_null=nan_is_null)


def parse_utf8(data: bytes) -> str:
    """Return the text in `data`."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        hint = "convert it: iconv -f LATIN1 -t UTF-8"
        raise EncodingError(f"not UTF-8 at byte {exc.start}", hint=hint) from exc


def _lenient(data: bytes, why: str, *, nan_is_null: bool) -> Any:
    """Return JSON that is valid but beyond the strict decoder: escaped lone surrogates, very long integers."""
    try:
        return json.loads(data, parse_constant=(lambda _: None) if nan_is_null else _no_number)
    except UnicodeDecodeError:
        parse_utf8(data)
        raise
    except (ValueError, RecursionError) as exc:
        raise JsonError(f"not JSON ({why})", hint="expected a JSON object") from exc


def _no_number(word: str) -> NoReturn:
    raise JsonError(f"not JSON (`{word}` is no number there)", hint="write null for what is missing")


_EXPECTED = "expected a provider's response: a dict, an SDK object or JSON text"
_CLIENT_SIDE = {"sdk_http_response", "automatic_function_calling_history", "parsed"}
"""Fields that the SDKs add to a response after it has arrived."""


def plain(value: Any) -> Any:
    """Return the decoded JSON in a dict, a list, a mapping, an SDK's object, or JSON text."""
    if isinstance(value, (str, bytes, bytearray)):
        try:
            decoded = decode(value if isinstance(value, str) else bytes(value))
        except ShapeError as exc:
            raise ShapeError(_EXPECTED, hint="the text given is not JSON") from exc
        if not isinstance(decoded, (dict, list)):
            raise ShapeError(_EXPECTED, hint="the JSON given is neither an object nor a list")
        return decoded
    if not (isinstance(value, (Mapping, list, tuple)) or _is_model(value)):
        raise ShapeError(_EXPECTED, hint=f"got a {type(value).__name__}")
    try:
        return _walk(value, "")
    except RecursionError as exc:
        raise ShapeError(_EXPECTED, hint="it is nested too deeply, or holds itself") from exc


def _walk(value: Any, path: str) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise ShapeError(f"{f'`{path}`' if path else 'the body'}: expected names that are strings, got {odd!r}")
        return {key: _walk(item, f"{path}.{key}" if path else key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if _is_model(value):
        # SDKs build models without validation, so a field may hold a value that its type does not allow: no warnings.
        # They also fill in what the wire never held: nulls are left out.
        try:
            return value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False, exclude=_CLIENT_SIDE)
        except (TypeError, ValueError) as exc:
            raise ShapeError(_EXPECTED, hint=f"`{type(value).__name__}` does not turn into JSON") from exc
    return _leaf(value, path)


def _leaf(value: Any, path: str) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        # boto3 hands out decoded blobs; on the wire they are base64.
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, date):
        return value.isoformat()
    raise ShapeError(f"`{path}`: expected JSON, got a {type(value).__name__}")


def _is_model(value: Any) -> bool:
    # No SDK is imported: a pydantic model is known by how it behaves.
    kind = type(value)
    return hasattr(kind, "model_fields") and callable(getattr(kind, "model_dump", None))


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    data: str
    event: str | None = None
    id: str | None = None
    retry_ms: int | None = None


JsonObject = dict[str, Any]


class StreamReader(Protocol):
    """Builds a response from stream events; knows nothing of sockets."""

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of the response in it."""

    def close(self) -> Response:
        """Return what has arrived; `complete` is False where the stream was cut off."""


class Codec(Protocol):
    """One provider's format, read and written."""

    def reads_request(self, body: JsonObject) -> bool:
        """Whether the body looks like a request of this format."""

    def read_request(self, body: JsonObject) -> Request:
        """Return the request."""

    def reads_response(self, body: JsonObject) -> bool:
        """Whether the body looks like a response (or an error body) of this format."""

    def read_response(self, body: JsonObject, *, status: int = 200) -> Response:
        """Return the response; an HTTP error's body is read as well."""

    def write_response(self, response: Response) -> JsonObject:
        """Return the body that this provider would have answered."""

    def open_stream(self) -> StreamReader:
        """Return a reader for one streamed response."""

    def write_stream(self, response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
        """Yield the response as stream events; texts are cut every `piece_chars` characters (0: not at all)."""


class ReadBody(Protocol):
    """Reads a whole body, as `read_response` does."""

    def __call__(self, body: JsonObject, *, status: int = 200) -> Response:
        """Return the response."""


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
        # Null and absent are one: SDKs and proxies write either for the same thing.
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
        # The common case without a `Field` for the value: codecs ask this a dozen times per response.
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
        # A tag becomes the kind of an opaque part, so its length is bounded.
        value = self.object().get(key)
        return value[:_MAX_TAG_CHARS] if isinstance(value, str) else ""

    def text(self) -> str:
        """Return the string."""
        return self.value if isinstance(self.value, str) else self._wrong("a string")

    def integer(self) -> int:
        """Return the whole number; `3.0` is one, as some servers write it."""
        if isinstance(self.value, float) and self.value.is_integer():
            return int(self.value)
        # `bool` is a subclass of `int` in Python, and no number in JSON.
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
        # `bool` comes before `int`, whose subclass it is.
        kind = next((name for kind, name in _KINDS if isinstance(self.value, kind)), "something that is not JSON")
        raise ShapeError(f"{place}: expected {expected}, got {'nothing' if self.value is None else kind}")


def root(body: Any) -> Field:
    """Return the whole body as a field; anything but an object is an error."""
    field = Field(body)
    field.object()
    return field


def opaque(field: Field, kind: str | None = None) -> OpaquePart:
    """Return the part that we do not read, under its own `type` unless the caller knows a better word."""
    tag = kind_of_input(field.tag_at("type")) if kind is None and field.is_object else kind
    return OpaquePart(tag or "unknown", field.json())


def says_words(value: Any, *, depth: int = 4) -> bool:
    """Return whether a value holds a text of more than one word, at whatever place in it."""
    if isinstance(value, str):
        return len(value.split(maxsplit=1)) > 1
    if not depth or not isinstance(value, dict | list):
        return False
    return any(says_words(item, depth=depth - 1) for item in (value.values() if isinstance(value, dict) else value))


def unread_beside(body: JsonObject, read: AbstractSet[str]) -> OpaquePart | None:
    """Return what stands for words in fields that nobody reads, None where there are none."""
    words = {name: value for name, value in body.items() if name not in read and says_words(value)}
    return OpaquePart("unread.not_text", encode(words)) if words else None


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


SYSTEM_ROLES = frozenset({"system", "developer"})
_INPUT_FIELDS = ("prompt", "messages", "input", "inputs", "documents", "query")
"""Top-level fields from which a provider, or a server that imitates one, may read words of a request."""


def arguments_of(field: Field | None) -> str:
    """Return a tool call's arguments as compact JSON; none are an empty object, text stays as it is."""
    if field is None:
        return "{}"
    return field.text() if field.is_text else field.json().decode()


def input_of(arguments: str) -> Any:
    """Return the object in a tool call's arguments, or the text itself where it is no JSON object."""
    if not arguments:
        return {}
    # A call that was cut off has arguments that are no JSON yet: they are kept as the text that came.
    try:
        value = decode(arguments)
    except ShapeError:
        return arguments
    return value if isinstance(value, dict) else arguments


def tool_input(pieces: list[str], *, start: Any) -> Any:
    """Return the input that arrived in pieces, or what the block started with where none did."""
    text = "".join(pieces)
    return input_of(text) if text else start


def cut(text: str, piece_chars: int) -> Iterator[str]:
    """Yield the text in pieces of at most `piece_chars` characters, whole where that is 0; nothing of an empty text."""
    size = piece_chars if piece_chars > 0 else max(len(text), 1)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def event_of(body: JsonObject, name: str | None = None) -> ServerEvent:
    """Return the stream event that holds this JSON."""
    return ServerEvent(data=encode(body).decode(), event=name)


def event_body(event: ServerEvent) -> Field:
    """Return the JSON object in a stream event."""
    return root(decode(event.data))


def finish_word(choice: Choice, words: Mapping[str, Finish], *, defaults: Mapping[Finish, str]) -> str | None:
    """Return the word to write for why a choice ended; None where it has not."""
    if choice.finish is None:
        return None
    raw = choice.finish_raw
    # The provider's own word, unless it came from another format or the finish was changed since.
    if raw is not None and words.get(raw, Finish.UNKNOWN) == choice.finish:
        return raw
    return defaults[choice.finish]


def only_choice(response: Response) -> Choice:
    """Return the choice for a shape that has one; a blocked prompt without an answer is one that a filter cut off."""
    if response.choices:
        return response.choices[0]
    # Only some formats have a place for a blocked prompt; in the others it must not look like an empty response.
    blocked = any(signal.kind is SignalKind.PROMPT_BLOCK for signal in response.signals)
    return Choice(0, (), Finish.CONTENT_FILTER if blocked else None)


def extra_inputs(body: JsonObject, *, own: str) -> tuple[OpaquePart, ...]:
    """Return the input fields of a request's body that its shape does not read; `own` is the one that it does."""
    # An attack can stand in any of them, so auditors are handed their words; canonical, so that equal inputs are equal.
    return tuple(
        [
            OpaquePart(name, canonical(body[name]))
            for name in _INPUT_FIELDS
            if name in body and name != own and body[name] not in (None, "")
        ]
    )


def usage_of(field: Field | None, *, asked: str, answered: str) -> Usage | None:
    """Return the tokens counted under these two names; a count that is absent is zero."""
    if field is None:
        return None
    return Usage(field.integer_at(asked) or 0, field.integer_at(answered) or 0)


def present(**fields: Any) -> JsonObject:
    """Return an object of the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
