"""How often was the answer no, and whose no was it? Rates from a log's hourly counts, without reading a record.

Laws: the gateway's denial, the provider's filter and the model's refusal are three rates, never one sum, and one exchange can
count in several; the gateway's is a share of all exchanges, the other two of those that a provider answered; intervals are
Wilson's and assume independent exchanges (n = 0: value None, interval [0, 1]). The counts are unsigned: `verify` holds them against the records.
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
    from demur.record.store.growth import RateKey

__all__ = ["FIELDS", "GroupRates", "rates_of"]

FIELDS = ("model", "day", "hour", "decision")
_DAY_CHARS = len("2026-01-31")
_REFUSALS = {DeclineCause.PROVIDER_REFUSAL, DeclineCause.TEXT_REFUSAL}


@dataclass(frozen=True, slots=True)
class GroupRates:
    """One group: its values, how many exchanges, how many failed or went unasked, and the three rates."""

    group: tuple[str, ...]
    exchanges: int
    unanswered: int
    gateway_denied: Rate
    provider_filtered: Rate
    model_refused: Rate


def rates_of(
    counts: Iterable[tuple[RateKey, int]], by: Sequence[str], *, since: str = "", until: str = "~"
) -> tuple[GroupRates, ...]:
    """Return the rates by these fields, groups in order; `since` and `until` are beginnings of RFC 3339, both included."""
    unknown = [field for field in by if field not in FIELDS]
    if unknown:
        raise UsageError(f"`{unknown[0]}` is nothing to group by", hint=f"choose from {', '.join(FIELDS)}")
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for key, n in counts:
        if since <= key.hour and key.hour[: len(until)] <= until:
            _count(groups.setdefault(tuple(_value(key, field) for field in by), Counter()), key, n)
    return tuple(_group_rates(group, found) for group, found in sorted(groups.items()))


def _value(key: RateKey, field: str) -> str:
    match field:
        case "model":
            return key.model
        case "decision":
            return key.decision
        case _:
            return key.hour[: _DAY_CHARS if field == "day" else None]


def _count(found: Counter[str], key: RateKey, n: int) -> None:
    causes = set(key.causes.split(",")) if key.causes else set()
    found["all"] += n
    found["denied"] += n * (DeclineCause.GATEWAY_BLOCK in causes)
    if key.answered:
        found["answered"] += n
        found["filtered"] += n * (DeclineCause.PROVIDER_FILTER in causes)
        found["refused"] += n * bool(causes & _REFUSALS)


def _group_rates(group: tuple[str, ...], found: Counter[str]) -> GroupRates:
    return GroupRates(
        group,
        found["all"],
        found["all"] - found["answered"],
        wilson(found["denied"], found["all"]),
        wilson(found["filtered"], found["answered"]),
        wilson(found["refused"], found["answered"]),
    )
