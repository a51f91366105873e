"""Whether the model called other tools, or the same in another order: edits between two sequences of calls.

The distance is Levenshtein's over the longer length, from 0 (same calls) to 1 (nothing in common).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.results import RateRows, cluster_details, rate_result, shown_evidence
from demur.measure.clusters import cluster_effect
from demur.measure.decision import false_discovery, rate_severity
from demur.measure.rates import wilson_bounds
from demur.model.axes import AbsentAxis, AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import ClusterSum, PairCounts
from demur.model.estimate import Direction, Flag, Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    import numpy.typing as npt

    from demur.axes.pairs import AxisPairs
    from demur.axes.steps import ToolCall
    from demur.model.comparison import PairNames

    Kinds = tuple[int, ...]

__all__ = ["CallEdits", "TrajectorySummary", "call_edits", "edit_distance", "trajectory_result", "trajectory_summary"]


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
    # The shape of the arguments and not their values: an order number may differ, a missing field may not.
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
        # After a move the calls no longer line up, so differences in shape would be artefacts.
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
    low, high = wilson_bounds(changed / n if n else 0.0, effective, level=1 - alpha)
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
    remaining = Counter(common)
    kept = []
    for call in calls:
        if remaining[call[0]] > 0:
            remaining[call[0]] -= 1
            kept.append(call)
    return kept


_LOW_POWER_BELOW = 5
_NO_FLOOR = "what changes between two runs of one agent is not known; give a second run of the baseline: --floor RUN"


@dataclass(frozen=True, slots=True)
class _CallUnits:
    """The calls of pairs, or of whole sessions: their names, the kinds of both sides, and what changed between them."""

    names: PairNames
    sides: list[tuple[Kinds, Kinds]]
    edits: list[CallEdits]


def trajectory_result(
    pairs: AxisPairs,
    *,
    floor: AxisPairs | float | None = None,
    by_session: bool = False,
    alpha: float = 0.05,
    show: int = 20,
) -> AxisResult | AbsentAxis:
    """Return whether calls changed in more pairs (or sessions) than they do between two runs of one agent, and what changed.

    `floor` are the pairs of the baseline with a second run of its agent: without a change the candidate is one more such run, so that it
    differs from the baseline in as many pairs, which is tested pair by pair. Where it is a share instead, the share of changed pairs is
    held against it and a threshold, and its own error is not known. Without either nothing is decided. No response that calls a tool: absent.
    """
    if not any(kind.calls for kind in pairs.kinds):
        return AbsentAxis(AxisName.TRAJECTORY, str(AxisName.TRAJECTORY), "no response of either run calls a tool")
    units = _call_units(pairs, by_session=by_session)
    lost = len(pairs.torn) + pairs.failed_alone if by_session else pairs.failed
    if floor is None or isinstance(floor, int | float):
        found = _share_result(units, floor, lost, alpha=alpha)
    else:
        known = _call_units(floor, by_session=by_session)
        placed = _placed_floor(units, known)
        if not len(placed):
            why = "no pair of the floor run is one of the candidate's"
            return AbsentAxis(AxisName.TRAJECTORY, str(AxisName.TRAJECTORY), why)
        units, lost = _units_at(units, placed[:, 0].tolist()), lost + len(units.edits) - len(placed)
        chance = np.array([known.edits[i].changed for i in placed[:, 1].tolist()], dtype=np.bool_)
        ours = np.array([edit.changed for edit in units.edits], dtype=np.bool_)
        found = rate_result(
            AxisName.TRAJECTORY, str(AxisName.TRAJECTORY), RateRows(units.names, chance, ours), lost=lost, alpha=alpha
        )
        found = replace(found, tested="calls differ from the baseline's as often as in a second run of the baseline")
    changed = sorted(
        ((key, edit) for key, edit in zip(units.names.keys, units.edits, strict=True) if edit.changed),
        key=lambda row: (-row[1].distance, row[0]),
    )[: max(0, show)]
    return replace(
        found,
        evidence=shown_evidence([(key, _edit_sentence(edit)) for key, edit in changed], show),
        details=(*_call_details(units.edits), *found.details, *_edit_counts(units.edits)),
        parts=_tool_parts(pairs, units.names, units.sides, alpha=alpha, show=show),
    )


def _share_result(units: _CallUnits, floor: float | None, lost: int, *, alpha: float) -> AxisResult:
    """Return the share of units that changed, above a share that is known to change anyway."""
    summary = trajectory_summary(units.edits, units.names.cluster.tolist(), alpha=alpha)
    above = max(0.0, summary.share - (floor or 0.0))
    low, high = (max(0.0, end - (floor or 0.0)) for end in (summary.interval.low, summary.interval.high))
    clusters = cluster_details(units.names)
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if summary.n < _LOW_POWER_BELOW else ()),
        *((Flag.CLUSTERED,) if clusters else ()),
        AxisFlag.NO_TEST,
        *((AxisFlag.NO_FLOOR,) if floor is None else ()),
        *((AxisFlag.MISSING,) if lost else ()),
    )
    told = (
        () if floor is None else (AxisDetail("floor", floor, "share that changes between runs of one agent, as given"),)
    )
    return AxisResult(
        AxisName.TRAJECTORY,
        str(AxisName.TRAJECTORY),
        AxisUnit.SHARE,
        None,
        None,
        above,
        replace(summary.interval, low=low, high=high),
        None,
        rate_severity(above, low, high),
        summary.n,
        tested="nothing: runs of one agent differ too, so the share is held against a threshold",
        worse=Direction.INCREASE,
        missing=lost,
        flags=flags,
        details=(*told, *clusters),
        undecidable=_NO_FLOOR if floor is None else "",
    )


def _call_units(pairs: AxisPairs, *, by_session: bool) -> _CallUnits:
    units = pairs.sessions() if by_session else None
    # A session has the name of its first pair.
    names = pairs.names if units is None else pairs.names.only(np.array([unit[0] for unit in units], dtype=np.int64))
    places = [(i,) for i in range(len(pairs))] if units is None else units
    kinds = pairs.baseline.kind.tolist(), pairs.candidate.kind.tolist()
    sides = [(tuple(kinds[0][i] for i in unit), tuple(kinds[1][i] for i in unit)) for unit in places]
    # Units with the same kinds have the same edits, which are worked out once.
    calls = [kind.calls for kind in pairs.kinds]
    known = {both: call_edits(*([call for k in side for call in calls[k]] for side in both)) for both in set(sides)}
    return _CallUnits(names, sides, [known[both] for both in sides])


def _placed_floor(units: _CallUnits, floor: _CallUnits) -> npt.NDArray[np.int64]:
    """Return the places of the units that both have, in either; repeats of a question are taken in their order."""
    waiting: dict[str, list[int]] = {}
    for place in range(len(floor.edits) - 1, -1, -1):
        waiting.setdefault(floor.names.keys[place], []).append(place)
    both = [(at, waiting[key].pop()) for at, key in enumerate(units.names.keys) if waiting.get(key)]
    return np.array(both, dtype=np.int64).reshape(-1, 2)


def _units_at(units: _CallUnits, places: list[int]) -> _CallUnits:
    names = units.names.only(np.array(places, dtype=np.int64))
    return _CallUnits(names, [units.sides[i] for i in places], [units.edits[i] for i in places])


def _call_details(edits: Sequence[CallEdits]) -> Iterator[AxisDetail]:
    distances = [edit.distance for edit in edits]
    yield AxisDetail("pairs changed", float(sum(edit.changed for edit in edits)), f"of {len(edits)}")
    yield AxisDetail("mean distance", math.fsum(distances) / len(distances), "0 same calls, 1 none in common")
    # 0 until half of the pairs have changed, hence the mean beside it.
    yield AxisDetail("median distance", median(distances))


def _edit_sentence(edit: CallEdits) -> str:
    changes = (
        ("dropped", edit.dropped),
        ("added", edit.added),
        ("called in another order:", edit.reordered),
        ("called with other arguments:", edit.reshaped),
    )
    return "; ".join(f"{word} {', '.join(f'`{tool}`' for tool in tools)}" for word, tools in changes if tools)


def _edit_counts(edits: Sequence[CallEdits]) -> Iterator[AxisDetail]:
    for word in ("dropped", "added", "reordered", "reshaped"):
        counts = Counter(tool for edit in edits for tool in set(getattr(edit, word)))
        for tool, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield AxisDetail(f"{word} `{tool}`", float(count), "pairs")


def _tool_parts(
    pairs: AxisPairs, names: PairNames, sides: Sequence[tuple[Kinds, Kinds]], *, alpha: float, show: int
) -> tuple[AxisResult, ...]:
    """Return, for each tool, whether it is called in more or fewer pairs; unlike the whole, that can be tested."""

    def one_side(tool: str) -> Callable[[int], str]:
        return lambda _: f"`{tool}` is called on one side only"

    called = [frozenset(call.name for call in kind.calls) for kind in pairs.kinds]
    used = {kind for both in sides for kinds in both for kind in kinds}
    parts = [
        rate_result(
            AxisName.TRAJECTORY,
            f"trajectory/{tool}",
            RateRows(
                names,
                np.array([any(tool in called[kind] for kind in before) for before, _ in sides], dtype=np.bool_),
                np.array([any(tool in called[kind] for kind in after) for _, after in sides], dtype=np.bool_),
                one_side(tool),
            ),
            worse=Direction.BOTH,
            alpha=alpha,
            show=show,
        )
        for tool in sorted({tool for kind in used for tool in called[kind]})
    ]
    held = false_discovery([part.p if part.p is not None else 1.0 for part in parts])
    return tuple(replace(part, p_adjusted=q) for part, q in zip(parts, held, strict=True))
