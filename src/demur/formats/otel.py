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
from demur.model.run import Skipped, Traced
from demur.wire.shapes import shape_of_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from demur.formats.interface import TraceReader
    from demur.formats.spans import Span, SpanEvent
    from demur.model.exchange import Part, Request, Response
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
    stops = unwrapped_json(span.attributes.get("gen_ai.response.finish_reasons"))
    if not isinstance(stops, list):
        one = span.text("gen_ai.response.finish_reason", "gen_ai.response.stop_reason")
        stops = [stop for stop in (stops, one) if isinstance(stop, str)]
    choices = _genai_choices(span)
    if choices:
        told = [(parts, stop or (stops[i] if i < len(stops) else None)) for i, (parts, stop) in enumerate(choices)]
        response: Response | None = response_of_choices(told, model=model, path="gen_ai.response.finish_reasons")
    else:
        # Content is not recorded by default: without it, only a stop by a filter is known, and enough.
        whole, stop = span.attributes.get("gen_ai.completion"), stops[0] if stops else None
        response = response_in(whole, model=model, stop=stop, path="gen_ai.completion")
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    if response is None and unwrapped_json(span.attributes.get("gen_ai.output.messages")) == []:
        # Content was recorded, and there was none.
        response = response_of_parts((), model=model, stop=stops[0] if stops else None)
    metadata = {
        name.removeprefix(_PROPERTIES): value for name, value in span.attributes.items() if name.startswith(_PROPERTIES)
    }
    return traced_span(span, _genai_request(span), response, metadata=metadata)


def _genai_request(span: Span) -> Request | None:
    # From 1.37 of the conventions on, messages are one attribute, or stand in the event `_DETAILS`; before, they were
    # events of their own; OpenLLMetry spreads them over `gen_ai.prompt.N.…`, and keeps a refusal there.
    attributes, model = span.attributes, span.text("gen_ai.request.model") or ""
    asked = unwrapped_json(attributes.get("gen_ai.input.messages"))
    system = unwrapped_json(attributes.get("gen_ai.system_instructions"))
    if asked is not None:
        return request_of({"system": system, "messages": asked}, model)
    spread = [{**turn, "content": unwrapped_json(turn.get("content"))} for turn in indexed(attributes, "gen_ai.prompt")]
    told = []
    for event in span.events:
        is_message = event.name.startswith("gen_ai.") and event.name.endswith(".message")
        if is_message or event.name == "gen_ai.content.prompt":
            role = event.name.removeprefix("gen_ai.").removesuffix(".message") if is_message else "user"
            body = _event_body(event)
            told.append({"role": role, **body} if isinstance(body, dict) else {"role": role, "content": body})
    return request_of(spread or told or unwrapped_json(attributes.get("gen_ai.prompt")), model)


def _event_body(event: SpanEvent) -> object:
    body = next((event.attributes[key] for key in _BODIES if event.attributes.get(key) is not None), None)
    return unwrapped_json(body)


def _genai_choices(span: Span) -> list[tuple[tuple[Part, ...], object]]:
    """Return the parts and the stop word of each choice, wherever this version of the conventions keeps them."""
    output = unwrapped_json(span.attributes.get("gen_ai.output.messages"))
    messages = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    messages = messages or indexed(span.attributes, "gen_ai.completion")
    if not messages:
        for event in span.events:
            if event.name in _CHOICE_EVENTS:
                body = _event_body(event)
                body = body[0] if isinstance(body, list) and body and isinstance(body[0], dict) else body
                message = object_at(body, "message") or body if isinstance(body, dict) else {"content": body}
                stop = body.get("finish_reason") if isinstance(body, dict) else None
                messages.append({**message, "finish_reason": stop})
    choices: list[tuple[tuple[Part, ...], object]] = []
    for message in messages:
        # OpenLLMetry spreads the calls of a message over `tool_calls.N.…`.
        calls = indexed(message, "tool_calls")
        held = {**message, "role": "assistant", **({"tool_calls": calls} if calls else {})}
        choices.append((message_of(held).parts, text_at(message, "finish_reason")))
    return choices


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
    stop, output = span.text("llm.finish_reason"), span.attributes.get("output.value")
    body = unwrapped_json(output)
    turns = [_openinference_turn(message) for message in indexed(span.attributes, "llm.output_messages")]
    # The provider's own response comes before the messages, which have no place for a refusal.
    if turns and not (isinstance(body, dict) and shape_of_response(body)):
        told = [(message_of(turn).parts, stop if index == 0 else None) for index, turn in enumerate(turns)]
        response: Response | None = response_of_choices(told, model=model, path="llm.finish_reason")
    else:
        response = response_in(output, model=model, stop=stop, path="output.value")
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    metadata = unwrapped_json(span.attributes.get("metadata"))
    nested = {
        name.removeprefix("metadata."): value for name, value in span.attributes.items() if name.startswith("metadata.")
    }
    asked_model = span.text("llm.request.model_name", "llm.model_name") or ""
    asked = [_openinference_turn(message) for message in indexed(span.attributes, "llm.input_messages")]
    whole = unwrapped_json(span.attributes.get("input.value"))
    request = request_of(asked, asked_model) or request_of(whole, asked_model)
    return traced_span(span, request, response, metadata=metadata if isinstance(metadata, dict) else nested)


