"""The exam: how a client copes with refusals and faults.

The client is a command. It is run against a simulator that answers (the controls), then once per case. It is judged by
difference: by what it says in a case (printed, or written to a file that it names) which it does not say when it is answered and
which the model did not say. No word of any language is looked for. Numbers are no words, since times, ids and counts of tokens
differ by themselves, and a word counts only if it comes again when the case is run again. The verdicts are ordered from the
worst; a command that never asked anything is untested, which is not a pass.
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
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from demur.errors import UsageError
from demur.model.exchange import RefusalPart, Shape, TextPart
from demur.simulate.scenario import builtin_scenarios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from demur.simulate.engine import Simulated

__all__ = [
    "Command",
    "Coped",
    "ExamCase",
    "ExamResult",
    "Ran",
    "exam_cases",
    "exam_json",
    "exam_junit",
    "exam_table",
    "examine",
    "judge_runs",
    "ran_of",
]

_KEPT_BYTES = 2**20
_MAX_FILES = 20
# What XML 1.0 allows in a document (section 2.2), whatever the command printed or is called.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# What runtimes print, not people: Python, Go, Node, Java, the shell.
_TRACES = (
    "Traceback (most recent call last)",
    "panic:",
    "Unhandled",
    "Uncaught",
    "Exception in thread",
    "Segmentation fault",
    "\n    at ",
)
# How programming languages write that there is nothing: printing it tells nobody anything.
_NOTHING = frozenset({"none", "nonetype", "null", "nil", "undefined", "nan"})
# An HTTP library that logs its responses says nothing of what the app made of them.
_STATUS_LINE = re.compile(r"HTTP/[\d.]+ \d{3}[ a-z]*", re.IGNORECASE)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt]")
# Letters in a row, or a sign that is no ASCII, as an emoji; what has a digit in it, or hangs on one by a hyphen, is a number.
_WORD = re.compile(r"[\w-]+|[^\w\s\x00-\x7f‐-⁯]")
_CONTROLS = 2
_MORE_CONTROLS = 3  # where two controls differ, so that words drawn from a short list are known as such
_SHOWN_CHARS = 48
_CHAT_ONLY = "filter-azure-400"
_EMPTY = "empty"
_CASES = (
    "refuse",
    "refuse-in-pieces",
    "refuse-soft",
    "refuse-redirect",
    "refuse-partial",
    "filter",
    "filter-prompt",
    _CHAT_ONLY,
    _EMPTY,
)
_FAULTS = ("fault-429", "fault-500", "fault-503", "fault-cut", "fault-malformed", "fault-content-type", "fault-stall")


class Coped(StrEnum):
    """How a client coped, the worst first."""

    HUNG = "hung"
    CRASHED = "crashed"
    RETRIED = "retried"
    EMPTY_SUCCESS = "empty success"
    TAKEN = "taken as answer"
    UNTESTED = "untested"
    HANDLED = "handled"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a client: its exit code (None: it had to be stopped), what it printed and wrote, how often it asked.

    `said` is what the model said to it, `shapes` are those it asked in.
    """

    exit_code: int | None
    output: str
    requests: int
    said: str = ""
    shapes: frozenset[Shape] = frozenset()


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


def ran_of(code: int | None, output: str, replies: Sequence[Simulated]) -> Ran:
    """Return a run as it is judged: what came of the command, and what the model replied to it meanwhile."""
    choices = [choice for reply in replies for choice in reply.response.choices]
    said = [part for choice in choices for part in choice.parts if isinstance(part, TextPart | RefusalPart)]
    shapes = frozenset(reply.truth.shape for reply in replies)
    return Ran(code, output, len(replies), "\n".join(part.text for part in said), shapes)


def examine(name: str, run: Callable[[str], Ran], *, faults: bool) -> Iterator[ExamResult]:
    """Yield how a client copes with each case; `run` runs it once against a scenario, `name` is what errors call it."""
    controls = [run("answer") for _ in range(_CONTROLS)]
    for control in controls:
        # A client that fails even where it is answered would pass every case in which it should fail.
        _check_control(name, control)
    if _words(controls[0].output) != _words(controls[1].output):
        controls += [run("answer") for _ in range(_MORE_CONTROLS)]
    empty = run(_EMPTY)
    # Only the shapes that the client asked in: it cannot fail by what it never meets.
    for case in exam_cases(controls[0].shapes, faults=faults):
        runs = [empty if case.scenario == _EMPTY else run(case.scenario)]
        if fresh_words(controls, runs) and runs[0].exit_code == 0:
            # What is random does not come twice.
            runs.append(run(case.scenario))
        yield judge_runs(case, controls, empty, runs)


def _check_control(name: str, control: Ran) -> None:
    if control.exit_code is None:
        raise UsageError(f"`{name}` does not end, even where it is answered", hint="raise --exam-timeout")
    if control.exit_code != 0:
        said = control.output.strip().splitlines()[-1:] or ["nothing"]
        when = "where it is answered" if control.requests else "before it asks anything"
        raise UsageError(f"`{name}` fails {when}; it says `{said[0][:120]}`")
    if control.requests == 0:
        hint = "let it read its base URL from the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …)"
        raise UsageError(f"`{name}` asked the simulator nothing", hint=hint)


def judge_runs(case: ExamCase, controls: Sequence[Ran], empty: Ran, runs: Sequence[Ran]) -> ExamResult:
    """Return how a client coped with a case, by its runs, the controls and its run on an empty answer; the worst that holds."""
    ran = runs[0]
    retries = max(0, ran.requests - max(control.requests for control in controls))
    failed = ran.exit_code != controls[0].exit_code
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
    elif fresh := fresh_words(controls, runs):
        coped, why = Coped.HANDLED, f"it said `{_shown(ran.output, fresh)}`"
    elif retries:
        coped, why = Coped.HANDLED, "it asked again"
    else:
        coped, why = _silence(ran, empty if case.scenario != _EMPTY else None)
    return ExamResult(case, coped, retries, ran.exit_code, why)


