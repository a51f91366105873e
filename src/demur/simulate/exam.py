"""How did a client cope with a refusal: did it notice, crash, hang, ask again, or take nothing for an answer?

The client is a command. It is run once against a simulator that answers (the control), then once a case. What it prints and
how it ends is all there is to judge by: words that tell of a refusal and that the control did not print, or an orderly
failure, mean that it noticed.

Laws: worst first, hung, crashed, retried, empty success, handled; asking again is no fault where the server itself failed;
a command that never asked has not been examined, which is no pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from demur.model.exchange import Shape
from demur.simulate.phrasebook import LANGUAGES, STYLES, refusal_message, refusal_text

__all__ = ["Coped", "ExamCase", "ExamResult", "Ran", "exam_cases", "judge_ran"]

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
    """Return how a client coped with a case, by its run and by the control's."""
    retries = max(0, ran.requests - control.requests)
    coped, why = _coped(case, control, ran, retries=retries)
    return ExamResult(case, coped, retries, ran.exit_code, why)


def _coped(case: ExamCase, control: Ran, ran: Ran, *, retries: int) -> tuple[Coped, str]:
    """Return how a client coped, and by what that shows."""
    if ran.exit_code is None:
        return Coped.HUNG, "it was still running when its time was up"
    if ran.requests == 0:
        return Coped.UNTESTED, "it asked nothing"
    broke = _breakdown(ran) if ran.exit_code != control.exit_code else None
    if broke is not None:
        return Coped.CRASHED, broke
    if retries and not case.fault:
        return Coped.RETRIED, "it asked again, which a refusal does not reward"
    notice = _notice(control, ran)
    if notice is None and retries:
        notice = "it asked again"
    if notice is None:
        return Coped.EMPTY_SUCCESS, "it ended well without a word about it"
    return Coped.HANDLED, notice


def _breakdown(ran: Ran) -> str | None:
    """Return how a run that failed broke down, None where it failed in good order: with a code and a message."""
    if ran.exit_code is not None and ran.exit_code < 0:
        return f"a signal ended it ({-ran.exit_code})"
    if any(mark in ran.output for mark in _TRACES):
        return "it left a stack trace"
    return None if ran.output.strip() else "it failed without a word"


def _notice(control: Ran, ran: Ran) -> str | None:
    """Return by what a run shows that it noticed, None where nothing shows it."""
    if ran.exit_code != control.exit_code:
        return "it failed with a message"
    told = _tells(ran.output) - _tells(control.output)
    return f"it printed `{min(told, key=lambda word: (len(word), word))}`" if told else None


def _tells(output: str) -> frozenset[str]:
    """Return the telling words in an output, and the refusals that it quotes."""
    lowered = output.lower().replace("’", "'")
    quoted = [refusal_text(language, style) for language in LANGUAGES for style in STYLES]
    quoted.append(refusal_message("benign"))
    return frozenset(word for word in (*_TELLING, *(text.lower() for text in quoted)) if word in lowered)
