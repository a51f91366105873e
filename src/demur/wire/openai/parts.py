"""The messages and error bodies of the OpenAI family.

A message's parts come in one order: thoughts, content, refusal, tool calls. OpenAI, Azure and vLLM write an error as
`{"error": {...}}`, Ollama a string there, Mistral and older vLLM the same fields at the top, others a `message` or `detail`
alone; errors are always written OpenAI's way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.model.exchange import (
    NAMELESS_CALL,
    OpaquePart,
    ProviderError,
    RefusalPart,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.wire.blocks import MAX_ERROR_CHARS, POLICY_CODES, says_block
from demur.wire.fields import decode, opaque

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import Field, JsonObject

__all__ = ["THOUGHTS", "Failure", "read_error", "read_parts", "read_tool_results", "write_error", "write_message"]

THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Where servers put thoughts: DeepSeek and vLLM; newer vLLM and Ollama's OpenAI endpoint; Ollama's own."""

_BESIDE = frozenset({*THOUGHTS, "refusal", "tool_calls", "function_call"})
"""What a message says beside its content."""
_CALL = "tool_call."
_TEXT = "text."
_FORBIDDEN = 403
_FAILED = 400
_GUARDRAIL = "guardrail"


def read_parts(message: Field) -> tuple[Part, ...]:
    """Return the parts of a message."""
    content = message.get("content")
    parts: list[Part] = []
    if content is not None and content.is_text:
        parts = [TextPart(content.text())] if content.value else []
    elif content is not None:
        parts = [part for item in content for part in _read_item(item)]
    if not _BESIDE.isdisjoint(message.object()):
        said = (message.get(key) for key in THOUGHTS)
        thoughts = next((text.text() for text in said if text is not None and text.is_text and text.value), None)
        parts = [*([ThinkingPart(thoughts)] if thoughts else []), *parts, *_read_beside(message)]
    return tuple(parts)


def read_tool_results(message: Field) -> tuple[Part, ...]:
    """Return the parts of a message in the role `tool`: each text is a result."""
    call_id = message.text_at("tool_call_id") or ""
    parts = read_parts(message)
    # A result without text is still the result of its call.
    if not any(isinstance(part, TextPart) for part in parts):
        parts = (TextPart(""), *parts)
    return tuple(ToolResultPart(call_id, part.text) if isinstance(part, TextPart) else part for part in parts)


def write_message(role: str, parts: tuple[Part, ...]) -> JsonObject:
    """Return the message."""
    content: list[Any] = []
    calls: list[JsonObject] = []
    audio: JsonObject = {}
    for part in parts:
        match part:
            case OpaquePart("audio", body) if not audio and _is_recording(held := decode(body)):
                audio = {"audio": held}
            case TextPart(text) | ToolResultPart(_, text):
                content += [{"type": "text", "text": text}] if text else []
            case ToolCallPart(call_id, name, arguments):
                calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
            case OpaquePart(kind, body):
                _place(kind, decode(body), content=content, calls=calls)
            case RefusalPart() | ThinkingPart():
                pass
    # A single text is a string, as the API writes it, unless it has fields beside the text.
    only = content[0] if len(content) == 1 and isinstance(content[0], dict) else {}
    is_text = only.keys() == {"type", "text"} and only["type"] == "text"
    message: JsonObject = {"role": role, "content": only["text"] if is_text else content or None}
    # Several refusals, or thoughts, share one field, a line each.
    refusal = "\n".join(part.text for part in parts if isinstance(part, RefusalPart))
    thoughts = "\n".join(part.text for part in parts if isinstance(part, ThinkingPart))
    message |= audio | ({"refusal": refusal} if refusal else {})
    message |= {"reasoning_content": thoughts} if thoughts else {}
    return message | ({"tool_calls": calls} if calls else {})


def _is_recording(body: Any) -> bool:
    """Return whether this is a message's recording; a part of the content has a type."""
    return isinstance(body, dict) and "type" not in body


def _read_beside(message: Field) -> Iterator[Part]:
    """Yield the refusal and the tool calls, the old single function call as the last of them."""
    refusal = message.text_at("refusal")
    if refusal:
        yield RefusalPart(refusal)
    for call in message.each("tool_calls"):
        kind = call.tag_at("type") or "function"
        function = call.get("function")
        if kind == "function" and function is not None and function.text_at("name"):
            yield _tool_call(call.text_at("id") or "", function)
        else:
            yield opaque(call, _CALL + kind if _is_named(call, kind) else NAMELESS_CALL)
    legacy = message.get("function_call")
    if legacy is not None:
        yield _tool_call("", legacy) if legacy.text_at("name") else opaque(legacy, NAMELESS_CALL)


def _is_named(call: Field, kind: str) -> bool:
    """Return whether a call of another type says what it calls."""
    held = call.object().get(kind)
    return any(isinstance(at, dict) and isinstance(at.get("name"), str) and at["name"] for at in (call.value, held))


