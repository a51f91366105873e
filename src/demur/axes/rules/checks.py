"""Whether a session's exchanges (or one exchange) kept a rule, and which exchange broke it.

It takes two steps, so that no text is kept for the second: `sights_of` looks at one exchange and notes all that a rule can ever
ask of it; `check_sights` checks the notes of a session, in order, against the rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, assert_never

from demur.axes.rules.json_schema import text_breach
from demur.axes.rules.ltl import Atom, atoms_in, first_breach, holds_on
from demur.axes.rules.rule import (
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
from demur.axes.steps import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.axes.rules.ltl import Formula
    from demur.axes.rules.rule import RuleCheck, TraceRule
    from demur.axes.steps import Step

__all__ = ["RuleFinding", "RuleOutcome", "RuleSight", "check_rule", "check_sights", "sights_of"]

_MAX_QUOTED_CHARS = 120  # sights are kept for every exchange of a run, so each stays small


class RuleOutcome(StrEnum):
    """The outcome of a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The outcome of a rule; where it was broken, the index of the exchange to blame and what happened there."""

    outcome: RuleOutcome
    at: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleSight:
    """What one rule sees in one exchange.

    `meets` is its condition, `wrong` what breaks it here whatever the others do, `asked` whether the exchange has anything to look at.
    `flags` are the texts or atoms that are so, `words` the tools called or the values found, both in their order.
    """

    meets: bool
    wrong: str | None = None
    asked: bool = True
    flags: tuple[bool, ...] = ()
    words: tuple[str, ...] = ()
    tokens: int | None = None


_KEPT = RuleFinding(RuleOutcome.KEPT)
_NOT_APPLICABLE = RuleFinding(RuleOutcome.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class _Looked:
    """An exchange with its texts folded once for all rules."""

    step: Step
    text: str
    prompt: str


def check_rule(rule: TraceRule, steps: Sequence[Step]) -> RuleFinding:
    """Return the outcome of a rule over some exchanges; over none it does not apply."""
    return check_sights(rule, [sights_of((rule,), step)[0] for step in steps])


def sights_of(rules: Sequence[TraceRule], step: Step) -> tuple[RuleSight, ...]:
    """Return what each rule sees in an exchange."""
    if not rules:
        return ()
    looked = _Looked(step, folded(step.text), folded(step.prompt))
    return tuple(_sight(rule, looked) for rule in rules)


def check_sights(rule: TraceRule, sights: Sequence[RuleSight]) -> RuleFinding:  # noqa: PLR0911 - one per kind of check
    """Return the outcome of a rule over what it saw in some exchanges, in order; over none it does not apply."""
    # Neither kept nor broken: a rule that nothing called for must not raise the share of kept ones.
    if not any(sight.meets for sight in sights):
        return _NOT_APPLICABLE
    match rule.check:
        case IncludeText(texts, each=False):
            included = [any(sight.flags[i] for sight in sights) for i in range(len(texts))]
            lacking = next((text for text, so in zip(texts, included, strict=True) if not so), None)
            return _KEPT if lacking is None else _broken(len(sights) - 1, f"nowhere says `{lacking}`")
        case ToolCallsOrder(formula, why):
            places = [at for at, sight in enumerate(sights) for _ in sight.words]
            kept, blamed = _calls_verdict(formula, tuple(word for sight in sights for word in sight.words))
            return _KEPT if kept else _broken(places[blamed] if blamed is not None else len(sights) - 1, why)
        case StepFormula(formula, why):
            return _steps_kept(formula, why, sights)
        case MaxTurns(most):
            return _KEPT if len(sights) <= most else _broken(most, f"turn {most + 1}, where {most} are allowed")
        case MaxTokens(most):
            return _few_tokens(most, sights)
        case StopReason(each=False):
            last = sights[-1].wrong
            return _KEPT if last is None else _broken(len(sights) - 1, last)
        case Consistent():
            return _consistent(sights)
        case IncludeText() | ForbiddenText() | StopReason() | MatchSchema():
            broken = next((_broken(at, s.wrong) for at, s in enumerate(sights) if s.wrong is not None), _KEPT)
            return broken if any(sight.asked for sight in sights) else _NOT_APPLICABLE
        case _:
            assert_never(rule.check)


def _broken(at: int, why: str) -> RuleFinding:
    return RuleFinding(RuleOutcome.BROKEN, at, why)


def _sight(rule: TraceRule, looked: _Looked) -> RuleSight:  # noqa: PLR0911 - one a kind of check
    # Texts are compared folded, so that quotes, case and spaces never hide them.
    meets = (
        (not rule.when.prompt or any(_folded_once(text) in looked.prompt for text in rule.when.prompt))
        and (not rule.when.called or any(call.name in rule.when.called for call in looked.step.calls))
        and (rule.when.refused is None or rule.when.refused == looked.step.refused)
    )
    step = looked.step
    match rule.check:
        case IncludeText(texts, each=False):
            return RuleSight(meets, flags=tuple(_folded_once(text) in looked.text for text in texts))
        case ToolCallsOrder():
            return RuleSight(meets, words=tuple(call.name for call in step.calls))
        case StepFormula(formula):
            return RuleSight(meets, flags=tuple(_atom_holds(atom, looked) for atom in atoms_in(formula)))
        case MaxTokens():
            return RuleSight(meets, tokens=step.total_tokens)
        case Consistent(pattern):
            return RuleSight(meets, words=_values_found(re.compile(pattern), step.text))
        case MatchSchema():
            asked = bool(step.text.strip()) or not step.calls
            return RuleSight(meets, _wrong_by_itself(rule.check, looked) if asked else None, asked)
        case _:
            return RuleSight(meets, _wrong_by_itself(rule.check, looked))


def _wrong_by_itself(check: RuleCheck, looked: _Looked) -> str | None:
    match check:
        case IncludeText(texts):
            return next((f"does not say `{text}`" for text in texts if _folded_once(text) not in looked.text), None)
        case ForbiddenText(texts):
            return next((f"says `{text}`" for text in texts if _folded_once(text) in looked.text), None)
        case StopReason(reasons):
            raw = looked.step.stop_raw
            quoted = raw if len(raw) <= _MAX_QUOTED_CHARS else f"{raw[:_MAX_QUOTED_CHARS]}…"
            return None if {looked.step.stop, raw} & set(reasons) else f"ended with `{quoted}`"
        case MatchSchema(schema):
            return text_breach(looked.step.text, schema)
        case _:
            return None


def _atom_holds(atom: Atom, looked: _Looked) -> bool:  # noqa: PLR0911 - one a word
    step = looked.step
    match atom.word:
        case "text":
            return _folded_once(atom.argument) in looked.text
        case "prompt":
            return _folded_once(atom.argument) in looked.prompt
        case "matches":
            return re.search(atom.argument, step.text) is not None
        case "call":
            return any(call.name == atom.argument for call in step.calls)
        case "stop":
            return atom.argument in (step.stop, step.stop_raw)
        case "called":
            return bool(step.calls)
        case _:
            # `last` depends on the position, not on the exchange, and is valued where positions are known.
            return step.refused


def _values_found(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    """Return the first value that a pattern finds, and the first other one: two are enough to see a contradiction."""
    first: str | None = None
    for found in pattern.finditer(text):
        # The group that took part in the match; an empty value says nothing.
        value = folded(found[found.lastindex or 0])
        if not value:
            continue
        if len(value) > _MAX_QUOTED_CHARS:
            # The hash keeps two long values apart that begin alike.
            value = f"{value[:_MAX_QUOTED_CHARS]}… {sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        if first is None:
            first = value
        elif value != first:
            return first, value
    return () if first is None else (first,)


# The texts of a rule are the same for every exchange.
_folded_once = lru_cache(maxsize=4096)(folded.__wrapped__)


def _few_tokens(most: int, sights: Sequence[RuleSight]) -> RuleFinding:
    # A sum without the exchanges that nobody counted would pass any limit.
    if any(sight.tokens is None for sight in sights):
        return _NOT_APPLICABLE
    total = 0
    for at, sight in enumerate(sights):
        total += sight.tokens or 0
        if total > most:
            return _broken(at, f"{total:,} tokens so far, where {most:,} are allowed")
    return _KEPT


def _consistent(sights: Sequence[RuleSight]) -> RuleFinding:
    found = [(at, value) for at, sight in enumerate(sights) for value in sight.words]
    if not found:
        return _NOT_APPLICABLE
    other = next(((at, value) for at, value in found if value != found[0][1]), None)
    return (
        _KEPT
        if other is None
        else _broken(other[0], f"says `{other[1]}` after `{found[0][1]}` in turn {found[0][0] + 1}")
    )


# Most sessions call the same tools in the same order.
@lru_cache(maxsize=4096)
def _calls_verdict(formula: Formula, names: tuple[str, ...]) -> tuple[bool, int | None]:
    """Return whether a formula holds over calls, and the call to blame where one is."""

    def truth(atom: Atom, i: int) -> bool:
        return names[i] == atom.argument

    kept = holds_on(formula, truth, len(names))
    return kept, None if kept else first_breach(formula, truth, len(names))


def _steps_kept(formula: Formula, why: str, sights: Sequence[RuleSight]) -> RuleFinding:
    column = {atom: i for i, atom in enumerate(atoms_in(formula))}

    def truth(atom: Atom, i: int) -> bool:
        return i == len(sights) - 1 if atom.word == "last" else sights[i].flags[column[atom]]

    if holds_on(formula, truth, len(sights)):
        return _KEPT
    at = first_breach(formula, truth, len(sights))
    return _broken(at if at is not None else len(sights) - 1, why)
