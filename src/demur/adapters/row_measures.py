"""What did an exchange take: how long, how much, how many tokens, as far as its row says so?

Traces keep these beside the exchange, under many names. Laws: a name counts only where its unit is known (`latency` alone could be seconds
or milliseconds, and counts only in formats that say which); the row itself comes before what it holds in `metadata` and the like; a
value that is negative, not finite or no number is not known; tokens that the provider counted come before those of the row.
"""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import TYPE_CHECKING

from demur.model.exchange import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "litellm": {**_LATENCIES, "response_time": _S},
    "langfuse": {**_LATENCIES, "latency": _S},
    "langfuse-export": {**_LATENCIES, "latency": _S},
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
    units = _LATENCIES_OF_FORMAT.get(format_name, _LATENCIES)
    found = _measure(traced, tuple(units))
    return None if found is None else found[1] * units[found[0]]


def cost_of_row(traced: Traced) -> float | None:
    """Return what the exchange cost, in the row's own currency; None where it does not say."""
    found = _measure(traced, _COSTS)
    return None if found is None else found[1]


def usage_of_row(traced: Traced) -> Usage | None:
    """Return the tokens of an exchange, as the provider or else the row counts them; None unless both sides are known."""
    response = traced.exchange.response
    if response is not None and response.usage is not None:
        return response.usage
    asked, answered = _measure(traced, _TOKENS_IN), _measure(traced, _TOKENS_OUT)
    return None if asked is None or answered is None else Usage(int(asked[1]), int(answered[1]))


def _measure(traced: Traced, names: tuple[str, ...]) -> tuple[str, float] | None:
    """Return the first of these names that the row has a number under, and the number."""
    places = _places(names)
    found = sorted(
        (*places[name], value)
        for name, said in traced.fields
        if name in places and (value := _number(said)) is not None
    )
    return (found[0][1], found[0][2]) if found else None


@cache
def _places(names: tuple[str, ...]) -> Mapping[str, tuple[int, str]]:
    """Return where a row may keep these names: how far down the list each place is, and the name that stands there."""
    holders = ("", *(f"{holder}." for holder in _HOLDERS))
    placed = [(f"{holder}{name}", name) for holder in holders for name in names]
    return {place: (at, name) for at, (place, name) in enumerate(placed)}


def _number(said: str) -> float | None:
    try:
        value = float(said)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
