"""What did an exchange take: how long, how much, how many tokens, as far as its row says so?

Traces keep these beside the exchange, under many names. Laws: a name counts only where its unit is known (`latency` alone could be seconds
or milliseconds, and counts only in formats that say which); the row itself comes before what it holds in `metadata` and the like; a
value that is negative, not finite or no number is not known; tokens that the provider counted come before those of the row.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from demur.model.exchange import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demur.model.run import Traced

__all__ = ["cost_of_row", "latency_of_row", "usage_of_row"]

_MS, _S = 1.0, 1000.0
_LATENCIES = {
    "latency_ms": _MS,
    "latencyMs": _MS,
    "duration_ms": _MS,
    "durationMs": _MS,
    "response_time_ms": _MS,
    "latency_s": _S,
    "duration_s": _S,
}
_LATENCIES_OF_FORMAT = {
    "litellm": {"response_time": _S},
    "langfuse": {"latency": _S},
    "langfuse-export": {"latency": _S},
}
_COSTS = ("cost", "cost_usd", "total_cost", "totalCost", "calculatedTotalCost", "response_cost", "llm.cost.total")
_TOKENS_IN = (
    *("input_tokens", "prompt_tokens", "promptTokens", "inputTokens"),
    *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
)
_TOKENS_OUT = (
    *("output_tokens", "completion_tokens", "completionTokens", "outputTokens"),
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
)
_HOLDERS = ("metadata", "meta", "attributes", "extra", "info")


def latency_of_row(traced: Traced, format_name: str) -> float | None:
    """Return how many milliseconds the answer took, None where the row does not say."""
    fields = dict(traced.fields)
    units = {**_LATENCIES, **_LATENCIES_OF_FORMAT.get(format_name, {})}
    for name, unit in units.items():
        value = _measure(fields, (name,))
        if value is not None:
            return value * unit
    return None


def cost_of_row(traced: Traced) -> float | None:
    """Return what the exchange cost, in the row's own currency; None where it does not say."""
    return _measure(dict(traced.fields), _COSTS)


def usage_of_row(traced: Traced) -> Usage | None:
    """Return the tokens of an exchange, as the provider or else the row counts them; None unless both sides are known."""
    response = traced.exchange.response
    if response is not None and response.usage is not None:
        return response.usage
    fields = dict(traced.fields)
    asked, answered = _measure(fields, _TOKENS_IN), _measure(fields, _TOKENS_OUT)
    return None if asked is None or answered is None else Usage(int(asked), int(answered))


def _measure(fields: Mapping[str, str], names: Sequence[str]) -> float | None:
    places = (*names, *(f"{holder}.{name}" for holder in _HOLDERS for name in names))
    for place in places:
        said = fields.get(place)
        if said is None:
            continue
        try:
            value = float(said)
        except ValueError:
            continue
        if isfinite(value) and value >= 0:
            return value
    return None
