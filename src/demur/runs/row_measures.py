"""What an exchange took, as far as its row says so: how long, how much, how many tokens.

Traces keep these beside the exchange, under many names. A value that is negative, not finite or no number is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING

from demur.model.exchange import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.model.run import Traced

__all__ = ["MEASURE_FIELDS", "RowMeasures", "latency_of_row", "measures_of", "usage_of_row"]

_MS, _S = 1.0, 1000.0
# A name counts only where its unit is known: `latency` alone could be seconds or milliseconds.
_LATENCIES = {
    "latency_ms": _MS,
    "latencyMs": _MS,
    "duration_ms": _MS,
    "durationMs": _MS,
    "response_time_ms": _MS,
    "latency_s": _S,
    "duration_s": _S,
}
# These tools document the unit of their own field.
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


MEASURE_FIELDS = (*_LATENCIES, *_COSTS, *_TOKENS_IN, *_TOKENS_OUT)
"""The names that a plain row may have a measure under."""


@dataclass(frozen=True, slots=True)
class RowMeasures:
    """What a row says that its exchange took; None where it does not."""

    latency_ms: float | None
    cost: float | None
    tokens_in: float | None
    tokens_out: float | None

    @property
    def usage(self) -> Usage | None:
        """The tokens, None unless both sides are known."""
        if self.tokens_in is None or self.tokens_out is None:
            return None
        return Usage(int(self.tokens_in), int(self.tokens_out))


def measures_of(fields: Iterable[tuple[str, str | None]], format_name: str) -> RowMeasures:
    """Return all measures in the fields of a row; the cost is in the row's own currency."""
    places = _places(format_name)
    best: list[tuple[float, float | None]] = [(inf, None)] * 4
    for name, said in fields:
        if said is None or (place := places.get(name)) is None:
            continue
        what, rank, unit = place
        # The row itself comes before what it holds in `metadata` and the like.
        if rank < best[what][0] and (value := _number(said)) is not None and isfinite(value * unit):
            best[what] = (rank, value * unit)
    return RowMeasures(*(value for _, value in best))


def latency_of_row(traced: Traced, format_name: str) -> float | None:
    """Return how many milliseconds the answer took, None where the row does not say."""
    return measures_of(traced.fields, format_name).latency_ms


def usage_of_row(traced: Traced, measures: RowMeasures | None = None) -> Usage | None:
    """Return the tokens of an exchange, as the provider or else the row counts them; None unless both sides are known."""
    response = traced.exchange.response
    # The provider counts tokens with its own tokenizer; a row may hold an estimate.
    if response is not None and response.usage is not None:
        return response.usage
    return (measures or measures_of(traced.fields, "")).usage


@cache
def _places(format_name: str) -> Mapping[str, tuple[int, int, float]]:
    """Return where a row may keep its measures: of which each name is, how far down the list it stands, and its unit."""
    units = _LATENCIES_OF_FORMAT.get(format_name, _LATENCIES)
    lists = (units, *(dict.fromkeys(names, 1.0) for names in (_COSTS, _TOKENS_IN, _TOKENS_OUT)))
    holders = ("", *(f"{holder}." for holder in _HOLDERS))
    return {
        f"{holder}{name}": (what, at * len(names) + rank, unit)
        for what, names in enumerate(lists)
        for at, holder in enumerate(holders)
        for rank, (name, unit) in enumerate(names.items())
    }


def _number(said: str) -> float | None:
    try:
        value = float(said)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
