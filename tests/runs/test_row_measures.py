"""Latency, cost and tokens are read where their unit is known, and are unknown elsewhere."""

from __future__ import annotations

import pytest

from demur.model.exchange import Exchange, Response, Usage
from demur.model.run import Traced
from demur.runs.row_measures import latency_of_row, measures_of, usage_of_row


def row(usage: Usage | None = None, **fields: str) -> Traced:
    named = tuple((name.replace("__", "."), value) for name, value in fields.items())
    return Traced(Exchange(None, Response("m", usage=usage)), named)


@pytest.mark.parametrize(
    ("fields", "format_name", "expected"),
    [
        ({"latency_ms": "120"}, "flat", 120),
        ({"latencyMs": "12.5"}, "promptfoo", 12.5),
        ({"metadata__duration_ms": "7"}, "messages", 7),
        ({"latency_s": "1.5"}, "flat", 1500),
        ({"response_time": "0.25"}, "litellm", 250),
        ({"latency": "2"}, "langfuse", 2000),
        ({"latency": "2"}, "flat", None),
        ({"response_time": "2"}, "flat", None),
        ({"latency_ms": "-1"}, "flat", None),
        ({"latency_ms": "nan"}, "flat", None),
        ({"latency_s": "1e307"}, "flat", None),
        ({"latency_ms": "soon", "metadata__latency_ms": "9"}, "flat", 9),
        ({}, "flat", None),
    ],
)
def test_a_latency_has_a_unit(fields: dict[str, str], format_name: str, expected: float | None) -> None:
    """Milliseconds come back whatever the unit was, and nothing where it could be either."""
    assert latency_of_row(row(None, **fields), format_name) == expected


def test_a_cost_is_the_rows_own() -> None:
    """The row itself comes before what it holds; 0 is a cost."""
    costs = [
        measures_of(one.fields, "flat").cost
        for one in (row(metadata__cost="3", response_cost="0.002"), row(cost="0"), row(price="3"))
    ]
    assert costs == [0.002, 0, None]


def test_tokens_of_the_provider_come_first() -> None:
    """What the provider counted wins; a row must say both numbers."""
    assert usage_of_row(row(Usage(1, 2), input_tokens="5", output_tokens="6")) == Usage(1, 2)
    assert usage_of_row(row(prompt_tokens="5", completion_tokens="6")) == Usage(5, 6)
    spans = {"attributes.gen_ai.usage.input_tokens": "7", "attributes.gen_ai.usage.output_tokens": "8"}
    assert usage_of_row(Traced(Exchange(None, None), tuple(spans.items()))) == Usage(7, 8)
    assert usage_of_row(row(output_tokens="6")) is None
