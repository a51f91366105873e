"""Has a stream changed, however often one looks, and since when?

An e-process starts at 1 and, while nothing has changed, is a martingale: whenever one stops, the chance that it ever
reached 1/alpha is at most alpha (Ville). A mixture over Jeffreys' prior Beta(½, ½) stands for "some other rate".

Laws: nothing seen is evidence 1 and the interval [0, 1]; evidence too large for a float is inf; a state is a value, and a stream
taken in pieces ends in the state of the stream taken whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from demur.errors import UsageError
from demur.measure.special import boundary, log_beta
from demur.model.estimate import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CusumRule", "CusumState", "advance", "confidence_sequence", "paired_evidence", "rate_evidence"]

_LOG_PRIOR = math.log(math.pi)
"""log B(½, ½)"""
_MOST_LOG = 709.0


def paired_evidence(b: int, c: int) -> float:
    """Return the evidence, as an e-value, that flips lean one way, after b to the baseline and c to the candidate."""
    return _raised((b + c) * math.log(2) + log_beta(0.5 + c, 0.5 + b) - _LOG_PRIOR)


def rate_evidence(count: int, n: int, *, p0: float) -> float:
    """Return the evidence, as an e-value, that the rate is not p0, after `count` of n; p0 = 0 or 1 fall at one exception."""
    return _raised(_log_rate_evidence(count, n, p0))


def confidence_sequence(count: int, n: int, *, alpha: float = 0.05) -> Interval:
    """Return the rates with evidence below 1/alpha: an interval that holds at every n at once.

    n = 0: [0, 1]; count = 0: low is 0; count = n: high is 1. A caller may intersect the intervals seen so far.
    """
    if n == 0:
        return Interval(0.0, 1.0, "confidence sequence", 1 - alpha)
    most = math.log(1 / alpha)

    def kept(p: float) -> bool:
        return _log_rate_evidence(count, n, p) < most

    share = count / n
    low = boundary(kept, share, 0.0) if count else 0.0
    high = boundary(kept, share, 1.0) if count < n else 1.0
    return Interval(low, high, "confidence sequence", 1 - alpha)


@dataclass(frozen=True, slots=True)
class CusumRule:
    """From which rate to which a change is watched for, over how many rows, at what chance of a false alarm in all of them."""

    p0: float
    p1: float
    rows: int
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Refuse rates between which nothing can be told."""
        if not (0 < self.p0 < 1 and 0 < self.p1 < 1) or self.p0 == self.p1:
            raise UsageError("a change is watched for between two different rates inside 0 and 1")

    @property
    def limit(self) -> float:
        """The sum that alarms: log(rows/alpha), so that all starting points together alarm falsely at most alpha."""
        return math.log(self.rows / self.alpha)


@dataclass(frozen=True, slots=True)
class CusumState:
    """The sum so far, the rows seen, the row (from 1) that the present rise began at, and the row that alarmed, if one did.

    After the alarm `since` stays: it is the answer to "since when?", the likeliest start of the change.
    """

    total: float = 0.0
    seen: int = 0
    since: int | None = None
    alarmed_at: int | None = None


def advance(state: CusumState, rule: CusumRule, abstained: Iterable[bool]) -> CusumState:
    """Return the state after more rows, by the cumulative sum of log-likelihood ratios, never below 0 (Page 1954)."""
    yes, no = math.log(rule.p1 / rule.p0), math.log((1 - rule.p1) / (1 - rule.p0))
    total, seen, since, alarmed_at = state.total, state.seen, state.since, state.alarmed_at
    for hit in abstained:
        seen += 1
        if alarmed_at is not None:
            continue
        total = max(0.0, total + (yes if hit else no))
        since = (since or seen) if total > 0 else None
        alarmed_at = seen if total >= rule.limit else None
    return replace(state, total=total, seen=seen, since=since, alarmed_at=alarmed_at)


def _log_rate_evidence(count: int, n: int, p0: float) -> float:
    fits = _times_log(count, p0) + _times_log(n - count, 1 - p0)
    return log_beta(0.5 + count, 0.5 + n - count) - _LOG_PRIOR - fits


def _times_log(times: int, chance: float) -> float:
    """Return times·log(chance), with 0·log 0 = 0."""
    if not times:
        return 0.0
    return times * math.log(chance) if chance > 0 else -math.inf


def _raised(log: float) -> float:
    return math.exp(log) if log < _MOST_LOG else math.inf
