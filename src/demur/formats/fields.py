"""How the formats read a row: its scalar fields, its identity, and its messages in any tool's spelling.

Only a part that cannot be written as JSON raises here (a `ShapeError`); all else that is malformed is left out. The fields
`model`, `day`, `category` and `language` have these names wherever the row keeps them.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.model.exchange import (
    NAMELESS_CALL,
    Message,
    RefusalPart,
    Request,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.wire.fields import Field, decode, opaque

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.model.exchange import Part
    from demur.wire.fields import JsonObject

__all__ = [
    "HOLDERS",
    "MAX_LABEL_CHARS",
    "day_of",
    "fields_of",
    "key_of",
    "label_of",
    "message_of",
    "object_at",
    "other_spellings",
    "pair_key_in",
    "parts_of",
    "request_of",
    "role_of",
    "text_at",
    "text_of",
    "unwrapped_json",
]

_PAIR_KEYS = ("custom_id", "dataset_item_id", "example_id", "sample_id", "question_id", "item_id", "prompt_id")
_MAX_FIELDS = 64
MAX_LABEL_CHARS = 200
_MAX_INTEGER = 2**64
HOLDERS = ("metadata", "meta", "tags", "attributes", "labels", "properties", "extra", "info", "vars")
"""Objects whose own scalars are the row's, one level down."""
_NORMAL = {
    "model": ("model", "model_name", "modelId", "model_id", "modelVersion"),
    "category": ("category",),
    "language": ("language", "lang"),
}
_TIMES = (
    *("day", "date", "timestamp", "ts", "time", "created", "created_at", "createdAt", "createTime"),
    *("startTime", "start_time", "started_at", "startTimeUnixNano", "start_time_unix_nano"),
)


_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3), (10**8, 1))
"""From which size on an epoch counts in ns, µs, ms and s; what is smaller (before March 1973) is some other number."""
_DAY_CHARS = 8
"""`20240131` is a day and not an epoch."""
_MAX_TIME_CHARS = 40


def fields_of(record: JsonObject, *, skip: AbstractSet[str] = frozenset()) -> tuple[tuple[str, str], ...]:
    """Return the scalars of a row and of its one-level holders as text, the normal names first; at most 64."""
    found: dict[str, str] = {}
    for name, value in record.items():
        if name in skip or len(name) > MAX_LABEL_CHARS:
            continue
        nested = value.items() if name in HOLDERS and isinstance(value, dict) else None
        pairs = (
            [(name, value)] if nested is None else [(f"{name}.{k}", v) for k, v in nested if len(k) <= MAX_LABEL_CHARS]
        )
        for place, item in pairs:
            label = label_of(item)
            if label is not None:
                found.setdefault(place, label)
    # The normal names come first, so that the limit never cuts them off.
    fields = dict(_normal_fields(record, found))
    for name, label in found.items():
        fields.setdefault(name, label)
    return tuple(fields.items())[:_MAX_FIELDS]


def other_spellings(field: str) -> frozenset[str]:
    """Return the names under which a row may keep a field, besides its own; a day is computed from its own column too."""
    return frozenset(_TIMES) if field == "day" else frozenset(_NORMAL.get(field, ())) - {field}


def label_of(value: object) -> str | None:
    """Return a scalar as text, None where it is none, empty, not finite, or too long to be a label."""
    match value:
        case str():
            return value if 0 < len(value) <= MAX_LABEL_CHARS else None
        case bool():
            return "true" if value else "false"
        case int():
            # Python refuses to print very large integers; nobody cuts a run by them.
            return str(value) if abs(value) < _MAX_INTEGER else None
        case float():
            return repr(value) if math.isfinite(value) else None
        case _:
            return None


def key_of(value: object) -> str | None:
    """Return an identity as text, however long; None where it is empty, or neither text nor a whole number."""
    if isinstance(value, str):
        return value or None
    return None if isinstance(value, bool) or not isinstance(value, int) else label_of(value)


def day_of(value: object) -> str | None:
    """Return the ISO date (UTC) of an epoch in s, ms, µs or ns, or of an ISO time; None where it is neither."""
    if isinstance(value, str):
        text = value.strip()[:_MAX_TIME_CHARS]
        if not (text.isascii() and text.isdecimal() and len(text) > _DAY_CHARS):
            return _iso_day(text)
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_INTEGER:
        return None
    unit = next((unit for least, unit in _UNITS if value >= least), None)
    return None if unit is None else datetime.fromtimestamp(value / unit, UTC).date().isoformat()


