"""Bedrock's ConverseStream: events joined into the body that `/converse` would have answered, and a body cut into events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.model.exchange import Channel, Delta, Response
from demur.wire.fields import Field, arguments_of, cut, event_body, event_of, tool_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.wire.fields import JsonObject, ServerEvent

__all__ = ["ConverseStream", "converse_events"]

_PADDING = "p"
"""A field that the service adds to events, so that their lengths tell nothing of the text."""
_AT_STOP = ("stopReason", "additionalModelResponseFields")


@dataclass(slots=True)
class _Block:
    """A content block that is still growing; pieces are joined once, so that long responses take linear time."""

    start: JsonObject = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    reasoning: JsonObject = field(default_factory=dict)
    image: JsonObject = field(default_factory=dict)

    def whole(self) -> JsonObject:
        match self.start:
            case {"toolUse": dict(call)}:
                return {"toolUse": {**call, "input": tool_input(self.arguments, start=call.get("input", {}))}}
            case {"toolResult": dict(result)}:
                return {"toolResult": {**result, "content": self.results}}
            case {"image": dict(image)}:
                return {"image": {**image, **self.image}}
            case _:
                if self.thought or "signature" in self.reasoning:
                    return {"reasoningContent": {"reasoningText": {"text": "".join(self.thought), **self.reasoning}}}
                # Reasoning without words is redacted: an opaque block.
                redacted = {"reasoningContent": self.reasoning} if self.reasoning else {}
                return redacted or self.start or {"text": "".join(self.text)}

    def grow(self, delta: Field) -> Iterator[Delta]:
        text, call, thought = delta.text_at("text"), delta.get("toolUse"), delta.get("reasoningContent")
        image = delta.get("image")
        if text is not None:
            yield from _piece(self.text, text, channel=Channel.TEXT)
        if call is not None:
            yield from _piece(self.arguments, call.text_at("input") or "", channel=Channel.TOOL)
        if thought is not None:
            if (words := thought.text_at("text")) is not None:
                yield from _piece(self.thought, words, channel=Channel.THINKING)
            self.reasoning.update((name, item.value) for name, item in thought.fields() if name != "text")
        if image is not None:
            self.image.update(image.object())
        self.results.extend(item.value for item in delta.each("toolResult"))


class ConverseStream:
    """Reads one streamed response; `read` turns the finished body into a response."""

    def __init__(self, read: Callable[[JsonObject], Response]) -> None:
        self._read = read
        self._body: JsonObject = {}
        self._message: JsonObject | None = None
        self._blocks: dict[int, _Block] = {}
        self._error: JsonObject | None = None
        self._ended = False

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of the response in it."""
        body = event_body(event)
        name = event.event or ""
        match name:
            case "messageStart":
                self._message = _unpadded(body)
            case "contentBlockStart":
                block = self._block(body)
                block.start = {name: item.value for name, item in body.need("start").fields()}
            case "contentBlockDelta":
                return tuple(self._block(body).grow(body.need("delta")))
            case "messageStop":
                self._body.update(_unpadded(body))
            case "metadata":
                # The last event: a stream without it was cut off.
                self._body.update(_unpadded(body))
                self._ended = True
            # An exception of the service is an event that bears its name.
            case _ if name == "error" or name.endswith("Exception"):
                self._error = {"__type": name[:1].upper() + name[1:], **_unpadded(body)}
            case _:
                pass
        return ()

    def close(self) -> Response:
        """Return the response as far as it arrived, with the error that ended it, if any."""
        failure = None if self._error is None else self._read(self._error)
        if self._message is None and not self._blocks and not self._body:
            return failure or Response(model="", complete=False)
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        response = self._read({**self._body, "output": {"message": {**(self._message or {}), "content": content}}})
        if failure is not None:
            return replace(response, error=failure.error, signals=response.signals + failure.signals, complete=False)
        return replace(response, complete=self._ended and "stopReason" in self._body)

    def _block(self, body: Field) -> _Block:
        # Only tools and images announce themselves; a text block starts with its first piece.
        return self._blocks.setdefault(body.need("contentBlockIndex").integer(), _Block())


def converse_events(
    body: JsonObject | None, *, error: JsonObject | None, piece_chars: int, complete: bool
) -> Iterator[ServerEvent]:
    """Yield the events of a response; an error comes last, and what is not complete has no `metadata`."""
    if body is not None:
        message: JsonObject = body["output"]["message"]
        yield event_of({name: value for name, value in message.items() if name != "content"}, "messageStart")
        for index, block in enumerate(message["content"]):
            start, deltas = _start_and_deltas(block, piece_chars)
            if start:
                yield event_of({"start": start, "contentBlockIndex": index}, "contentBlockStart")
            for delta in deltas:
                yield event_of({"delta": delta, "contentBlockIndex": index}, "contentBlockDelta")
            yield event_of({"contentBlockIndex": index}, "contentBlockStop")
        if "stopReason" in body:
            yield event_of({name: body[name] for name in _AT_STOP if name in body}, "messageStop")
        if complete:
            rest = {name: value for name, value in body.items() if name not in (*_AT_STOP, "output")}
            yield event_of(rest, "metadata")
    if error is not None:
        kind = str(error.get("__type") or "InternalServerException")
        yield event_of({n: v for n, v in error.items() if n != "__type"}, kind[:1].lower() + kind[1:])


def _start_and_deltas(block: JsonObject, piece_chars: int) -> tuple[JsonObject, list[JsonObject]]:
    """Return how the block starts and the deltas that fill it; kinds that do not grow start whole."""
    match block:
        case {"toolUse": dict(call)}:
            arguments = cut(arguments_of(Field(call["input"])), piece_chars)
            return _head("toolUse", call, without="input"), [{"toolUse": {"input": piece}} for piece in arguments]
        case {"toolResult": dict(result)}:
            return _head("toolResult", result, without="content"), [{"toolResult": result["content"]}]
        case {"image": {"source": source, **image}}:
            return {"image": image}, [{"image": {"source": source}}]
        # Text and reasoning have no start; even an empty one has a delta, or the block would be lost.
        case {"text": str(text)}:
            return {}, [{"text": piece} for piece in [*cut(text, piece_chars)] or [""]]
        case {"reasoningContent": {"reasoningText": {"text": str(text), **more}}}:
            pieces = [*cut(text, piece_chars)] or [""]
            deltas = [{"reasoningContent": {"text": piece}} for piece in pieces]
            return {}, [*deltas, *({"reasoningContent": {name: value}} for name, value in more.items())]
        case _:
            redacted = "reasoningContent" in block
            return ({}, [block]) if redacted else (block, [])


def _head(kind: str, block: JsonObject, *, without: str) -> JsonObject:
    return {kind: {name: value for name, value in block.items() if name != without}}


def _piece(pieces: list[str], text: str, *, channel: Channel) -> Iterator[Delta]:
    pieces.append(text)
    if text:
        yield Delta(0, channel, text)


def _unpadded(body: Field) -> JsonObject:
    return {name: item.value for name, item in body.fields() if name != _PADDING}
