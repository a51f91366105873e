"""What was asked and answered in the shape of OpenAI's Responses API?

Laws: those of `interface`; the output is one choice whose parts are all its items in order (see `openai_items`);
`instructions` are the leading system message; `finish_raw` is the reason of `incomplete_details`, else the status; an
error inside a response keeps its choice, an error body has none; what the API always sends and nobody reads (ids of
items, `tool_choice`, …) is filled in on writing and left out on reading where it is what would be filled in.
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
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ToolCallPart,
    Usage,
)
from demur.wire.blocks import event_of, extra_inputs
from demur.wire.fields import root
from demur.wire.openai.error import read_error, write_error
from demur.wire.openai.items import item_kind, read_item, read_items, write_items
from demur.wire.openai.responses_stream import ResponsesStream, events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import Field
    from demur.wire.interface import JsonObject, StreamReader
    from demur.wire.sse import ServerEvent

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

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
    kind = item_kind(item)
    if kind == "message":
        return Message(item.need("role").text(), tuple(read_item(item)))
    fallback = "tool" if kind.endswith("_output") else "assistant"
    return Message(_INPUT_ROLES.get(kind, fallback), tuple(read_item(item)))


def _read_choice(top: Field) -> Choice:
    parts = read_items(top.each("output"))
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
    body |= {"model": response.model, "output": write_items(choice.parts)}
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
