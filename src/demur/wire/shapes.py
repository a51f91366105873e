"""The registry of codecs, and readers for bodies and streams that do not say where they came from.

A format is recognised by fields that only it has; what no codec recognises is a `ShapeError` that lists the fields found and
the formats expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.model.exchange import Exchange, Shape
from demur.wire import anthropic, azure
from demur.wire.bedrock import converse as bedrock
from demur.wire.fields import decode
from demur.wire.flat import read_flat, read_prompt, reads_flat
from demur.wire.gemini import generate as gemini
from demur.wire.openai import chat as openai_chat
from demur.wire.openai import responses as openai_responses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.model.exchange import Request
    from demur.wire.fields import Codec, JsonObject, ServerEvent

__all__ = ["CODECS", "read_asked", "read_exchange", "read_stream", "shape_of_request", "shape_of_response"]

CODECS: Mapping[Shape, Codec] = {
    # Before OpenAI chat, of which it is a superset.
    Shape.AZURE: azure,
    Shape.OPENAI_CHAT: openai_chat,
    Shape.OPENAI_RESPONSES: openai_responses,
    Shape.ANTHROPIC: anthropic,
    Shape.GEMINI: gemini,
    Shape.BEDROCK: bedrock,
}

_RESPONSE_FIELDS = ("response", "body", "output", "result")
_NESTED_FIELDS = ("body", "message")
_REQUEST_FIELDS = ("request", "input")


def shape_of_response(body: JsonObject) -> Shape | None:
    """Return the shape of a response or error body, None where no codec knows it."""
    return next((shape for shape, codec in CODECS.items() if codec.reads_response(body)), None)


def shape_of_request(body: JsonObject) -> Shape | None:
    """Return the shape of a request body, None where no codec knows it."""
    return next((shape for shape, codec in CODECS.items() if codec.reads_request(body)), None)


def read_exchange(body: JsonObject) -> Exchange:
    """Return the exchange in a body: a provider's response, a request and response side by side, or a flat row."""
    shape = shape_of_response(body)
    if shape is not None:
        return Exchange(shape, CODECS[shape].read_response(body, status=_status(body)), id=_id(body))
    inner = next((body[f] for f in _RESPONSE_FIELDS if isinstance(body.get(f), dict)), None)
    if inner is not None:
        return _read_pair(body, inner)
    if reads_flat(body):
        return read_flat(body)
    raise ShapeError(
        _unknown(body), hint=f"expected a response of {', '.join(CODECS)}, or a row with a `response` text"
    )


def read_asked(body: JsonObject) -> Exchange:
    """Return the exchange with the request in a body: a request by itself, a log row that holds one, or a flat row."""
    shape = shape_of_request(body)
    request = CODECS[shape].read_request(body) if shape else _request(body)
    request = request or read_prompt(body)
    if request is None:
        raise ShapeError(
            _unknown(body), hint=f"expected a request of {', '.join(CODECS)}, or a row with a `prompt` text"
        )
    return Exchange(shape, None, request, _id(body))


def read_stream(events: Sequence[ServerEvent]) -> Exchange:
    """Return the exchange in a captured stream; one that was cut off has `complete=False`."""
    shape = next((shape for event in events if (shape := _shape_of_event(event))), None)
    if shape is None:
        raise ShapeError("a stream of no known shape", hint="expected the events of an OpenAI, Anthropic or Gemini API")
    reader, whole = CODECS[shape].open_stream(), True
    for event in events:
        try:
            reader.feed(event)
        except ShapeError:
            # One spoilt event in a capture does not spoil what arrived before and after it.
            whole = False
    response = reader.close()
    return Exchange(shape, response if whole else replace(response, complete=False))


def _shape_of_event(event: ServerEvent) -> Shape | None:
    """Return which shape's streams hold such an event, None where it does not tell."""
    if event.event == "messageStart":
        return Shape.BEDROCK
    try:
        body = decode(event.data)
    except ShapeError:
        return None
    kind = body.get("type") if isinstance(body, dict) else None
    if isinstance(kind, str) and kind.startswith("response."):
        return Shape.OPENAI_RESPONSES
    if kind in ("message_start", "content_block_start", "content_block_delta", "message_delta"):
        return Shape.ANTHROPIC
    return shape_of_response(body) if isinstance(body, dict) else None


def _read_pair(body: JsonObject, inner: JsonObject) -> Exchange:
    """Return the exchange in a log row that holds the response (and perhaps the request) under a field of its own."""
    nested = next((inner[f] for f in _NESTED_FIELDS if isinstance(inner.get(f), dict)), None)
    if nested is not None and shape_of_response(inner) is None:
        read = read_exchange({"status_code": inner.get("status_code"), "response": nested})
        return Exchange(read.shape, read.response, _request(body), _id(body), read.session)
    shape = shape_of_response(inner)
    if shape is None and reads_flat(inner):
        return replace(read_flat(inner), request=_request(body), id=_id(body))
    if shape is None:
        raise ShapeError(_unknown(inner), hint=f"expected a response of {', '.join(CODECS)}")
    response = CODECS[shape].read_response(inner, status=_status(body))
    return Exchange(shape, response, _request(body), _id(body))


def _request(body: JsonObject) -> Request | None:
    asked = next((body[f] for f in _REQUEST_FIELDS if isinstance(body.get(f), dict)), None)
    shape = None if asked is None else shape_of_request(asked)
    return None if asked is None or shape is None else CODECS[shape].read_request(asked)


def _status(body: JsonObject) -> int:
    status = body.get("status_code", body.get("status"))
    return status if isinstance(status, int) and not isinstance(status, bool) else 200


def _id(body: JsonObject) -> str | None:
    value = next((body[f] for f in ("custom_id", "id") if isinstance(body.get(f), str)), None)
    return value if isinstance(value, str) else None


def _unknown(body: JsonObject) -> str:
    fields = ", ".join(f"`{name}`" for name in list(body)[:6])
    return f"unknown shape with the fields {fields}" if fields else "unknown shape: an empty object"
