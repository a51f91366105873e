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
    Usage,
)
from demur.wire.blocks import finish_of_word, says_block
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
    from collections.abc import Iterator

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

_WORDS = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "refusal": Finish.REFUSAL,
}
# What the format has no word for becomes the nearest one that keeps a filter visible as a refusal.
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
# A delta's type → the field of the delta, the field of the block that grows, and its strand. Other deltas (signatures,
# citations, kinds from the future) add nothing that is read.
_GROWING = {
    "text_delta": ("text", "text", Channel.TEXT),
    "thinking_delta": ("thinking", "thinking", Channel.THINKING),
    "input_json_delta": ("partial_json", "input", Channel.TOOL),
}
_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details")


def reads_request(body: JsonObject) -> bool:
    """Return whether the body is a request to `/v1/messages`, and not one to a chat completion that looks alike."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    if any(message.get("role") not in ("user", "assistant", "system") for message in messages):
        return False
    model, tools = body.get("model"), body.get("tools")
    contents = [message.get("content") for message in messages]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    kinds = [block.get("type") for block in blocks if isinstance(block, dict)]
    return (
        not _OWN_FIELDS.isdisjoint(body)
        or (isinstance(model, str) and "claude" in model)
        or (isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools))
        or any(isinstance(kind, str) and kind in _OWN_BLOCKS for kind in kinds)
    )


def read_request(body: JsonObject) -> Request:
    """Return the request."""
    top = root(body)
    messages = tuple([Message(turn.need("role").text(), _parts(turn.get("content"))) for turn in top.need("messages")])
    # The API has no system role among its turns, but takes one there from servers that imitate it.
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
    error = top.get("error")
    if error is not None:
        kind, message = error.text_at("type") or "api_error", error.text_at("message") or ""
        # A filter on the output has no type of its own, only a sentence.
        blocked = Signal(SignalKind.PROMPT_BLOCK, "error.message", message) if says_block(message) else None
        return Response(
            model="",
            signals=(blocked or Signal(SignalKind.ERROR, "error.type", kind),),
            error=ProviderError(message, kind=kind),
            id=top.text_at("request_id"),
            status=status,
        )
    raw = top.text_at("stop_reason")
    finish = (_WORDS.get(raw) or finish_of_word(raw)) if raw else None
    signals: tuple[Signal, ...] = ()
    if raw is not None and finish is Finish.CONTENT_FILTER:
        signals = (Signal(SignalKind.FILTER_STOP, "stop_reason", raw, choice=0),)
    elif raw is not None and finish is Finish.REFUSAL:
        # Why a classifier stopped the model is in `stop_details`; older responses have none.
        details = top.get("stop_details") or Field({})
        category, why = details.text_at("category"), details.text_at("explanation")
        signals = (Signal(SignalKind.REFUSAL_STOP, "stop_reason", raw, choice=0, category=category, detail=why),)
    return Response(
        model=top.text_at("model") or "",
        choices=(Choice(0, _parts(top.need("content")), finish, raw),),
        signals=signals,
        usage=usage_of(top.get("usage"), asked="input_tokens", answered="output_tokens"),
        id=top.text_at("id") or None,
        status=status,
    )


def write_response(response: Response) -> JsonObject:
    """Return the message, or the error, as this API would have answered."""
    if response.error is not None:
        return _failure(response)
    choice, usage = only_choice(response), response.usage or Usage(0, 0)
    refusal = next((signal for signal in response.signals if signal.kind is SignalKind.REFUSAL_STOP), None)
    # Clients take no message without `id` and `usage`: what is unknown is an empty id and counts of zero.
    return {
        "id": response.id or "",
        "stop_reason": finish_word(choice, _WORDS, defaults=_DEFAULTS),
        "stop_sequence": None,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [_write_block(part) for part in choice.parts],
    } | (
        {}
        if refusal is None
        else {"stop_details": present(type="refusal", category=refusal.category, explanation=refusal.detail)}
    )


def open_stream() -> StreamReader:
    """Return a reader for one streamed message."""
    return MessageStream()


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the message as stream events; an error comes last, and what is not complete has no end."""
    if response.choices or response.error is None:
        body = write_response(replace(response, error=None))
        ending = {name: body.get(name) for name in _AT_THE_END}
        yield _event("message_start", message={**body, **dict.fromkeys(ending), "content": []})
        for index, block in enumerate(body["content"]):
            start, deltas = _start_and_deltas(block, piece_chars)
            yield _event("content_block_start", index=index, content_block=start)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        if response.complete or any(value is not None for value in ending.values()):
            yield _event("message_delta", delta=ending, usage={"output_tokens": body["usage"]["output_tokens"]})
        if response.complete:
            yield _event("message_stop")
    if response.error is not None:
        yield event_of(_failure(response), "error")


