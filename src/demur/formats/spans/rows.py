"""How does a model call that a span tells of become a row of a run?

Laws: the conversation is the cluster, else the trace; prompts and answers never become fields; what a user put into the
span's metadata stands under `metadata.…`, the span's other short attributes under `attributes.…`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.formats.answers import pair_key_in, text_at
from demur.formats.scalars import fields_of, label_of
from demur.model.exchange import Exchange
from demur.model.run import Traced

if TYPE_CHECKING:
    from demur.formats.spans.span import Span
    from demur.model.exchange import Request, Response
    from demur.wire.interface import JsonObject

__all__ = ["traced_span"]

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
    """Return the row of one call; `metadata` is what the user put into the span."""
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
    return Traced(Exchange(None, response, request, key, label_of(session)), fields_of(row, skip={"start_time"}))
