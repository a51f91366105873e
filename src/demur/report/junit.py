"""A comparison as JUnit XML, for the test view of a CI system.

The file and the exit code never disagree: only the gate and the axes that made it fail are failures.
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
    from collections.abc import Iterator, Sequence

    from demur.model.comparison import Comparison

__all__ = ["case_element", "junit", "junit_file"]

_SUITE = "demur diff"
_MAX_NAME = 200


def junit(comparison: Comparison) -> str:
    """Return the whole file: valid XML 1.0 whatever the text."""
    found, gate = f"{comparison.decision.conclusion}: {change_sentence(comparison)}", comparison.gate
    failure = ""
    if gate.failed or gate.unsettled:
        failure = (
            f'<failure type="{comparison.decision.conclusion}" message="{escaped(gate.why)}">{escaped(found)}</failure>'
        )
    cases = [case_element("demur.diff", "gate", failure, found), *_axis_cases(comparison)]
    for part in comparison.slices:
        rates = f"{percent(part.baseline.value)}{PERCENT} → {percent(part.candidate.value)}{PERCENT}"
        sentence = (
            f"{CHANGE_WORDS[part.decision]}: {rates}, {difference_words(part.difference)}, {chance_is('q', part.q)}, "
            f"{counted(part.difference.n, 'pair')}"
        )
        # A slice may not fail the gate; CI systems show a skipped case with its message and stay green.
        has_changed = part.decision in (Change.INCREASED, Change.DECREASED)
        mark = f'<skipped message="report only: {escaped(sentence)}"/>' if has_changed else ""
        cases.append(case_element("demur.diff.slice", f"{part.field} {part.value}", mark, sentence))
    return junit_file(cases)


def junit_file(cases: Sequence[str]) -> str:
    """Return a file of these cases, with its counts."""
    # Texts inside a case are escaped, so these begin nothing but elements of our own.
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


def case_element(kind: str, name: str, mark: str, output: str) -> str:
    """Return one case, with a mark (a failure, or that it was skipped) or none."""
    short = escaped(" ".join(name.split())[:_MAX_NAME])
    return f'<testcase classname="{kind}" name="{short}">{mark}<system-out>{escaped(output)}</system-out></testcase>'


def _axis_cases(comparison: Comparison) -> Iterator[str]:
    axes = comparison.axes
    if axes is None:
        return
    gates = dict(axes.gates)
    for result in axes.report.results:
        sentence, gate = axis_sentence(result), gates.get(result.name)
        mark = f'<failure type="axis" message="{escaped(gate.why)}"/>' if gate is not None and gate.failed else ""
        if result.p_adjusted is None:
            # Without a test the threshold of the severity decides.
            is_proven = result.severity in (Severity.MODERATE, Severity.SEVERE)
        else:
            is_proven = result.severity is not Severity.NONE and result.p_adjusted <= comparison.settings.alpha
        if gate is None and is_proven:
            mark = f'<skipped message="report only: {escaped(sentence)}"/>'
        evidence = [f"{one.key}: {one.sentence}" for one in result.evidence]
        yield case_element("demur.diff.axis", result.name, mark, "\n".join([sentence, *evidence]))
    for absent in axes.report.absent:
        mark = f'<skipped message="absent: {escaped(absent.why)}"/>'
        yield case_element("demur.diff.axis", absent.name, mark, absent.why)