def _read_item(item: Field) -> list[Part]:
    kind = item.tag_at("type") if item.is_object else ""
    if item.is_text:
        return [TextPart(item.text())] if item.value else []
    if kind == "text":
        text = item.need("text").text()
        # What stands beside a text (`cache_control`, …) is opaque, after it: auditors read the words in it.
        beside = (opaque(field, _TEXT + key) for key, field in item.fields() if key not in ("type", "text"))
        if not text and any(name in item.object() for name in ("refusal", "value")):
            # An empty text beside which something else speaks.
            return [opaque(item, "text")]
        return [TextPart(text), *beside] if text else []
    if kind == "refusal":
        refusal = item.need("refusal").text()
        return [RefusalPart(refusal)] if refusal else []
    if kind == "thinking" and isinstance(item.value.get("thinking"), list):
        # Mistral's thoughts are a list of text parts of their own.
        thoughts = "".join(chunk.text_at("text") or "" for chunk in item.each("thinking"))
        return [ThinkingPart(thoughts)] if thoughts else []
    return [opaque(item)]


def _tool_call(call_id: str, function: Field) -> ToolCallPart:
    arguments = function.get("arguments")
    if arguments is None:
        return ToolCallPart(call_id, function.text_at("name") or "", "")
    # Ollama's own endpoint sends the arguments as an object.
    text = arguments.text() if arguments.is_text else arguments.json().decode("utf-8")
    return ToolCallPart(call_id, function.text_at("name") or "", text)


def _place(kind: str, body: Any, *, content: list[Any], calls: list[JsonObject]) -> None:
    """Put an opaque part back where its kind says that it came from."""
    if kind.startswith(_CALL) and isinstance(body, dict):
        calls.append(body)
    elif kind.startswith(_TEXT) and content and isinstance(content[-1], dict):
        content[-1][kind.removeprefix(_TEXT)] = body
    else:
        content.append(body)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error body, read: the error and what it signals."""

    error: ProviderError
    signal: Signal


def read_error(body: Field, status: int) -> Failure | None:
    """Return the failure that a body tells of, None where it tells of none."""
    found = body.get("error")
    if found is not None and found.is_object:
        return _read_object(found, status)
    if found is not None and found.value != "":
        return _bare(found.text(), found.path, status)
    # Without `error`, a body is an error by its own mark, or by the HTTP status that it came with.
    if body.tag_at("object") == "error" or (status >= _FAILED and body.get("message") and "choices" not in body.value):
        return _read_object(body, status)
    if status >= _FAILED and "choices" not in body.value:
        return _bare(_scalar(body.get("detail")) or "", "detail", status)
    return None


def write_error(error: ProviderError) -> JsonObject:
    """Return the `error` object."""
    body: JsonObject = {"message": error.message, "type": error.kind, "code": error.code, "param": None}
    return body | ({"innererror": {"code": error.inner_code}} if error.inner_code is not None else {})


def _read_object(found: Field, status: int) -> Failure:
    inner = found.get("innererror")
    inner_code = None if inner is None or not inner.is_object else _scalar(inner.get("code"))
    error = ProviderError(
        message=_scalar(found.get("message")) or "",
        code=_scalar(found.get("code")),
        kind=_scalar(found.get("type")),
        inner_code=inner_code,
    )
    return Failure(error, _signal(error, status, prefix=f"{found.path}." if found.path else ""))


def _bare(message: str, path: str, status: int) -> Failure:
    error = ProviderError(message)
    blocked = _is_guardrail(error, status) or says_block(message)
    kind = SignalKind.PROMPT_BLOCK if blocked else SignalKind.ERROR
    return Failure(error, Signal(kind, path if message else "status", message or str(status)))


def _signal(error: ProviderError, status: int, *, prefix: str) -> Signal:
    """Return what the error signals, at the path of the word that says it."""
    # Every error has exactly one signal: a block where a code says that policy stopped it, an error otherwise.
    said = (("code", error.code), ("innererror.code", error.inner_code), ("type", error.kind))
    for name, value in said:
        if value in POLICY_CODES:
            detail = error.inner_code if name == "code" else None
            return Signal(SignalKind.PROMPT_BLOCK, f"{prefix}{name}", str(value), detail=detail)
    name, value = next(((n, v) for n, v in said if v), ("message", error.message))
    if _is_guardrail(error, status):
        return Signal(SignalKind.PROMPT_BLOCK, f"{prefix}{name}", str(value), detail=error.message or None)
    if says_block(error.message):
        # Some servers keep the provider's sentence and not its code.
        return Signal(SignalKind.PROMPT_BLOCK, f"{prefix}message", error.message[:MAX_ERROR_CHARS])
    return Signal(SignalKind.ERROR, f"{prefix}{name}", str(value))


def _is_guardrail(error: ProviderError, status: int) -> bool:
    """Whether this is a guardrail's 403; without the word it is a matter of keys and permissions."""
    words = (error.code, error.kind, error.message)
    return status == _FORBIDDEN and any(_GUARDRAIL in word.lower() for word in words if word)


def _scalar(found: Field | None) -> str | None:
    """Return a string or number as text; vLLM and Mistral write numbers where OpenAI writes words."""
    value: Any = None if found is None else found.value
    if found is None or isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) else found.json().decode("utf-8")
