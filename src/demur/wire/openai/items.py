"""How do the items of OpenAI's Responses API become parts, and parts items?

Laws: one item in, one item out, and so for the parts of a message, so that a JSON path means the same before and after:
a message that directly follows another, or is empty, is announced by an opaque `item.message`; a reasoning item
without words is an empty thought. Items that we do not read are opaque, `item.` before their type. Ids, annotations and
whatever else stands beside what is read is the caller's to keep (see `remainder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.model.exchange import (
    OpaquePart,
    RefusalPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.wire.fields import decode, opaque

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.model.exchange import Part
    from demur.wire.fields import Field
    from demur.wire.interface import JsonObject

__all__ = ["item_kind", "read_item", "read_items", "write_items"]

_ITEM = "item."
_AGAIN = OpaquePart("item.message", b"{}")
_TEXTS = frozenset({"input_text", "output_text", "text"})


def read_items(items: Iterable[Field]) -> tuple[Part, ...]:
    """Return the parts of all items, in order."""
    parts: list[Part] = []
    before = ""
    for item in items:
        kind, read = item_kind(item), read_item(item)
        if kind == "message" and (before == kind or not read):
            parts.append(_AGAIN)
        parts += read
        before = kind
    return tuple(parts)


def item_kind(item: Field) -> str:
    """Return the type of an item; what has a role and no type is a message."""
    return item.tag_at("type") or ("message" if item.get("role") else "unknown")


def read_item(item: Field) -> list[Part]:
    """Return the parts of one item."""
    match item_kind(item):
        case "message":
            return _read_content(item.get("content"))
        case "reasoning":
            return [ThinkingPart(_thoughts(item))]
        case "function_call":
            arguments = item.text_at("arguments") or ""
            return [ToolCallPart(item.text_at("call_id") or "", item.text_at("name") or "", arguments)]
        case "function_call_output":
            return _read_results(item.text_at("call_id") or "", item.get("output"))
        case kind:
            return [opaque(item, _ITEM + kind)]


def write_items(parts: tuple[Part, ...], *, role: str = "assistant") -> list[JsonObject]:
    """Return the items; texts, refusals and opaque parts that touch share a message, or a tool's output."""
    text_type = "output_text" if role == "assistant" else "input_text"
    items: list[JsonObject] = []
    for part in parts:
        match part:
            case TextPart(text):
                _open(items, role).append({"type": text_type, "text": text})
            case RefusalPart(text):
                _open(items, role).append({"type": "refusal", "refusal": text})
            case ThinkingPart(text):
                items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}] if text else []})
            case ToolCallPart(call_id, name, arguments):
                items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
            case ToolResultPart(call_id, text):
                _open_output(items, call_id).append({"type": "input_text", "text": text})
            case OpaquePart("item.message"):
                items.append({"type": "message", "role": role, "content": []})
            case OpaquePart(kind, body) if kind.startswith(_ITEM):
                items.append(decode(body))
            case OpaquePart(_, body):
                _open(items, role, or_output=True).append(decode(body))
    return items


def _read_content(content: Field | None) -> list[Part]:
    if content is None:
        return []
    if content.is_text:
        return [TextPart(content.text())]
    return [_read_part(part) for part in content]


def _read_part(part: Field) -> Part:
    kind = part.tag_at("type")
    if kind in _TEXTS:
        return TextPart(part.need("text").text())
    if kind == "refusal":
        return RefusalPart(part.need("refusal").text())
    return opaque(part)


def _read_results(call_id: str, output: Field | None) -> list[Part]:
    parts = _read_content(output)
    if not any(isinstance(part, TextPart) for part in parts):
        parts.insert(0, TextPart(""))
    return [ToolResultPart(call_id, part.text) if isinstance(part, TextPart) else part for part in parts]


def _thoughts(item: Field) -> str:
    """Return the reasoning itself where the server shows it, else its summary, a line a paragraph."""
    texts = [[part.text_at("text") or "" for part in item.each(key)] for key in ("content", "summary")]
    return "\n".join(texts[0] or texts[1])


def _open(items: list[JsonObject], role: str, *, or_output: bool = False) -> list[Any]:
    """Return the content of the message being written, a new one where the last item is of another kind."""
    last = items[-1] if items else {}
    if or_output and last.get("type") == "function_call_output" and isinstance(last.get("output"), list):
        return _list(last, "output")
    if last.get("type") != "message" or not isinstance(last.get("content"), list):
        items.append({"type": "message", "role": role, "content": []})
    return _list(items[-1], "content")


def _open_output(items: list[JsonObject], call_id: str) -> list[Any]:
    last = items[-1] if items else {}
    if last.get("type") != "function_call_output" or last.get("call_id") != call_id:
        items.append({"type": "function_call_output", "call_id": call_id, "output": []})
    return _list(items[-1], "output")


def _list(item: JsonObject, key: str) -> list[Any]:
    """Return the list that this module put there."""
    found: list[Any] = item[key]
    return found
