"""Spans that OpenTelemetry's own SDK wrote are read."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.formats import examples_tools as made
from tests.formats.example import QUESTION, REFUSAL

from demur.detect.check import classify
from demur.formats.otel import OTEL
from demur.model.run import Skipped, Traced

pytestmark = pytest.mark.skipif(importlib.util.find_spec("opentelemetry.sdk") is None, reason="needs opentelemetry-sdk")


def exported() -> Iterator[dict[str, Any]]:
    """Yield the spans of a refusal, a failed call and something else, as the console exporter writes them."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("chat", attributes=made.genai(REFUSAL)):
        pass
    with (
        pytest.raises(TimeoutError),
        tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}),
    ):
        raise TimeoutError("slow")
    with tracer.start_as_current_span("GET /"):
        pass
    yield from (json.loads(span.to_json() or "{}") for span in kept.get_finished_spans())


def test_the_sdks_spans_are_read() -> None:
    """A refusal, a failure with its exception and a span that is no call come back as such."""
    records = list(exported())
    assert all(OTEL.sniffs(record) for record in records)
    refused, failed, other = [row for record in records for row in OTEL.open_reader().feed(record)]
    assert isinstance(refused, Traced)
    assert isinstance(failed, Traced)
    assert other == Skipped("a span that is no model call")
    assert classify(refused.exchange.response).outcome == "refused"
    assert refused.exchange.request is not None
    assert refused.exchange.request.prompt == QUESTION
    assert dict(refused.fields)["service"] == "shop"
    verdict = classify(failed.exchange.response)
    assert (verdict.outcome, verdict.signals[0].value) == ("failed", "TimeoutError: slow")
