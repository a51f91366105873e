"""OpenAI's Responses API: requests, responses and errors.

The output is one choice whose parts are all its items in order; `instructions` are the leading system message;
`finish_raw` is the reason of `incomplete_details`, else the status. An error inside a response keeps its choice, an error
body has none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

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
from demur.wire.fields import decode, event_of, extra_inputs, opaque, root
from demur.wire.openai.parts import read_error, write_error
from demur.wire.openai.responses_stream import ResponsesStream, events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_AGAIN = OpaquePart("item.message", b"{}")
_TEXTS = frozenset({"input_text", "output_text", "text"})


def _read_items(items: Iterable[Field]) -> tuple[Part, ...]:
    """Return the parts of all items, in order."""
    parts: list[Part] = []
    before = ""
    for item in items:
        kind, read = _item_kind(item), _read_item(item)
        if kind == "message" and (before == kind or not read):
            parts.append(_AGAIN)
        parts += read
        before = kind
    return tuple(parts)


def _item_kind(item: Field) -> str:
    """Return the type of an item; what has a role and no type is a message."""
    return item.tag_at("type") or ("message" if item.get("role") else "unknown")


def _read_item(item: Field) -> list[Part]:
    """Return the parts of one item."""
    match _item_kind(item):
        case "message":
            return _read_content(item.get("content"))
        case "reasoning":
            return [ThinkingPart(_thoughts(item))]
        case "function_call":
            arguments = item.text_at("arguments") or ""
            return [ToolCallPart(item.text_at("call_id") or "", item.text_at("name") or "", arguments)]
        case "function_call_output":
            return _read_results(item.text_at("call_id") or "", item.get("output"))
        case kind:
            return [opaque(item, _ITEM + kind)]


def _write_items(parts: tuple[Part, ...], *, role: str = "assistant") -> list[JsonObject]:
    """Return the items; texts, refusals and opaque parts that touch share a message, or a tool's output."""
    text_type = "output_text" if role == "assistant" else "input_text"
    items: list[JsonObject] = []
    for part in parts:
        match part:
            case TextPart(text):
                _open(items, role).append({"type": text_type, "text": text})
            case RefusalPart(text):
                _open(items, role).append({"type": "refusal", "refusal": text})
            case ThinkingPart(text):
                items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}] if text else []})
            case ToolCallPart(call_id, name, arguments):
                items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
            case ToolResultPart(call_id, text):
                _open_output(items, call_id).append({"type": "input_text", "text": text})
            case OpaquePart("item.message"):
                items.append({"type": "message", "role": role, "content": []})
            case OpaquePart(kind, body) if kind.startswith(_ITEM):
                items.append(decode(body))
            case OpaquePart(_, body):
                _open(items, role, or_output=True).append(decode(body))
    return items


def _read_content(content: Field | None) -> list[Part]:
    if content is None:
        return []
    if content.is_text:
        return [TextPart(content.text())]
    return [_read_part(part) for part in content]


def _read_part(part: Field) -> Part:
    kind = part.tag_at("type")
    if kind in _TEXTS:
        return TextPart(part.need("text").text())
    if kind == "refusal":
        return RefusalPart(part.need("refusal").text())
    return opaque(part)


def _read_results(call_id: str, output: Field | None) -> list[Part]:
    parts = _read_content(output)
    if not any(isinstance(part, TextPart) for part in parts):
        parts.insert(0, TextPart(""))
    return [ToolResultPart(call_id, part.text) if isinstance(part, TextPart) else part for part in parts]


def _thoughts(item: Field) -> str:
    """Return the reasoning itself where the server shows it, else its summary, a line a paragraph."""
    texts = [[part.text_at("text") or "" for part in item.each(key)] for key in ("content", "summary")]
    return "\n".join(texts[0] or texts[1])


def _open(items: list[JsonObject], role: str, *, or_output: bool = False) -> list[Any]:
    """Return the content of the message being written, a new one where the last item is of another kind."""
    last = items[-1] if items else {}
    if or_output and last.get("type") == "function_call_output" and isinstance(last.get("output"), list):
        return _list(last, "output")
    if last.get("type") != "message" or not isinstance(last.get("content"), list):
        items.append({"type": "message", "role": role, "content": []})
    return _list(items[-1], "content")


def _open_output(items: list[JsonObject], call_id: str) -> list[Any]:
    last = items[-1] if items else {}
    if last.get("type") != "function_call_output" or last.get("call_id") != call_id:
        items.append({"type": "function_call_output", "call_id": call_id, "output": []})
    return _list(items[-1], "output")


def _list(item: JsonObject, key: str) -> list[Any]:
    """Return the list that this module put there."""
    found: list[Any] = item[key]
    return found


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
        messages += [_read_input(item) for item in asked]
    stream = top.flag_at("stream") or False
    return Request(top.text_at("model") or "", tuple(messages), stream, extra_inputs=extra_inputs(body, own="input"))


