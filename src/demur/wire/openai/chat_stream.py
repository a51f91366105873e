"""How do the chunks of a streamed chat completion become one response, and a response chunks?

Laws: the reader assembles the body that the same answer would have had unstreamed and reads that, so both ways give
one value; it is complete after `[DONE]`, or where it is an error alone; feeding is linear, nothing is joined until
`close`; texts that only a part of another kind separates stay apart, adjacent texts are one, a line each when written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.exchange import Channel, Delta
from demur.wire.blocks import cut
from demur.wire.fields import decode, root
from demur.wire.openai.error import read_error
from demur.wire.openai.parts import THOUGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Response
    from demur.wire.fields import Field
    from demur.wire.interface import JsonObject
    from demur.wire.sse import ServerEvent

__all__ = ["ChatStream", "ReadBody", "chunks"]

_HEAD = frozenset({"id", "object", "created", "model"})
_CHUNK_FIELDS = _HEAD | {"choices", "usage", "obfuscation"}
_CHOICE_FIELDS = frozenset({"index", "delta", "message", "text", "finish_reason"})
_FILTERS = "content_filter_results"
"""What Azure's filters say of a choice, a little in every chunk; the chat shape itself does not read it."""
_DELTA_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_SEVERITIES = ("safe", "low", "medium", "high")


class ReadBody(Protocol):
    """Reads a whole body, as `read_response` does."""

    def __call__(self, body: JsonObject, *, status: int = 200) -> Response:
        """Return the response."""


@dataclass(slots=True)
class _Call:
    head: JsonObject = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Growing:
    """One choice while it arrives; strands are lists of pieces, content a list of strands and whole parts."""

    content: list[Any] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: dict[int, _Call] = field(default_factory=dict)
    filters: list[Any] = field(default_factory=list)
    finish: str | None = None


