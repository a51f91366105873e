"""OpenAI's chat completions, whole and streamed, and the dialects of Mistral, vLLM, DeepSeek, Ollama and Cohere.

The dialects have thoughts beside the text, lists as content, finish reasons of their own, and one bare `message` in place
of `choices`; all are written back as OpenAI would spell them. The stream reader assembles the body that the same response
would have had unstreamed, and reads that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.exchange import (
    Channel,
    Choice,
    Delta,
    Finish,
    Message,
    RefusalPart,
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    Usage,
)
from demur.wire.blocks import finish_of_word
from demur.wire.fields import ServerEvent, cut, decode, event_of, extra_inputs, finish_word, opaque, root, unread_beside
from demur.wire.openai.parts import THOUGHTS, read_error, read_parts, read_tool_results, write_error, write_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import Field, JsonObject, ReadBody, StreamReader
    from demur.wire.openai.parts import Failure

__all__ = [
    "ChatStream",
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "stream_events",
    "write_response",
    "write_stream",
]

_FINISH = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL,
    "content_filter": Finish.CONTENT_FILTER,
    "error": Finish.ERROR,
    "function_call": Finish.TOOL,
    "model_length": Finish.LENGTH,
    "COMPLETE": Finish.STOP,
    "STOP_SEQUENCE": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "TOOL_CALL": Finish.TOOL,
    "ERROR_TOXIC": Finish.CONTENT_FILTER,
    "ERROR": Finish.ERROR,
}
_WORD = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL: "tool_calls",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.REFUSAL: "stop",
    Finish.ERROR: "error",
    Finish.UNKNOWN: "unknown",
}
_STOP_SIGNALS = {
    Finish.CONTENT_FILTER: SignalKind.FILTER_STOP,
    Finish.REFUSAL: SignalKind.REFUSAL_STOP,
    Finish.ERROR: SignalKind.ERROR,
}
_PLAIN_FIELDS = 2
_OTHERS_REQUEST = frozenset({"system", "anthropic_version", "stop_sequences", "inferenceConfig", "modelId"})
_OTHERS_PARTS = frozenset({"tool_use", "tool_result", "thinking", "document"})
_HEAD = frozenset({"id", "object", "created", "model"})
_CHUNK_HEAD = _HEAD | {"system_fingerprint"}
_CHUNK_FIELDS = _HEAD | {"choices", "usage", "obfuscation"}
_CHOICE_FIELDS = frozenset({"index", "delta", "message", "text", "finish_reason"})
_FILTERS = "content_filter_results"
"""What Azure's filters say of a choice, a little in every chunk; the chat shape itself does not read it."""
_DELTA_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_READ_CHOICE = frozenset({*_CHOICE_FIELDS, _FILTERS, "logprobs", "done_reason", "model", "created_at"})
_READ_MESSAGE = frozenset(
    {
        *(*THOUGHTS, "role", "content", "refusal", "tool_calls", "function_call", "name", "id", "annotations"),
        *("reasoning_details", "provider_specific_fields", "audio", "thinking_blocks", "context", "tool_plan"),
    }
)
_SEVERITIES = ("safe", "low", "medium", "high")


