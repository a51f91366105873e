"""What does a reader see of an exam: a table, JSON, JUnit?

Laws: all three say the same; JUnit is valid XML whatever the command is called; a case that was not handled is a failure.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from demur.simulate.scenario import builtin_scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.simulate.exam import ExamResult

__all__ = ["exam_json", "exam_junit", "exam_table"]

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def exam_table(results: Sequence[ExamResult]) -> str:
    """Return the results as lines, one a case, and a summary."""
    width = max(len(result.case.scenario) for result in results)
    head = f"{'scenario':{width}}  {'coped':13}  {'retries':>7}  {'exit':>4}  why"
    lines = [head, *(_row(result, width) for result in results)]
    counts = Counter(result.coped for result in results)
    total = ", ".join(f"{counts[coped]} {coped}" for coped in sorted(counts, key=lambda coped: -counts[coped]))
    return "\n".join([*lines, "", f"{len(results)} cases: {total}"])


def exam_json(command: Sequence[str], results: Sequence[ExamResult]) -> str:
    """Return the results as one JSON object."""
    rows = [
        {
            "scenario": result.case.scenario,
            "about": builtin_scenarios()[result.case.scenario].about,
            "fault": result.case.fault,
            "coped": result.coped,
            "why": result.why,
            "retries": result.retries,
            "exit_code": result.exit_code,
            "passed": result.passed,
        }
        for result in results
    ]
    return msgspec.json.encode({"command": list(command), "results": rows}).decode()


def exam_junit(results: Sequence[ExamResult]) -> str:
    """Return the results as a JUnit file."""
    failures = sum(not result.passed for result in results)
    counts = f'tests="{len(results)}" failures="{failures}" errors="0" skipped="0"'
    cases = "\n".join(_junit_case(result) for result in results)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="demur exam" {counts}>\n'
        f'<testsuite name="demur exam" {counts}>\n{cases}\n</testsuite>\n</testsuites>\n'
    )


def _row(result: ExamResult, width: int) -> str:
    code = "-" if result.exit_code is None else str(result.exit_code)
    return f"{result.case.scenario:{width}}  {result.coped:13}  {result.retries:7}  {code:>4}  {result.why}".rstrip()


def _junit_case(result: ExamResult) -> str:
    told = f"{result.coped}: {result.why} ({result.retries} retries, exit code {result.exit_code})"
    about = builtin_scenarios()[result.case.scenario].about
    failure = "" if result.passed else f'<failure type="{result.coped}" message="{_xml(told)}">{_xml(about)}</failure>'
    return f'<testcase classname="demur.exam" name="{_xml(result.case.scenario)}">{failure}</testcase>'


def _xml(text: str) -> str:
    return html.escape(_NOT_XML.sub("\ufffd", text))
