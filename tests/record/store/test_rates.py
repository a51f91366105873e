"""Rates from a log's hourly counts: what has no verdict is in no denominator."""

from __future__ import annotations

from demur.model.passport import DeclineCause
from demur.record.store.log_store import RateKey
from demur.record.store.rates import rates_of

HOUR = "2026-11-17T10"


def counts(*rows: tuple[str, bool, int]) -> list[tuple[RateKey, int]]:
    """Return hourly counts: causes, whether a provider answered, and how many exchanges."""
    return [(RateKey(HOUR, "m", "allow", causes, answered), n) for causes, answered, n in rows]


def test_empty_and_unread_answers_are_in_no_refusal_rate() -> None:
    """Refusals and filters are of the answers that could be judged; denials are of all exchanges."""
    rows = (
        ("", True, 60),
        (DeclineCause.TEXT_REFUSAL, True, 20),
        (DeclineCause.PROVIDER_FILTER, True, 10),
        (DeclineCause.EMPTY, True, 5),
        (DeclineCause.UNREAD, True, 3),
        (DeclineCause.GATEWAY_BLOCK, False, 2),
    )
    (found,) = rates_of(counts(*rows), ())
    assert (found.exchanges, found.unanswered, found.unjudged) == (100, 2, 8)
    assert (found.model_refused.count, found.model_refused.n) == (20, 90)
    assert (found.provider_filtered.count, found.provider_filtered.n) == (10, 90)
    assert (found.gateway_denied.count, found.gateway_denied.n) == (2, 100)
