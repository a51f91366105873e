"""What is kept and told beyond the record: texts where the settings say so, until they are due; spans for tracing systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.gateway.gatewaying import ATTACK, CHAT, HARMLESS, Stub, chat, gateway, passports, provider
from tests.http.serving import serving

from demur.gateway.settings import DisclosurePart, MetricsPart
from demur.gateway.worker import erase_before
from demur.record.commit import meets
from demur.record.store.location import log_place
from demur.record.store.sealing import utc_now

pytestmark = pytest.mark.heavy

STREAM = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Paris."},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


def test_texts_are_kept_apart_and_erased(tmp_path: Path) -> None:
    """Where texts are kept, each meets its commitment, whole and streamed; once erased none is left, and the log stays."""
    whole = provider()
    place = log_place(str(tmp_path / "log"))
    for stub, more in ((whole, {}), (Stub(pieces=STREAM), {"stream": True})):
        with serving(stub) as url, gateway(tmp_path, url, disclosure=DisclosurePart(on=True)) as running:
            assert running.knock(CHAT, chat(HARMLESS, **more)).status == 200
        found = passports(tmp_path)[-1]
        kept = place.disclosures(utc_now, read_only=True)
        for commitment, text in ((found.request, stub.asked[-1]), (found.response, b"".join(stub.pieces))):
            assert commitment is not None
            disclosed = kept.get(commitment.digest)
            assert disclosed is not None
            assert meets(disclosed, commitment)
            assert disclosed.text == text
        kept.close()
    assert len(erase_before(place, "9999-01-01T00:00:00Z")) >= 4
    assert erase_before(place, "9999-01-01T00:00:00Z") == ()
    assert len(passports(tmp_path)) == 2


def test_no_text_is_kept_by_default(tmp_path: Path) -> None:
    """Unless the settings say so, there is no store of texts at all."""
    with serving(provider()) as url, gateway(tmp_path, url) as running:
        running.ask()
    assert not (tmp_path / "log" / "disclosures.db").exists()


def test_an_exchange_is_a_span_with_its_claims(tmp_path: Path) -> None:
    """A tracing system sees one span an exchange, under the client's own, with decisions and claims and without a text."""
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(tracers)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    metrics = MetricsPart(folder=str(tmp_path / "figures"), otel=True)
    with serving(provider()) as url, gateway(tmp_path, url, metrics=metrics) as running:
        running.knock(CHAT, chat(HARMLESS), traceparent=parent)
        running.knock(CHAT, chat(ATTACK))
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert format(first.context.trace_id, "032x") == parent.split("-")[1]
    assert first.attributes is not None
    assert second.attributes is not None
    assert (first.attributes["gen_ai.request.model"], second.attributes["demur.decision"]) == ("gpt-x", "deny")
    names = {event.attributes["gen_ai.evaluation.name"] for event in first.events if event.attributes}
    assert {"adversarial_score", "model_refused"} <= names
    assert HARMLESS not in json.dumps([json.loads(span.to_json()) for span in (first, second)])
