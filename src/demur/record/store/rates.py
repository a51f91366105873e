"""Rates of denials, filters and refusals from a log's hourly counts, without reading an entry.

Intervals are Wilson's and assume independent exchanges (n = 0: value None, interval [0, 1]). The counts are not signed:
`demur passport verify` compares them with the entries.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.rates import wilson
from demur.model.passport import DeclineCause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.model.estimate import Rate
    from demur.record.store.log_store import RateKey

__all__ = ["FIELDS", "GroupRates", "rates_of"]

FIELDS = ("model", "day", "hour", "decision")
_DAY_CHARS = len("2026-01-31")
_REFUSALS = {DeclineCause.PROVIDER_REFUSAL, DeclineCause.TEXT_REFUSAL}
_UNJUDGED = {DeclineCause.EMPTY, DeclineCause.UNREAD}


@dataclass(frozen=True, slots=True)
class GroupRates:
    """One group: its values, how many exchanges, how many got no response, how many one without a verdict, and three rates."""

    group: tuple[str, ...]
    exchanges: int
    unanswered: int
    unjudged: int
    gateway_denied: Rate
    provider_filtered: Rate
    model_refused: Rate


def rates_of(
    counts: Iterable[tuple[RateKey, int]], by: Sequence[str], *, since: str = "", until: str = "~"
) -> tuple[GroupRates, ...]:
    """Return the rates by these fields, groups in order; `since` and `until` are prefixes of RFC 3339, both inclusive."""
    unknown = [field for field in by if field not in FIELDS]
    if unknown:
        raise UsageError(f"`{unknown[0]}` is nothing to group by", hint=f"choose from {', '.join(FIELDS)}")
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for key, n in counts:
        if since <= key.hour and key.hour[: len(until)] <= until:
            values = {"model": key.model, "decision": key.decision, "hour": key.hour, "day": key.hour[:_DAY_CHARS]}
            _count(groups.setdefault(tuple(values[field] for field in by), Counter()), key, n)
    # Three rates and never one sum: an exchange can count in several, and their denominators differ.
    return tuple(
        GroupRates(
            group,
            found["all"],
            found["all"] - found["answered"],
            found["answered"] - found["judged"],
            wilson(found["denied"], found["all"]),
            wilson(found["filtered"], found["judged"]),
            wilson(found["refused"], found["judged"]),
        )
        for group, found in sorted(groups.items())
    )


def _count(found: Counter[str], key: RateKey, n: int) -> None:
    causes = set(key.causes.split(",")) if key.causes else set()
    found["all"] += n
    found["denied"] += n * (DeclineCause.GATEWAY_BLOCK in causes)
    # A model can only refuse, and a provider only filter, what reached it.
    if key.answered:
        found["answered"] += n
        # What is empty or was not read says nothing about the model's will.
        found["judged"] += n * causes.isdisjoint(_UNJUDGED)
        found["filtered"] += n * (DeclineCause.PROVIDER_FILTER in causes)
        found["refused"] += n * bool(causes & _REFUSALS)
