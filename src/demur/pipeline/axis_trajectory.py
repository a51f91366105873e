"""Which tools did the model stop calling, call anew, or call otherwise? The trajectory axis.

Laws: the share of changed pairs is reported and held against a threshold, for it has no null: two runs of one model differ as well; that
a single tool is called in more or in fewer pairs has one, and is tested, tools held against each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from demur.measure.severity import rate_severity
from demur.measure.slices import false_discovery
from demur.measure.trajectory import call_edits, trajectory_summary
from demur.model.axes import AxisDetail, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.axis import Flag
from demur.model.comparison import Direction
from demur.pipeline.axis_results import RateRow, rate_result, shown_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.measure.trajectory import CallEdits
    from demur.pipeline.axis_pairs import AxisPairs, ReadyPair

__all__ = ["trajectory_result"]

_LOW_POWER_BELOW = 5


def trajectory_result(
    pairs: AxisPairs, *, floor: float = 0.0, by_session: bool = False, alpha: float = 0.05, show: int = 20
) -> AxisResult:
    """Return the share of pairs (or sessions) whose calls changed, above the floor, with what changed in them."""
    units = pairs.sessions() if by_session else [(pair,) for pair in pairs.ready]
    edits = [
        call_edits([c for p in unit for c in p.baseline.calls], [c for p in unit for c in p.candidate.calls])
        for unit in units
    ]
    clusters = [unit[0].pair.cluster for unit in units]
    summary = trajectory_summary(edits, clusters, alpha=alpha)
    above = max(0.0, summary.share - floor)
    low, high = (max(0.0, end - floor) for end in (summary.interval.low, summary.interval.high))
    changed = sorted(
        ((unit[0].key, edit) for unit, edit in zip(units, edits, strict=True) if edit.changed),
        key=lambda row: (-row[1].distance, row[0]),
    )
    lost = len(pairs.torn) if by_session else pairs.failed
    flags: tuple[Flag | AxisFlag, ...] = (
        *((Flag.LOW_POWER,) if summary.n < _LOW_POWER_BELOW else ()),
        *((Flag.CLUSTERED,) if len(set(clusters)) < len(clusters) else ()),
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
            *_edit_counts(edits),
        ),
        parts=_tool_parts(units, clusters, alpha=alpha, show=show),
    )


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
    units: Sequence[tuple[ReadyPair, ...]], clusters: Sequence[str], *, alpha: float, show: int
) -> tuple[AxisResult, ...]:
    """Return, for each tool, whether it is called in more or fewer pairs: that has a null, and is tested."""
    tools = sorted({c.name for unit in units for p in unit for side in (p.baseline, p.candidate) for c in side.calls})
    parts = [
        rate_result(
            AxisName.TRAJECTORY,
            f"trajectory/{tool}",
            [
                RateRow(
                    unit[0].key,
                    cluster,
                    any(c.name == tool for p in unit for c in p.baseline.calls),
                    any(c.name == tool for p in unit for c in p.candidate.calls),
                    f"`{tool}` is called on one side only",
                )
                for unit, cluster in zip(units, clusters, strict=True)
            ],
            worse=Direction.BOTH,
            alpha=alpha,
            show=show,
        )
        for tool in tools
    ]
    held = false_discovery([part.p if part.p is not None else 1.0 for part in parts])
    return tuple(replace(part, p_adjusted=q) for part, q in zip(parts, held, strict=True))