def reads_response(body: JsonObject) -> bool:
    """Whether this is a response object; a bare error body is left to the chat shape, whose error it is too."""
    return body.get("object") == "response" or (isinstance(body.get("output"), list) and "status" in body)


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the response, or the error that came in its place."""
    top = root(body)
    failure = read_error(top, status)
    output = top.get("output")
    if output is None and top.tag_at("object") != "response" and failure is None:
        raise ShapeError("`output`: expected a list, got nothing", hint="an error body has `error` in its place")
    response = Response(
        model=top.text_at("model") or "",
        error=failure.error if failure else None,
        usage=_read_usage(top),
        id=top.text_at("id") or None,
        created_s=_read_created(top),
        status=status,
        complete=top.tag_at("status") not in _RUNNING,
    )
    if output is not None or top.tag_at("object") == "response":
        choice = _read_choice(top)
        response = replace(response, choices=(choice,), signals=tuple(_signals(top, choice)))
    if failure is not None:
        response = replace(response, signals=(*response.signals, failure.signal))
    elif response.choices and response.choices[0].finish is Finish.ERROR:
        response = replace(response, signals=(*response.signals, Signal(SignalKind.ERROR, "status", "failed", 0)))
    return response


def write_response(response: Response) -> JsonObject:
    """Return the body; an error without choices is the error alone."""
    return _fill(_core(response))


def open_stream() -> StreamReader:
    """Return a reader for the events of one response."""
    return ResponsesStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the response as typed events; the last one holds it whole, unless it was cut off."""
    body = write_response(response)
    for number, event in enumerate(events(body, piece_chars=piece_chars, complete=response.complete)):
        yield event_of({**event, "sequence_number": number}, event["type"])


def _read_input(item: Field) -> Message:
    kind = _item_kind(item)
    if kind == "message":
        return Message(item.need("role").text(), tuple(_read_item(item)))
    fallback = "tool" if kind.endswith("_output") else "assistant"
    return Message(_INPUT_ROLES.get(kind, fallback), tuple(_read_item(item)))


def _read_choice(top: Field) -> Choice:
    parts = _read_items(top.each("output"))
    details = top.get("incomplete_details")
    raw = None if details is None else details.text_at("reason")
    raw = raw or top.text_at("status")
    if raw is None or raw in _RUNNING:
        return Choice(0, parts)
    return Choice(0, parts, _finish(raw, parts), raw)


def _finish(raw: str, parts: tuple[Part, ...]) -> Finish:
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


def _read_created(top: Field) -> int | None:
    created = top.get("created_at")
    if created is not None and isinstance(created.value, float) and math.isfinite(created.value):
        return int(created.value) or None
    return None if created is None else created.integer() or None


def _read_usage(top: Field) -> Usage | None:
    usage = top.get("usage")
    if usage is None or usage.get("input_tokens") is None:
        return None
    return Usage(usage.need("input_tokens").integer(), usage.integer_at("output_tokens") or 0)


def _is_part(value: Any, kind: str) -> bool:
    return isinstance(value, dict) and value.get("type") == kind


def _core(response: Response) -> JsonObject:
    """Return what the response itself says, and nothing that is there for form's sake."""
    error = None if response.error is None else write_error(response.error)
    if not response.choices and error is not None:
        return {"error": error}
    choice = response.choices[0] if response.choices else Choice(0, ())
    status, reason = _write_status(choice, complete=response.complete)
    body: JsonObject = {"id": response.id or "", "object": "response", "created_at": response.created_s or 0}
    body |= {"status": status, "error": error, "incomplete_details": {"reason": reason} if reason else None}
    body |= {"model": response.model, "output": _write_items(choice.parts)}
    if response.usage is not None:
        counts = response.usage
        total = counts.input_tokens + counts.output_tokens
        body["usage"] = {"input_tokens": counts.input_tokens, "output_tokens": counts.output_tokens}
        body["usage"] |= {"total_tokens": total}
    return body


def _write_status(choice: Choice, *, complete: bool) -> tuple[str, str | None]:
    """Return the status and, where the response is incomplete, why."""
    if choice.finish is None:
        return ("completed" if complete else "in_progress"), None
    ours = choice.finish_raw is not None and _finish(choice.finish_raw, choice.parts) is choice.finish
    word = choice.finish_raw if ours and choice.finish_raw else _WORD[choice.finish]
    return (word, None) if word in _STATUSES else ("incomplete", word)


def _fill(body: JsonObject) -> JsonObject:
    """Return the body with all that the API always sends."""
    if "output" not in body:
        return body
    for key, value in (("parallel_tool_calls", True), ("tool_choice", "auto"), ("tools", [])):
        body.setdefault(key, value)
    for position, item in enumerate(body["output"]):
        kind = item.get("type")
        prefix = _ITEM_IDS.get(kind) if isinstance(kind, str) else None
        if prefix is not None:
            item.setdefault("id", f"{prefix}_{position}")
            item.setdefault("status", "completed")
        for part in item["content"] if prefix == "msg" else ():
            if _is_part(part, "output_text"):
                part.setdefault("annotations", [])
    if "usage" in body:
        body["usage"].setdefault("input_tokens_details", {"cached_tokens": 0, "cache_write_tokens": 0})
        body["usage"].setdefault("output_tokens_details", {"reasoning_tokens": 0})
    return body
