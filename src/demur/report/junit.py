"""A comparison as JUnit XML, for the test view of a CI system.

Laws: valid XML 1.0 whatever the text; the case of the gate fails where the exit code says so, and beside it only the axes that made it
fail, so the file and the exit code never disagree; a slice that changed beyond chance, and an axis that may not fail the gate and would
or that is absent, is skipped with its figures, which CI systems show without failing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change
from demur.model.estimate import Severity
from demur.report.axes_view import axis_sentence
from demur.report.diff_words import CHANGE_WORDS, change_sentence, counted, difference_words
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, chance_is, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.axes import AxisResult
    from demur.model.comparison import Comparison, SliceComparison

__all__ = ["junit"]

_SUITE = "demur diff"
_MOST_NAME = 200


def junit(comparison: Comparison) -> str:
    """Return the whole file."""
    cases = [_gate_case(comparison), *_axis_cases(comparison), *map(_slice_case, comparison.slices)]
    skipped, failures = (sum(mark in case for case in cases) for mark in ("<skipped ", "<failure "))
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="{_SUITE}" {counts}>',
            f'<testsuite name="{_SUITE}" {counts}>',
            *cases,
            "</testsuite>\n</testsuites>\n",
        ]
    )


def _gate_case(comparison: Comparison) -> str:
    found = escaped(change_sentence(comparison))
    failure = ""
    if comparison.gate.failed or comparison.gate.unsettled:
        why = escaped(comparison.gate.why)
        failure = f'<failure type="{comparison.decision}" message="{why}">{found}</failure>'
    return f'<testcase classname="demur.diff" name="gate">{failure}<system-out>{found}</system-out></testcase>'


def _axis_cases(comparison: Comparison) -> Iterator[str]:
    axes = comparison.axes
    if axes is None:
        return
    gates = dict(axes.gates)
    for result in axes.report.results:
        told, gate = axis_sentence(result), gates.get(result.name)
        mark = f'<failure type="axis" message="{escaped(gate.why)}"/>' if gate is not None and gate.failed else ""
        if gate is None and _proven(result, comparison.settings.alpha):
            mark = f'<skipped message="report only: {escaped(told)}"/>'
        shown = [told, *(f"{one.key}: {one.sentence}" for one in result.evidence)]
        yield _axis_case(result.name, mark, "\n".join(shown))
    for absent in axes.report.absent:
        yield _axis_case(absent.name, f'<skipped message="absent: {escaped(absent.why)}"/>', absent.why)


def _axis_case(name: str, mark: str, told: str) -> str:
    named = escaped(" ".join(name.split())[:_MOST_NAME])
    return f'<testcase classname="demur.diff.axis" name="{named}">{mark}<system-out>{escaped(told)}</system-out></testcase>'


def _proven(result: AxisResult, alpha: float) -> bool:
    """Return whether an axis changed beyond chance, or beyond its threshold where there is no test."""
    if result.p_adjusted is None:
        return result.severity in (Severity.MODERATE, Severity.SEVERE)
    return result.severity is not Severity.NONE and result.p_adjusted <= alpha


def _slice_case(part: SliceComparison) -> str:
    rates = f"{percent(part.baseline.value)}{PERCENT} → {percent(part.candidate.value)}{PERCENT}"
    told = (
        f"{CHANGE_WORDS[part.decision]}: {rates}, {difference_words(part.difference)}, {chance_is('q', part.q)}, "
        f"{counted(part.difference.n, 'pair')}"
    )
    name = escaped(" ".join(f"{part.field} {part.value}".split())[:_MOST_NAME])
    skipped = f'<skipped message="report only: {escaped(told)}"/>' if _changed(part) else ""
    return f'<testcase classname="demur.diff.slice" name="{name}">{skipped}<system-out>{escaped(told)}</system-out></testcase>'


def _changed(part: SliceComparison) -> bool:
    return part.decision in (Change.INCREASED, Change.DECREASED)
