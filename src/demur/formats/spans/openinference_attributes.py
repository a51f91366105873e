"""Which model call does a span of OpenInference (Phoenix, Arize) tell of?

Laws: only spans of the kind `LLM` are calls; the provider's own response in `output.value`, where it is one, is read before
the messages, for they have no place for a refusal; `llm.finish_reason` says why the answer ended where that does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.formats.answers import a_kind, answer_in, answer_of_choices, failure_of, unwrapped_json
from demur.formats.scalars import request_of
from demur.formats.spans.rows import traced_span
from demur.formats.spans.span import indexed
from demur.formats.turns import message_of
from demur.model.run import Skipped
from demur.wire.shapes import shape_of_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.formats.spans.span import Span
    from demur.model.exchange import Request, Response
    from demur.model.run import Traced
    from demur.wire.interface import JsonObject

__all__ = ["read_openinference", "reads_openinference"]

_MESSAGES = ("llm.input_messages", "llm.output_messages")


def reads_openinference(attributes: Mapping[str, Any]) -> bool:
    """Return whether these are OpenInference's."""
    return "openinference.span.kind" in attributes or any(name.startswith(_MESSAGES) for name in attributes)


def read_openinference(span: Span) -> Traced | Skipped:
    """Return the call that a span tells of."""
    kind = span.text("openinference.span.kind")
    if kind is not None and kind.upper() != "LLM":
        return Skipped(a_kind(kind, "span"))
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
        return answer_of_choices(told, model=model, path="llm.finish_reason")
    return answer_in(value, model=model, stop=stop, path="output.value")


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
