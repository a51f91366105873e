"""What is wrong with a request, in the order in which its provider would notice.

A check is a generator of problems of which only the first is taken, so later lines may rely on earlier ones. What the official
clients send is never a problem, and fields that nobody here reads are not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import Shape
from demur.simulate.server.responses import BAD_REQUEST, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.wire.fields import JsonObject

__all__ = ["first_problem"]

# The bounds of OpenAI's API reference.
_MAX_CHOICES = 128
_MAX_PENALTY = 2
_MAX_TEMPERATURE = 2
_CHAT_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# The kinds of parts, each with the field that it must have and its type.
_CHAT_PARTS = {
    "text": ("text", str),
    "image_url": ("image_url", dict),
    "input_audio": ("input_audio", dict),
    "file": ("file", dict),
    "refusal": ("refusal", str),
}
_INPUT_PARTS = {
    "input_text": ("text", str),
    "input_image": None,
    "input_file": None,
    "input_audio": None,
    "output_text": ("text", str),
    "refusal": None,
}
_INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
_FORMATS = ("text", "json_object", "json_schema")
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
"""What each type is called in an error."""

_MAX_CANDIDATES = 8
_BLOCKS = (
    "text",
    "image",
    "document",
    "search_result",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "container_upload",
)


def first_problem(body: JsonObject, shape: Shape, *, model_in_path: bool) -> Problem | None:
    """Return the first thing that is wrong with a request, None if it is valid."""
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
    # Azure names the deployment in the path.
    yield from _openai_field(body, "model", str, required=not model_in_path)
    yield from _openai_field(body, "messages", list, required=True)
    if not body["messages"]:
        yield _too_short("messages")
    for index, message in enumerate(body["messages"]):
        yield from _chat_message_problems(message, f"messages[{index}]")
    yield from _openai_field(body, "n", int)
    yield from _openai_range(body, "n", low=1, high=_MAX_CHOICES)
    yield from _openai_options(body)
    for name in ("max_tokens", "max_completion_tokens"):
        yield from _openai_field(body, name, int)
        yield from _openai_range(body, name, low=1)
    for name in ("presence_penalty", "frequency_penalty"):
        yield from _openai_number(body, name, low=-_MAX_PENALTY, high=_MAX_PENALTY)
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
    # An assistant that called a tool, or refused, has said nothing else.
    if content is None and message["role"] == "assistant" and any(message.get(key) for key in _INSTEAD_OF_CONTENT):
        return
    yield from _content_problems(content, f"{place}.content", _CHAT_PARTS)
    if content == []:
        yield _too_short(f"{place}.content")


def _content_problems(content: object, place: str, known: Mapping[str, tuple[str, type] | None]) -> Iterator[Problem]:
    """Yield what is wrong with the content of a turn: a text, or parts of known kinds."""
    if not isinstance(content, str | list):
        yield _wrong_type(place, "one of a string or array of objects", content)
    for index, part in enumerate(content) if isinstance(content, list) else ():
        at = f"{place}[{index}]"
        if not isinstance(part, dict):
            yield _wrong_type(at, "an object", part)
            return
        yield from _openai_field(part, "type", str, required=True, place=at)
        if part["type"] not in known:
            yield _wrong_value(f"{at}.type", part["type"], tuple(known))
        needed = known[part["type"]]
        if needed is not None:
            yield from _openai_field(part, needed[0], needed[1], required=True, place=at)


def _responses_problems(body: JsonObject, *, model_in_path: bool) -> Iterator[Problem]:
    yield from _openai_field(body, "model", str, required=not model_in_path)
    given = body.get("input")
    if given is None:
        yield _missing("input")
    if not isinstance(given, str | list):
        yield _wrong_type("input", "one of a string or array of objects", given)
    for index, item in enumerate(given) if isinstance(given, list) else ():
        place = f"input[{index}]"
        if not isinstance(item, dict):
            yield _wrong_type(place, "an object", item)
            return
        # Calls of tools and their results are items too, which nothing here reads.
        if item.get("type", "message") == "message":
            yield from _openai_field(item, "role", str, required=True, place=place)
            if item["role"] not in _INPUT_ROLES:
                yield _wrong_value(f"{place}.role", item["role"], _INPUT_ROLES)
            yield from _content_problems(item.get("content"), f"{place}.content", _INPUT_PARTS)
    yield from _openai_options(body)
    yield from _openai_field(body, "instructions", str)
    yield from _openai_field(body, "max_output_tokens", int)
    yield from _openai_range(body, "max_output_tokens", low=16)
    yield from _openai_field(body, "text", dict)
    wanted = (body.get("text") or {}).get("format")
    if wanted is not None and not isinstance(wanted, dict):
        yield _wrong_type("text.format", "an object", wanted)
    yield from _format_problems(wanted, "text.format", named=False)


def _openai_options(body: JsonObject) -> Iterator[Problem]:
    yield from _openai_field(body, "stream", bool)
    yield from _openai_number(body, "temperature", low=0, high=_MAX_TEMPERATURE)
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
    if value is not None and not _is_of(value, kind):
        yield _wrong_type(path, _WANTED[kind], value)


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


def _anthropic_problems(body: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with a request for a message."""
    yield from _required_field(body, "model", str)
    yield from _required_field(body, "max_tokens", int)
    if body["max_tokens"] < 1:
        yield Problem(BAD_REQUEST, "max_tokens: Input should be greater than or equal to 1")
    yield from _required_field(body, "messages", list)
    if not body["messages"]:
        yield Problem(BAD_REQUEST, "messages: at least one message is required")
    for index, message in enumerate(body["messages"]):
        place = f"messages.{index}"
        yield from _turn_problems(message, place, roles=("user", "assistant"))
        content = message.get("content")
        if not isinstance(content, str | list):
            yield Problem(BAD_REQUEST, f"{place}.content: Input should be a valid list or string")
        if not content and message["role"] == "user":
            yield Problem(BAD_REQUEST, f"{place}: user messages must have non-empty content")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            kind = block.get("type") if isinstance(block, dict) else None
            if kind not in _BLOCKS:
                yield Problem(BAD_REQUEST, f"{place}.content.{number}: Input should have a known 'type', not {kind!r}")
            if kind == "text" and not isinstance(block.get("text"), str):
                yield Problem(BAD_REQUEST, f"{place}.content.{number}.text.text: Field required")
    yield from _number_problems(body, "temperature", high=1)
    if "stream" in body:
        yield from _required_field(body, "stream", bool)