def fresh_words(controls: Sequence[Ran], runs: Sequence[Ran]) -> frozenset[str]:
    """Return the words that a client has in every run of a case, and that neither a control nor the model has."""
    usual = frozenset[str]().union(*(_words(control.output) for control in controls)) | _NOTHING
    found = [frozenset(word for word in _words(ran.output) - usual if word not in _plain(ran.said)) for ran in runs]
    return found[0].intersection(*found[1:])


def _words(output: str) -> frozenset[str]:
    """Return the words of an output, in one case; numbers and what is joined to one are none."""
    found = _WORD.findall(_STATUS_LINE.sub(" ", _plain(output)))
    joined = (word for word in found if not any(letter.isdigit() for letter in word))
    return frozenset(word for compound in joined for word in re.split("[-_]+", compound) if word)


def _plain(text: str) -> str:
    """Return a text in one case, with what JSON and Python write for other characters read back."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text).casefold().replace("’", "'")


def _shown(output: str, fresh: frozenset[str]) -> str:
    """Return the first line with a fresh word, cut short."""
    line = next((line for line in output.splitlines() if fresh & _words(line)), " ".join(sorted(fresh)))
    line = " ".join(line.split()).replace("`", "'")
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


def _silence(ran: Ran, empty: Ran | None) -> tuple[Coped, str]:
    """Return what a client did that ended well and said nothing of its own; `empty` is its run on an empty answer."""
    said = _words(ran.said)
    # Most of the model's words, since an app may cut or wrap what it shows.
    if said and 2 * len(said & _words(ran.output)) > len(said):
        return Coped.TAKEN, "it passed the model's words on as an answer"
    if not ran.output.strip():
        return Coped.EMPTY_SUCCESS, "it ended well and printed nothing"
    as_on_empty = empty is not None and _words(ran.output) == _words(empty.output)
    told = ", as on an empty answer," if as_on_empty else ""
    return Coped.EMPTY_SUCCESS, f"it ended well{told} without a word about it"


def _breakdown(ran: Ran) -> str | None:
    """Return how a failed run broke down, None if it failed in order: with a code and a message."""
    if ran.exit_code is not None and ran.exit_code < 0:
        return f"a signal ended it ({-ran.exit_code})"
    if any(mark in ran.output for mark in _TRACES):
        return "it left a stack trace"
    return None if ran.output.strip() else "it failed without a word"


@dataclass(slots=True)
class Command:
    """The client's command, run as often as the exam needs it; `timeout_s` is for one run."""

    words: Sequence[str]
    timeout_s: float
    _written: dict[Path, bytes] = field(default_factory=dict)

    def run(self, variables: Mapping[str, str]) -> tuple[int | None, str]:
        """Return the exit code (None if it had to be stopped) and what it printed and wrote to files that it names."""
        # Apart, since the order in which two pipes are written to varies from run to run.
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            started_ns = os.fstat(printed.fileno()).st_mtime_ns
            code = self._wait(variables, printed, errors)
            texts = []
            for stream in (printed, errors):
                stream.seek(0)
                texts.append(stream.read(_KEPT_BYTES).decode("utf-8", errors="replace"))
        output = "".join(texts)
        return code, output + "".join(f"\n{text}" for text in self._files(output, started_ns))

    def _wait(self, variables: Mapping[str, str], printed: BinaryIO, errors: BinaryIO) -> int | None:
        try:
            process = subprocess.Popen(  # noqa: S603 — the user's own command, run as they gave it
                list(self.words),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=errors,
                env={**os.environ, **variables},
                # A process group of its own, so that stopping it stops its children too.
                start_new_session=True,
            )
        except OSError as exc:
            what = (exc.strerror or "it cannot be run").lower()
            raise UsageError(f"`{self.words[0]}` cannot be run: {what}", hint="check the command after `--`") from exc
        try:
            return process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if sys.platform == "win32":
                # Windows has no process groups of this kind: the command's own children outlive it there.
                process.kill()
            else:
                # All of it may have ended already; on some systems a group of dead processes may not be signalled.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _files(self, output: str, started_ns: int) -> Iterator[str]:
        """Yield what the run wrote to the files that its output names; of one that it added to, what is new."""
        names = dict.fromkeys(word.strip("\"'`,;:()[]<>") for word in output.split())
        for name in [name for name in names if "." in name or "/" in name][:_MAX_FILES]:
            path = Path(name)
            # A name may be no path at all: too long, or with a null byte in it.
            with contextlib.suppress(OSError, ValueError):
                if not path.is_file() or path.stat().st_mtime_ns < started_ns:
                    continue
                with path.open("rb") as stream:
                    now = stream.read(_KEPT_BYTES)
                before = self._written.get(path, b"")
                self._written[path] = now
                yield now.removeprefix(before).decode("utf-8", errors="replace")


def exam_table(results: Sequence[ExamResult]) -> str:
    """Return the results as lines, one per case, and a summary."""
    width = max(len(result.case.scenario) for result in results)
    head = f"{'scenario':{width}}  {'coped':15}  {'retries':>7}  {'exit':>4}  why"
    lines = [head]
    for result in results:
        code = "-" if result.exit_code is None else str(result.exit_code)
        row = f"{result.case.scenario:{width}}  {result.coped:15}  {result.retries:7}  {code:>4}  {result.why}"
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