def _normal_fields(record: JsonObject, found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what has a name of its own wherever it stands: at the top first, then in the holders in their order."""
    for name, spellings in _NORMAL.items():
        places = (*spellings, *(f"{holder}.{spelling}" for holder in HOLDERS for spelling in spellings))
        yield from ((name, found[place]) for place in [next((p for p in places if p in found), None)] if place)
    holders = [record, *(record[name] for name in HOLDERS if isinstance(record.get(name), dict))]
    day = next((day for holder in holders for name in _TIMES if (day := day_of(holder.get(name)))), None)
    yield from (("day", day),) if day else ()


def _iso_day(text: str) -> str | None:
    try:
        time = datetime.fromisoformat(text)
        return (time.astimezone(UTC) if time.tzinfo else time).date().isoformat()
    except (OverflowError, ValueError):
        return None


def unwrapped_json(value: object) -> object:
    """Return the object or list in a JSON string, and anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return decode(value)
    except ShapeError:
        return value


def pair_key_in(holder: object) -> str | None:
    """Return the identity that a user gave the question in a row's metadata; None where there is none."""
    if not isinstance(holder, dict):
        return None
    return next((label for name in _PAIR_KEYS if (label := label_of(holder.get(name))) is not None), None)


def text_at(holder: JsonObject, *names: str) -> str | None:
    """Return the first of these fields that is a text with something in it."""
    return next((holder[name] for name in names if isinstance(holder.get(name), str) and holder[name]), None)


def object_at(holder: JsonObject, name: str) -> JsonObject:
    """Return the object in a field, an empty one where there is none."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


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
# `args` are the arguments of the call that LlamaIndex traced, the prompt first.
_ASKED = ("messages", "contents", "input", "prompt", "args")
_THOUGHTS = frozenset({"thinking", "reasoning", "redacted_thinking"})
_CALLS = frozenset({"tool_use", "tool_call", "tool-call", "function_call"})
_CALL_HOLDERS = ("function", "toolUse", "functionCall", "function_call")
_RESULT_HOLDERS = ("functionResponse", "function_response")
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
    # LangChain keeps the provider's own calls in an object of its own.
    calls = body.get("tool_calls") or object_at(body, "additional_kwargs").get("tool_calls")
    refusal, role = body.get("refusal"), role_of(message)
    parts = list(parts_of(content))
    parts += [RefusalPart(refusal)] if isinstance(refusal, str) and refusal else []
    audio = body.get("audio")
    parts += [opaque(Field(audio), "audio")] if isinstance(audio, dict) and audio and role == "assistant" else []
    if calls:
        held = calls if isinstance(calls, list) else [calls]
        parts += [_read_call(call) if isinstance(call, dict) else opaque(Field(call), NAMELESS_CALL) for call in held]
    if role == "tool":
        label = _first_text(body, "tool_call_id") or ""
        parts = [ToolResultPart(label, part.text) if isinstance(part, TextPart) else part for part in parts]
    return Message(role, tuple(parts))


def parts_of(content: object) -> tuple[Part, ...]:
    """Return the parts of a content: a string, a part, or a list of either; empty texts are none."""
    items = _content_items(content)
    parts = (_said_part(item) for item in items if item is not None)
    return tuple(part for part in parts if part != TextPart(""))


def _content_items(content: object) -> list[Any]:
    """Return what a content is made of; Gemini's holds its parts, and some tools write a list of calls as a JSON string."""
    held = content.get("parts") if isinstance(content, dict) else content
    if isinstance(held, list):
        return held
    if isinstance(content, str) and content.startswith("[{"):
        listed = unwrapped_json(content)
        if isinstance(listed, list) and all(isinstance(item, dict) and _is_call(item) for item in listed):
            return listed
    return [content]


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
    # Google's Agent Development Kit keeps the instruction among the settings.
    holders = (holder, object_at(holder, "config"))
    system = next((parts for at in holders for name in _SYSTEMS if (parts := parts_of(_unwrapped(at.get(name))))), ())
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
    if _is_call(item):
        return _read_call(item)
    answered = next((item[name] for name in _RESULT_HOLDERS if isinstance(item.get(name), dict)), None)
    if answered is not None:
        label = _first_text(answered, "id", "name") or ""
        return ToolResultPart(label, Field(answered.get("response")).json().decode())
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


def _is_call(item: JsonObject) -> bool:
    kind = item.get("type")
    if not isinstance(kind, str):
        # The AI SDK's calls have no type before version 5.
        kind = "tool-call" if isinstance(item.get("toolName"), str) else ""
    return kind in _CALLS or any(isinstance(item.get(name), dict) for name in _CALL_HOLDERS)


def _read_call(item: JsonObject) -> Part:
    inner = next((item[name] for name in _CALL_HOLDERS if isinstance(item.get(name), dict)), item)
    given: object = next((inner[key] for key in ("arguments", "input", "args") if inner.get(key) is not None), {})
    label = _first_text(item, "id", "tool_call_id", "toolCallId", "call_id") or _first_text(inner, "toolUseId") or ""
    arguments = given if isinstance(given, str) else Field(given).json().decode()
    name = _first_text(inner, "name", "toolName") or _first_text(item, "name", "toolName")
    return ToolCallPart(label, name, arguments) if name else opaque(Field(item), NAMELESS_CALL)


def _first_text(item: JsonObject, *names: str) -> str | None:
    return next((item[name] for name in names if isinstance(item.get(name), str)), None)
