"""What are Bedrock's content blocks, on the wire and in the model?

A block is an object with one field that names its kind. Every block is one part; a block that wraps text in
another (`guardContent`, `citationsContent`) is read as that text, and written as plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.exchange import OpaquePart, RefusalPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from demur.wire.blocks import arguments_of, input_of
from demur.wire.fields import Field, decode, opaque, root

if TYPE_CHECKING:
    from demur.model.exchange import Part
    from demur.wire.interface import JsonObject

__all__ = ["read_blocks", "write_block"]


def read_blocks(content: Field | None) -> tuple[Part, ...]:
    """Return the parts in a list of blocks."""
    return () if content is None else tuple(_part(block) for block in content)


def write_block(part: Part) -> JsonObject:
    """Return the part as a block."""
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ThinkingPart(text):
            return {"reasoningContent": {"reasoningText": {"text": text}}}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            return {"toolUse": {"toolUseId": call, "name": name, "input": input_of(arguments)}}
        case ToolResultPart(call_id=call, text=text):
            return {"toolResult": {"toolUseId": call, "content": [{"text": text}] if text else []}}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def _part(block: Field) -> Part:
    text = block.text_at("text")
    text = _wrapped_text(block) if text is None else text
    thought = block.get("reasoningContent")
    thought = None if thought is None else thought.get("reasoningText")
    call, result = block.get("toolUse"), block.get("toolResult")
    if text is not None:
        return TextPart(text)
    if thought is not None:
        return ThinkingPart(thought.text_at("text") or "")
    if call is not None:
        arguments = arguments_of(call.get("input"))
        return ToolCallPart(call.need("toolUseId").text(), call.need("name").text(), arguments)
    if result is not None:
        return ToolResultPart(result.need("toolUseId").text(), _tool_text(result))
    return opaque(block, next((name for name, _ in block.fields()), "unknown"))


def _wrapped_text(block: Field) -> str | None:
    guarded, cited = block.get("guardContent"), block.get("citationsContent")
    if guarded is not None:
        inner = guarded.get("text")
        return None if inner is None else inner.text_at("text")
    if cited is None:
        return None
    return "".join(text for item in cited.each("content") if (text := item.text_at("text")) is not None)


def _tool_text(result: Field) -> str:
    return "\n".join(
        arguments_of(item.get("json")) if item.get("json") is not None else item.text_at("text") or ""
        for item in result.each("content")
        if item.get("json") is not None or item.get("text") is not None
    )
