"""The spans in a record, whoever exported it, and the row of a run that a model call in a span becomes.

OTLP/JSON documents nest spans as `resourceSpans[*].scopeSpans[*].spans[*]`, with attributes as lists of typed pairs; SDK
console exporters write one span per object with plain attributes (in JavaScript with a `spanContext`, and times as
`[seconds, nanoseconds]`); Phoenix nests attributes by their dots, or flattens them
into columns `attributes.…`. All of these become the same `Span`, and nothing here raises, whatever the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.formats.fields import fields_of, label_of, object_at, pair_key_in, text_at, unwrapped_json
from demur.formats.responses import not_stored
from demur.model.exchange import Exchange
from demur.model.run import Traced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.model.exchange import Request, Response
    from demur.wire.fields import JsonObject

__all__ = ["Span", "SpanEvent", "holds_spans", "indexed", "spans_in", "traced_span"]

_MAX_DEPTH = 16
_MAX_INDEX = 10_000
_SPAN_IDS = (
    "context",
    "spanContext",
    "_spanContext",
    "spanId",
    "span_id",
    "traceId",
    "trace_id",
    "context.span_id",
    "context.trace_id",
)
_ERROR_CODES = frozenset({2, "2", "STATUS_CODE_ERROR", "ERROR", "error"})
_TIMES = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timeUnixNano", "time_unix_nano")
_SCALAR_VALUES = ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """One span; `failed` is what its error says, None where it did not fail; `start` as it was written."""

    name: str
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...] = ()
    trace: str | None = None
    failed: str | None = None
    start: object = None
    service: str | None = None

    def text(self, *names: str) -> str | None:
        """Return the first of these attributes that is a text with something in it."""
        return text_at(dict(self.attributes), *names)


def holds_spans(record: JsonObject) -> bool:
    """Return whether a record is an OTLP document of spans or log records, or a span by itself."""
    if any(isinstance(record.get(name), list) for name in ("resourceSpans", "resource_spans", "resourceLogs")):
        return True
    attributes = record.get("attributes")
    named = any(record.get(name) is not None for name in _SPAN_IDS)
    return named and (isinstance(attributes, dict | list) or any(name.startswith("attributes.") for name in record))


def spans_in(record: JsonObject) -> Iterator[Span]:
    """Yield the spans of a document, or the one that the record is."""
    resources = record.get("resourceSpans") or record.get("resource_spans") or record.get("resourceLogs")
    if not isinstance(resources, list):
        yield _span(record, None)
        return
    for resource in _objects(resources):
        about = _attributes(object_at(resource, "resource").get("attributes"))
        service = about.get("service.name")
        for scope in _objects(_first_field(resource, "scopeSpans", "scope_spans", "scopeLogs")):
            for span in _objects(_first_field(scope, "spans", "logRecords")):
                yield _span(span, service if isinstance(service, str) else None)


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[JsonObject]:
    """Return the objects that a convention spreads over `prefix.0.…`, `prefix.1.…`, or keeps as one list."""
    whole = unwrapped_json(attributes.get(prefix))
    if isinstance(whole, list):
        return [_flat(item, _MAX_DEPTH) for item in whole if isinstance(item, dict)]
    found: dict[int, JsonObject] = {}
    for name, value in attributes.items():
        index, _, rest = name.removeprefix(f"{prefix}.").partition(".")
        if (
            name.startswith(f"{prefix}.")
            and index.isascii()
            and index.isdecimal()
            and len(index) < len(str(_MAX_INDEX))
        ):
            found.setdefault(int(index), {})[rest] = value
    return [found[index] for index in sorted(found)]


def _span(span: JsonObject, service: str | None) -> Span:
    context = object_at(span, "context") or object_at(span, "spanContext") or object_at(span, "_spanContext")
    columns = {
        name.removeprefix("attributes."): value for name, value in span.items() if name.startswith("attributes.")
    }
    events = span.get("events")
    return Span(
        name=text_at(span, "name", "eventName", "event_name") or "",
        attributes=_attributes(span.get("attributes")) | _flat(columns, _MAX_DEPTH),
        events=tuple(SpanEvent(text_at(e, "name") or "", _attributes(e.get("attributes"))) for e in _objects(events)),
        trace=text_at(span, "traceId", "trace_id", "context.trace_id") or text_at(context, "trace_id", "traceId"),
        failed=_failure(span),
        start=next((_time(span[name]) for name in _TIMES if span.get(name) is not None), None),
        service=service or text_at(object_at(object_at(span, "resource"), "attributes"), "service.name"),
    )


def _time(value: object) -> object:
    """Return a time as it was written; JavaScript's pair of seconds and nanoseconds as the seconds."""
    return value[0] if isinstance(value, list) and value else value


