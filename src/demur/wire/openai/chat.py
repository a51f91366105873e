"""What was asked and answered in the shape of OpenAI's chat completions?

Mistral, vLLM, DeepSeek, Ollama and Cohere speak it with accents, which are read too: thoughts beside the answer, lists
as content, finish reasons of their own, and one bare `message` in place of `choices`. Laws: those of `interface`; an
empty refusal says nothing; a dialect is written back as OpenAI would spell it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.model.exchange import Choice, Finish, Message, Request, Response, Signal, SignalKind, TextPart, Usage
from demur.wire.blocks import event_of, extra_inputs, finish_word
from demur.wire.fields import root
from demur.wire.openai.chat_stream import ChatStream, chunks
from demur.wire.openai.error import read_error, write_error
from demur.wire.openai.parts import read_parts, read_tool_results, write_message
from demur.wire.sse import ServerEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import Field
    from demur.wire.interface import JsonObject, StreamReader
    from demur.wire.openai.error import Failure

__all__ = [
    "open_stream",
    "read_bare_response",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
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
_STOP_SIGNALS = {Finish.CONTENT_FILTER: SignalKind.FILTER_STOP, Finish.ERROR: SignalKind.ERROR}
_PLAIN_FIELDS = 2
_OTHERS_REQUEST = frozenset({"system", "anthropic_version", "stop_sequences", "inferenceConfig", "modelId"})
_OTHERS_PARTS = frozenset({"tool_use", "tool_result", "thinking", "document"})


def reads_request(body: JsonObject) -> bool:
    """Whether this is a list of messages in which no field or part is another provider's."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or _OTHERS_REQUEST & body.keys():
        return False
    return all(isinstance(message, dict) and _is_ours(message.get("content")) for message in messages)


def read_request(body: JsonObject) -> Request:
    """Return the request; the model is empty where the URL names it."""
    top = root(body)
    model = top.text_at("model") or ""
    messages = tuple([_read_message(turn) for turn in top.need("messages")])
    stream, n = top.flag_at("stream") or False, top.integer_at("n") or 1
    return Request(model, messages, stream, n, extra_inputs(body, own="messages"))


def reads_response(body: JsonObject) -> bool:
    """Whether this is a list of choices, one bare message, or an error that is no other provider's."""
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
    signals = [signal for _, said in read for signal in said]
    return Response(
        model=top.text_at("model") or "",
        choices=tuple([choice for choice, _ in read]),
        signals=(*signals, failure.signal) if failure else tuple(signals),
        error=failure.error if failure else None,
        usage=_read_usage(top),
        id=top.text_at("id") or None,
        created_s=top.integer_at("created") or None,
        status=status,
        fingerprint=top.tag_at("system_fingerprint") or None,
    )


def read_bare_response(body: JsonObject, status: int) -> Response:
    """Return `read_response`; kept until its last caller has moved."""
    return read_response(body, status=status)


def write_response(response: Response) -> JsonObject:
    """Return the body; an error without choices is the error alone."""
    body: JsonObject = {}
    if response.choices or response.error is None:
        body = {"id": response.id or "", "object": "chat.completion", "created": response.created_s or 0}
        body |= {"model": response.model, "choices": [_write_choice(choice) for choice in response.choices]}
    elif response.model or response.id:
        body = {"id": response.id or "", "model": response.model}
    if response.usage is not None:
        body["usage"] = _write_usage(response.usage)
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
    for chunk in chunks(write_response(response), piece_chars):
        yield event_of(chunk)
    if response.complete and (response.choices or response.error is None):
        yield ServerEvent("[DONE]")


def _is_ours(content: Any) -> bool:
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(
        isinstance(item, str)
        or (isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] not in _OTHERS_PARTS)
        for item in content
    )


def _is_plain_turn(turn: Any) -> bool:
    """Return whether a turn is a role and a text, and nothing else."""
    if not isinstance(turn, dict) or len(turn) != _PLAIN_FIELDS:
        return False
    role, text = turn.get("role"), turn.get("content")
    return isinstance(role, str) and isinstance(text, str) and bool(text) and role != "tool"


def _read_message(turn: Field) -> Message:
    if _is_plain_turn(turn.value):
        return Message(turn.value["role"], (TextPart(turn.value["content"]),))
    role = turn.need("role").text()
    parts = read_tool_results(turn) if role == "tool" else read_parts(turn)
    return Message(role, parts, turn.text_at("name"))


def _choices(top: Field, failure: Failure | None) -> list[Field]:
    """Return the choices; a body that is one answer itself is the only choice."""
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
    message = field.get("message")
    parts = _read_text(field) if message is None else read_parts(message)
    key = "done_reason" if field.get("done_reason") is not None else "finish_reason"
    raw = field.text_at(key)
    finish = None if raw is None else _FINISH.get(raw, Finish.UNKNOWN)
    signals = [] if message is None else _refusals(message, index)
    kind = _STOP_SIGNALS.get(finish) if finish else None
    if kind and raw:
        signals.append(Signal(kind, f"{field.path}.{key}" if field.path else key, raw, index))
    return Choice(index, parts, finish, raw), signals


def _read_text(field: Field) -> tuple[Part, ...]:
    """Return the parts of an answer that is a bare `text`, as in completions and Cohere's first API."""
    text = field.get("text")
    return () if text is None else read_parts(root({"content": text.text()}))


def _refusals(message: Field, index: int) -> list[Signal]:
    refusal, content = message.text_at("refusal"), message.get("content")
    said = [Signal(SignalKind.REFUSAL_FIELD, f"{message.path}.refusal", refusal, index)] if refusal else []
    for item in content if content is not None and content.is_list else ():
        if item.is_object and item.tag_at("type") == "refusal":
            told = item.need("refusal").text()
            said.append(Signal(SignalKind.REFUSAL_FIELD, f"{item.path}.refusal", told, index))
    return said


def _write_choice(choice: Choice) -> JsonObject:
    return {
        "index": choice.index,
        "message": {"refusal": None, **write_message("assistant", choice.parts)},
        "finish_reason": finish_word(choice, _FINISH, defaults=_WORD),
    }


def _read_usage(top: Field) -> Usage | None:
    usage = top.get("usage")
    asked = None if usage is None else usage.integer_at("prompt_tokens")
    return None if usage is None or asked is None else Usage(asked, usage.integer_at("completion_tokens") or 0)


def _write_usage(usage: Usage) -> JsonObject:
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}
