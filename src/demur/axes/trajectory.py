"""Did the model call other tools, or the same in another order? Edits between two sequences of calls.

A call is its name and the shape of its arguments, not their values: an order number may differ, a missing field may not. The
distance is Levenshtein's over the longer length, from 0 (same calls) to 1 (nothing in common).

Laws: the distance is symmetric, 0 only for equal sequences, and obeys no null of 0, since two runs of the same model differ as well:
so the share of changed pairs is reported with its interval and held against a threshold, never tested against none. The mean
distance stands beside the median, which is 0 until half of the pairs have changed. No pairs: no share.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from demur.measure.clusters import cluster_effect
from demur.measure.rates import _bounds as _wilson_bounds
from demur.model.comparison import ClusterSum, PairCounts
from demur.model.estimate import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from demur.axes.steps import ToolCall

__all__ = ["CallEdits", "TrajectorySummary", "call_edits", "edit_distance", "trajectory_summary"]


@dataclass(frozen=True, slots=True)
class CallEdits:
    """What changed between two sequences of calls: tools dropped, added, moved, and called with arguments of another shape."""

    distance: float
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything did."""
        return self.distance > 0


@dataclass(frozen=True, slots=True)
class TrajectorySummary:
    """Over `n` pairs: how many changed, the interval of that share, and the mean and median distance."""

    n: int
    changed: int
    interval: Interval
    mean: float
    median: float

    @property
    def share(self) -> float:
        """The share of pairs that changed; 0 where there are none."""
        return self.changed / self.n if self.n else 0.0


def call_edits(baseline: Sequence[ToolCall], candidate: Sequence[ToolCall]) -> CallEdits:
    """Return what happened to the calls on the way from baseline to candidate."""
    before, after = tuple((c.name, c.shape) for c in baseline), tuple((c.name, c.shape) for c in candidate)
    if before == after:
        return CallEdits(0.0)
    had, has = Counter(name for name, _ in before), Counter(name for name, _ in after)
    first, second = _shared_calls(before, had & has), _shared_calls(after, had & has)
    moved = tuple(dict.fromkeys(a for (a, _), (b, _) in zip(first, second, strict=True) if a != b))
    return CallEdits(
        edit_distance(before, after) / max(len(before), len(after)),
        tuple(sorted((had - has).elements())),
        tuple(sorted((has - had).elements())),
        moved,
        () if moved else tuple(dict.fromkeys(a[0] for a, b in zip(first, second, strict=True) if a != b)),
    )


@lru_cache(maxsize=65536)
def edit_distance(first: tuple[object, ...], second: tuple[object, ...]) -> int:
    """Return the fewest insertions, deletions and replacements that make one sequence the other (Levenshtein 1966)."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]


def trajectory_summary(
    edits: Sequence[CallEdits], clusters: Sequence[Hashable] | None = None, *, alpha: float = 0.05
) -> TrajectorySummary:
    """Return the share of changed pairs with Wilson's interval, at the effective n where pairs come in clusters.

    n = 0: a share of 0 in [0, 1]; none changed: low is 0; all changed: high is 1.
    """
    n, changed = len(edits), sum(edit.changed for edit in edits)
    effective = _effective_n(edits, clusters) if clusters is not None and n else float(n)
    low, high = _wilson_bounds(changed / n if n else 0.0, effective, level=1 - alpha)
    method = "wilson" if math.isclose(effective, n) else "wilson, design effect"
    distances = [edit.distance for edit in edits]
    return TrajectorySummary(
        n,
        changed,
        Interval(low, high, method, 1 - alpha),
        math.fsum(distances) / n if n else 0.0,
        median(distances) if n else 0.0,
    )


def _effective_n(edits: Sequence[CallEdits], clusters: Sequence[Hashable]) -> float:
    sizes, nets = Counter(clusters), dict.fromkeys(clusters, 0)
    for name, edit in zip(clusters, edits, strict=True):
        nets[name] += edit.changed
    if len(sizes) == len(edits):
        return float(len(edits))
    changed = sum(edit.changed for edit in edits)
    counts = PairCounts(0, 0, changed, len(edits) - changed)
    return cluster_effect(counts, [ClusterSum(nets[name], size, 1) for name, size in sizes.items()]).effective_n


def _shared_calls(calls: tuple[tuple[str, str], ...], common: Counter[str]) -> list[tuple[str, str]]:
    """Return the calls that both sequences have, in their order here; of a tool called too often the first ones count."""
    left = Counter(common)
    kept = []
    for call in calls:
        if left[call[0]] > 0:
            left[call[0]] -= 1
            kept.append(call)
    return kept
