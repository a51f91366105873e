"""The exam: how a client copes with refusals and faults.

The client is a command. It is run once against a simulator that answers (the control), then once per case. What it prints and how
it ends is all there is to judge by. The verdicts are ordered from the worst; a command that never asked anything is untested,
which is not a pass.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from demur.errors import UsageError
from demur.model.exchange import Shape
from demur.simulate.phrasebook import LANGUAGES, STYLES, refusal_message, refusal_text
from demur.simulate.scenario import builtin_scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Coped",
    "ExamCase",
    "ExamResult",
    "Ran",
    "exam_cases",
    "exam_json",
    "exam_junit",
    "exam_table",
    "judge_ran",
    "run_command",
]

_KEPT_BYTES = 2**20
# What XML 1.0 allows in a document (section 2.2), whatever the command printed or is called.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_TRACES = (
    "Traceback (most recent call last)",
    "panic:",
    "Unhandled",
    "Uncaught",
    "Exception in thread",
    "Segmentation fault",
    "\n    at ",
)
_TELLING = (
    "refus",
    "declin",
    "filter",
    "block",
    "guardrail",
    "safety",
    "policy",
    "violat",
    "prohibited",
    "can't help",
    "cannot help",
    "unable to",
    "no answer",
    "empty",
    "error",
    "fail",
)
_CHAT_ONLY = "filter-azure-400"
_CASES = (
    "refuse",
    "refuse-in-pieces",
    "refuse-soft",
    "refuse-redirect",
    "refuse-partial",
    "filter",
    "filter-prompt",
    _CHAT_ONLY,
    "empty",
)
_FAULTS = ("fault-429", "fault-500", "fault-503", "fault-cut", "fault-malformed", "fault-content-type", "fault-stall")


class Coped(StrEnum):
    """How a client coped, the worst first."""

    HUNG = "hung"
    CRASHED = "crashed"
    RETRIED = "retried"
    EMPTY_SUCCESS = "empty success"
    UNTESTED = "untested"
    HANDLED = "handled"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a client: its exit code (None: it had to be stopped), what it printed, how often it asked."""

    exit_code: int | None
    output: str
    requests: int


@dataclass(frozen=True, slots=True)
class ExamCase:
    """One question of the exam: the scenario, and whether it is a fault of the server."""

    scenario: str
    fault: bool = False


@dataclass(frozen=True, slots=True)
class ExamResult:
    """How the client coped with a case, and by what that shows; `retries` is how often more than in the control it asked."""

    case: ExamCase
    coped: Coped
    retries: int
    exit_code: int | None
    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether this is how a client should cope."""
        return self.coped is Coped.HANDLED


def exam_cases(shapes: frozenset[Shape], *, faults: bool) -> tuple[ExamCase, ...]:
    """Return the cases for a client that speaks these shapes."""
    chat = Shape.OPENAI_CHAT in shapes
    refusals = tuple(ExamCase(name) for name in _CASES if chat or name != _CHAT_ONLY)
    return refusals + tuple(ExamCase(name, fault=True) for name in _FAULTS if faults)


def judge_ran(case: ExamCase, control: Ran, ran: Ran) -> ExamResult:
    """Return how a client coped with a case, by its run and by the control's; the worst verdict that holds."""
    retries = max(0, ran.requests - control.requests)
    failed = ran.exit_code != control.exit_code
    broke = _breakdown(ran) if failed else None
    if ran.exit_code is None:
        coped, why = Coped.HUNG, "it was still running when its time was up"
    elif ran.requests == 0:
        coped, why = Coped.UNTESTED, "it asked nothing"
    elif broke is not None:
        coped, why = Coped.CRASHED, broke
    elif retries and not case.fault:
        # Asking again is right only where the server itself failed.
        coped, why = Coped.RETRIED, "it asked again, which a refusal does not reward"
    elif failed:
        coped, why = Coped.HANDLED, "it failed with a message"
    # Words that the control printed too tell nothing about the refusal.
    elif telling := _telling_words(ran.output) - _telling_words(control.output):
        coped, why = Coped.HANDLED, f"it printed `{min(telling, key=lambda word: (len(word), word))}`"
    elif retries:
        coped, why = Coped.HANDLED, "it asked again"
    else:
        coped, why = Coped.EMPTY_SUCCESS, "it ended well without a word about it"
    return ExamResult(case, coped, retries, ran.exit_code, why)


def _breakdown(ran: Ran) -> str | None:
    """Return how a failed run broke down, None if it failed in order: with a code and a message."""
    if ran.exit_code is not None and ran.exit_code < 0:
        return f"a signal ended it ({-ran.exit_code})"
    if any(mark in ran.output for mark in _TRACES):
        return "it left a stack trace"
    return None if ran.output.strip() else "it failed without a word"


def _telling_words(output: str) -> frozenset[str]:
    """Return the words in an output that tell of a refusal, and the refusals that it quotes."""
    lowered = output.lower().replace("’", "'")
    quoted = [refusal_text(language, style) for language in LANGUAGES for style in STYLES]
    quoted.append(refusal_message("benign"))
    return frozenset(word for word in (*_TELLING, *(text.lower() for text in quoted)) if word in lowered)


def run_command(command: Sequence[str], variables: Mapping[str, str], *, timeout_s: float) -> tuple[int | None, str]:
    """Return the exit code of a command (None if it had to be stopped) and what it printed, errors included."""
    with tempfile.TemporaryFile() as printed:
        try:
            process = subprocess.Popen(  # noqa: S603 — the user's own command, run as they gave it
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                # A process group of its own, so that stopping it stops its children too.
                start_new_session=True,
            )
        except OSError as exc:
            what = (exc.strerror or "it cannot be run").lower()
            raise UsageError(f"`{command[0]}` cannot be run: {what}", hint="check the command after `--`") from exc
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if sys.platform == "win32":
                # Windows has no process groups of this kind: the command's own children outlive it there.
                process.kill()
            else:
                # All of it may have ended already; on some systems a group of dead processes may not be signalled.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        return code, printed.read(_KEPT_BYTES).decode("utf-8", errors="replace")


def exam_table(results: Sequence[ExamResult]) -> str:
    """Return the results as lines, one per case, and a summary."""
    width = max(len(result.case.scenario) for result in results)
    head = f"{'scenario':{width}}  {'coped':13}  {'retries':>7}  {'exit':>4}  why"
    lines = [head]
    for result in results:
        code = "-" if result.exit_code is None else str(result.exit_code)
        row = f"{result.case.scenario:{width}}  {result.coped:13}  {result.retries:7}  {code:>4}  {result.why}"
        lines.append(row.rstrip())
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
    rows = []
    for result in results:
        told = f"{result.coped}: {result.why} ({result.retries} retries, exit code {result.exit_code})"
        about = builtin_scenarios()[result.case.scenario].about
        failure = f'<failure type="{result.coped}" message="{_xml(told)}">{_xml(about)}</failure>'
        name = _xml(result.case.scenario)
        rows.append(f'<testcase classname="demur.exam" name="{name}">{"" if result.passed else failure}</testcase>')
    cases = "\n".join(rows)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="demur exam" {counts}>\n'
        f'<testsuite name="demur exam" {counts}>\n{cases}\n</testsuite>\n</testsuites>\n'
    )


def _xml(text: str) -> str:
    return html.escape(_NOT_XML.sub("\ufffd", text))
