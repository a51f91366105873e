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

    from demur.model.exchange import Exchange, Part, Response
    from demur.wire.fields import JsonObject

__all__ = ["LoggedExchange", "is_payload", "payload_stop", "payload_text", "record_id", "write_agentlog"]

_INTEGERS = range(-(2**63), 2**64)
"""Beyond these the seed keeps a number as a double."""


def is_payload(body: dict[str, Any]) -> bool:
    """Return whether a body is an `.agentlog` payload and not a provider's own message."""
    return "content" in body and "stop_reason" in body and body.get("type") != "message"


def payload_text(body: dict[str, Any]) -> str:
    """Return the text parts joined by a space; empty where there are none."""
    # A content that is a plain string has no text for Shadow.
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
    # Shadow's SPEC, sections 5 and 6: strings and keys in Unicode's NFC, keys sorted by their UTF-8 bytes, no white space,
    # numbers in their shortest form without an exponent (`1.0` is `1`, `-0.0` is `0`).
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
            payload: JsonObject = {
                "model": exchange.request.model,
                "messages": [{"role": m.role, "content": _payload_parts(m.parts)} for m in exchange.request.messages],
                "params": {},
            }
            asked = _log_record("chat_request", payload, ts=ts, parent=last, session=exchange.session)
            yield _log_line(asked)
            last = asked["id"]
        if exchange.response is not None:
            kind, payload = _response_payload(exchange.response, latency_ms)
            told = _log_record(kind, payload, ts=ts, parent=last, session=exchange.session)
            yield _log_line(told)
            last = told["id"]


def _log_record(kind: str, payload: JsonObject, *, ts: str, parent: str | None, session: str | None) -> JsonObject:
    meta = {} if session is None else {"meta": {"session_tag": session}}
    named = {"version": _VERSION, "id": record_id(payload), "kind": kind, "ts": ts, "parent": parent}
    return {**named, **meta, "payload": payload}


def _log_line(record: JsonObject) -> bytes:
    return encode(record) + b"\n"


def _response_payload(response: Response, latency_ms: float | None) -> tuple[str, JsonObject]:
    if response.error is not None:
        return "error", {"source": "llm", "code": response.error.code or "error", "message": response.error.message}
    choice = response.choices[0] if response.choices else None
    finish, said = (choice and choice.finish) or Finish.UNKNOWN, choice and choice.finish_raw
    usage = response.usage
    known: JsonObject = {} if latency_ms is None else {"latency_ms": latency_ms}
    if usage is not None:
        known["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return "chat_response", {
        "model": response.model,
        "content": _payload_parts(choice.parts) if choice else [],
        # A word that has no meaning for us is written as it came.
        "stop_reason": said if said and finish is Finish.UNKNOWN else _STOPS[finish],
        **known,
    }


def _payload_parts(parts: tuple[Part, ...]) -> list[JsonObject]:
    written: list[JsonObject] = []
    for part in parts:
        match part:
            case TextPart(text):
                written.append({"type": "text", "text": text})
            case RefusalPart(text):
                written.append({"type": "refusal", "refusal": text})
            case ThinkingPart(text):
                written.append({"type": "thinking", "thinking": text})
            case ToolCallPart(label, name, arguments):
                written.append({"type": "tool_use", "id": label, "name": name, "input": _call_input(arguments)})
            case ToolResultPart(label, text):
                written.append({"type": "tool_result", "tool_use_id": label, "content": text})
            case _:
                # A payload has no place for what we do not read.
                pass
    return written


def _call_input(arguments: str) -> Any:
    try:
        return decode(arguments or "{}")
    except ShapeError:
        return arguments