@dataclass(slots=True)
class _Block:
    """A content block that is still growing; pieces are joined once, so that long responses take linear time."""

    body: JsonObject
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def whole(self) -> JsonObject:
        body = dict(self.body)
        for name, pieces in self.pieces.items():
            start = body.get(name)
            body[name] = tool_input(pieces, start=start) if name == "input" else "".join([start or "", *pieces])
        return body


class MessageStream:
    """Reads one streamed message."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._message: JsonObject | None = None
        self._blocks: dict[int, _Block] = {}
        self._error: JsonObject | None = None
        self._stopped = False

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of the response in it."""
        body = event_body(event)
        match body.tag_at("type"):
            case "message_start":
                self._message = dict(body.need("message").object())
            case "content_block_start":
                self._blocks[body.need("index").integer()] = _Block(dict(body.need("content_block").object()))
            case "content_block_delta":
                return self._grow(body.need("index").integer(), body.need("delta"))
            case "message_delta":
                message = self._message = {} if self._message is None else self._message
                message.update((name, value.value) for name, value in body.need("delta").fields())
                usage = body.get("usage")
                if usage is not None:
                    # The counts of input tokens come with the start, those of output tokens here.
                    counts = Field(message.get("usage") or {}, "usage").object()
                    message["usage"] = {**counts, **{name: count.value for name, count in usage.fields()}}
            case "message_stop":
                self._stopped = True
            case "error":
                self._error = body.object()
            case _:
                # Pings, and event types from the future: the API's versioning rules ask clients to pass them over.
                pass
        return ()

    def close(self) -> Response:
        """Return the message as far as it arrived, with the error that ended it, if any."""
        failure = None if self._error is None else read_response(self._error)
        if failure is not None and self._message is None:
            return failure
        if self._message is None and not self._blocks:
            return Response(model="", complete=False)
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        response = read_response({**(self._message or {}), "content": content})
        if failure is not None:
            return replace(response, error=failure.error, signals=response.signals + failure.signals, complete=False)
        return replace(response, complete=self._stopped)

    def _grow(self, index: int, delta: Field) -> tuple[Delta, ...]:
        block = self._blocks.get(index)
        if block is None:
            raise ShapeError(f"`index`: expected a block that has started, got {index}")
        kind = delta.tag_at("type")
        if kind not in _GROWING:
            return ()
        source, target, channel = _GROWING[kind]
        text = delta.need(source).text()
        start = block.body.get(target)
        if target != "input" and start is not None:
            # A start of the wrong kind is an error at its event, not when the stream is closed.
            Field(start, f"content[{index}].{target}").text()
        block.pieces.setdefault(target, []).append(text)
        return (Delta(0, channel, text),) if text else ()


def _parts(content: Field | None) -> tuple[Part, ...]:
    if content is None:
        return ()
    if content.is_text:
        return (TextPart(content.text()),) if content.text() else ()
    return tuple([_read_block(block) for block in content])


def _read_block(block: Field) -> Part:
    match block.tag_at("type"):
        case "text":
            return TextPart(block.need("text").text())
        case "thinking":
            return ThinkingPart(block.text_at("thinking") or "")
        case "tool_use":
            return ToolCallPart(block.need("id").text(), block.need("name").text(), arguments_of(block.get("input")))
        case "tool_result":
            content = block.get("content")
            if content is None or content.is_text:
                text = "" if content is None else content.text()
            else:
                text = "\n".join(said for item in content if (said := item.text_at("text")) is not None)
            return ToolResultPart(block.need("tool_use_id").text(), text)
        case "compaction":
            return opaque(block, "compaction")
        case _:
            return opaque(block)


def _write_block(part: Part) -> JsonObject:
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"type": "text", "text": text}
        case ThinkingPart(text):
            # Clients take no thinking block without a signature; ours cannot be verified, so it is empty.
            return {"type": "thinking", "thinking": text, "signature": ""}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call, "name": name, "input": input_of(arguments)}
        case ToolResultPart(call_id=call, text=text):
            content = [{"type": "text", "text": text}] if text else []
            return {"type": "tool_result", "tool_use_id": call, "content": content}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def _failure(response: Response) -> JsonObject:
    error = response.error or ProviderError("")
    body = {"type": error.kind or error.code or "api_error", "message": error.message}
    return present(type="error", error=body, request_id=response.id)


def _start_and_deltas(block: JsonObject, piece_chars: int) -> tuple[JsonObject, list[JsonObject]]:
    """Return the block as it starts and the deltas that fill it; blocks that do not grow start whole."""
    match block.get("type"):
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": t} for t in cut(block["text"], piece_chars)]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": text} for text in cut(block["thinking"], piece_chars)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": ""}, deltas
        case "tool_use":
            arguments = cut(arguments_of(Field(block["input"])), piece_chars)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text} for text in arguments]
        case _:
            return block, []


def _event(kind: str, **fields: Any) -> ServerEvent:
    return event_of({"type": kind, **fields}, kind)
