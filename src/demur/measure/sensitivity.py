"""How many errors of the detector would undo a finding? The fewest flips that, taken back, leave it unproven.

The same idea as the fragility index of clinical trials (Walsh et al. 2014): a change that rests on two flips is one
misread answer away from none. Assumes that pairs are independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.measure.paired import mcnemar_midp

if TYPE_CHECKING:
    from demur.model.comparison import PairCounts

__all__ = ["flips_to_undo"]


def flips_to_undo(counts: PairCounts, *, alpha: float) -> int | None:
    """Return how many flips of the larger direction, had they not happened, would give p > alpha; None at p > alpha.

    n = 0 or no flips: None.
    """
    fewer, more = sorted((counts.baseline_only, counts.candidate_only))
    if mcnemar_midp(fewer, more) > alpha:
        return None
    # p falls as the larger count grows, so the last count that leaves it above alpha is found by halving.
    low, high = fewer, more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if mcnemar_midp(fewer, middle) > alpha else (low, middle)
    return more - low