def _openinference_turn(message: JsonObject) -> JsonObject:
    """Return a message as other tools spell it, from `message.content`, or `message.contents` spread or listed."""
    bare = {name.removeprefix("message."): value for name, value in message.items()}
    contents = [
        {name.removeprefix("message_content."): value for name, value in part.items()}
        for part in indexed(bare, "contents")
    ]
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


_VERCEL = ("ai.operationId", "ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.result.text", "ai.model.id")
_VERCEL_METADATA = "ai.telemetry.metadata."
_OUTER = Skipped("an outer span, whose calls have spans of their own")
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
    # The SDK writes a span around a whole `generateText` and one for each model call in it (`….doGenerate`), both with
    # the response: only the inner ones are read, so that none counts twice.
    if operation.startswith("ai.") and ".do" not in operation:
        return _OUTER
    return _read_ai_call(span)


def _read_ai_call(span: Span) -> Traced:
    model = span.text("ai.response.model", "ai.model.id") or ""
    asked_model = span.text("ai.model.id", "gen_ai.request.model") or ""
    messages = unwrapped_json(span.attributes.get("ai.prompt.messages"))
    whole = unwrapped_json(span.attributes.get("ai.prompt"))
    conversation = {"system": span.text("ai.prompt.system"), "messages": messages}
    asked = request_of(whole if messages is None else conversation, asked_model)
    response = _vercel_response(span, model, known=asked is not None)
    if response is None and span.failed is not None:
        response = failure_of(span.failed, model=model, path="status")
    metadata = {
        name.removeprefix(_VERCEL_METADATA): value
        for name, value in span.attributes.items()
        if name.startswith(_VERCEL_METADATA)
    }
    return traced_span(span, asked, response, metadata=metadata)


def _vercel_response(span: Span, model: str, *, known: bool) -> Response | None:
    stop = span.text(*_VERCEL_FINISHES)
    path = next((name for name in _VERCEL_FINISHES if name in span.attributes), _VERCEL_FINISHES[0])
    text = span.text("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object")
    calls = unwrapped_json(span.attributes.get("ai.response.toolCalls", span.attributes.get("ai.result.toolCalls")))
    called = message_of({"role": "assistant", "tool_calls": calls}).parts
    parts = ((TextPart(text),) if text else ()) + called
    told = "ai.response.text" in span.attributes or "ai.result.text" in span.attributes
    response = response_of_parts(parts, model=model, stop=stop, path=path)
    # A call that recorded its prompt and why it ended, but no text, object or tool call, said nothing.
    return response if parts or told or response.signals or (known and finish_of(stop) is not None) else None


_CONVENTIONS: tuple[tuple[str, Callable[[Mapping[str, Any]], bool], Callable[[Span], Traced | Skipped]], ...] = (
    # The AI SDK is asked first: it writes some of OpenTelemetry's attributes too.
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
    return (row for _, row in _span_rows(record))


class _AiSdkSpans:
    """Reads the AI SDK's spans; where a file has none of single calls, the outer spans are all there is to know of them."""

    def __init__(self) -> None:
        self._outer: list[Span] = []
        self._has_calls = False

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the calls of a record."""
        for span, row in _span_rows(record):
            if row is _OUTER and not self._has_calls:
                self._outer.append(span)
                continue
            if isinstance(row, Traced):
                self._has_calls = True
                yield from (_OUTER for _ in self._outer)
                self._outer = []
            yield row

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield the outer spans that no call came with."""
        return map(_read_ai_call, self._outer)


def _span_rows(record: JsonObject) -> Iterator[tuple[Span, Traced | Skipped]]:
    if not holds_spans(record):
        raise ShapeError(
            "expected spans, got something else", hint="a document has `resourceSpans`, a span `attributes`"
        )
    for span in spans_in(record):
        read = next((read for _, reads, read in _CONVENTIONS if reads(span.attributes)), None)
        try:
            yield span, Skipped("a span that is no model call") if read is None else read(span)
        except ShapeError as exc:
            # One spoilt span does not spoil those after it.
            yield span, Skipped(f"unreadable: {exc.what}")


_open_spans = stateless(_read_spans)


def _span_format(name: str, open_reader: Callable[[], TraceReader] = _open_spans) -> Kind:
    """Return the format of the documents whose first span with a convention follows the one of this name."""
    return Kind(name, lambda record: convention_of(record) == name, open_reader)


VERCEL = _span_format("vercel", _AiSdkSpans)
OPENINFERENCE = _span_format("openinference")
OPENLLMETRY = _span_format("openllmetry")
OTEL = _span_format("otel")