def reads_request(body: JsonObject) -> bool:
    """Whether this is a list of messages in which no field or part is another provider's."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or _OTHERS_REQUEST & body.keys():
        return False
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else 0
        if content is not None and not isinstance(content, str | list):
            return False
        for item in content if isinstance(content, list) else ():
            kind = item.get("type") if isinstance(item, dict) else None
            if not isinstance(item, str) and (not isinstance(kind, str) or kind in _OTHERS_PARTS):
                return False
    return True


def read_request(body: JsonObject) -> Request:
    """Return the request; the model is empty where the URL names it."""
    top = root(body)
    model = top.text_at("model") or ""
    messages = tuple([_read_message(turn) for turn in top.need("messages")])
    stream, n = top.flag_at("stream") or False, top.integer_at("n") or 1
    return Request(model, messages, stream, n, extra_inputs(body, own="messages"))


def reads_response(body: JsonObject) -> bool:
    """Whether this is a list of choices, one bare message, or an error that is no other provider's."""
    # `object: error` is how Mistral and older vLLM mark an error.
    if isinstance(body.get("choices"), list) or body.get("object") == "error":
        return True
    error = body.get("error")
    if isinstance(error, dict):
        # Gemini's status is a word, Azure's the number of the HTTP status.
        return body.get("type") != "error" and not isinstance(error.get("status"), str) and "output" not in body
    return isinstance(body.get("message"), dict) and not body.keys().isdisjoint({"finish_reason", "done_reason"})


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the response, or the error that came in its place."""
    top = root(body)
    failure = read_error(top, status)
    read = [_read_choice(choice, position) for position, choice in enumerate(_choices(top, failure))]
    if not read and failure is None and (said := top.text_at("output_text")):
        read = [(Choice(0, (TextPart(said),)), [])]
    signals = [signal for _, said in read for signal in said]
    usage = top.get("usage")
    asked = None if usage is None else usage.integer_at("prompt_tokens")
    answered = None if usage is None else usage.integer_at("completion_tokens")
    return Response(
        model=top.text_at("model") or "",
        choices=tuple([choice for choice, _ in read]),
        signals=(*signals, failure.signal) if failure else tuple(signals),
        error=failure.error if failure else None,
        usage=None if asked is None else Usage(asked, answered or 0),
        id=top.text_at("id") or None,
        created_s=top.integer_at("created") or None,
        status=status,
        fingerprint=top.tag_at("system_fingerprint") or None,
    )


def write_response(response: Response) -> JsonObject:
    """Return the body; an error without choices is the error alone."""
    body: JsonObject = {}
    # An error alone has no choices; one that broke a response off stands beside them.
    if response.choices or response.error is None:
        body = {"id": response.id or "", "object": "chat.completion", "created": response.created_s or 0}
        body["model"] = response.model
        body["choices"] = [
            {
                "index": choice.index,
                "message": {"refusal": None, **write_message("assistant", choice.parts)},
                "finish_reason": finish_word(choice, _FINISH, defaults=_WORD),
            }
            for choice in response.choices
        ]
    elif response.model or response.id:
        body = {"id": response.id or "", "model": response.model}
    usage = response.usage
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        body["usage"]["total_tokens"] = usage.input_tokens + usage.output_tokens
    if response.error is not None:
        body["error"] = write_error(response.error)
    if response.fingerprint is not None:
        body["system_fingerprint"] = response.fingerprint
    return body


def open_stream() -> StreamReader:
    """Return a reader for the chunks of one response."""
    return ChatStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the response in chunks; `[DONE]` ends it unless it was cut off, or is an error alone."""
    return stream_events(write_response(response), response, piece_chars=piece_chars)


def stream_events(body: JsonObject, response: Response, *, piece_chars: int) -> Iterator[ServerEvent]:
    """Yield the events of a response whose body is written already."""
    yield from (event_of(chunk) for chunk in _chunks(body, piece_chars))
    if response.complete and (response.choices or response.error is None):
        yield ServerEvent("[DONE]")


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
    audio: dict[str, Any] = field(default_factory=dict)
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
        """Return the pieces of the response in one event."""
        data = event.data.strip()
        if data == "[DONE]" or not data:
            self._done = self._done or bool(data)
            return ()
        return self.feed_chunk(root(decode(data)))

    def feed_chunk(self, chunk: Field) -> tuple[Delta, ...]:
        """Return the pieces of the response in one decoded chunk."""
        # A field of the wrong kind is an error at its chunk, not when the stream is closed.
        read_error(chunk, 200)
        for key in ("id", "model"):
            chunk.text_at(key)
        usage = chunk.get("usage")
        for place, key in ((chunk, "created"), (usage, "prompt_tokens"), (usage, "completion_tokens")):
            if place is not None:
                place.integer_at(key)
        for key, found in chunk.fields():
            if key in _HEAD:
                # Azure's first frame and some proxies leave the head empty until the model speaks.
                self._head[key] = self._head.get(key) or found.value
            elif key not in _CHUNK_FIELDS:
                self._fields.setdefault(key, []).append(found.value)
        if usage is not None:
            self._head["usage"] = usage.value
        return tuple(delta for choice in chunk.each("choices") for delta in self._feed_choice(choice))

    def close(self) -> Response:
        """Return what has arrived."""
        try:
            body = self._head | {key: _fold(key, values) for key, values in self._fields.items()}
            if not self._choices and body.get("error"):
                # An error alone is complete without `[DONE]`.
                return self._read(body)
            body["choices"] = [_whole(index, choice) for index, choice in sorted(self._choices.items())]
            return replace(self._read(body), complete=self._done)
        except RecursionError as exc:
            raise ShapeError("a field of the stream is nested too deeply") from exc

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


