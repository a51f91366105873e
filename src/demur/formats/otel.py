"""Model calls in OpenTelemetry spans, in the four conventions that tools write.

These are GenAI, OpenLLMetry (Traceloop), OpenInference (Phoenix, Arize) and that of the Vercel AI SDK. A document may hold spans of several instrumentations. Each span is read by the convention that it follows, whichever format
the document was taken for; a document is of the format of its first span that follows any, and `otel` where none does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import message_of, object_at, request_of, text_at, unwrapped_json
from demur.formats.interface import Kind, stateless
from demur.formats.responses import (
    describe_kind,
    failure_of,
    finish_of,
    response_in,
    response_of_choices,
    response_of_parts,
)
from demur.formats.spans import holds_spans, indexed, spans_in, traced_span
from demur.model.exchange import TextPart
from demur.model.run import Skipped
from demur.wire.shapes import shape_of_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from demur.formats.spans import Span
    from demur.model.exchange import Part, Request, Response
    from demur.model.run import Traced
    from demur.wire.fields import JsonObject

__all__ = ["OPENINFERENCE", "OPENLLMETRY", "OTEL", "VERCEL"]

_DETAILS = "gen_ai.client.inference.operation.details"
_NO_CALLS = {
    "embeddings": "an embeddings span",
    "embedding": "an embeddings span",
    "rerank": "a rerank span",
    "execute_tool": "a tool span",
    "tool": "a tool span",
    "invoke_agent": "an agent span",
    "create_agent": "an agent span",
    "agent": "an agent span",
    "invoke_workflow": "a workflow span",
    "workflow": "a workflow span",
    "task": "a task span",
    "retrieval": "a retrieval span",
}
_PROPERTIES = "traceloop.association.properties."
_CHOICE_EVENTS = frozenset({"gen_ai.choice", "gen_ai.content.completion"})
_BODIES = ("gen_ai.event.content", "gen_ai.prompt", "gen_ai.completion")


def reads_openllmetry(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are OpenLLMetry's: spread messages, or anything of Traceloop's."""
    ours = ("gen_ai.prompt.", "gen_ai.completion.", "traceloop.")
    # `gen_ai.prompt.name` is OpenTelemetry's own.
    return "llm.request.type" in attributes or any(
        name.startswith(ours) and name != "gen_ai.prompt.name" for name in attributes
    )


def reads_genai(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are of the GenAI conventions at all."""
    return any(name.startswith("gen_ai.") for name in attributes)


def read_genai(span: Span) -> Traced | Skipped:
    """Return the call that a span tells of."""
    kinds = (span.text("gen_ai.operation.name"), span.text("llm.request.type"), span.text("traceloop.span.kind"))
    why = next((_NO_CALLS[kind] for kind in kinds if kind in _NO_CALLS), None)
    if why is not None:
        return Skipped(why)
    details = next((event.attributes for event in span.events if event.name == _DETAILS), {})
    span = replace(span, attributes={**details, **span.attributes})
    model = span.text("gen_ai.response.model", "gen_ai.request.model") or ""
    response = _response_of(span, model)
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    metadata = {
        name.removeprefix(_PROPERTIES): value for name, value in span.attributes.items() if name.startswith(_PROPERTIES)
    }
    return traced_span(span, _request_of_span(span), response, metadata=metadata)


def _request_of_span(span: Span) -> Request | None:
    attributes, model = span.attributes, span.text("gen_ai.request.model") or ""
    asked = unwrapped_json(attributes.get("gen_ai.input.messages"))
    system = unwrapped_json(attributes.get("gen_ai.system_instructions"))
    if asked is not None:
        return request_of({"system": system, "messages": asked}, model)
    spread = [{**turn, "content": unwrapped_json(turn.get("content"))} for turn in indexed(attributes, "gen_ai.prompt")]
    events = [_turn_of_event(event.name, event.attributes) for event in span.events if event.name not in _CHOICE_EVENTS]
    told = [turn for turn in events if turn is not None]
    return request_of(spread or told or unwrapped_json(attributes.get("gen_ai.prompt")), model)


def _turn_of_event(name: str, attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message in an event such as `gen_ai.user.message`; None where it is no message."""
    body = unwrapped_json(next((attributes[key] for key in _BODIES if attributes.get(key) is not None), None))
    if name != "gen_ai.content.prompt" and not (name.startswith("gen_ai.") and name.endswith(".message")):
        return None
    role = name.removeprefix("gen_ai.").removesuffix(".message") if name.endswith(".message") else "user"
    return {"role": role, **body} if isinstance(body, dict) else {"role": role, "content": body}


def _response_of(span: Span, model: str) -> Response | None:
    choices = list(_choices_of(span))
    stops = _stops_of(span)
    if choices:
        told = [(parts, stop or (stops[i] if i < len(stops) else None)) for i, (parts, stop) in enumerate(choices)]
        return response_of_choices(told, model=model, path="gen_ai.response.finish_reasons")
    whole = span.attributes.get("gen_ai.completion")
    return response_in(whole, model=model, stop=stops[0] if stops else None, path="gen_ai.completion")


def _choices_of(span: Span) -> list[tuple[tuple[Part, ...], object]]:
    """Return the parts and the stop word of each answer, wherever this version of the conventions keeps them."""
    output = unwrapped_json(span.attributes.get("gen_ai.output.messages"))
    messages = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    messages = messages or indexed(span.attributes, "gen_ai.completion")
    messages = messages or [_choice_of_event(e.attributes) for e in span.events if e.name in _CHOICE_EVENTS]
    return [(_parts_of_answer(message), text_at(message, "finish_reason")) for message in messages]


def _choice_of_event(attributes: Mapping[str, Any]) -> dict[str, Any]:
    body = unwrapped_json(next((attributes[key] for key in _BODIES if attributes.get(key) is not None), None))
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0]
    if not isinstance(body, dict):
        return {"content": body}
    return {**(object_at(body, "message") or body), "finish_reason": body.get("finish_reason")}


