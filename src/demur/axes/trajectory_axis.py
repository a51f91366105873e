"""Which tools did the model stop calling, call anew, or call otherwise? The trajectory axis.

Laws: the share of changed pairs is reported and held against a threshold, for it has no null: two runs of one model differ as well; that
a single tool is called in more or in fewer pairs has one, and is tested, tools held against each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from demur.axes.results import RateRows, cluster_details, rate_result, shown_evidence
from demur.axes.trajectory import call_edits, trajectory_summary
from demur.measure.severity import rate_severity
from demur.measure.slices import false_discovery
from demur.model.axes import AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.axis import Flag
from demur.model.comparison import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from demur.axes.pairs import AxisPairs
    from demur.axes.steps import ToolCall
    from demur.axes.trajectory import CallEdits
    from demur.model.axes import PairNames

    Kinds = tuple[int, ...]

__all__ = ["trajectory_result"]

_LOW_POWER_BELOW = 5


def trajectory_result(
    pairs: AxisPairs, *, floor: float = 0.0, by_session: bool = False, alpha: float = 0.05, show: int = 20
) -> AxisResult:
    """Return the share of pairs (or sessions) whose calls changed, above the floor, with what changed in them."""
    units = pairs.sessions() if by_session else None
    # A session goes by the name of its first pair.
    names = pairs.names if units is None else pairs.names.only(np.array([unit[0] for unit in units], dtype=np.int64))
    sides = _unit_kinds(pairs, units)
    edits = _edits_of(pairs, sides)
    summary = trajectory_summary(edits, names.cluster.tolist(), alpha=alpha)
    above = max(0.0, summary.share - floor)
    low, high = (max(0.0, end - floor) for end in (summary.interval.low, summary.interval.high))
    changed = sorted(
        ((key, edit) for key, edit in zip(names.keys, edits, strict=True) if edit.changed),
        key=lambda row: (-row[1].distance, row[0]),
    )[: max(0, show)]
    lost = len(pairs.torn) + pairs.failed_alone if by_session else pairs.failed
    clusters = cluster_details(names)
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if summary.n < _LOW_POWER_BELOW else ()),
        *((Flag.CLUSTERED,) if clusters else ()),
        AxisFlag.NO_TEST,
        *((AxisFlag.MISSING,) if lost else ()),
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
        tested="nothing: runs of one model differ too, so the share is held against a threshold",
        worse=Direction.INCREASE,
        missing=lost,
        flags=flags,
        evidence=shown_evidence([(key, _edit_sentence(edit)) for key, edit in changed], show),
        details=(
            AxisDetail("pairs changed", float(summary.changed), f"of {summary.n}"),
            AxisDetail("mean distance", summary.mean, "0 same calls, 1 none in common"),
            AxisDetail("median distance", summary.median),
            AxisDetail("floor", floor, "share that changes between runs of one model"),
            *clusters,
            *_edit_counts(edits),
        ),
        parts=_tool_parts(pairs, names, sides, alpha=alpha, show=show),
    )


def _unit_kinds(pairs: AxisPairs, units: Sequence[Sequence[int]] | None) -> list[tuple[Kinds, Kinds]]:
    """Return, for each pair or session, the kinds of its exchanges on both sides."""
    before, after = pairs.baseline.kind.tolist(), pairs.candidate.kind.tolist()
    if units is None:
        return [((b,), (c,)) for b, c in zip(before, after, strict=True)]
    return [(tuple(before[i] for i in unit), tuple(after[i] for i in unit)) for unit in units]


def _edits_of(pairs: AxisPairs, sides: Sequence[tuple[Kinds, Kinds]]) -> list[CallEdits]:
    """Return the edits of each unit; those of equal kinds are worked out once."""
    known = {both: call_edits(*(_calls_of(pairs, kinds) for kinds in both)) for both in set(sides)}
    return [known[both] for both in sides]


def _calls_of(pairs: AxisPairs, kinds: Kinds) -> list[ToolCall]:
    return [call for kind in kinds for call in pairs.kinds[kind].calls]


def _edit_sentence(edit: CallEdits) -> str:
    told = (
        ("dropped", edit.dropped),
        ("added", edit.added),
        ("called in another order:", edit.reordered),
        ("called with other arguments:", edit.reshaped),
    )
    said = [f"{word} {', '.join(f'`{tool}`' for tool in tools)}" for word, tools in told if tools]
    return "; ".join(said)


def _edit_counts(edits: Sequence[CallEdits]) -> Iterator[AxisDetail]:
    for word in ("dropped", "added", "reordered", "reshaped"):
        counts = Counter(tool for edit in edits for tool in set(getattr(edit, word)))
        for tool, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            yield AxisDetail(f"{word} `{tool}`", float(count), "pairs")


def _tool_parts(
    pairs: AxisPairs, names: PairNames, sides: Sequence[tuple[Kinds, Kinds]], *, alpha: float, show: int
) -> tuple[AxisResult, ...]:
    """Return, for each tool, whether it is called in more or fewer pairs: that has a null, and is tested."""
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
                _one_side(tool),
            ),
            worse=Direction.BOTH,
            alpha=alpha,
            show=show,
        )
        for tool in sorted({tool for kind in used for tool in called[kind]})
    ]
    held = false_discovery([part.p if part.p is not None else 1.0 for part in parts])
    return tuple(replace(part, p_adjusted=q) for part, q in zip(parts, held, strict=True))


def _one_side(tool: str) -> Callable[[int], str]:
    return lambda _: f"`{tool}` is called on one side only"