def _chunks(body: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    """Yield the chunks of a body as `write_response` makes it; a bare error is one chunk."""
    if "choices" not in body:
        yield body
        return
    head = {key: value for key, value in body.items() if key in _CHUNK_HEAD} | {"object": "chat.completion.chunk"}
    rest = {key: value for key, value in body.items() if key not in _CHUNK_FIELDS | _CHUNK_HEAD and key != "error"}
    if not body["choices"] or rest.keys() & {"prompt_filter_results"}:
        yield {**head, "choices": [], **rest}
        rest = {}
    # All choices grow together, as in FakeAI: a client sees each of them from the first chunk on.
    for parts in zip_longest(*(_choice_chunks(choice, piece_chars) for choice in body["choices"])):
        yield {**head, "choices": [part for part in parts if part is not None], **rest}
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
        pieces: list[JsonObject] = [call]
        if call.get("type") == "function" and "arguments" in call.get("function", ()):
            pieces = [{**call, "function": {**call["function"], "arguments": ""}}]
            pieces += [{"function": {"arguments": piece}} for piece in cut(call["function"]["arguments"], piece_chars)]
        deltas += [{"tool_calls": [{"index": position, **piece}]} for piece in pieces]
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


def _feed_delta(delta: Field, choice: _Growing, index: int) -> Iterator[Delta]:
    # Servers send a thought under one of several names; the first that is text counts.
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
    audio = delta.get("audio")
    for key, piece in audio.fields() if audio is not None and audio.is_object else ():
        # Sound and transcript come in pieces, the rest whole.
        grows = key in ("data", "transcript") and piece.is_text and key in choice.audio
        choice.audio[key] = choice.audio[key] + piece.value if grows else piece.value
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
    message |= {"audio": choice.audio} if choice.audio else {}
    if choice.calls:
        message["tool_calls"] = []
        for _, call in sorted(choice.calls.items()):
            # Only function calls come in pieces.
            if call.head.get("type", "function") == "function":
                call.head["function"] = {**call.head.get("function", {}), "arguments": "".join(call.arguments)}
            message["tool_calls"].append(call.head)
    filters = {_FILTERS: _fold(_FILTERS, choice.filters)} if choice.filters else {}
    return {"index": index, "message": message, "finish_reason": choice.finish, **filters}


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


def _read_message(turn: Field) -> Message:
    value = turn.value
    # Most turns are a role and a text, and nothing else: these are read at a glance.
    if isinstance(value, dict) and len(value) == _PLAIN_FIELDS:
        role, text = value.get("role"), value.get("content")
        if isinstance(role, str) and isinstance(text, str) and text and role != "tool":
            return Message(role, (TextPart(text),))
    role = turn.need("role").text()
    parts = read_tool_results(turn) if role == "tool" else read_parts(turn)
    return Message(role, parts, turn.text_at("name"))


def _choices(top: Field, failure: Failure | None) -> list[Field]:
    """Return the choices; a body that is one message itself is the only choice."""
    choices = top.get("choices")
    if choices is not None:
        return list(choices)
    if failure is not None:
        return []
    message, text = top.get("message"), top.get("text")
    if (message is None or not message.is_object) and (text is None or not text.is_text):
        raise ShapeError("`choices`: expected a list, got nothing", hint="an error body has `error` in its place")
    return [top]


def _read_choice(field: Field, position: int) -> tuple[Choice, list[Signal]]:
    index = field.integer_at("index")
    index = position if index is None else index
    message, delta = field.get("message"), field.get("delta")
    if message is None and delta is not None and delta.value:
        # A row of one chunk: what it says is read, but the rest of the answer is elsewhere.
        message = delta
    # A bare `text` is what completions and Cohere's first API have in place of a message.
    text = None if message is not None else field.text_at("text")
    parts = read_parts(root({"content": text}) if message is None else message)
    parts += tuple(_read_unread(field, message, parts))
    # Ollama's own endpoint says `done_reason`.
    key = "done_reason" if field.get("done_reason") is not None else "finish_reason"
    raw = field.text_at(key)
    finish = None if raw is None else _FINISH.get(raw) or finish_of_word(raw)
    signals = [] if message is None else _refusals(message, index)
    moved = None if message is None or signals else message.get("provider_specific_fields")
    # LiteLLM takes the field out of the message and keeps it here.
    if moved is not None and moved.is_object and (said := moved.text_at("refusal")):
        parts = (*parts, RefusalPart(said))
        signals.append(Signal(SignalKind.REFUSAL_FIELD, f"{moved.path}.refusal", said, index))
    kind = _STOP_SIGNALS.get(finish) if finish else None
    if kind and raw:
        signals.append(Signal(kind, f"{field.path}.{key}" if field.path else key, raw, index))
    return Choice(index, parts, finish, raw), signals


def _read_unread(choice: Field, message: Field | None, parts: tuple[Part, ...]) -> Iterator[Part]:
    """Yield the recording of an answer, a mark on one that is a chunk, and words that stand where nobody reads."""
    audio = None if message is None else message.get("audio")
    if audio is not None and audio.is_object:
        yield opaque(audio, "audio")
    elif not any(not isinstance(part, ThinkingPart) for part in parts):
        held = choice.object() if message is None else message.object()
        beside = unread_beside(held, _READ_CHOICE if message is None else _READ_MESSAGE)
        if beside is not None:
            yield beside
    if message is not None and choice.get("message") is None:
        yield opaque(message, "delta")


def _refusals(message: Field, index: int) -> list[Signal]:
    refusal, content = message.text_at("refusal"), message.get("content")
    said = [Signal(SignalKind.REFUSAL_FIELD, f"{message.path}.refusal", refusal, index)] if refusal else []
    # A refusal may also be a part of the content.
    for item in content if content is not None and content.is_list else ():
        if item.is_object and item.tag_at("type") == "refusal":
            told = item.need("refusal").text()
            said.append(Signal(SignalKind.REFUSAL_FIELD, f"{item.path}.refusal", told, index))
    return said