def _failure(span: JsonObject) -> str | None:
    """Return what a failed span says of its failure: the status, else the exception among its events."""
    status = span.get("status")
    about: JsonObject = status if isinstance(status, dict) else {}
    code = about.get("code", about.get("status_code", span.get("status_code")))
    if not isinstance(code, str | int) or code not in _ERROR_CODES:
        return None
    said = text_at(about, "message", "description") or text_at(span, "status_message")
    raised = (_attributes(event.get("attributes")) for event in _objects(span.get("events")))
    return said or next((text for e in raised if (text := text_at(e, "exception.message"))), "error")


def _attributes(value: object) -> JsonObject:
    """Return attributes by name, from OTLP's list of pairs or from an object."""
    if isinstance(value, list):
        pairs = {pair["key"]: _any_value(pair.get("value"), _MAX_DEPTH) for pair in _pairs(value)}
        return {name: item for name, item in pairs.items() if item is not None}
    return _flat(value, _MAX_DEPTH) if isinstance(value, dict) else {}


def _any_value(value: object, depth: int) -> object:
    """Return the plain value in an OTLP `AnyValue`; None where it holds none that we read."""
    if not isinstance(value, dict) or not depth:
        return None
    for name in _SCALAR_VALUES:
        if isinstance(value.get(name), str | bool | int | float):
            return value[name]
    number = value.get("intValue", value.get("int_value"))
    if isinstance(number, str | int):
        # 64-bit integers are strings in protobuf's JSON.
        return number
    array = value.get("arrayValue", value.get("array_value"))
    if isinstance(array, dict):
        return [_any_value(item, depth - 1) for item in _objects(array.get("values"))]
    pairs = value.get("kvlistValue", value.get("kvlist_value"))
    if isinstance(pairs, dict):
        return {pair["key"]: _any_value(pair.get("value"), depth - 1) for pair in _pairs(pairs.get("values"))}
    return None


def _flat(value: JsonObject, depth: int) -> JsonObject:
    """Return the object with the names of nested objects joined by dots; lists stay as they are."""
    found: JsonObject = {}
    for name, item in value.items():
        if isinstance(item, dict) and depth:
            found |= {f"{name}.{rest}": leaf for rest, leaf in _flat(item, depth - 1).items()}
        elif item is not None:
            found[name] = item
    return found


def _pairs(value: object) -> Iterator[JsonObject]:
    return (pair for pair in _objects(value) if isinstance(pair.get("key"), str))


def _objects(value: object) -> Iterator[JsonObject]:
    """Yield the objects of a list; nothing where it is no list."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _first_field(holder: JsonObject, *names: str) -> object:
    return next((holder[name] for name in names if holder.get(name) is not None), None)


_SESSIONS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "thread.id")
_METADATA_SESSIONS = ("session_id", "sessionId", "conversation_id", "conversationId", "thread_id", "chat_id")
_CONTENT = (
    *("gen_ai.prompt", "gen_ai.completion", "gen_ai.input", "gen_ai.output", "gen_ai.system_instructions"),
    *("llm.input_messages", "llm.output_messages", "llm.tools", "input.", "output.", "metadata"),
    *(
        "ai.prompt",
        "ai.response.text",
        "ai.response.object",
        "ai.response.toolCalls",
        "ai.result",
        "ai.telemetry.metadata",
    ),
    *("traceloop.association.properties", "traceloop.entity.", "llm.prompts", "llm.choices"),
)


def traced_span(span: Span, request: Request | None, response: Response | None, *, metadata: JsonObject) -> Traced:
    """Return the row of one call; `metadata` is what the user put into the span.

    Instrumentations record no content unless they are told to: a call that did not fail and has none was not stored.
    """
    model = (response.model if response else "") or (request.model if request else "")
    session = span.text(*_SESSIONS) or text_at(metadata, *_METADATA_SESSIONS) or span.trace
    key = pair_key_in(metadata) or pair_key_in(dict(span.attributes))
    row = {
        "model": model,
        "start_time": span.start,
        "service": span.service,
        "metadata": metadata,
        "attributes": {name: value for name, value in span.attributes.items() if not name.startswith(_CONTENT)},
    }
    exchange = Exchange(None, response or not_stored(model), request, key, label_of(session))
    return Traced(exchange, fields_of(row, skip={"start_time"}))
