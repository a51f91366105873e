"""OpenAI's Responses API: requests, responses and errors.

The output is one choice whose parts are all its items in order; `instructions` are the leading system message;
`finish_raw` is the reason of `incomplete_details`, else the status. An error inside a response keeps its choice, an error
body has none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    OpaquePart,
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
from demur.wire.blocks import finish_of_word
from demur.wire.fields import decode, event_of, extra_inputs, opaque, root, unread_beside
from demur.wire.openai.parts import read_error, write_error
from demur.wire.openai.responses_stream import ResponsesStream, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import Field, JsonObject, ServerEvent, StreamReader

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

_ITEM = "item."
_OUTPUT = "function_call_output"
_NAMELESS = "item.nameless_call"
_AGAIN = OpaquePart("item.message", b"{}")
_TEXTS = frozenset({"input_text", "output_text", "text"})
_STATUS = {
    "completed": Finish.STOP,
    "failed": Finish.ERROR,
    "max_output_tokens": Finish.LENGTH,
    "content_filter": Finish.CONTENT_FILTER,
}
_WORD = {
    Finish.STOP: "completed",
    Finish.TOOL: "completed",
    Finish.REFUSAL: "completed",
    Finish.LENGTH: "max_output_tokens",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.ERROR: "failed",
    Finish.UNKNOWN: "incomplete",
}
_READ_MESSAGE = frozenset({"type", "role", "id", "status", "content", "phase"})
_RUNNING = frozenset({"in_progress", "queued"})
_STATUSES = frozenset({"completed", "failed", "cancelled", "incomplete", *_RUNNING})
_ITEM_IDS = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_INPUT_ROLES = {"function_call": "assistant", "reasoning": "assistant", "function_call_output": "tool"}


def reads_request(body: JsonObject) -> bool:
    """Whether this is an `input` for a model, and no list of messages."""
    asks = isinstance(body.get("input"), (str, list)) and isinstance(body.get("model"), str)
    return asks and body.keys().isdisjoint({"messages", "output", "contents"})


def read_request(body: JsonObject) -> Request:
    """Return the request; every item of the input is a message of its own."""
    top = root(body)
    said = top.get("instructions")
    messages = [Message("system", (TextPart(said.text()),))] if said is not None and said.is_text else []
    asked = top.get("input")
    if asked is not None and asked.is_text:
        messages.append(Message("user", (TextPart(asked.text()),)))
    elif asked is not None:
        for item in asked:
            kind = _item_kind(item)
            fallback = "tool" if kind.endswith("_output") else "assistant"
            role = item.need("role").text() if kind == "message" else _INPUT_ROLES.get(kind, fallback)
            messages.append(Message(role, tuple(_read_item(item))))
    stream = top.flag_at("stream") or False
    return Request(top.text_at("model") or "", tuple(messages), stream, extra_inputs=extra_inputs(body, own="input"))


def reads_response(body: JsonObject) -> bool:
    """Whether this is a response object; a bare error body is left to the chat format, whose error it is too."""
    return body.get("object") == "response" or (isinstance(body.get("output"), list) and "status" in body)


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the response, or the error that came in its place."""
    top = root(body)
    failure = read_error(top, status)
    is_response = top.get("output") is not None or top.tag_at("object") == "response"
    if not is_response and failure is None:
        raise ShapeError("`output`: expected a list, got nothing", hint="an error body has `error` in its place")
    choices = (_read_choice(top),) if is_response else ()
    signals = [signal for choice in choices for signal in _signals(top, choice)]
    if failure is not None:
        signals.append(failure.signal)
    elif choices and choices[0].finish is Finish.ERROR:
        signals.append(Signal(SignalKind.ERROR, "status", "failed", 0))
    created, usage = top.get("created_at"), top.get("usage")
    asked = None if usage is None else usage.integer_at("input_tokens")
    answered = None if usage is None or asked is None else usage.integer_at("output_tokens")
    # The API's `created_at` is a number with fractions in some SDKs' dumps.
    fraction = created is not None and isinstance(created.value, float) and math.isfinite(created.value)
    created_s = None if created is None else int(created.value) if fraction else created.integer()
    return Response(
        model=top.text_at("model") or "",
        choices=choices,
        signals=tuple(signals),
        error=failure.error if failure else None,
        usage=None if asked is None else Usage(asked, answered or 0),
        id=top.text_at("id") or None,
        created_s=created_s or None,
        status=status,
        complete=top.tag_at("status") not in _RUNNING,
    )


