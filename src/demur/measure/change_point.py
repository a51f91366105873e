"""Since when a rate has been different, how sure that row is, and what the rate has been since.

Notation: K of M rows of a session abstained. What is kept of a stream grows with the logarithm of its length: single sessions at its end,
sums of 2, 4, 8… of them before, so that a change is dated to within about a hundredth of its distance from the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.measure.session_sums import SessionSums
from demur.model.estimate import Interval  # noqa: TC001 — states are decoded by these annotations

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Block", "Change", "History", "append_session", "date_change"]

Block = tuple[int, int, int]
"""Some sessions that followed each other: the first row of the first, how many rows abstained, how many rows there are."""
_BLOCKS_OF_A_SIZE = 128
_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class History:
    """The sums over all sessions so far, and blocks of 1, 2, 4, 8… of them, of each size the oldest first."""

    sums: SessionSums = field(default_factory=SessionSums)
    levels: tuple[tuple[Block, ...], ...] = ()

    @property
    def blocks(self) -> list[Block]:
        """All blocks, the oldest first."""
        return [block for level in reversed(self.levels) for block in level]


def append_session(levels: list[list[Block]], block: Block) -> None:
    """Append a session; of a size that has become too many, the two oldest become one of the next size."""
    for level in levels:
        level.append(block)
        if len(level) <= 2 * _BLOCKS_OF_A_SIZE:
            return
        (first, one, rows), (_, other, more) = level[0], level[1]
        del level[:2]
        block = (first, one + other, rows + more)
    levels.append([block])


@dataclass(frozen=True, slots=True)
class Change:
    """The row since which the rate has most likely been different, the rows between which that is (95 %), and the rate since."""

    since: int
    earliest: int
    latest: int
    abstained: int
    rows: int
    interval: Interval


def date_change(
    history: History, band: tuple[float, float], *, is_rise: bool, interval: Callable[[float, float], Interval]
) -> Change:
    """Return since when the rate has been above the band, or below it, and what it has been since by `interval` (count, n).

    The row is where the likelihood of two rates, one within the band and one beyond it, is largest. The others are those whose log-likelihood is
    within log(2/.05) of it, times the design effect: for known rates the truth is left out with a chance of at most 5 %, since either
    side of it is a likelihood ratio's walk (Ville). With rates that are estimated it is approximate. The history has at least one session.
    """
    low, high = band
    beyond = (high, 1.0) if is_rise else (0.0, low)
    blocks = history.blocks
    fits: list[float] = []
    sums, before, rows_before = history.sums, 0, 0
    for _, count, rows in blocks:
        after, rows_after = sums.abstained - before, sums.rows - rows_before
        fits.append(_fit(before, rows_before, low, high) + _fit(after, rows_after, *beyond))
        before, rows_before = before + count, rows_before + rows
    worth = sums.design_effect
    best = max(range(len(fits)), key=fits.__getitem__)
    least = fits[best] - worth * math.log(2 / _ALPHA)
    kept = [i for i, fit in enumerate(fits) if fit >= least]
    abstained, rows = (sum(block[part] for block in blocks[best:]) for part in (1, 2))
    return Change(
        since=blocks[best][0],
        # Within a block nothing is known: it may have been at any of its rows.
        earliest=blocks[kept[0] - 1][0] + 1 if kept[0] else blocks[0][0],
        latest=blocks[kept[-1] + 1][0] - 1 if kept[-1] + 1 < len(blocks) else blocks[-1][0] + blocks[-1][2] - 1,
        abstained=abstained,
        rows=rows,
        interval=interval(abstained / worth, rows / worth),
    )


def _fit(count: int, rows: int, low: float, high: float) -> float:
    """Return the log-likelihood of `count` of `rows` at the rate between low and high that fits best; no rows: 0."""
    if not rows:
        return 0.0
    share = min(max(count / rows, low), high)
    if (count and share <= 0) or (count < rows and share >= 1):
        return -math.inf
    yes = count * math.log(share) if count else 0.0
    return yes + ((rows - count) * math.log1p(-share) if count < rows else 0.0)
