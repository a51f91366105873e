"""What is wrong with this request, in the order in which the provider would notice?

Laws: a check yields problems and stops at the first that is asked for, so later lines may trust earlier ones; what the
official clients send is never a problem; fields that nobody here reads are nobody's problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import Shape
from demur.simulate.server.checks_plain import (
    WANTED,
    anthropic_problems,
    bedrock_problems,
    gemini_problems,
    is_of,
)
from demur.simulate.server.errors import BAD_REQUEST, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["MOST_CHOICES", "MOST_PENALTY", "MOST_TEMPERATURE", "first_problem"]

MOST_CHOICES = 128
MOST_PENALTY = 2
MOST_TEMPERATURE = 2
_CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CHAT_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
_NEEDED_IN_PART = {"text": str, "image_url": dict, "input_audio": dict, "file": dict, "refusal": str}
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_FORMATS = ("text", "json_object", "json_schema")
_INPUT_PARTS = ("input_text", "input_image", "input_file", "input_audio", "output_text", "refusal")
_INPUT_ROLES = ("system", "developer", "user", "assistant")
_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a decimal number"),
    (list, "an array"),
    (dict, "an object"),
)


def first_problem(body: JsonObject, shape: Shape, *, model_in_path: bool) -> Problem | None:
    """Return the first thing that is wrong with a request, None where all is well."""
    match shape:
        case Shape.OPENAI_CHAT | Shape.AZURE:
            return next(_chat_problems(body, model_in_path=model_in_path), None)
        case Shape.OPENAI_RESPONSES:
            return next(_responses_problems(body, model_in_path=model_in_path), None)
        case Shape.ANTHROPIC:
            return next(anthropic_problems(body), None)
        case Shape.GEMINI:
            return next(gemini_problems(body), None)
        case Shape.BEDROCK:
            return next(bedrock_problems(body), None)


def _chat_problems(body: JsonObject, *, model_in_path: bool) -> Iterator[Problem]:
    yield from _openai_field(body, "model", str, required=not model_in_path)
    yield from _openai_field(body, "messages", list, required=True)
    if not body["messages"]:
        yield _too_short("messages")
    for index, message in enumerate(body["messages"]):
        yield from _chat_message_problems(message, f"messages[{index}]")
    yield from _openai_field(body, "n", int)
    yield from _openai_range(body, "n", low=1, high=MOST_CHOICES)
    yield from _openai_options(body)
    for name in ("max_tokens", "max_completion_tokens"):
        yield from _openai_field(body, name, int)
        yield from _openai_range(body, name, low=1)
    for name in ("presence_penalty", "frequency_penalty"):
        yield from _openai_number(body, name, low=-MOST_PENALTY, high=MOST_PENALTY)
    yield from _openai_field(body, "seed", int)
    yield from _openai_field(body, "stream_options", dict)
    if body.get("stream_options"):
        yield from _openai_field(body["stream_options"], "include_usage", bool, place="stream_options")
    if body.get("stream_options") and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Problem(BAD_REQUEST, message, "stream_options")
    yield from _openai_field(body, "response_format", dict)
    yield from _format_problems(body.get("response_format"), "response_format", named=True)


def _format_problems(wanted: JsonObject | None, place: str, *, named: bool) -> Iterator[Problem]:
    """Yield what is wrong with a format; chat completions hold its schema under a name, responses beside the type."""
    if wanted is None:
        return
    yield from _openai_field(wanted, "type", str, required=True, place=place)
    if wanted["type"] not in _FORMATS:
        yield _wrong_value(f"{place}.type", wanted["type"], _FORMATS)
    if wanted["type"] == "json_schema" and named:
        yield from _openai_field(wanted, "json_schema", dict, required=True, place=place)


def _chat_message_problems(message: object, place: str) -> Iterator[Problem]:
    if not isinstance(message, dict):
        yield _wrong_type(place, "an object", message)
        return
    yield from _openai_field(message, "role", str, required=True, place=place)
    if message["role"] not in _CHAT_ROLES:
        yield _wrong_value(f"{place}.role", message["role"], _CHAT_ROLES)
    if message["role"] == "tool":
        yield from _openai_field(message, "tool_call_id", str, required=True, place=place)
    content = message.get("content")
    if content is None and message["role"] == "assistant" and any(message.get(key) for key in _INSTEAD_OF_CONTENT):
        return
    if not isinstance(content, str | list):
        yield _wrong_type(f"{place}.content", "one of a string or array of objects", content)
    if content == []:
        yield _too_short(f"{place}.content")
    for index, part in enumerate(content) if isinstance(content, list) else ():
        yield from _chat_part_problems(part, f"{place}.content[{index}]")


def _chat_part_problems(part: object, place: str) -> Iterator[Problem]:
    if not isinstance(part, dict):
        yield _wrong_type(place, "an object", part)
        return
    yield from _openai_field(part, "type", str, required=True, place=place)
    if part["type"] not in _CHAT_PARTS:
        yield _wrong_value(f"{place}.type", part["type"], _CHAT_PARTS)
    kind = part["type"]
    yield from _openai_field(part, kind, _NEEDED_IN_PART[kind], required=True, place=place)


def _responses_problems(body: JsonObject, *, model_in_path: bool) -> Iterator[Problem]:
    yield from _openai_field(body, "model", str, required=not model_in_path)
    given = body.get("input")
    if given is None:
        yield _missing("input")
    if not isinstance(given, str | list):
        yield _wrong_type("input", "one of a string or array of objects", given)
    for index, item in enumerate(given) if isinstance(given, list) else ():
        yield from _input_problems(item, f"input[{index}]")
    yield from _openai_options(body)
    yield from _openai_field(body, "instructions", str)
    yield from _openai_field(body, "max_output_tokens", int)
    yield from _openai_range(body, "max_output_tokens", low=16)
    yield from _openai_field(body, "text", dict)
    wanted = (body.get("text") or {}).get("format")
    if wanted is not None and not isinstance(wanted, dict):
        yield _wrong_type("text.format", "an object", wanted)
    yield from _format_problems(wanted, "text.format", named=False)


def _input_problems(item: object, place: str) -> Iterator[Problem]:
    if not isinstance(item, dict):
        yield _wrong_type(place, "an object", item)
        return
    if item.get("type", "message") != "message":
        return
    yield from _openai_field(item, "role", str, required=True, place=place)
    if item["role"] not in _INPUT_ROLES:
        yield _wrong_value(f"{place}.role", item["role"], _INPUT_ROLES)
    content = item.get("content")
    if not isinstance(content, str | list):
        yield _wrong_type(f"{place}.content", "one of a string or array of objects", content)
    for index, part in enumerate(content) if isinstance(content, list) else ():
        yield from _input_part_problems(part, f"{place}.content[{index}]")


def _input_part_problems(part: object, place: str) -> Iterator[Problem]:
    if not isinstance(part, dict):
        yield _wrong_type(place, "an object", part)
        return
    yield from _openai_field(part, "type", str, required=True, place=place)
    if part["type"] not in _INPUT_PARTS:
        yield _wrong_value(f"{place}.type", part["type"], _INPUT_PARTS)
    if part["type"] in ("input_text", "output_text"):
        yield from _openai_field(part, "text", str, required=True, place=place)


def _openai_options(body: JsonObject) -> Iterator[Problem]:
    yield from _openai_field(body, "stream", bool)
    yield from _openai_number(body, "temperature", low=0, high=MOST_TEMPERATURE)
    yield from _openai_number(body, "top_p", low=0, high=1)
    yield from _openai_field(body, "user", str)
    yield from _openai_field(body, "tools", list)


def _openai_number(body: JsonObject, name: str, *, low: int, high: int) -> Iterator[Problem]:
    value = body.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        yield _wrong_type(name, "a decimal number", value)
    yield from _openai_range(body, name, low=low, high=high)


def _openai_field(
    body: JsonObject, name: str, kind: type, *, required: bool = False, place: str = ""
) -> Iterator[Problem]:
    path, value = f"{place}.{name}" if place else name, body.get(name)
    if value is None and required:
        yield _missing(path)
    if value is not None and not is_of(value, kind):
        yield _wrong_type(path, WANTED[kind], value)


def _openai_range(body: JsonObject, name: str, *, low: int, high: int | None = None) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        return
    noun = "integer" if isinstance(value, int) else "decimal"
    if value < low:
        message = f"Invalid '{name}': {noun} below minimum value. Expected a value >= {low}, but got {value} instead."
        yield Problem(BAD_REQUEST, message, name, f"{noun}_below_min_value")
    if high is not None and value > high:
        message = f"Invalid '{name}': {noun} above maximum value. Expected a value <= {high}, but got {value} instead."
        yield Problem(BAD_REQUEST, message, name, f"{noun}_above_max_value")


def _missing(path: str) -> Problem:
    return Problem(BAD_REQUEST, f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def _too_short(path: str) -> Problem:
    message = f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return Problem(BAD_REQUEST, message, path, "empty_array")


def _wrong_type(path: str, wanted: str, got: object) -> Problem:
    name = next((name for kind, name in _NAMES if isinstance(got, kind)), "null")
    message = f"Invalid type for '{path}': expected {wanted}, but got {name} instead."
    return Problem(BAD_REQUEST, message, path, "invalid_type")


def _wrong_value(path: str, got: str, known: tuple[str, ...]) -> Problem:
    names = ", ".join(f"'{word}'" for word in known)
    return Problem(BAD_REQUEST, f"Invalid value: '{got[:100]}'. Supported values are: {names}.", path, "invalid_value")