def _gemini_problems(body: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with a request for content."""
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        yield Problem(BAD_REQUEST, "* GenerateContentRequest.contents: contents is not specified")
        return
    for index, content in enumerate(contents):
        place = f"contents[{index}]"
        parts = content.get("parts") if isinstance(content, dict) else None
        if not isinstance(parts, list) or not parts:
            yield Problem(BAD_REQUEST, f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty.")
        elif content.get("role", "user") not in ("user", "model", "function"):
            yield Problem(BAD_REQUEST, "Please use a valid role: user, model.")
    # JSON for protocol buffers has names in camel case or as declared; Google takes both.
    config = body.get("generationConfig") or body.get("generation_config") or {}
    if not isinstance(config, dict):
        yield Problem(BAD_REQUEST, "Invalid value at 'generation_config'")
        return
    count = config.get("candidateCount", config.get("candidate_count"))
    if count is not None and not (_is_of(count, int) and 1 <= count <= _MAX_CANDIDATES):
        yield Problem(BAD_REQUEST, f"candidate_count must be between 1 and {_MAX_CANDIDATES}, but got {count!r}")
    yield from _number_problems(config, "temperature", high=2)
    yield from _limit_problems(config, "maxOutputTokens")


def _bedrock_problems(body: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with a turn of a conversation."""
    yield from _required_field(body, "messages", list)
    for index, message in enumerate(body["messages"]):
        place = f"messages.{index}"
        yield from _turn_problems(message, place, roles=("user", "assistant"))
        if not isinstance(message.get("content"), list):
            yield Problem(BAD_REQUEST, f"{place}.content: expected a list of content blocks")
        if not message["content"]:
            yield Problem(BAD_REQUEST, f"The content field in the Message object at {place} is empty.")
    if not body["messages"] or body["messages"][0]["role"] != "user":
        yield Problem(BAD_REQUEST, "A conversation must start with a user message.")
    config = body.get("inferenceConfig") or {}
    if not isinstance(config, dict):
        yield Problem(BAD_REQUEST, "inferenceConfig: expected an object")
        return
    yield from _number_problems(config, "temperature", high=1)
    yield from _limit_problems(config, "maxTokens")


def _number_problems(body: JsonObject, name: str, *, high: float) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield Problem(BAD_REQUEST, f"{name}: Input should be a valid number")
    elif not 0 <= value <= high:
        yield Problem(BAD_REQUEST, f"{name}: Input should be from 0 to {high}")


def _limit_problems(config: JsonObject, name: str) -> Iterator[Problem]:
    value = config.get(name)
    if value is not None and not (_is_of(value, int) and value >= 1):
        yield Problem(BAD_REQUEST, f"{name}: expected a whole number from 1 on, but got {value!r}")


def _turn_problems(message: object, place: str, *, roles: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(message, dict):
        yield Problem(BAD_REQUEST, f"{place}: Input should be an object")
    elif message.get("role") is None:
        yield Problem(BAD_REQUEST, f"{place}.role: Field required")
    elif message["role"] not in roles:
        said = f'Unexpected role "{message["role"]}". Allowed roles are {" and ".join(roles)}'
        yield Problem(BAD_REQUEST, f"{place}: {said}")


def _required_field(body: JsonObject, name: str, kind: type) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        yield Problem(BAD_REQUEST, f"{name}: Field required")
    elif not _is_of(value, kind):
        yield Problem(BAD_REQUEST, f"{name}: Input should be {_WANTED[kind]}")


def _is_of(value: object, kind: type) -> bool:
    """Return whether a value is of a type."""
    # In JSON true is no number, although Python's bool is an int.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