def write_response(response: Response) -> JsonObject:
    """Return the body; an error without choices is the error alone."""
    error = None if response.error is None else write_error(response.error)
    if not response.choices and error is not None:
        return {"error": error}
    choice = response.choices[0] if response.choices else Choice(0, ())
    status, reason = _write_status(choice, complete=response.complete)
    # Clients take no response without the fields of the last line, which nobody reads here.
    body: JsonObject = {"id": response.id or "", "object": "response", "created_at": response.created_s or 0}
    body |= {"status": status, "error": error, "incomplete_details": {"reason": reason} if reason else None}
    body |= {"model": response.model, "output": _write_items(choice.parts)}
    usage = response.usage
    if usage is not None:
        body["usage"] = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    return body | {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def open_stream() -> StreamReader:
    """Return a reader for the events of one response."""
    return ResponsesStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the response as typed events; the last one holds it whole, unless it was cut off."""
    body = write_response(response)
    for number, event in enumerate(events(body, piece_chars=piece_chars, complete=response.complete)):
        yield event_of({**event, "sequence_number": number}, event["type"])


def _item_kind(item: Field) -> str:
    """Return the type of an item; what has a role and no type is a message."""
    return item.tag_at("type") or ("message" if item.get("role") else "unknown")


def _read_item(item: Field) -> list[Part]:
    """Return the parts of one item."""
    match _item_kind(item):
        case "message":
            beside = None if item.get("content") else unread_beside(item.object(), _READ_MESSAGE)
            return _read_content(item.get("content")) if beside is None else [opaque(item, "item.unread_message")]
        case "reasoning":
            # The reasoning itself where a server shows it, else its summary; a line per paragraph.
            texts = [[part.text_at("text") or "" for part in item.each(key)] for key in ("content", "summary")]
            return [ThinkingPart("\n".join(texts[0] or texts[1]))]
        case "function_call":
            arguments = item.text_at("arguments") or ""
            name = item.text_at("name")
            # A call that does not say what it calls is an item like any that we do not know.
            return [ToolCallPart(item.text_at("call_id") or "", name, arguments)] if name else [opaque(item, _NAMELESS)]
        case "function_call_output":
            call_id, parts = item.text_at("call_id") or "", _read_content(item.get("output"))
            if not any(isinstance(part, TextPart) for part in parts):
                # A result of images alone is still the result of its call.
                parts.insert(0, TextPart(""))
            return [ToolResultPart(call_id, part.text) if isinstance(part, TextPart) else part for part in parts]
        case kind:
            return [opaque(item, _ITEM + kind)]


def _read_content(content: Field | None) -> list[Part]:
    if content is None:
        return []
    if content.is_text:
        return [TextPart(content.text())]
    parts: list[Part] = []
    for part in content:
        kind = part.tag_at("type")
        if kind in _TEXTS:
            parts.append(TextPart(part.need("text").text()))
        else:
            parts.append(RefusalPart(part.need("refusal").text()) if kind == "refusal" else opaque(part))
    return parts


def _read_choice(top: Field) -> Choice:
    parts: list[Part] = []
    before = ""
    for item in top.each("output"):
        kind, read = _item_kind(item), _read_item(item)
        # One item in, one item out: a message right after another, or an empty one, is announced by a part of its own.
        if kind == "message" and (before == kind or not read):
            parts.append(_AGAIN)
        parts += read
        before = kind
    said = None if parts else top.text_at("output_text")
    # Clients compute this field; a log may have it alone.
    parts += [TextPart(said)] if said else []
    details = top.get("incomplete_details")
    raw = (None if details is None else details.text_at("reason")) or top.text_at("status")
    if raw is None or raw in _RUNNING:
        return Choice(0, tuple(parts))
    finish = _finish(raw, tuple(parts))
    return Choice(0, tuple(parts), finish_of_word(raw) if finish is Finish.UNKNOWN else finish, raw)


def _finish(raw: str, parts: tuple[Part, ...]) -> Finish:
    # The API's word for a response that ends in calls is `completed` too.
    if raw == "completed" and any(isinstance(part, ToolCallPart) for part in parts):
        return Finish.TOOL
    return _STATUS.get(raw, Finish.UNKNOWN)


def _signals(top: Field, choice: Choice) -> Iterator[Signal]:
    for item in top.each("output"):
        content = item.get("content")
        for part in content if content is not None and content.is_list else ():
            refusal = part.text_at("refusal") if part.is_object and part.tag_at("type") == "refusal" else None
            if refusal:
                yield Signal(SignalKind.REFUSAL_FIELD, f"{part.path}.refusal", refusal, 0)
    if choice.finish is Finish.CONTENT_FILTER:
        yield Signal(SignalKind.FILTER_STOP, "incomplete_details.reason", choice.finish_raw or "", 0)
    elif choice.finish is Finish.REFUSAL:
        yield Signal(SignalKind.REFUSAL_STOP, "status", choice.finish_raw or "", 0)


def _write_items(parts: tuple[Part, ...]) -> list[JsonObject]:
    """Return the items; texts, refusals and opaque parts that touch share a message, or a tool's output."""
    items: list[JsonObject] = []
    for part in parts:
        match part:
            case TextPart(text):
                _content_of_last(items).append({"type": "output_text", "text": text, "annotations": []})
            case RefusalPart(text):
                _content_of_last(items).append({"type": "refusal", "refusal": text})
            case ThinkingPart(text):
                _add_item(items, "reasoning", summary=[{"type": "summary_text", "text": text}] if text else [])
            case ToolCallPart(call_id, name, arguments):
                _add_item(items, "function_call", call_id=call_id, name=name, arguments=arguments)
            case ToolResultPart(call_id, text):
                _output_of(items, call_id).append({"type": "input_text", "text": text})
            case OpaquePart("item.message"):
                _add_item(items, "message", role="assistant", content=[])
            case OpaquePart(kind, body) if kind.startswith(_ITEM):
                items.append(decode(body))
            case OpaquePart(_, body):
                _content_of_last(items, or_output=True).append(decode(body))
    return items


def _add_item(items: list[JsonObject], kind: str, **fields: Any) -> None:
    items.append({"type": kind, **fields, "id": f"{_ITEM_IDS[kind]}_{len(items)}", "status": "completed"})


def _output_of(items: list[JsonObject], call_id: str) -> list[Any]:
    last = items[-1] if items else {}
    if (last.get("type"), last.get("call_id")) != (_OUTPUT, call_id):
        items.append({"type": _OUTPUT, "call_id": call_id, "output": []})
    output: list[Any] = items[-1]["output"]
    return output


def _content_of_last(items: list[JsonObject], *, or_output: bool = False) -> list[Any]:
    """Return the content of the message being written, a new one where the last item is of another kind."""
    last = items[-1] if items else {}
    output = last.get("output")
    # What stood beside the text of a tool's result is written beside it again.
    if or_output and last.get("type") == _OUTPUT and isinstance(output, list):
        return output
    if last.get("type") != "message" or not isinstance(last.get("content"), list):
        _add_item(items, "message", role="assistant", content=[])
    content: list[Any] = items[-1]["content"]
    return content


def _write_status(choice: Choice, *, complete: bool) -> tuple[str, str | None]:
    """Return the status and, where the response is incomplete, why."""
    if choice.finish is None:
        return ("completed" if complete else "in_progress"), None
    ours = choice.finish_raw is not None and _finish(choice.finish_raw, choice.parts) is choice.finish
    word = choice.finish_raw if ours and choice.finish_raw else _WORD[choice.finish]
    return (word, None) if word in _STATUSES else ("incomplete", word)
