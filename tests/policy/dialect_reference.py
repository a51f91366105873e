"""The dialect, said a second time in plain Python: what the gate must decide, worked out without Cedar.

A condition is a small tree that writes itself as policy text and evaluates itself over raw claim values. Nothing here
imports the gate's own code.
"""

from __future__ import annotations

import fnmatch
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Final

ABSENT: Final = object()
SIGNS: Final[dict[str, Callable[[Decimal, Decimal], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
METHODS: Final = {">": "greaterThan", ">=": "greaterThanOrEqual", "<": "lessThan", "<=": "lessThanOrEqual"}
ORDER: Final = ("allow", "log", "warn", "redact", "review", "deny")


class BrokenError(Exception):
    """A predicate that has no answer."""


class UnsoundError(Exception):
    """A value that its declared type does not allow."""


def sound(value: Any, kind: str) -> Any:
    """Return a claim's value as the dialect sees it, ABSENT for none, or raise `UnsoundError`."""
    if value is ABSENT or value is None:
        return ABSENT
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "category" and isinstance(value, str):
        return value
    if kind == "category_list" and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return frozenset(value)
    if kind == "score_normalized" and isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsoundError
        if abs(value) > 2:
            raise UnsoundError
        score = Decimal(str(value)).quantize(Decimal("0.0001"), ROUND_HALF_EVEN)
        if 0 <= score <= 1:
            return score
    raise UnsoundError


@dataclass(frozen=True)
class Condition:
    """Something that holds or does not: its policy text, the claims that it reads, and whether it holds over them.

    `holds` takes the claims and the answer of a predicate over an absent one.
    """

    text: str
    reads: frozenset[str]
    holds: Callable[[dict[str, Any], bool], bool]


def predicate(claim: str, form: str, meaning: Callable[[Any], bool]) -> Condition:
    """Put one claim into a form with `{}` for it; `meaning` is what that form says about a value."""

    def holds(claims: dict[str, Any], absent: bool) -> bool:  # noqa: FBT001 — as `Condition.holds` is called
        value = claims.get(claim, ABSENT)
        return absent if value is ABSENT else meaning(value)

    return Condition(form.format(f"context.claims.{claim}"), frozenset({claim}), holds)


def has(claim: str) -> Condition:
    """Ask whether a claim is there, which has an answer either way."""
    there = f"context.claims has {claim}"
    return Condition(there, frozenset({claim}), lambda claims, _: claims.get(claim, ABSENT) is not ABSENT)


def negated(inner: Condition, *, permit: bool = False) -> Condition:
    """Say the contrary; in a permit an absent claim must not help, so its side turns."""
    return Condition(
        f"!({inner.text})", inner.reads, lambda claims, absent: not inner.holds(claims, absent is not permit)
    )


def joined(left: Condition, sign: str, right: Condition) -> Condition:
    """Join two conditions with && or ||, the second asked only where the first leaves it open."""

    def holds(claims: dict[str, Any], absent: bool) -> bool:  # noqa: FBT001 — as `Condition.holds` is called
        first = left.holds(claims, absent)
        return first if first is (sign == "||") else right.holds(claims, absent)

    return Condition(f"({left.text}) {sign} ({right.text})", left.reads | right.reads, holds)


def _of(kind: type, meaning: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def checked(value: Any) -> bool:
        if not isinstance(value, kind):
            raise BrokenError
        return meaning(value)

    return checked


def _ordered(sign: str, number: str) -> Callable[[Any], bool]:
    return _of(Decimal, lambda value: SIGNS[sign](value, Decimal(number)))


def _equal(wanted: Any) -> Callable[[Any], bool]:
    return lambda value: type(value) is type(wanted) and bool(value == wanted)


def _other(wanted: Any) -> Callable[[Any], bool]:
    return lambda value: not _equal(wanted)(value)


def operators(claim: str) -> list[Condition]:
    """Every operator of the documented dialect, over one claim."""
    found: list[Condition] = []
    for number in ("0.8", "1"):
        for sign in SIGNS:
            found.append(predicate(claim, f"{{}} {sign} {number}", _ordered(sign, number)))
            mirrored = sign.translate(str.maketrans("<>", "><"))
            found.append(predicate(claim, f"{number} {mirrored} {{}}", _ordered(sign, number)))
        found.append(predicate(claim, f"{{}} == {number}", _equal(Decimal(number))))
        found.append(predicate(claim, f"{{}} != {number}", _other(Decimal(number))))
    for sign, method in METHODS.items():
        found.append(predicate(claim, f'{{}}.{method}(decimal("0.8"))', _ordered(sign, "0.8")))
    found += [
        predicate(claim, "{}", _of(bool, bool)),
        predicate(claim, "{} == true", _equal(wanted=True)),
        predicate(claim, "{} != false", _other(wanted=False)),
        predicate(claim, '{} == "text"', _equal("text")),
        predicate(claim, '{} != "text"', _other("text")),
        predicate(claim, '{} like "te*"', _of(str, lambda v: fnmatch.fnmatchcase(v, "te*"))),
        predicate(claim, '{}.contains("a")', _of(frozenset, lambda v: "a" in v)),
        predicate(claim, '{}.containsAny(["a", "b"])', _of(frozenset, lambda v: bool(v & {"a", "b"}))),
        predicate(claim, '{}.containsAll(["a", "b"])', _of(frozenset, lambda v: v >= {"a", "b"})),
        predicate(claim, "{}.isEmpty()", _of(frozenset, lambda v: not v)),
        predicate(claim, '["text", "b"].contains({})', lambda v: isinstance(v, str) and v in ("text", "b")),
        predicate(claim, "[0.8, 1].contains({})", lambda v: isinstance(v, Decimal) and v in (Decimal("0.8"), 1)),
        has(claim),
    ]
    return found


@dataclass(frozen=True)
class ReferenceRule:
    """A rule of the dialect: its effect, the phase of its scope or None for every one, its condition."""

    effect: str
    condition: Condition
    phase: str | None = None

    def text(self) -> str:
        """Return it as policy text."""
        scope = f'action == Action::"{self.phase}"' if self.phase else "action"
        head = "permit" if self.effect == "allow" else f'@decision("{self.effect}")\nforbid'
        return f"{head} (principal, {scope}, resource)\nwhen {{ {self.condition.text} }};\n"

    def fires(self, claims: dict[str, Any], unsound: set[str], phase: str) -> bool:
        """Return whether the rule fires."""
        if self.phase not in (None, phase):
            return False
        permit = self.effect == "allow"
        if unsound & self.condition.reads:
            return not permit
        try:
            return self.condition.holds(claims, False)  # noqa: FBT003 — as above
        except BrokenError:
            return not permit


def decide(rules: list[ReferenceRule], values: dict[str, tuple[str, Any]], *, phase: str, default: str) -> str:
    """Return the word of the decision over claims given as name → (type, value)."""
    claims: dict[str, Any] = {}
    unsound: set[str] = set()
    for name, (kind, value) in values.items():
        try:
            claims[name] = sound(value, kind)
        except UnsoundError:
            unsound.add(name)
    fired = [rule.effect for rule in rules if rule.fires(claims, unsound, phase)]
    if default == "deny" and "allow" not in fired:
        return "deny"
    return max(fired, key=ORDER.index, default="allow")
