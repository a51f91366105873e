"""How does Anthropic's Messages API spell a request, an answer, a refusal and an error?

Laws: the top-level `system` is a leading system message; every content block is one part, so what a part cannot say (a
signature, citations, `cache_control`) finds its block again; there is one choice, number 0. A refusal is the
`stop_reason` of that name, its category and explanation in `stop_details`. The shape cannot leave out `id` and `usage`:
an unknown id is written as an empty string, unknown counts as zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    OpaquePart,
    ProviderError,
    RefusalPart,
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.wire.anthropic.stream import MessageStream, message_events
from demur.wire.blocks import arguments_of, extra_inputs, finish_word, input_of, only_choice, present, usage_of
from demur.wire.fields import Field, decode, opaque, root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.interface import JsonObject, StreamReader
    from demur.wire.sse import ServerEvent

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

_WORDS = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "refusal": Finish.REFUSAL,
}
# What the shape has no word for becomes the nearest one that keeps a filter visible.
_DEFAULTS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL: "tool_use",
    Finish.REFUSAL: "refusal",
    Finish.CONTENT_FILTER: "refusal",
    Finish.ERROR: "end_turn",
    Finish.UNKNOWN: "end_turn",
}
_OWN_FIELDS = frozenset({"system", "stop_sequences", "anthropic_version", "anthropic_beta", "thinking", "top_k"})
_OWN_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})


def reads_request(body: JsonObject) -> bool:
    """Return whether the body is a request to `/v1/messages`, and not one to a chat completion that looks alike."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    if any(message.get("role") not in ("user", "assistant", "system") for message in messages):
        return False
    model, tools = body.get("model"), body.get("tools")
    return (
        not _OWN_FIELDS.isdisjoint(body)
        or (isinstance(model, str) and "claude" in model)
        or (isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools))
        or any(_is_own_block(block) for message in messages for block in _list(message.get("content")))
    )


def read_request(body: JsonObject) -> Request:
    """Return the request."""
    top = root(body)
    messages = tuple(Message(field.need("role").text(), _parts(field.get("content"))) for field in top.need("messages"))
    system = _parts(top.get("system"))
    leading = (Message("system", system),) if system else ()
    stream = top.flag_at("stream") or False
    model = top.text_at("model") or ""
    return Request(model, leading + messages, stream, extra_inputs=extra_inputs(body, own="messages"))


def reads_response(body: JsonObject) -> bool:
    """Return whether the body is a message or an error of this API."""
    kind = body.get("type")
    if kind == "error":
        return isinstance(body.get("error"), dict)
    return kind == "message" and isinstance(body.get("content"), list)


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the message, or the error, as a response."""
    top = root(body)
    if top.get("error") is not None:
        return _read_failure(top, status)
    raw = top.text_at("stop_reason")
    finish = None if raw is None else _WORDS.get(raw, Finish.UNKNOWN)
    return Response(
        model=top.text_at("model") or "",
        choices=(Choice(0, _parts(top.need("content")), finish, raw),),
        signals=_refusal(top) if raw == "refusal" else (),
        usage=usage_of(top.get("usage"), asked="input_tokens", answered="output_tokens"),
        id=top.text_at("id") or None,
        status=status,
    )


def write_response(response: Response) -> JsonObject:
    """Return the message, or the error, as this API would have answered."""
    if response.error is not None:
        return _failure(response)
    body = _message_body(response)
    for block in body["content"]:
        if block.get("type") == "thinking":
            block.setdefault("signature", "")
    defaults = {"id": "", "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    return {**defaults, **body}


def open_stream() -> StreamReader:
    """Return a reader for one streamed message."""
    return MessageStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the message as stream events; one that is not complete stops short of its end."""
    error = None if response.error is None else _failure(response)
    if error is not None and not response.choices:
        return message_events(None, error=error, piece_chars=piece_chars, complete=False)
    body = write_response(replace(response, error=None))
    return message_events(body, error=error, piece_chars=piece_chars, complete=response.complete)


def _message_body(response: Response) -> JsonObject:
    choice = only_choice(response)
    refusal = next((signal for signal in response.signals if signal.kind is SignalKind.REFUSAL_STOP), None)
    usage = response.usage
    return present(
        id=response.id,
        type="message",
        role="assistant",
        model=response.model,
        content=[_block(part) for part in choice.parts],
        stop_reason=finish_word(choice, _WORDS, defaults=_DEFAULTS),
        stop_details=None
        if refusal is None
        else present(type="refusal", category=refusal.category, explanation=refusal.detail),
        usage=None if usage is None else {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    )


def _failure(response: Response) -> JsonObject:
    error = response.error or ProviderError("")
    body = {"type": error.kind or error.code or "api_error", "message": error.message}
    return present(type="error", error=body, request_id=response.id)


def _read_failure(top: Field, status: int) -> Response:
    error = top.need("error")
    kind = error.text_at("type") or "api_error"
    return Response(
        model="",
        signals=(Signal(SignalKind.ERROR, "error.type", kind),),
        error=ProviderError(error.text_at("message") or "", kind=kind),
        id=top.text_at("request_id"),
        status=status,
    )


def _refusal(top: Field) -> tuple[Signal, ...]:
    details = top.get("stop_details") or Field({})
    return (
        Signal(
            SignalKind.REFUSAL_STOP,
            "stop_reason",
            "refusal",
            choice=0,
            category=details.text_at("category"),
            detail=details.text_at("explanation"),
        ),
    )


def _parts(content: Field | None) -> tuple[Part, ...]:
    if content is None:
        return ()
    if content.is_text:
        return (TextPart(content.text()),) if content.text() else ()
    return tuple(_part(block) for block in content)


def _part(block: Field) -> Part:
    match block.tag_at("type"):
        case "text":
            return TextPart(block.need("text").text())
        case "thinking":
            return ThinkingPart(block.text_at("thinking") or "")
        case "tool_use":
            return ToolCallPart(block.need("id").text(), block.need("name").text(), arguments_of(block.get("input")))
        case "tool_result":
            return ToolResultPart(block.need("tool_use_id").text(), _result_text(block.get("content")))
        case _:
            return opaque(block)


def _result_text(content: Field | None) -> str:
    if content is None or content.is_text:
        return "" if content is None else content.text()
    return "\n".join(text for item in content if (text := item.text_at("text")) is not None)


def _block(part: Part) -> JsonObject:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "text", "text": text}
        case ThinkingPart(text):
            return {"type": "thinking", "thinking": text}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call, "name": name, "input": input_of(arguments)}
        case ToolResultPart(call_id=call, text=text):
            content = [{"type": "text", "text": text}] if text else []
            return {"type": "tool_result", "tool_use_id": call, "content": content}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def _is_own_block(block: object) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind in _OWN_BLOCKS


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
