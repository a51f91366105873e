"""Who said what, in any tool's spelling: OpenAI, Anthropic, Gemini, Bedrock, LangChain, OTel, the AI SDK?

Laws: `text_of` never raises; thoughts, tool calls and tool results are no text for people; a part that nobody reads is
kept opaque, and one that cannot be written as JSON is a `ShapeError`, the only error here; a row without any message is
None, not an empty request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.model.exchange import Message, RefusalPart, Request, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from demur.wire.fields import Field, opaque

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.interface import JsonObject

__all__ = ["message_of", "parts_of", "request_of", "role_of", "text_of"]

_ROLES = {
    "ai": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "developer": "developer",
    "function": "tool",
    "gpt": "assistant",
    "human": "user",
    "humanmessage": "user",
    "model": "assistant",
    "observation": "tool",
    "prompter": "user",
    "system": "system",
    "systemmessage": "system",
    "tool": "tool",
    "toolmessage": "tool",
    "user": "user",
}
_TEXTS = ("content", "parts", "value", "text")
"""Where tools put what a message says: OpenAI and most others, Gemini and OTel, ShareGPT, bare texts."""
_SYSTEMS = ("system", "instructions", "systemInstruction", "system_instruction", "system_prompt")
_ASKED = ("messages", "contents", "input", "prompt")
_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_CALLS = frozenset({"tool_use", "tool_call", "tool-call", "function_call"})
_CALL_HOLDERS = ("function", "toolUse", "functionCall", "function_call")
_RESULTS = frozenset({"tool_result", "tool-result", "tool_call_response", "function_call_output"})
_NO_TEXTS = _THOUGHTS | _CALLS | _RESULTS


def text_of(content: object) -> str:
    """Return the text of a content (a string, a part, a list of either), one a line."""
    items = content if isinstance(content, list) else [content]
    return "\n".join(text for item in items if (text := item if isinstance(item, str) else _part_text(item)))


def request_of(asked: object, model: str = "") -> Request | None:
    """Return the request in a text, a message, a list of messages, or an object that holds one; None where none is."""
    messages = tuple(_request_turns(asked) if isinstance(asked, dict) else _turns(asked))
    if not any(message.parts for message in messages):
        return None
    named = (asked.get("model") or asked.get("modelId")) if isinstance(asked, dict) else None
    return Request(model or (named if isinstance(named, str) else ""), messages)


def message_of(message: JsonObject) -> Message:
    """Return one turn; the texts of a tool are its results."""
    inner = message.get("kwargs")
    body: JsonObject = inner if isinstance(inner, dict) else message
    content = next((body[key] for key in _TEXTS if body.get(key) is not None), None)
    calls, refusal, role = body.get("tool_calls"), body.get("refusal"), role_of(message)
    parts = list(parts_of(content))
    parts += [RefusalPart(refusal)] if isinstance(refusal, str) and refusal else []
    parts += [_read_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if role == "tool":
        label = _first_text(body, "tool_call_id") or ""
        parts = [ToolResultPart(label, part.text) if isinstance(part, TextPart) else part for part in parts]
    return Message(role, tuple(parts))


def parts_of(content: object) -> tuple[Part, ...]:
    """Return the parts of a content: a string, a part, or a list of either; empty texts are none."""
    items = content if isinstance(content, list) else [content]
    parts = (_said_part(item) for item in items if item is not None)
    return tuple(part for part in parts if part != TextPart(""))


def role_of(message: JsonObject) -> str:
    """Return who speaks in a message, by our name for it; a message that does not say is the user's."""
    said = _first_text(message, "role", "from")
    if said:
        return _ROLES.get(said.lower(), said)
    # LangChain says `type: human`, or, serialised, has the name of the class at the end of `id`.
    path = message.get("id")
    kinds = (message.get("type"), path[-1] if isinstance(path, list) and path else None)
    return next((_ROLES[kind.lower()] for kind in kinds if isinstance(kind, str) and kind.lower() in _ROLES), "user")


def _request_turns(holder: JsonObject) -> Iterator[Message]:
    key = next((key for key in _ASKED if holder.get(key) is not None), None)
    if key is None:
        yield message_of(holder)
        return
    system = next((parts for name in _SYSTEMS if (parts := parts_of(_unwrapped(holder.get(name))))), ())
    if system:
        yield Message("system", system)
    yield from _turns(_unwrapped(holder[key]))


def _unwrapped(value: object) -> object:
    """Return the parts of Gemini's bare content, or the messages of an object that holds them."""
    if not isinstance(value, dict) or "role" in value:
        return value
    return next((value[key] for key in ("parts", "messages") if isinstance(value.get(key), list)), value)


def _turns(asked: object) -> Iterator[Message]:
    # LangChain keeps a batch of conversations; the first is the one that the row answers.
    batched = isinstance(asked, list) and bool(asked) and isinstance(asked[0], list)
    listed: Any = asked[0] if isinstance(asked, list) and batched else asked
    for turn in listed if isinstance(listed, list) else [listed]:
        if isinstance(turn, dict):
            yield message_of(turn)
        elif isinstance(turn, str) and turn.strip():
            yield Message("user", (TextPart(turn),))


def _said_part(item: Any) -> Part:
    text = item if isinstance(item, str) else _part_text(item)
    if text is not None:
        return TextPart(text)
    if not isinstance(item, dict):
        return opaque(Field(item), "unknown")
    kind = item.get("type")
    if kind == "refusal" and isinstance(item.get("refusal"), str):
        return RefusalPart(item["refusal"])
    return _unspoken(item, kind if isinstance(kind, str) else "")


def _unspoken(item: JsonObject, kind: str) -> Part:
    """Return a part that is not for people to read."""
    if kind in _THOUGHTS or item.get("thought") is True:
        return ThinkingPart(_first_text(item, "thinking", "reasoning", "text", "content") or "")
    if kind in _CALLS or any(isinstance(item.get(name), dict) for name in _CALL_HOLDERS):
        return _read_call(item)
    if kind in _RESULTS:
        label = _first_text(item, "tool_use_id", "toolCallId", "call_id", "id") or ""
        return ToolResultPart(label, text_of(item.get("content") or item.get("output") or item.get("response")))
    return opaque(Field(item))


def _part_text(item: object) -> str | None:
    """Return the text of a part that is for people to read, None where it is something else."""
    if not isinstance(item, dict) or item.get("thought") is True:
        return None
    kind = item.get("type")
    return None if isinstance(kind, str) and kind in _NO_TEXTS else _first_text(item, "text", "content")


def _read_call(item: JsonObject) -> ToolCallPart:
    inner = next((item[name] for name in _CALL_HOLDERS if isinstance(item.get(name), dict)), item)
    given: object = next((inner[key] for key in ("arguments", "input", "args") if inner.get(key) is not None), {})
    label = _first_text(item, "id", "tool_call_id", "toolCallId", "call_id") or _first_text(inner, "toolUseId") or ""
    arguments = given if isinstance(given, str) else Field(given).json().decode()
    return ToolCallPart(label, _first_text(inner, "name", "toolName") or "", arguments)


def _first_text(item: JsonObject, *names: str) -> str | None:
    return next((item[name] for name in names if isinstance(item.get(name), str)), None)
