"""How does a ConverseStream come together, and how is a Converse response cut into its events?

Both work on the JSON of a response: the reader builds the body that `/converse` would have answered, the writer takes
such a body apart. Laws: a body put together from `converse_events(body)` is that body; `metadata` is the last event,
so nothing is complete without it; the padding `p` that the service adds to events is dropped; an exception is an event
that bears its name.
"""

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
_AT_STOP = ("stopReason", "additionalModelResponseFields")


@dataclass(slots=True)
class _Block:
    """A content block that is still growing; pieces are joined once, so that long answers stay linear."""

    start: JsonObject = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
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
                return self._thought() or self.start or self._answer()

    def _thought(self) -> JsonObject:
        if self.thought or "signature" in self.reasoning:
            return {"reasoningContent": {"reasoningText": {"text": "".join(self.thought), **self.reasoning}}}
        return {"reasoningContent": self.reasoning} if self.reasoning else {}

    def _answer(self) -> JsonObject:
        text = {"text": "".join(self.text)}
        return {"citationsContent": {"content": [text], "citations": self.citations}} if self.citations else text

    def grow(self, delta: Field) -> Iterator[Delta]:
        text, call, thought = delta.text_at("text"), delta.get("toolUse"), delta.get("reasoningContent")
        cited, image = delta.get("citation"), delta.get("image")
        if text is not None:
            yield from _piece(self.text, text, channel=Channel.TEXT)
        if call is not None:
            yield from _piece(self.arguments, call.text_at("input") or "", channel=Channel.TOOL)
        if thought is not None:
            if (words := thought.text_at("text")) is not None:
                yield from _piece(self.thought, words, channel=Channel.THINKING)
            self.reasoning.update((name, item.value) for name, item in thought.fields() if name != "text")
        if cited is not None:
            self.citations.append(cited.value)
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
        """Take one event; return the pieces of answer in it."""
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
                self._body.update(_unpadded(body))
                self._ended = True
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
            yield from _block_events(block, index, piece_chars=piece_chars)
        if "stopReason" in body:
            yield event_of({name: body[name] for name in _AT_STOP if name in body}, "messageStop")
        if complete:
            rest = {name: value for name, value in body.items() if name not in (*_AT_STOP, "output")}
            yield event_of(rest, "metadata")
    if error is not None:
        kind = str(error.get("__type") or "InternalServerException")
        yield event_of({n: v for n, v in error.items() if n != "__type"}, kind[:1].lower() + kind[1:])


def _block_events(block: JsonObject, index: int, *, piece_chars: int) -> Iterator[ServerEvent]:
    start, deltas = _opened(block, piece_chars)
    if start:
        yield event_of({"start": start, "contentBlockIndex": index}, "contentBlockStart")
    for delta in deltas:
        yield event_of({"delta": delta, "contentBlockIndex": index}, "contentBlockDelta")
    yield event_of({"contentBlockIndex": index}, "contentBlockStop")


def _opened(block: JsonObject, piece_chars: int) -> tuple[JsonObject, list[JsonObject]]:
    """Return how the block starts and the deltas that fill it; kinds that do not grow start whole."""
    match block:
        case {"toolUse": dict(call)}:
            arguments = cut(arguments_of(Field(call["input"])), piece_chars)
            return _head("toolUse", call, without="input"), [{"toolUse": {"input": piece}} for piece in arguments]
        case {"toolResult": dict(result)}:
            return _head("toolResult", result, without="content"), [{"toolResult": result["content"]}]
        case {"image": {"source": source, **image}}:
            return {"image": image}, [{"image": {"source": source}}]
        case {"text": _} | {"reasoningContent": _} | {"citationsContent": {"content": list(), "citations": list()}}:
            return {}, list(_unannounced(block, piece_chars))
        case _:
            return block, []


def _unannounced(block: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    """Yield the deltas of a block that has no start; even an empty text has one, or the block would be lost."""
    match block:
        case {"text": str(text)}:
            yield from ({"text": piece} for piece in [*cut(text, piece_chars)] or [""])
        case {"reasoningContent": {"reasoningText": {"text": str(text), **more}}}:
            pieces = [*cut(text, piece_chars)] or [""]
            yield from ({"reasoningContent": {"text": piece}} for piece in pieces)
            yield from ({"reasoningContent": {name: value}} for name, value in more.items())
        case {"citationsContent": {"content": content, "citations": citations}}:
            text = "".join(item.get("text") or "" for item in content)
            yield from ({"text": piece} for piece in cut(text, piece_chars))
            yield from ({"citation": citation} for citation in citations)
        case _:
            yield block


def _head(kind: str, block: JsonObject, *, without: str) -> JsonObject:
    return {kind: {name: value for name, value in block.items() if name != without}}


def _piece(pieces: list[str], text: str, *, channel: Channel) -> Iterator[Delta]:
    pieces.append(text)
    if text:
        yield Delta(0, channel, text)


def _unpadded(body: Field) -> JsonObject:
    return {name: item.value for name, item in body.fields() if name != _PADDING}
