"""Rules over a session or over each exchange as values, and the formulas behind those about order.

The set of checks is closed. Those about order are temporal formulas (`ltl`): about texts over the exchanges, about tools over
the calls in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from demur.axes.rules.ltl import And, Atom, Constant, Next, Not, Or, WeakNext, eventually, globally, implies, weak_until

if TYPE_CHECKING:
    from demur.axes.rules.json_schema import Schema
    from demur.axes.rules.ltl import Formula

__all__ = [
    "Condition",
    "Consistent",
    "ForbiddenText",
    "IncludeText",
    "MatchSchema",
    "MaxTokens",
    "MaxTurns",
    "RuleCheck",
    "RuleScope",
    "StepFormula",
    "StopReason",
    "ToolCallsOrder",
    "TraceRule",
    "call_before",
    "call_once",
    "followed_up",
]


class RuleScope(StrEnum):
    """What a rule applies to: each exchange alone, or the exchanges of a session together."""

    EXCHANGE = "exchange"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class IncludeText:
    """Every text is said: by some exchange, or with `each` by every one."""

    texts: tuple[str, ...]
    each: bool = False


@dataclass(frozen=True, slots=True)
class ForbiddenText:
    """None of the texts is said."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolCallsOrder:
    """A formula over the calls of tools in their order; `why` says what is wrong where it fails."""

    formula: Formula
    why: str


@dataclass(frozen=True, slots=True)
class StepFormula:
    """A formula over exchanges; `why` says what is wrong where it fails."""

    formula: Formula
    why: str


@dataclass(frozen=True, slots=True)
class MaxTurns:
    """No more exchanges than this."""

    most: int


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """No more tokens, in and out, than this in all; does not apply where a provider did not count."""

    most: int


@dataclass(frozen=True, slots=True)
class StopReason:
    """The last exchange, or with `each` every one, ends for one of these reasons, in our words or the provider's."""

    reasons: tuple[str, ...]
    each: bool = False


@dataclass(frozen=True, slots=True)
class MatchSchema:
    """Every response is JSON of this schema; one that only calls tools is not checked."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class Consistent:
    """What the pattern's group finds is the same wherever it is found in the session."""

    pattern: str


RuleCheck = (
    IncludeText
    | ForbiddenText
    | ToolCallsOrder
    | StepFormula
    | MaxTurns
    | MaxTokens
    | StopReason
    | MatchSchema
    | Consistent
)


@dataclass(frozen=True, slots=True)
class Condition:
    """When a rule applies: some exchange meets every condition that is set.

    The prompt contains one of `prompt`, one of `called` was called, `refused` is the verdict.
    """

    prompt: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    refused: bool | None = None


@dataclass(frozen=True, slots=True)
class TraceRule:
    """A named check, when it applies, and to what."""

    name: str
    check: RuleCheck
    scope: RuleScope = RuleScope.SESSION
    when: Condition = Condition()


def call_once(tool: str) -> Formula:
    """Return the formula, over calls, of a tool that is called exactly once."""
    called = Atom("call", tool)
    # `WeakNext`: the call may be the last.
    return And(eventually(called), globally(implies(called, WeakNext(globally(Not(called))))))


def call_before(first: str, then: str) -> Formula:
    """Return the formula, over calls, of one tool that is called before another may be; holds where neither is."""
    return weak_until(Not(Atom("call", then)), And(Atom("call", first), Not(Atom("call", then))))


def followed_up(trigger: Atom, answer: Atom, within: int | None) -> Formula:
    """Return the formula, over exchanges, of an answer in a later exchange after each trigger, within so many of them."""
    # `Next` outside, so that an exchange cannot be the answer to its own trigger.
    if within is None:
        return globally(implies(trigger, Next(eventually(answer))))
    near: Formula = Constant(value=False)
    for _ in range(within):
        near = Next(Or(answer, near))
    return globally(implies(trigger, near))
