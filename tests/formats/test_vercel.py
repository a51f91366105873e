"""The AI SDK's spans as its JavaScript exporter writes them (`ai` 6.0.68): one object per span, with a `spanContext`."""

from __future__ import annotations

import json
from typing import Any

from tests.formats import examples_tools as made
from tests.formats.example import ANSWER, QUESTION, REFUSAL, read_all

from demur.detect.check import classify
from demur.formats.registry import format_of
from demur.model.run import Skipped, Traced

OUTER = Skipped("an outer span, whose calls have spans of their own")


def js_span(operation: str, **given: Any) -> dict[str, Any]:
    """Return a span of the JavaScript SDK."""
    attributes = {"operation.name": f"{operation} ask", "ai.operationId": operation, "ai.model.id": "gpt-4o-mini"}
    return {
        "name": operation,
        "spanContext": {"traceId": made.TRACE, "spanId": "648be1dfd8e521b6"},
        "attributes": attributes | {name.replace("__", "."): value for name, value in given.items()},
        "status": {"code": 0},
        "startTime": [1785578400, 242000000],
        "endTime": [1785578402, 21415667],
        "events": [],
    }


ASKED = json.dumps([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}])
WHOLE = js_span("ai.generateText", ai__prompt=json.dumps({"prompt": QUESTION}), ai__response__text=REFUSAL)
CALL = js_span("ai.generateText.doGenerate", ai__prompt__messages=ASKED, ai__response__text=REFUSAL)
STREAM = js_span("ai.streamText.doStream", ai__prompt__messages=ASKED, ai__response__finishReason="content-filter")
MADE = js_span("ai.generateObject.doGenerate", ai__prompt__messages=ASKED, ai__response__object='{"colour":"blue"}')
TOOLS = js_span(
    "ai.generateText.doGenerate",
    ai__prompt__messages=ASKED,
    ai__response__toolCalls='[{"toolCallId":"c1","toolName":"look","input":"{}"}]',
)
EMBED = js_span("ai.embed.doEmbed", ai__values=['"x"'])


def outcomes(rows: list[Traced | Skipped]) -> list[str]:
    """Return the verdicts of the exchanges."""
    return [classify(row.exchange.response).outcome.value for row in rows if isinstance(row, Traced)]


def test_a_span_with_a_span_context_is_one() -> None:
    """A JavaScript span is known by its `spanContext`, dated by its pair of seconds and nanoseconds, and named by its trace."""
    found = format_of(CALL)
    assert found is not None
    assert found.NAME == "vercel"
    (row,) = read_all("vercel", [CALL])
    assert isinstance(row, Traced)
    assert row.exchange.session == made.TRACE
    assert row.exchange.request is not None
    assert row.exchange.request.prompt == QUESTION
    assert (dict(row.fields)["model"], dict(row.fields)["day"]) == ("gpt-4o-mini", "2026-08-01")


def test_every_kind_of_call_is_judged() -> None:
    """Texts, streams, declared objects and tool calls are calls; embeddings are none."""
    rows = read_all("vercel", [CALL, STREAM, MADE, TOOLS, EMBED])
    assert outcomes(rows) == ["refused", "filtered", "complied", "complied"]
    assert Skipped("an embeddings span") in rows


def test_a_call_and_its_outer_span_count_once() -> None:
    """The span around a call is skipped, whichever of the two was written first."""
    for order in ([WHOLE, CALL], [CALL, WHOLE]):
        rows = read_all("vercel", order)
        assert outcomes(rows) == ["refused"]
        assert OUTER in rows


def test_outer_spans_alone_are_read() -> None:
    """Where a file has none of the calls, what the outer spans say is not lost."""
    answered = js_span("ai.streamText", ai__prompt=json.dumps({"prompt": QUESTION}), ai__response__text=ANSWER)
    assert outcomes(read_all("vercel", [WHOLE, EMBED, answered])) == ["refused", "complied"]
