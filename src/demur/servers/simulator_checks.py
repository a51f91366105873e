"""What is wrong with this request, in the order in which the provider would notice?

Laws: a check yields problems and stops at the first that is asked for, so later lines may trust earlier ones; what the
official clients send is never a problem; fields that nobody here reads are nobody's problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import Shape
from demur.servers.simulator_errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["MOST_CHOICES", "MOST_TEMPERATURE", "first_problem"]

MOST_CHOICES = 128
_MOST_CANDIDATES = 8
MOST_TEMPERATURE = 2
_CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CHAT_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
_INPUT_ROLES = ("system", "developer", "user", "assistant")
_NAMES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int, "an integer"),
    (float, "a decimal number"),
    (list, "an array"),
    (dict, "an object"),
)
_WANTED = {str: "a string", int: "an integer", bool: "a boolean", list: "an array", dict: "an object"}
_BAD = 400


def first_problem(body: JsonObject, shape: Shape, *, model_in_path: bool) -> Problem | None:
    """Return the first thing that is wrong with a request, None where all is well."""
    match shape:
        case Shape.OPENAI_CHAT | Shape.AZURE:
            return next(_chat_problems(body, model_in_path=model_in_path), None)
        case Shape.OPENAI_RESPONSES:
            return next(_responses_problems(body, model_in_path=model_in_path), None)
        case Shape.ANTHROPIC:
            return next(_anthropic_problems(body), None)
        case Shape.GEMINI:
            return next(_gemini_problems(body), None)
        case Shape.BEDROCK:
            return next(_bedrock_problems(body), None)


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
    yield from _openai_field(body, "stream_options", dict)
    if body.get("stream_options") and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Problem(_BAD, message, "stream_options")


def _chat_message_problems(message: object, place: str) -> Iterator[Problem]:
    if not isinstance(message, dict):
        yield _wrong_type(place, "an object", message)
        return
    yield from _openai_field(message, "role", str, required=True, place=place)
    if message["role"] not in _CHAT_ROLES:
        yield _wrong_value(f"{place}.role", message["role"], _CHAT_ROLES)
    content = message.get("content")
    if content is None and message["role"] == "assistant":
        return
    if not isinstance(content, str | list):
        yield _wrong_type(f"{place}.content", "one of a string or array of objects", content)
    for index, part in enumerate(content) if isinstance(content, list) else ():
        yield from _chat_part_problems(part, f"{place}.content[{index}]")


def _chat_part_problems(part: object, place: str) -> Iterator[Problem]:
    if not isinstance(part, dict):
        yield _wrong_type(place, "an object", part)
        return
    yield from _openai_field(part, "type", str, required=True, place=place)
    if part["type"] not in _CHAT_PARTS:
        yield _wrong_value(f"{place}.type", part["type"], _CHAT_PARTS)
    if part["type"] == "text":
        yield from _openai_field(part, "text", str, required=True, place=place)


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


def _input_problems(item: object, place: str) -> Iterator[Problem]:
    if not isinstance(item, dict):
        yield _wrong_type(place, "an object", item)
        return
    if item.get("type", "message") != "message":
        return
    yield from _openai_field(item, "role", str, required=True, place=place)
    if item["role"] not in _INPUT_ROLES:
        yield _wrong_value(f"{place}.role", item["role"], _INPUT_ROLES)
    if not isinstance(item.get("content"), str | list):
        yield _wrong_type(f"{place}.content", "one of a string or array of objects", item.get("content"))


def _openai_options(body: JsonObject) -> Iterator[Problem]:
    yield from _openai_field(body, "stream", bool)
    temperature = body.get("temperature")
    if temperature is not None and (isinstance(temperature, bool) or not isinstance(temperature, int | float)):
        yield _wrong_type("temperature", "a decimal number", temperature)
    yield from _openai_range(body, "temperature", low=0, high=MOST_TEMPERATURE)


def _openai_field(
    body: JsonObject, name: str, kind: type, *, required: bool = False, place: str = ""
) -> Iterator[Problem]:
    path, value = f"{place}.{name}" if place else name, body.get(name)
    if value is None and required:
        yield _missing(path)
    if value is not None and not _is_of(value, kind):
        yield _wrong_type(path, _WANTED[kind], value)


def _openai_range(body: JsonObject, name: str, *, low: int, high: int | None = None) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        return
    noun = "integer" if isinstance(value, int) else "decimal"
    if value < low:
        message = f"Invalid '{name}': {noun} below minimum value. Expected a value >= {low}, but got {value} instead."
        yield Problem(_BAD, message, name, f"{noun}_below_min_value")
    if high is not None and value > high:
        message = f"Invalid '{name}': {noun} above maximum value. Expected a value <= {high}, but got {value} instead."
        yield Problem(_BAD, message, name, f"{noun}_above_max_value")


def _anthropic_problems(body: JsonObject) -> Iterator[Problem]:
    yield from _plain_field(body, "model", str)
    yield from _plain_field(body, "max_tokens", int)
    if body["max_tokens"] < 1:
        yield Problem(_BAD, "max_tokens: Input should be greater than or equal to 1")
    yield from _plain_field(body, "messages", list)
    if not body["messages"]:
        yield Problem(_BAD, "messages: at least one message is required")
    for index, message in enumerate(body["messages"]):
        place = f"messages.{index}"
        yield from _turn_problems(message, place, roles=("user", "assistant"))
        if not isinstance(message.get("content"), str | list):
            yield Problem(_BAD, f"{place}.content: Input should be a valid list or string")
    if "stream" in body:
        yield from _plain_field(body, "stream", bool)


def _gemini_problems(body: JsonObject) -> Iterator[Problem]:
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield Problem(_BAD, "* GenerateContentRequest.contents: contents is not specified")
        return
    for index, content in enumerate(contents):
        place = f"contents[{index}]"
        if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
            yield Problem(_BAD, f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty.")
        elif content.get("role", "user") not in ("user", "model", "function"):
            yield Problem(_BAD, "Please use a valid role: user, model.")
    config = body.get("generationConfig") or body.get("generation_config") or {}
    if not isinstance(config, dict):
        yield Problem(_BAD, "Invalid value at 'generation_config'")
        return
    count = config.get("candidateCount", config.get("candidate_count"))
    if count is not None and not (_is_of(count, int) and 1 <= count <= _MOST_CANDIDATES):
        yield Problem(_BAD, f"candidate_count must be between 1 and {_MOST_CANDIDATES}, but got {count!r}")


def _bedrock_problems(body: JsonObject) -> Iterator[Problem]:
    yield from _plain_field(body, "messages", list)
    if not body["messages"]:
        yield Problem(_BAD, "A conversation must start with a user message.")
    for index, message in enumerate(body["messages"]):
        place = f"messages.{index}"
        yield from _turn_problems(message, place, roles=("user", "assistant"))
        if not isinstance(message.get("content"), list):
            yield Problem(_BAD, f"{place}.content: expected a list of content blocks")


def _turn_problems(message: object, place: str, *, roles: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(message, dict):
        yield Problem(_BAD, f"{place}: Input should be an object")
    elif message.get("role") is None:
        yield Problem(_BAD, f"{place}.role: Field required")
    elif message["role"] not in roles:
        said = f'Unexpected role "{message["role"]}". Allowed roles are {" and ".join(roles)}'
        yield Problem(_BAD, f"{place}: {said}")


def _plain_field(body: JsonObject, name: str, kind: type) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        yield Problem(_BAD, f"{name}: Field required")
    elif not _is_of(value, kind):
        yield Problem(_BAD, f"{name}: Input should be {_WANTED[kind]}")


def _is_of(value: object, kind: type) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _missing(path: str) -> Problem:
    return Problem(_BAD, f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def _too_short(path: str) -> Problem:
    message = f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return Problem(_BAD, message, path, "empty_array")


def _wrong_type(path: str, wanted: str, got: object) -> Problem:
    name = next((name for kind, name in _NAMES if isinstance(got, kind)), "null")
    message = f"Invalid type for '{path}': expected {wanted}, but got {name} instead."
    return Problem(_BAD, message, path, "invalid_type")


def _wrong_value(path: str, got: str, known: tuple[str, ...]) -> Problem:
    names = ", ".join(f"'{word}'" for word in known)
    return Problem(_BAD, f"Invalid value: '{got[:100]}'. Supported values are: {names}.", path, "invalid_value")