class ChatStream:
    """Chunks in, deltas out; `close` reads the body that the chunks add up to."""

    def __init__(self, read: ReadBody) -> None:
        self._read = read
        self._head: JsonObject = {}
        self._fields: dict[str, list[Any]] = {}
        self._choices: dict[int, _Growing] = {}
        self._done = False

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Return the pieces of answer in one event."""
        data = event.data.strip()
        if data == "[DONE]" or not data:
            self._done = self._done or bool(data)
            return ()
        return self.feed_chunk(root(decode(data)))

    def feed_chunk(self, chunk: Field) -> tuple[Delta, ...]:
        """Return the pieces of answer in one decoded chunk."""
        _check(chunk)
        for key, found in chunk.fields():
            if key in _HEAD:
                # Azure's first frame and some proxies leave the head empty until the model speaks.
                self._head[key] = self._head.get(key) or found.value
            elif key not in _CHUNK_FIELDS:
                self._fields.setdefault(key, []).append(found.value)
        if chunk.get("usage") is not None:
            self._head["usage"] = chunk.value["usage"]
        return tuple(delta for choice in chunk.each("choices") for delta in self._feed_choice(choice))

    def close(self) -> Response:
        """Return what has arrived."""
        try:
            return self._close()
        except RecursionError as exc:
            raise ShapeError("a field of the stream is nested too deeply") from exc

    def _close(self) -> Response:
        fields = {key: _fold(key, values) for key, values in self._fields.items()}
        body: JsonObject = {**self._head, **fields}
        if not self._choices and body.get("error"):
            return self._read(body)
        body["choices"] = [_whole(index, choice) for index, choice in sorted(self._choices.items())]
        return replace(self._read(body), complete=self._done)

    def _feed_choice(self, found: Field) -> Iterator[Delta]:
        index = found.integer_at("index") or 0
        choice = self._choices.setdefault(index, _Growing())
        choice.finish = found.text_at("finish_reason") or choice.finish
        filters = found.get(_FILTERS)
        if filters is not None:
            choice.filters.append(filters.value)
        text = found.text_at("text")
        if text:
            yield _say(choice, index, text)
        delta = found.get("delta") or found.get("message")
        if delta is not None:
            yield from _feed_delta(delta, choice, index)


def _check(chunk: Field) -> None:
    """Raise now what would otherwise be raised at the end, far from the chunk that is wrong."""
    read_error(chunk, 200)
    for key in ("id", "model"):
        chunk.text_at(key)
    usage = chunk.get("usage")
    for place, key in ((chunk, "created"), (usage, "prompt_tokens"), (usage, "completion_tokens")):
        if place is not None:
            place.integer_at(key)


def chunks(body: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    """Yield the chunks of a body as `write_response` makes it; a bare error is one chunk."""
    if "choices" not in body:
        yield body
        return
    head = {key: value for key, value in body.items() if key in _HEAD} | {"object": "chat.completion.chunk"}
    rest = {key: value for key, value in body.items() if key not in _CHUNK_FIELDS and key != "error"}
    if not body["choices"] or rest.keys() & {"prompt_filter_results"}:
        yield {**head, "choices": [], **rest}
        rest = {}
    for choice in body["choices"]:
        for part in _choice_chunks(choice, piece_chars):
            yield {**head, "choices": [part], **rest}
            rest = {}
    if "usage" in body:
        yield {**head, "choices": [], "usage": body["usage"]}
    if "error" in body:
        yield {"error": body["error"]}


def _choice_chunks(choice: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    index, message = choice["index"], choice["message"]
    fields = {key: value for key, value in message.items() if key not in _DELTA_FIELDS and key not in THOUGHTS}
    # Clients add pieces up: an empty text where there is none would become an answer.
    text = None if message.get("content") is None else ""
    deltas: list[JsonObject] = [{"role": "assistant", "content": text, "refusal": None, **fields}]
    for key in (*THOUGHTS, "content", "refusal"):
        deltas += [{key: piece} for piece in _strand(message.get(key), piece_chars)]
    for position, call in enumerate(message.get("tool_calls", ())):
        deltas += [{"tool_calls": [{"index": position, **piece}]} for piece in _call_pieces(call, piece_chars)]
    for delta in deltas:
        yield {"index": index, "delta": delta, "finish_reason": None}
    extra = {key: value for key, value in choice.items() if key not in _CHOICE_FIELDS}
    if extra or choice["finish_reason"] is not None:
        yield {"index": index, "delta": {}, "finish_reason": choice["finish_reason"], **extra}


def _strand(value: Any, piece_chars: int) -> Iterator[Any]:
    """Yield the pieces of a string, or of the texts in a list with every other part whole between them."""
    before_text = False
    for item in [value] if isinstance(value, str) else value or ():
        text = item if isinstance(item, str) else _plain_text(item)
        if text is None:
            yield [item]
        else:
            yield from cut(f"\n{text}" if before_text else text, piece_chars)
        before_text = text is not None


def _plain_text(item: Any) -> str | None:
    is_text = isinstance(item, dict) and item.keys() == {"type", "text"} and item["type"] == "text"
    return str(item["text"]) if is_text else None


def _call_pieces(call: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    if call["type"] != "function":
        yield call
        return
    yield {**call, "function": {**call["function"], "arguments": ""}}
    for piece in cut(call["function"]["arguments"], piece_chars):
        yield {"function": {"arguments": piece}}


def _feed_delta(delta: Field, choice: _Growing, index: int) -> Iterator[Delta]:
    thoughts = next((found for key in THOUGHTS if (found := delta.get(key)) is not None and found.is_text), None)
    if thoughts is not None and thoughts.value:
        choice.thoughts.append(thoughts.value)
        yield Delta(index, Channel.THINKING, thoughts.value)
    content = delta.get("content")
    if content is not None:
        yield from _feed_content(content, choice, index)
    refusal = delta.text_at("refusal")
    if refusal:
        choice.refusal.append(refusal)
        yield Delta(index, Channel.REFUSAL, refusal)
    for call in delta.each("tool_calls"):
        yield from _feed_call(call, choice, index)
    legacy = delta.get("function_call")
    if legacy is not None:
        yield from _feed_call(root({"index": 0, "function": legacy.object()}), choice, index)


def _feed_content(content: Field, choice: _Growing, index: int) -> Iterator[Delta]:
    for item in [content] if content.is_text else content:
        text = item.value if item.is_text else _plain_text(item.value)
        if text is not None:
            yield from [_say(choice, index, text)] if text else ()
            continue
        is_thought = item.is_object and isinstance(item.value.get("thinking"), list)
        if is_thought:
            said = "".join(chunk.text_at("text") or "" for chunk in item.each("thinking"))
            choice.thoughts.append(said)
        else:
            # A text with fields beside it is kept whole, and is news all the same.
            said = (item.text_at("text") or "") if item.is_object and item.tag_at("type") == "text" else ""
            choice.content.append(item)
        if said:
            yield Delta(index, Channel.THINKING if is_thought else Channel.TEXT, said)


def _say(choice: _Growing, index: int, text: str) -> Delta:
    if not choice.content or not isinstance(choice.content[-1], list):
        choice.content.append([])
    choice.content[-1].append(text)
    return Delta(index, Channel.TEXT, text)


def _feed_call(found: Field, choice: _Growing, index: int) -> Iterator[Delta]:
    position = found.integer_at("index")
    if position is None:
        # Servers that send each call whole leave the index out; an id then starts the next call.
        position = len(choice.calls) - (0 if found.get("id") or not choice.calls else 1)
    call = choice.calls.setdefault(position, _Call())
    for key, value in found.fields():
        if key == "function":
            known = call.head.setdefault("function", {})
            known |= {name: part.value for name, part in value.fields() if name != "arguments" and part.value}
        elif key != "index" and value.value:
            call.head[key] = value.value
    function = found.get("function")
    arguments = None if function is None else function.get("arguments")
    if arguments is not None and arguments.value:
        text = arguments.text() if arguments.is_text else arguments.json().decode("utf-8")
        call.arguments.append(text)
        yield Delta(index, Channel.TOOL, text)


def _whole(index: int, choice: _Growing) -> JsonObject:
    """Return the choice as it would have stood in a body that was not streamed."""
    content = ["".join(item) if isinstance(item, list) else item.value for item in choice.content]
    message: JsonObject = {
        "content": content[0] if len(content) == 1 and isinstance(content[0], str) else content or None,
        "refusal": "".join(choice.refusal) or None,
        "reasoning_content": "".join(choice.thoughts) or None,
    }
    if choice.calls:
        message["tool_calls"] = [_whole_call(call) for _, call in sorted(choice.calls.items())]
    filters = {_FILTERS: _fold(_FILTERS, choice.filters)} if choice.filters else {}
    return {"index": index, "message": message, "finish_reason": choice.finish, **filters}


def _whole_call(call: _Call) -> JsonObject:
    if call.head.get("type", "function") != "function":
        return call.head
    return {**call.head, "function": {**call.head.get("function", {}), "arguments": "".join(call.arguments)}}


def _fold(key: str, values: list[Any]) -> Any:
    """Return one value for a field that came in several chunks.

    Lists and objects grow, other values are replaced; but a flag once raised stays raised, and the worst severity
    stands, since a filter that looks at every chunk calls most of them safe.
    """
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, bool) for value in values):
        return any(values)
    if key == "severity" and all(value in _SEVERITIES for value in values):
        return max(values, key=_SEVERITIES.index)
    if all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if all(isinstance(value, dict) for value in values):
        keys = {name: None for value in values for name in value}
        return {name: _fold(name, [v[name] for v in values if v.get(name) is not None] or [None]) for name in keys}
    return values[-1]
