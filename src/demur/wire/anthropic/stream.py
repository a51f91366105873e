"""How does a streamed Anthropic message come together, and how is a message cut into events?

Both work on the JSON of a message: the reader builds the body that would have been answered at once, the writer takes
such a body apart. Laws: a message put together from `message_events(body)` is that body; only `message_stop` makes it
complete; pings and kinds of event from the future are passed over, as the API's versioning rules ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.exchange import Channel, Delta, Response
from demur.wire.blocks import arguments_of, cut, event_body, event_of, tool_input
from demur.wire.fields import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.wire.interface import JsonObject
    from demur.wire.sse import ServerEvent

__all__ = ["MessageStream", "message_events"]

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
