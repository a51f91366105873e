"""Which model call does a span of OpenTelemetry's GenAI conventions tell of, in any of their versions?

From 1.37 on messages are one attribute (`gen_ai.input.messages`), or stand in an event; before, they were events of their
own; OpenLLMetry spreads them over `gen_ai.prompt.N.…` and `gen_ai.completion.N.…`, and keeps a refusal there. Laws:
agents, tools and embeddings are skipped; a call whose content was not recorded is missing, unless its finish reason says
that a filter stopped it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from demur.formats.answers import answer_in, answer_of_choices, failure_of, object_at, text_at, unwrapped_json
from demur.formats.scalars import request_of
from demur.formats.spans.rows import traced_span
from demur.formats.spans.span import indexed
from demur.formats.turns import message_of
from demur.model.run import Skipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.formats.spans.span import Span
    from demur.model.exchange import Part, Request, Response
    from demur.model.run import Traced

__all__ = ["read_genai", "reads_genai", "reads_openllmetry"]

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
        return answer_of_choices(told, model=model, path="gen_ai.response.finish_reasons")
    whole = span.attributes.get("gen_ai.completion")
    return answer_in(whole, model=model, stop=stops[0] if stops else None, path="gen_ai.completion")


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
