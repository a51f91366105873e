"""Rules as users write them in YAML, read into the values of `rule`.

rules:
  - name: disclaimer
    must_include_text_each: ["this is not legal advice"]
    when: {prompt: ["contract", "lease"]}
    scope: exchange
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from demur.axes.rules.json_schema import json_schema_of
from demur.axes.rules.ltl import Atom, Not, Or, atoms_in, globally, joined, parse_formula
from demur.axes.rules.rule import (
    Condition,
    Consistent,
    ForbiddenText,
    IncludeText,
    MatchSchema,
    MaxTokens,
    MaxTurns,
    RuleScope,
    StepFormula,
    StopReason,
    ToolCallsOrder,
    TraceRule,
    call_before,
    call_once,
    followed_up,
)
from demur.errors import DemurError, EmptyInputError, InputError, ShapeError
from demur.io.yaml import parse_yaml, read_yaml, typed_yaml

if TYPE_CHECKING:
    from demur.axes.rules.rule import RuleCheck

__all__ = ["parse_rules", "read_rules"]

_HINT = "see docs/axes.md for the kinds of rules"
_MAX_WITHIN = 100  # each step nests the formula one deeper


class _When(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    prompt: str | tuple[str, ...] = ()
    called: str | tuple[str, ...] = ()
    refused: bool | None = None


class _Before(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    first: str
    then: str


class _Stop(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    reasons: tuple[str, ...]
    each: bool = False


class _Followup(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    after: dict[str, str]
    expect: dict[str, str]
    within: int | None = None


class _RuleRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    scope: RuleScope = RuleScope.SESSION
    when: _When = _When()
    must_include_text: str | tuple[str, ...] | None = None
    must_include_text_each: str | tuple[str, ...] | None = None
    forbidden_text: str | tuple[str, ...] | None = None
    must_call_before: _Before | None = None
    must_call_once: str | None = None
    no_call: str | tuple[str, ...] | None = None
    max_turns: int | None = None
    required_stop_reason: str | tuple[str, ...] | _Stop | None = None
    max_total_tokens: int | None = None
    must_match_json_schema: dict[str, Any] | bool | None = None
    must_followup: _Followup | None = None
    must_remain_consistent: str | None = None
    ltl: str | None = None


class _RulesFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    rules: tuple[dict[str, Any], ...]


_ABOUT = frozenset({"name", "scope", "when"})
_PARTS = ("first", "then", "reasons", "each", "after", "expect", "within")
_KINDS = tuple(name for name in _RuleRow.__struct_fields__ if name not in _ABOUT)


def read_rules(name: str) -> tuple[TraceRule, ...]:
    """Return the rules in a YAML file."""
    try:
        return _rules_in(read_yaml(name))
    except InputError as exc:
        raise exc if exc.source else exc.at(name, exc.line) from exc


def parse_rules(text: str) -> tuple[TraceRule, ...]:
    """Return the rules in a YAML text."""
    return _rules_in(parse_yaml(text))


def _rules_in(loaded: object) -> tuple[TraceRule, ...]:
    given = typed_yaml(loaded, _RulesFile, what="rules", hint=_HINT, known=("rules",)).rules
    if not given:
        raise EmptyInputError("no rule in it", hint="an empty list would pass anything")
    rows = []
    for number, one in enumerate(given, 1):
        name = one.get("name")
        called = f"rule `{name}`" if isinstance(name, str) else f"rule {number}"
        # An unknown key is an error and never ignored: half a rule would pass what it should not.
        known = (*_RuleRow.__struct_fields__, *_When.__struct_fields__, *_PARTS)
        rows.append(typed_yaml(one, _RuleRow, what=called, hint=_HINT, known=known))
    twice = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if twice:
        raise ShapeError(f"two rules are called `{twice[0]}`", hint="name each rule once")
    return tuple(_rule_of_row(row) for row in rows)


def _rule_of_row(row: _RuleRow) -> TraceRule:
    if not row.name.strip():
        raise ShapeError("a rule without a name", hint="the report tells rules apart by their names")
    kinds = [kind for kind in _KINDS if getattr(row, kind) is not None]
    if len(kinds) != 1:
        listed = " and ".join(f"`{kind}`" for kind in kinds) or "none"
        raise ShapeError(
            f"rule `{row.name}`: one kind is needed, there is {listed}", hint=f"one of {', '.join(_KINDS)}"
        )
    try:
        given = row.when
        prompt, called = (_some(texts) if texts != () else () for texts in (given.prompt, given.called))
        when = Condition(prompt, called, given.refused)
        # Patterns and formulas are compiled here, so that a run never meets a bad one.
        check = _rule_check(row, kinds[0])
    except InputError as exc:
        raise ShapeError(f"rule `{row.name}`: {exc.what}", hint=exc.hint) from exc
    except (DemurError, re.error) as exc:
        hint = exc.hint if isinstance(exc, DemurError) else "mend the pattern"
        raise ShapeError(f"rule `{row.name}`: {exc.what if isinstance(exc, DemurError) else exc}", hint=hint) from exc
    return TraceRule(row.name, check, row.scope, when)


def _rule_check(row: _RuleRow, kind: str) -> RuleCheck:  # noqa: PLR0911 - one per kind
    given: Any = getattr(row, kind)
    match kind:
        case "must_include_text" | "must_include_text_each":
            return IncludeText(_some(given), each=kind.endswith("each"))
        case "forbidden_text":
            return ForbiddenText(_some(given))
        case "max_turns" | "max_total_tokens":
            return MaxTurns(_positive(given)) if kind == "max_turns" else MaxTokens(_positive(given))
        case "required_stop_reason":
            stop = given if isinstance(given, _Stop) else _Stop(_rule_texts(given))
            return StopReason(_some(stop.reasons), each=stop.each)
        case "must_match_json_schema":
            return MatchSchema(json_schema_of(given))
        case "must_remain_consistent":
            return Consistent(re.compile(given).pattern)
        case _:
            return _order_check(kind, given)


def _order_check(kind: str, given: Any) -> RuleCheck:  # noqa: ANN401 - typed by its kind, above
    match kind:
        case "must_call_before":
            return ToolCallsOrder(
                call_before(given.first, given.then), f"calls `{given.then}` without `{given.first}` before"
            )
        case "must_call_once":
            return ToolCallsOrder(call_once(given), f"does not call `{given}` exactly once")
        case "no_call":
            tools = _some(given)
            called = joined([Atom("call", tool) for tool in tools], Or)
            return ToolCallsOrder(globally(Not(called)), f"calls {' or '.join(f'`{tool}`' for tool in tools)}")
        case "must_followup":
            within = None if given.within is None else _positive(given.within)
            if within is not None and within > _MAX_WITHIN:
                raise ShapeError(f"`within` is {within}", hint=f"at most {_MAX_WITHIN}, or leave it out for any later")
            formula = followed_up(_atom(given.after), _atom(given.expect), within)
            return StepFormula(formula, f"`{_atom_text(given.after)}` is not followed by `{_atom_text(given.expect)}`")
        case _:
            formula = parse_formula(given)
            for atom in atoms_in(formula):
                if atom.word == "matches":
                    re.compile(atom.argument)
            return StepFormula(formula, f"breaks `{given.strip()}`")


def _atom(given: dict[str, str]) -> Atom:
    if len(given) != 1 or (word := next(iter(given))) not in ("call", "prompt", "stop", "text"):
        raise ShapeError("one of `call`, `prompt`, `stop` or `text` is needed", hint="as in `after: {call: refund}`")
    return Atom(word, *_some(given[word]))


def _atom_text(given: dict[str, str]) -> str:
    return " ".join(f"{word} {argument}" for word, argument in given.items())


def _rule_texts(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _some(given: str | tuple[str, ...]) -> tuple[str, ...]:
    texts = _rule_texts(given)
    if not texts or not all(text.strip() for text in texts):
        raise ShapeError("an empty text is in every answer", hint="give at least one that is not empty")
    return texts


def _positive(given: int) -> int:
    if given < 1:
        raise ShapeError(f"`{given}` is no limit", hint="give a whole number from 1 on")
    return given
