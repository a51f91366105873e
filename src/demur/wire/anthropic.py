"""Anthropic's Messages API: requests, responses, refusals and errors, whole and streamed.

The top-level `system` is a leading system message; every content block is one part; there is one choice, number 0. The
stream reader assembles the body that the same message would have had unstreamed, and reads that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.exchange import (
    Channel,
    Choice,
    Delta,
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
from demur.wire.fields import (
    Field,
    arguments_of,
    cut,
    decode,
    event_body,
    event_of,
    extra_inputs,
    finish_word,
    input_of,
    only_choice,
    opaque,
    present,
    root,
    tool_input,
    usage_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import JsonObject, ServerEvent, StreamReader

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

# A delta's type → the field of the delta, the field of the block that grows, and its strand.
_GROWING = {
    "text_delta": ("text", "text", Channel.TEXT),
    "thinking_delta": ("thinking", "thinking", Channel.THINKING),
    "input_json_delta": ("partial_json", "input", Channel.TOOL),
}
_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details")


@dataclass(slots=True)
class _Block:
    """A content block that is still growing; pieces are joined once, so that long answers stay linear."""

    body: JsonObject
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def whole(self) -> JsonObject:
        body = dict(self.body)
        for name, pieces in self.pieces.items():
            start = body.get(name)
            body[name] = tool_input(pieces, start=start) if name == "input" else "".join([start or "", *pieces])
        return body


class MessageStream:
    """Reads one streamed message; `read` turns the finished body into a response."""

    def __init__(self, read: Callable[[JsonObject], Response]) -> None:
        self._read = read
        self._message: JsonObject | None = None
        self._blocks: dict[int, _Block] = {}
        self._error: JsonObject | None = None
        self._stopped = False

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of answer in it."""
        body = event_body(event)
        match body.tag_at("type"):
            case "message_start":
                self._message = dict(body.need("message").object())
            case "content_block_start":
                self._blocks[body.need("index").integer()] = _Block(dict(body.need("content_block").object()))
            case "content_block_delta":
                return self._grow(body.need("index").integer(), body.need("delta"))
            case "message_delta":
                self._end(body)
            case "message_stop":
                self._stopped = True
            case "error":
                self._error = body.object()
            case _:
                pass
        return ()

    def close(self) -> Response:
        """Return the message as far as it arrived, with the error that ended it, if any."""
        failure = None if self._error is None else self._read(self._error)
        if failure is not None and self._message is None:
            return failure
        if self._message is None and not self._blocks:
            return Response(model="", complete=False)
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        response = self._read({**(self._message or {}), "content": content})
        if failure is not None:
            return replace(response, error=failure.error, signals=response.signals + failure.signals, complete=False)
        return replace(response, complete=self._stopped)

    def _grow(self, index: int, delta: Field) -> tuple[Delta, ...]:
        block = self._blocks.get(index)
        if block is None:
            raise ShapeError(f"`index`: expected a block that has started, got {index}")
        kind = delta.tag_at("type")
        if kind == "signature_delta":
            block.body["signature"] = delta.need("signature").text()
        elif kind == "citations_delta":
            block.body["citations"] = [*(block.body.get("citations") or ()), delta.need("citation").value]
        if kind not in _GROWING:
            return ()
        source, target, channel = _GROWING[kind]
        text = delta.need(source).text()
        start = block.body.get(target)
        if target != "input" and start is not None:
            Field(start, f"content[{index}].{target}").text()
        block.pieces.setdefault(target, []).append(text)
        return (Delta(0, channel, text),) if text else ()

    def _end(self, body: Field) -> None:
        message = self._message = {} if self._message is None else self._message
        message.update((name, value.value) for name, value in body.need("delta").fields())
        usage = body.get("usage")
        if usage is not None:
            counts = message.get("usage") or {}
            message["usage"] = {**Field(counts, "usage").object(), **{k: v.value for k, v in usage.fields()}}


def message_events(
    body: JsonObject | None, *, error: JsonObject | None, piece_chars: int, complete: bool
) -> Iterator[ServerEvent]:
    """Yield the events of a message; an error comes last, and what is not complete has no end."""
    if body is not None:
        usage: JsonObject = body["usage"]
        ending = {name: body.get(name) for name in _AT_THE_END}
        yield _event("message_start", message={**body, **dict.fromkeys(ending), "content": [], "usage": usage})
        for index, block in enumerate(body["content"]):
            yield from _block_events(block, index, piece_chars=piece_chars)
        if complete or any(value is not None for value in ending.values()):
            yield _event("message_delta", delta=ending, usage={"output_tokens": usage["output_tokens"]})
        if complete:
            yield _event("message_stop")
    if error is not None:
        yield event_of(error, "error")


def _block_events(block: JsonObject, index: int, *, piece_chars: int) -> Iterator[ServerEvent]:
    start, deltas = _opened(block, piece_chars)
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _opened(block: JsonObject, piece_chars: int) -> tuple[JsonObject, list[JsonObject]]:
    """Return the block as it starts and the deltas that fill it; blocks that do not grow start whole."""
    match block.get("type"):
        case "text":
            cited = block["citations"] if isinstance(block.get("citations"), list) else []
            deltas: list[JsonObject] = [
                {"type": "text_delta", "text": text} for text in cut(block["text"], piece_chars)
            ]
            deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
            return {**block, "text": "", **({"citations": []} if cited else {})}, deltas
        case "thinking":
            thoughts = cut(block["thinking"], piece_chars)
            deltas = [{"type": "thinking_delta", "thinking": text} for text in thoughts]
            deltas += [{"type": "signature_delta", "signature": block["signature"]}]
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use":
            arguments = arguments_of(Field(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in cut(arguments, piece_chars)]
            return {**block, "input": {}}, deltas
        case _:
            return block, []


def _event(kind: str, **fields: Any) -> ServerEvent:
    return event_of({"type": kind, **fields}, kind)


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
