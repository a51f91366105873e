"""The part of a report about the axes beyond refusals.

One table holds every axis that was asked for; axes that were not measured follow with the reason, then the details of each axis and
the pairs behind them.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from demur.model.axes import AxisFlag, AxisName, AxisUnit
from demur.report.columns import columns
from demur.report.diff_words import FLAG_WORDS, counted
from demur.report.numbers import PERCENT, UNKNOWN, chance, chance_is, percent, points, points_range
from demur.report.view import Column, Fact, Facts, Note, NoteKind, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.axes import AxisResult
    from demur.model.comparison import ComparedAxes
    from demur.report.view import Block

__all__ = ["AXIS_FLAG_WORDS", "axes_blocks", "axis_gate_word", "axis_sentence"]

AXIS_FLAG_WORDS = {
    AxisFlag.MISSING: "Some pairs could not be measured.",
    AxisFlag.NO_TEST: "There is no null to test, so a threshold decides.",
    AxisFlag.ZERO_BASELINE: "Some pairs rise from 0, which counts as more than any other rise.",
    AxisFlag.SIDES_DISAGREE: "The figures of the two runs, each by itself, move against the pairs.",
    AxisFlag.NO_FLOOR: "Runs of one agent differ too: `--floor RUN` measures by how much.",
    AxisFlag.POSITION_BIAS: "The judge changed its mind when two answers changed places.",
}
_COLUMNS = (
    Column("", number=False),
    Column("pairs", spare=True),
    Column("measured"),
    Column("difference"),
    Column("p", spare=True),
    Column("p held"),
    Column("size", number=False),
    Column("gate", number=False, spare=True),
)
_PART_COLUMNS = (Column("", number=False), Column("measured"), Column("difference"), Column("p held"))
_MAX_PARTS = 12
# Where the interval is among the cells of an axis, right of the difference.
_AT_ENDS = 4
_NARROW = (0, 2, 3, 4)
# What 80 columns leave for name, sides, difference and interval, beside p and size.
_NARROW_FITS = 53


def axes_blocks(axes: ComparedAxes | None, *, show: int) -> Iterator[Block]:
    """Yield what is seen of the axes, with at most `show` pairs of each as evidence; nothing where there are none."""
    if axes is None:
        return
    cells = []
    for result in axes.report.results:
        unit = _unit_word(result.unit)
        cells.append(
            (
                f"{result.name},{unit}" if unit and result.unit is not AxisUnit.SHARE else result.name,
                f"{result.n:,}",
                _sides(result, unit=PERCENT if result.unit is AxisUnit.SHARE else "") or UNKNOWN,
                _move(result),
                _ends(result),
                UNKNOWN if result.p is None else chance(result.p),
                UNKNOWN if result.p_adjusted is None else chance(result.p_adjusted),
                str(result.severity),
                axis_gate_word(result, axes),
            )
        )
    # Where names and intervals do not both fit, a narrow terminal has the names, and each axis its interval below.
    is_narrow = sum(max((columns(row[i]) for row in cells), default=0) for i in _NARROW) > _NARROW_FITS
    heads: tuple[Column, ...] = _COLUMNS
    rows = []
    if is_narrow:
        heads = (*_COLUMNS[:_AT_ENDS], Column("interval", spare=True), *_COLUMNS[_AT_ENDS:])
    for row in cells:
        before, (move, ends), after = row[: _AT_ENDS - 1], row[_AT_ENDS - 1 : _AT_ENDS + 1], row[_AT_ENDS + 1 :]
        moved = (move, ends) if is_narrow else (f"{move} ({ends})" if ends else move,)
        rows.append((*before, *moved, *after))
    # p is adjusted for all axes that were measured, and the note says how.
    note = f"{axes.report.multiplicity}; the gate looks at {', '.join(axes.gated)}"
    yield Table("Axes", heads, tuple(rows), note)
    if axes.report.absent:
        yield Facts("Not measured", tuple(Fact(absent.name, "absent", absent.why) for absent in axes.report.absent))
    if axes.sampled:
        part = f"{axes.read:,} of {counted(axes.pairs, 'pair')}, whole sessions drawn by the seed; safety is that of all pairs."
        yield Note(NoteKind.WARNING, "axes are of a sample", part)
    for result in axes.report.results:
        # Safety is the comparison itself, which the rest of the report already tells in full.
        if result.axis is not AxisName.SAFETY:
            yield _axis_facts(result, axes, show, ends=is_narrow)
            yield from _parts_table(result)


def axis_sentence(result: AxisResult) -> str:
    """Return an axis in one sentence: size, both sides, difference, p and n."""
    parts = [str(result.severity), _sides(result, unit=_unit_word(result.unit)), _difference_words(result)]
    if result.p is not None:
        held = "" if result.p_adjusted is None else f" ({chance_is('held', result.p_adjusted)})"
        parts.append(chance_is("p", result.p) + held)
    return ", ".join(part for part in (*parts, counted(result.n, "pair")) if part)


def axis_gate_word(result: AxisResult, axes: ComparedAxes) -> str:
    """Return whether an axis fails the gate, passes it, or is only reported."""
    gate = dict(axes.gates).get(result.name)
    return "report only" if gate is None else "fails" if gate.failed else "unsettled" if gate.unsettled else "passes"


def _axis_facts(result: AxisResult, axes: ComparedAxes, show: int, *, ends: bool) -> Facts:
    gate = dict(axes.gates).get(result.name)
    rows = [Fact("gate", axis_gate_word(result, axes), "" if gate is None else gate.why)]
    rows += [Fact("undecidable", result.undecidable)] if result.undecidable else []
    rows += [Fact("interval", _ends(result))] if ends and result.interval is not None else []
    rows += [Fact("tests that", result.tested)] if result.tested else []
    for detail in result.details:
        # A detail has the unit of its axis only where it is a difference; the others are plain numbers.
        if detail.value is None or not isfinite(detail.value):
            value = UNKNOWN
        elif result.unit is AxisUnit.SHARE and detail.label.startswith("difference"):
            value = f"{points(detail.value)} points"
        else:
            value = _number(detail.value, AxisUnit.MEAN)
        rows.append(Fact(detail.label, value, detail.note))
    rows += [Fact("not measured", counted(result.missing, "pair"))] if result.missing else []
    for flag in result.flags:
        words = AXIS_FLAG_WORDS[flag] if isinstance(flag, AxisFlag) else FLAG_WORDS[flag]
        rows.append(Fact(str(flag).replace("_", " "), words))
    rows += [Fact(one.key, one.sentence) for one in result.evidence[:show]]
    return Facts(f"{result.name}: {result.severity}", tuple(rows))


def _parts_table(result: AxisResult) -> Iterator[Table]:
    """Yield the parts of an axis that differ at all, the smallest p first."""
    moved = [part for part in result.parts if part.difference]
    moved.sort(key=lambda part: (1.0 if part.p_adjusted is None else part.p_adjusted, -abs(part.difference), part.name))
    if not moved:
        return
    rows = []
    for part in moved[:_MAX_PARTS]:
        held = UNKNOWN if part.p_adjusted is None else chance(part.p_adjusted)
        name = part.name.partition("/")[2]
        rows.append((name, _sides(part, unit=_unit_word(part.unit)), _difference_words(part), held))
    left = f"; {len(moved) - _MAX_PARTS:,} more in the JSON" if len(moved) > _MAX_PARTS else ""
    note = f"p is held against the others of this table{left}"
    yield Table(f"{result.name}: what moved", _PART_COLUMNS, tuple(rows), note)


def _sides(result: AxisResult, *, unit: str = "") -> str:
    if result.baseline is None or result.candidate is None:
        return ""
    return f"{_number(result.baseline, result.unit)} → {_number(result.candidate, result.unit)}{unit}"


def _difference_words(result: AxisResult) -> str:
    ends = _ends(result)
    return f"{_move(result)} ({ends})" if ends else _move(result)


def _move(result: AxisResult) -> str:
    if result.relative:
        return _times(result.difference)
    return points(result.difference) if result.unit is AxisUnit.SHARE else _signed(result.difference)


def _ends(result: AxisResult) -> str:
    if result.interval is None:
        return ""
    low, high = result.interval.low, result.interval.high
    if result.relative:
        return f"{_times(low)} to {_times(high)}"
    return points_range(low, high) if result.unit is AxisUnit.SHARE else f"{_signed(low)} to {_signed(high)}"


def _times(difference: float) -> str:
    """Return a relative difference as a factor: 1.4 times for 0.4."""
    if difference == inf:
        return "×∞"
    if not isfinite(difference):
        return UNKNOWN
    factor = 1 + difference
    # Close to 1 a third digit tells it from no change.
    return f"×{factor:.3f}" if 0.9 <= factor < 1.1 else f"×{factor:.3g}" if factor < 1000 else f"×{factor:,.0f}"  # noqa: PLR2004 - digits by size


def _number(value: float, unit: AxisUnit) -> str:
    if not isfinite(value):
        return UNKNOWN
    if unit is AxisUnit.SHARE:
        return percent(value)
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits are enough below it


def _signed(value: float) -> str:
    if not isfinite(value):
        return UNKNOWN
    return f"{value:+,.3g}" if abs(value) < 1000 else f"{value:+,.0f}"  # noqa: PLR2004 - three digits are enough below it


def _unit_word(unit: AxisUnit) -> str:
    words = {AxisUnit.SHARE: PERCENT, AxisUnit.MEAN: "", AxisUnit.SHIFT: "", AxisUnit.COST: ""}
    return words.get(unit, f" {unit}")