def _parts_of_answer(message: dict[str, Any]) -> tuple[Part, ...]:
    calls = indexed(message, "tool_calls")
    held = {**message, "role": "assistant", "tool_calls": calls} if calls else {**message, "role": "assistant"}
    return message_of(held).parts


def _stops_of(span: Span) -> list[object]:
    one = span.text("gen_ai.response.finish_reason", "gen_ai.response.stop_reason")
    several = unwrapped_json(span.attributes.get("gen_ai.response.finish_reasons"))
    return several if isinstance(several, list) else [stop for stop in (several, one) if isinstance(stop, str)]


_MESSAGES = ("llm.input_messages", "llm.output_messages")


def reads_openinference(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are OpenInference's."""
    return "openinference.span.kind" in attributes or any(name.startswith(_MESSAGES) for name in attributes)


def read_openinference(span: Span) -> Traced | Skipped:
    """Return the call that a span tells of."""
    kind = span.text("openinference.span.kind")
    if kind is not None and kind.upper() != "LLM":
        return Skipped(describe_kind(kind, "span"))
    model = span.text("llm.response.model_name", "llm.model_name", "llm.request.model_name") or ""
    response = _response_told(span, model)
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    metadata = unwrapped_json(span.attributes.get("metadata"))
    nested = {
        name.removeprefix("metadata."): value for name, value in span.attributes.items() if name.startswith("metadata.")
    }
    return traced_span(span, _request_told(span), response, metadata=metadata if isinstance(metadata, dict) else nested)


def _request_told(span: Span) -> Request | None:
    model = span.text("llm.request.model_name", "llm.model_name") or ""
    turns = [_turn(message) for message in indexed(span.attributes, "llm.input_messages")]
    value = unwrapped_json(span.attributes.get("input.value"))
    return request_of(turns, model) or request_of(value, model)


def _response_told(span: Span, model: str) -> Response | None:
    stop = span.text("llm.finish_reason")
    value = span.attributes.get("output.value")
    body = unwrapped_json(value)
    turns = [_turn(message) for message in indexed(span.attributes, "llm.output_messages")]
    if turns and not (isinstance(body, dict) and shape_of_response(body)):
        told = [(message_of(turn).parts, stop if index == 0 else None) for index, turn in enumerate(turns)]
        return response_of_choices(told, model=model, path="llm.finish_reason")
    return response_in(value, model=model, stop=stop, path="output.value")


def _turn(message: JsonObject) -> JsonObject:
    """Return a message as other tools spell it, from `message.content`, or `message.contents` spread or listed."""
    bare = {name.removeprefix("message."): value for name, value in message.items()}
    contents = [_content(part) for part in indexed(bare, "contents")]
    calls = [
        {
            "id": call.get("tool_call.id"),
            "name": call.get("tool_call.function.name"),
            "arguments": call.get("tool_call.function.arguments"),
        }
        for call in indexed(bare, "tool_calls")
    ]
    return {
        "role": bare.get("role"),
        "content": bare.get("content") or contents or None,
        "refusal": bare.get("refusal"),
        "tool_calls": calls,
        "tool_call_id": bare.get("tool_call_id"),
    }


def _content(part: JsonObject) -> JsonObject:
    return {name.removeprefix("message_content."): value for name, value in part.items()}


_VERCEL = ("ai.operationId", "ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.result.text", "ai.model.id")
_VERCEL_METADATA = "ai.telemetry.metadata."
_VERCEL_FINISHES = ("ai.response.finishReason", "ai.finishReason")


def reads_vercel(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are the AI SDK's; its spans have some of OpenTelemetry's attributes too."""
    return any(name in attributes for name in (*_VERCEL, "ai.toolCall.name"))


def read_vercel(span: Span) -> Traced | Skipped:
    """Return the call that a span tells of."""
    operation = span.text("ai.operationId") or span.name.partition(" ")[0]
    if operation == "ai.toolCall" or "ai.toolCall.name" in span.attributes:
        return Skipped("a tool span")
    if operation.startswith(("ai.embed", "ai.rerank")):
        return Skipped("an embeddings span" if operation.startswith("ai.embed") else "a rerank span")
    if operation.startswith("ai.") and ".do" not in operation:
        return Skipped("an outer span, whose calls have spans of their own")
    model = span.text("ai.response.model", "ai.model.id") or ""
    asked = _request_recorded(span)
    response = _response_recorded(span, model, known=asked is not None)
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    metadata = {
        name.removeprefix(_VERCEL_METADATA): value
        for name, value in span.attributes.items()
        if name.startswith(_VERCEL_METADATA)
    }
    return traced_span(span, asked, response, metadata=metadata)


def _request_recorded(span: Span) -> Request | None:
    model = span.text("ai.model.id", "gen_ai.request.model") or ""
    system = span.text("ai.prompt.system")
    asked = unwrapped_json(span.attributes.get("ai.prompt.messages"))
    if asked is None:
        return request_of(unwrapped_json(span.attributes.get("ai.prompt")), model)
    return request_of({"system": system, "messages": asked}, model)


def _response_recorded(span: Span, model: str, *, known: bool) -> Response | None:
    stop = span.text(*_VERCEL_FINISHES)
    path = next((name for name in _VERCEL_FINISHES if name in span.attributes), _VERCEL_FINISHES[0])
    parts = _parts_recorded(span)
    told = "ai.response.text" in span.attributes or "ai.result.text" in span.attributes
    response = response_of_parts(parts, model=model, stop=stop, path=path)
    return response if parts or told or response.signals or (known and finish_of(stop) is not None) else None


def _parts_recorded(span: Span) -> tuple[Part, ...]:
    text = span.text("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object")
    calls = unwrapped_json(span.attributes.get("ai.response.toolCalls", span.attributes.get("ai.result.toolCalls")))
    called = message_of({"role": "assistant", "tool_calls": calls}).parts
    return ((TextPart(text),) if text else ()) + called


_CONVENTIONS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], Callable[[Span], Traced | Skipped]], ...] = (
    ("vercel", reads_vercel, read_vercel),
    ("openinference", reads_openinference, read_openinference),
    ("openllmetry", reads_openllmetry, read_genai),
    ("otel", reads_genai, read_genai),
)


def convention_of(record: JsonObject) -> str | None:
    """Return the name of the format that a document of spans is of; None where it is none."""
    if not holds_spans(record):
        return None
    names = (name for span in spans_in(record) for name, reads, _ in _CONVENTIONS if reads(span.attributes))
    return next(names, "otel")


def _read_spans(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not holds_spans(record):
        raise ShapeError(
            "expected spans, got something else", hint="a document has `resourceSpans`, a span `attributes`"
        )
    for span in spans_in(record):
        read = next((read for _, reads, read in _CONVENTIONS if reads(span.attributes)), None)
        try:
            yield Skipped("a span that is no model call") if read is None else read(span)
        except ShapeError as exc:
            # One spoilt span does not spoil those after it.
            yield Skipped(f"unreadable: {exc.what}")


def _span_format(name: str) -> Kind:
    """Return the format of the documents whose first span with a convention follows the one of this name."""
    return Kind(name, lambda record: convention_of(record) == name, stateless(_read_spans))


VERCEL = _span_format("vercel")
OPENINFERENCE = _span_format("openinference")
OPENLLMETRY = _span_format("openllmetry")
OTEL = _span_format("otel")
