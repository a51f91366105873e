"""Was a rule kept? A session's exchanges (or one exchange) held against a rule, and who broke it where.

Laws: a rule whose condition no exchange meets, or whose tokens nobody counted, does not apply: that is neither kept nor broken; a breach
names its exchange and says what happened; texts are compared `folded`, so that quotes, case and spaces never hide them. A session's
exchanges must come in their order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from demur.measure.json_schema import text_breach
from demur.measure.ltl import first_breach, holds_on
from demur.measure.rules import (
    Consistent,
    ForbiddenText,
    IncludeText,
    MatchSchema,
    MaxTokens,
    MaxTurns,
    StepFormula,
    StopReason,
    ToolCallsOrder,
)
from demur.measure.steps import folded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demur.measure.ltl import Atom, Formula
    from demur.measure.rules import Condition, RuleCheck, TraceRule
    from demur.measure.steps import Step

__all__ = ["RuleFinding", "RuleOutcome", "check_rule"]


class RuleOutcome(StrEnum):
    """What came of a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What came of a rule; where it was broken, the exchange to blame and what happened there."""

    outcome: RuleOutcome
    key: str = ""
    why: str = ""


_KEPT = RuleFinding(RuleOutcome.KEPT)
_NOT_APPLICABLE = RuleFinding(RuleOutcome.NOT_APPLICABLE)


def check_rule(rule: TraceRule, steps: Sequence[Step]) -> RuleFinding:
    """Return what came of a rule over some exchanges; over none it does not apply."""
    if not steps or not any(_meets_condition(rule.when, step) for step in steps):
        return _NOT_APPLICABLE
    return _held_against(rule.check, steps)


def _broken(step: Step, why: str) -> RuleFinding:
    return RuleFinding(RuleOutcome.BROKEN, step.key, why)


def _meets_condition(when: Condition, step: Step) -> bool:
    prompt = folded(step.prompt) if when.prompt else ""
    return (
        (not when.prompt or any(folded(text) in prompt for text in when.prompt))
        and (not when.called or any(call.name in when.called for call in step.calls))
        and (when.refused is None or when.refused == step.refused)
    )


def _held_against(check: RuleCheck, steps: Sequence[Step]) -> RuleFinding:  # noqa: PLR0911 - one a check
    match check:
        case IncludeText(texts, each):
            return _each(steps, lambda step: _lacks(step, texts)) if each else _included(texts, steps)
        case ForbiddenText(texts):
            return _each(steps, lambda step: _says_forbidden(step, texts))
        case ToolCallsOrder(formula, why):
            return _calls_kept(formula, why, steps)
        case StepFormula(formula, why):
            return _steps_kept(formula, why, steps)
        case MaxTurns(most):
            return _KEPT if len(steps) <= most else _broken(steps[most], f"turn {most + 1}, where {most} are allowed")
        case MaxTokens(most):
            return _few_tokens(most, steps)
        case StopReason(reasons, each):
            return _each(steps if each else steps[-1:], lambda step: _wrong_stop(step, reasons))
        case MatchSchema(schema):
            shown = [step for step in steps if step.text.strip() or not step.calls]
            return _each(shown, lambda step: text_breach(step.text, schema)) if shown else _NOT_APPLICABLE
        case Consistent(pattern):
            return _consistent(re.compile(pattern), steps)
        case _:
            assert_never(check)


def _each(steps: Sequence[Step], wrong: Callable[[Step], str | None]) -> RuleFinding:
    found = ((step, wrong(step)) for step in steps)
    return next((_broken(step, why) for step, why in found if why), _KEPT)


def _included(texts: tuple[str, ...], steps: Sequence[Step]) -> RuleFinding:
    said = [folded(step.text) for step in steps]
    lacking = next((text for text in texts if not any(folded(text) in one for one in said)), None)
    return _KEPT if lacking is None else _broken(steps[-1], f"nowhere says `{lacking}`")


def _lacks(step: Step, texts: tuple[str, ...]) -> str | None:
    said = folded(step.text)
    return next((f"does not say `{text}`" for text in texts if folded(text) not in said), None)


def _says_forbidden(step: Step, texts: tuple[str, ...]) -> str | None:
    said = folded(step.text)
    return next((f"says `{text}`" for text in texts if folded(text) in said), None)


def _wrong_stop(step: Step, reasons: tuple[str, ...]) -> str | None:
    return None if {step.stop, step.stop_raw} & set(reasons) else f"ended with `{step.stop_raw}`"


def _few_tokens(most: int, steps: Sequence[Step]) -> RuleFinding:
    total = 0
    for step in steps:
        if step.total_tokens is None:
            return _NOT_APPLICABLE
        total += step.total_tokens
        if total > most:
            return _broken(step, f"{total:,} tokens so far, where {most:,} are allowed")
    return _KEPT


def _consistent(pattern: re.Pattern[str], steps: Sequence[Step]) -> RuleFinding:
    first: tuple[str, str] | None = None
    for step in steps:
        for found in pattern.finditer(step.text):
            value = found[1] if pattern.groups else found[0]
            first = first or (folded(value or ""), step.key)
            if folded(value or "") != first[0]:
                return _broken(step, f"says `{value}` after `{first[0]}` in {first[1]}")
    return _KEPT if first else _NOT_APPLICABLE


def _calls_kept(formula: Formula, why: str, steps: Sequence[Step]) -> RuleFinding:
    made = [(call.name, step) for step in steps for call in step.calls]
    kept, at = _calls_verdict(formula, tuple(name for name, _ in made))
    return _KEPT if kept else _broken(made[at][1] if at is not None else steps[-1], why)


# Most sessions call the same tools in the same order.
@lru_cache(maxsize=4096)
def _calls_verdict(formula: Formula, names: tuple[str, ...]) -> tuple[bool, int | None]:
    """Return whether a formula holds over calls, and the call to blame where one is."""

    def truth(atom: Atom, i: int) -> bool:
        return names[i] == atom.argument

    kept = holds_on(formula, truth, len(names))
    return kept, None if kept else first_breach(formula, truth, len(names))


def _steps_kept(formula: Formula, why: str, steps: Sequence[Step]) -> RuleFinding:
    texts = [folded(step.text) for step in steps]
    prompts = [folded(step.prompt) for step in steps]

    def truth(atom: Atom, i: int) -> bool:  # noqa: PLR0911 - one a word
        match atom.word:
            case "text":
                return folded(atom.argument) in texts[i]
            case "prompt":
                return folded(atom.argument) in prompts[i]
            case "matches":
                return re.search(atom.argument, steps[i].text) is not None
            case "call":
                return any(call.name == atom.argument for call in steps[i].calls)
            case "stop":
                return atom.argument in (steps[i].stop, steps[i].stop_raw)
            case "called":
                return bool(steps[i].calls)
            case "last":
                return i == len(steps) - 1
            case _:
                return steps[i].refused

    if holds_on(formula, truth, len(steps)):
        return _KEPT
    at = first_breach(formula, truth, len(steps))
    return _broken(steps[at if at is not None else -1], why)
