"""Two models or periods of a log, compared by the statistics of `demur diff`.

Without an exchange on one side there is no comparison, and the page says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.values import ComparedSide, ComparePage
from demur.errors import EmptyInputError
from demur.model.comparison import PairCounts, Pairing, Tally
from demur.model.run import RunSummary
from demur.record.store.rates import rates_of
from demur.runs.compare import compare_tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demur.model.estimate import Rate
    from demur.record.store.log_store import RateKey
    from demur.record.store.rates import GroupRates

__all__ = ["compared_sides", "default_sides"]

_DAY_CHARS = len("2026-01-31")
# Sorts behind every time.
_FOR_EVER = "~"
_RATES: dict[str, Callable[[GroupRates], Rate]] = {
    "refused": lambda group: group.model_refused,
    "filtered": lambda group: group.provider_filtered,
    "denied": lambda group: group.gateway_denied,
}


def default_sides(counts: Sequence[tuple[RateKey, int]], models: Sequence[str]) -> tuple[ComparedSide, ComparedSide]:
    """Return what is compared where nothing was asked for."""
    if len(models) > 1:
        return ComparedSide(models[0]), ComparedSide(models[1])
    days = sorted({key.hour[:_DAY_CHARS] for key, _ in counts})
    if len(days) < 2:  # noqa: PLR2004 — two halves take two days
        return ComparedSide(), ComparedSide()
    middle = len(days) // 2
    return ComparedSide(since=days[0], until=days[middle - 1]), ComparedSide(since=days[middle], until=days[-1])


def compared_sides(
    counts: Sequence[tuple[RateKey, int]],
    sides: tuple[ComparedSide, ComparedSide],
    *,
    measure: str,
    models: tuple[str, ...],
) -> ComparePage:
    """Return the comparison of two sides of a log."""
    baseline, candidate = sides
    if not counts or baseline == candidate:
        same = "both sides are the same; choose two models or periods"
        why = same if counts else "nothing is on record yet; two models or two periods can be compared once there is"
        return ComparePage(measure, baseline, candidate, models, why=why)
    runs, shares = [], []
    for side in sides:
        chosen = [(key, n) for key, n in counts if side.model in ("", key.model)]
        group = next(iter(rates_of(chosen, [], since=side.since, until=side.until or _FOR_EVER)), None)
        days = f"{side.since or 'the beginning'} to {side.until or 'now'}" if side.since or side.until else ""
        name = ", ".join(filter(None, (side.model or "all models", days)))
        runs.append(RunSummary(name, "passports", 0 if group is None else group.exchanges, ()))
        rate = None if group is None else _RATES[measure](group)
        shares.append((0, 0) if rate is None else (rate.count, rate.n))
    # The two sides hold different exchanges, so nothing is paired.
    tally = Tally(
        runs[0],
        runs[1],
        Pairing.NONE,
        PairCounts(0, 0, 0, 0),
        unpaired_baseline=shares[0],
        unpaired_candidate=shares[1],
        counted=(measure,),
    )
    try:
        return ComparePage(measure, baseline, candidate, models, compare_tally(tally))
    except EmptyInputError:
        empty = "the baseline" if not shares[0][1] else "the candidate"
        return ComparePage(measure, baseline, candidate, models, why=f"{empty} has no exchange to count")
