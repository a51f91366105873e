"""Which model call does a span of the Vercel AI SDK tell of?

The SDK writes a span around a whole `generateText` and one for each call to the model within it (`….doGenerate`,
`….doStream`), both with the answer. Laws: only the inner ones are read, so no answer counts twice; a call that recorded its
prompt and why it ended, but neither text, object nor tool call, answered nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.formats.answers import answer_of_parts, failure_of, finish_of, unwrapped_json
from demur.formats.scalars import request_of
from demur.formats.spans.rows import traced_span
from demur.formats.turns import message_of
from demur.model.exchange import TextPart
from demur.model.run import Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.formats.spans.span import Span
    from demur.model.exchange import Part, Request, Response
    from demur.model.run import Traced

__all__ = ["read_vercel", "reads_vercel"]

_OURS = ("ai.operationId", "ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.result.text", "ai.model.id")
_METADATA = "ai.telemetry.metadata."
_FINISHES = ("ai.response.finishReason", "ai.finishReason")


def reads_vercel(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are the AI SDK's; its spans have some of OpenTelemetry's attributes too."""
    return any(name in attributes for name in (*_OURS, "ai.toolCall.name"))


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
        name.removeprefix(_METADATA): value for name, value in span.attributes.items() if name.startswith(_METADATA)
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
    stop = span.text(*_FINISHES)
    path = next((name for name in _FINISHES if name in span.attributes), _FINISHES[0])
    parts = _parts_recorded(span)
    told = "ai.response.text" in span.attributes or "ai.result.text" in span.attributes
    response = answer_of_parts(parts, model=model, stop=stop, path=path)
    return response if parts or told or response.signals or (known and finish_of(stop) is not None) else None


def _parts_recorded(span: Span) -> tuple[Part, ...]:
    text = span.text("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object")
    calls = unwrapped_json(span.attributes.get("ai.response.toolCalls", span.attributes.get("ai.result.toolCalls")))
    called = message_of({"role": "assistant", "tool_calls": calls}).parts
    return ((TextPart(text),) if text else ()) + called
