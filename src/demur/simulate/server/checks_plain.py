"""What is wrong with a request to Anthropic, Gemini or Bedrock, in the order in which the provider would notice?

Laws: those of `simulator_checks`, which asks here for the providers whose errors name no parameter and no code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.simulate.server.errors import BAD_REQUEST, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["WANTED", "anthropic_problems", "bedrock_problems", "gemini_problems", "is_of"]

WANTED = {str: "a string", int: "an integer", bool: "a boolean", list: "an array", dict: "an object"}
"""What each type is called in an error."""

_MOST_CANDIDATES = 8
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


def anthropic_problems(body: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with a request for a message."""
    yield from _plain_field(body, "model", str)
    yield from _plain_field(body, "max_tokens", int)
    if body["max_tokens"] < 1:
        yield Problem(BAD_REQUEST, "max_tokens: Input should be greater than or equal to 1")
    yield from _plain_field(body, "messages", list)
    if not body["messages"]:
        yield Problem(BAD_REQUEST, "messages: at least one message is required")
    for index, message in enumerate(body["messages"]):
        yield from _anthropic_turn_problems(message, f"messages.{index}")
    yield from _number_problems(body, "temperature", high=1)
    if "stream" in body:
        yield from _plain_field(body, "stream", bool)


def _anthropic_turn_problems(message: JsonObject, place: str) -> Iterator[Problem]:
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


def gemini_problems(body: JsonObject) -> Iterator[Problem]:
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
    config = body.get("generationConfig") or body.get("generation_config") or {}
    if not isinstance(config, dict):
        yield Problem(BAD_REQUEST, "Invalid value at 'generation_config'")
        return
    count = config.get("candidateCount", config.get("candidate_count"))
    if count is not None and not (is_of(count, int) and 1 <= count <= _MOST_CANDIDATES):
        yield Problem(BAD_REQUEST, f"candidate_count must be between 1 and {_MOST_CANDIDATES}, but got {count!r}")
    yield from _number_problems(config, "temperature", high=2)
    yield from _limit_problems(config, "maxOutputTokens")


def bedrock_problems(body: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with a turn of a conversation."""
    yield from _plain_field(body, "messages", list)
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
    if value is not None and not (is_of(value, int) and value >= 1):
        yield Problem(BAD_REQUEST, f"{name}: expected a whole number from 1 on, but got {value!r}")


def _turn_problems(message: object, place: str, *, roles: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(message, dict):
        yield Problem(BAD_REQUEST, f"{place}: Input should be an object")
    elif message.get("role") is None:
        yield Problem(BAD_REQUEST, f"{place}.role: Field required")
    elif message["role"] not in roles:
        said = f'Unexpected role "{message["role"]}". Allowed roles are {" and ".join(roles)}'
        yield Problem(BAD_REQUEST, f"{place}: {said}")


def _plain_field(body: JsonObject, name: str, kind: type) -> Iterator[Problem]:
    value = body.get(name)
    if value is None:
        yield Problem(BAD_REQUEST, f"{name}: Field required")
    elif not is_of(value, kind):
        yield Problem(BAD_REQUEST, f"{name}: Input should be {WANTED[kind]}")


def is_of(value: object, kind: type) -> bool:
    """Return whether a value is of a type; true and false are no numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
