"""A comparison as JUnit XML, for the test view of a CI system.

Laws: valid XML 1.0 whatever the text; the gate is the one test that can fail, so the file and the exit code never disagree; a slice that
changed beyond chance is skipped with its figures, which CI systems show without failing, since slices are report-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.model.comparison import Change
from demur.report.diff_words import CHANGE_WORDS, change_sentence, counted, difference_words
from demur.report.markup import escaped
from demur.report.numbers import PERCENT, chance_is, percent

if TYPE_CHECKING:
    from demur.model.comparison import Comparison, SliceComparison

__all__ = ["junit"]

_SUITE = "demur diff"
_MOST_NAME = 200


def junit(comparison: Comparison) -> str:
    """Return the whole file."""
    cases = [_gate_case(comparison), *map(_slice_case, comparison.slices)]
    skipped = sum(_changed(part) for part in comparison.slices)
    failures = int(comparison.gate.failed or comparison.gate.unsettled)
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
