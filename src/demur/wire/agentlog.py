"""Shadow's `.agentlog`: payloads read as Shadow reads them, and exchanges written as records named by their hash.

The first record of a log is the metadata; a request's parent is the record before it, a response's parent its request.
What a payload cannot hold (opaque parts, further choices) is left out, and what is not known (latency, tokens) is not made
up.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.model.exchange import Finish, RefusalPart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from demur.wire.fields import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from demur.model.exchange import Choice, Exchange, Part, Request, Response
    from demur.wire.fields import JsonObject

__all__ = ["LoggedExchange", "is_payload", "payload_stop", "payload_text", "record_id", "write_agentlog"]

_INTEGERS = range(-(2**63), 2**64)
"""Beyond these the seed keeps a number as a double."""


def is_payload(body: dict[str, Any]) -> bool:
    """Return whether a body is an `.agentlog` payload and not a provider's own message."""
    return "content" in body and "stop_reason" in body and body.get("type") != "message"


def payload_text(body: dict[str, Any]) -> str:
    """Return the text parts joined by a space; empty where there are none."""
    content = body.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str))


def payload_stop(body: dict[str, Any]) -> str | None:
    """Return the stop reason, None where there is none."""
    stop = body.get("stop_reason")
    return stop if isinstance(stop, str) else None


def record_id(payload: object) -> str:
    """Return the name of a record with this payload, as in `sha256:93a2…`."""
    try:
        canonical = _canonical_json(payload).encode()
    except (OverflowError, RecursionError, TypeError, UnicodeEncodeError) as exc:
        raise ShapeError("`payload`: expected plain JSON, got something that cannot be written", hint=str(exc)) from exc
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def _canonical_json(value: Any) -> str:
    match value:
        case dict():
            pairs = [(unicodedata.normalize("NFC", key), item) for key, item in value.items()]
            # The order of code points is the order of UTF-8 bytes. Keys that NFC makes equal keep their order.
            pairs.sort(key=lambda pair: pair[0])
            return "{" + ",".join(f"{_canonical_json(key)}:{_canonical_json(item)}" for key, item in pairs) + "}"
        case list():
            return "[" + ",".join(map(_canonical_json, value)) + "]"
        case str():
            return json.dumps(unicodedata.normalize("NFC", value), ensure_ascii=False)
        case int() if not isinstance(value, bool) and value not in _INTEGERS:
            return _canonical_double(float(value))
        case float():
            return _canonical_double(value)
        case _:
            return json.dumps(value)


def _canonical_double(value: float) -> str:
    digits = format(Decimal(repr(value)), "f")
    shortest = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if value == 0 else shortest


LoggedExchange = tuple["Exchange", float | None]
"""An exchange and its latency in milliseconds, None where that is not known."""

_VERSION = "0.1"
_STOPS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL: "tool_use",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.REFUSAL: "refusal",
    Finish.ERROR: "error",
    Finish.UNKNOWN: "end_turn",
}


def write_agentlog(exchanges: Iterable[LoggedExchange], *, ts: str, tool: str = "demur") -> Iterator[bytes]:
    """Yield the lines of a log; `ts` is the time of its records, as `2026-04-28T10:00:00.000Z`."""
    head = _log_record("metadata", {"sdk": {"name": tool}}, ts=ts, parent=None, session=None)
    yield _log_line(head)
    last: str = head["id"]
    for exchange, latency_ms in exchanges:
        if exchange.request is not None:
            asked = _log_record(
                "chat_request", _request_payload(exchange.request), ts=ts, parent=last, session=exchange.session
            )
            yield _log_line(asked)
            last = asked["id"]
        if exchange.response is not None:
            kind, payload = _answer_payload(exchange.response, latency_ms)
            told = _log_record(kind, payload, ts=ts, parent=last, session=exchange.session)
            yield _log_line(told)
            last = told["id"]


def _log_record(kind: str, payload: JsonObject, *, ts: str, parent: str | None, session: str | None) -> JsonObject:
    meta = {} if session is None else {"meta": {"session_tag": session}}
    named = {"version": _VERSION, "id": record_id(payload), "kind": kind, "ts": ts, "parent": parent}
    return {**named, **meta, "payload": payload}


def _log_line(record: JsonObject) -> bytes:
    return encode(record) + b"\n"


def _request_payload(request: Request) -> JsonObject:
    messages = [
        {"role": m.role, "content": [p for part in m.parts for p in _payload_part(part)]} for m in request.messages
    ]
    return {"model": request.model, "messages": messages, "params": {}}


def _answer_payload(response: Response, latency_ms: float | None) -> tuple[str, JsonObject]:
    if response.error is not None:
        return "error", {"source": "llm", "code": response.error.code or "error", "message": response.error.message}
    choice = response.choices[0] if response.choices else None
    usage = response.usage
    known: JsonObject = {} if latency_ms is None else {"latency_ms": latency_ms}
    if usage is not None:
        known["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return "chat_response", {
        "model": response.model,
        "content": [p for part in choice.parts for p in _payload_part(part)] if choice else [],
        "stop_reason": _payload_stop_word(choice),
        **known,
    }


def _payload_stop_word(choice: Choice | None) -> str:
    finish = (choice.finish if choice else None) or Finish.UNKNOWN
    said = choice.finish_raw if choice else None
    return said if said and finish is Finish.UNKNOWN else _STOPS[finish]


def _payload_part(part: Part) -> Iterator[JsonObject]:
    match part:
        case TextPart(text):
            yield {"type": "text", "text": text}
        case RefusalPart(text):
            yield {"type": "refusal", "refusal": text}
        case ThinkingPart(text):
            yield {"type": "thinking", "thinking": text}
        case ToolCallPart(label, name, arguments):
            yield {"type": "tool_use", "id": label, "name": name, "input": _call_input(arguments)}
        case ToolResultPart(label, text):
            yield {"type": "tool_result", "tool_use_id": label, "content": text}
        case _:
            return


def _call_input(arguments: str) -> Any:
    try:
        return decode(arguments or "{}")
    except ShapeError:
        return arguments
