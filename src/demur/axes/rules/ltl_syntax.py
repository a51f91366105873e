"""How is a temporal formula written? `G (call("refund") -> F text("receipt"))`.

From the loosest: `->` (to the right), `|`, `&`, then `U`, `W`, `R` (to the right), then `!`, `X`, `WX`, `F`, `G`. Words may stand for signs:
`not`, `and`, `or`. An atom is a word, with an argument in quotes or bare: `refused`, `call(refund)`, `text("not legal advice")`.

Laws: what is read in full is one formula or an error with the place; an atom that nobody can value is an error here, never false later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.axes.rules.ltl import (
    And,
    Atom,
    Constant,
    Formula,
    Next,
    Not,
    Or,
    Until,
    WeakNext,
    eventually,
    formula_size,
    globally,
    implies,
    joined,
    release,
    weak_until,
)
from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ATOMS", "parse_formula"]

ATOMS: Mapping[str, bool] = {
    "call": True,
    "matches": True,
    "prompt": True,
    "stop": True,
    "text": True,
    "called": False,
    "last": False,
    "refused": False,
}
"""The words that can be valued in an exchange, and whether they take an argument."""

_TOKEN = re.compile(r"""\s*(?:(->|&&?|\|\|?|[()!]|[A-Za-z_]+)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")
_WORDS = {"not": "!", "and": "&", "or": "|", "&&": "&", "||": "|"}
_BEFORE: Mapping[str, Callable[[Formula], Formula]] = {
    "!": Not,
    "X": Next,
    "WX": WeakNext,
    "F": eventually,
    "G": globally,
}
_BETWEEN: Mapping[str, Callable[[Formula, Formula], Formula]] = {"U": Until, "W": weak_until, "R": release}
_MOST_NESTED = 100
_MOST_CHARS = 50_000
_MOST_QUOTED = 120
_MOST_PARTS = 5_000


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool
    at: int


def parse_formula(text: str) -> Formula:
    """Return the formula in a text; raise `UsageError` with the place of what is wrong."""
    if len(text) > _MOST_CHARS:
        raise UsageError(f"a formula of {len(text):,} characters", hint=f"at most {_MOST_CHARS:,}: make several rules")
    reader = _Formulas(text)
    formula = reader.implication(0)
    reader.end()
    # `W` says its first part twice, so that nesting it doubles what there is to value.
    if formula_size(formula) > _MOST_PARTS:
        raise UsageError(f"a formula of more than {_MOST_PARTS:,} parts", hint="make several rules, or nest W less")
    return formula


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(text, at, "expected an atom or a sign")
        plain, double, single = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            found.append(_Token(re.sub(r"\\(.)", r"\1", quoted), quoted=True, at=match.start()))
        else:
            found.append(_Token(_WORDS.get(plain, plain), quoted=False, at=match.start()))
        at = match.end()
    return found


def _wrong(text: str, at: int, hint: str) -> UsageError:
    said = text.strip()
    shown = said if len(said) <= _MOST_QUOTED else f"{said[:_MOST_QUOTED]}…"
    return UsageError(f"`{shown}` is no temporal formula, from character {at + 1} on", hint=hint)


class _Formulas:
    """Reads one formula by descending from the loosest operator to the tightest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _tokens(text)[::-1]

    def end(self) -> None:
        if self._left:
            raise _wrong(self._text, self._left[-1].at, "the formula ends before this")

    def implication(self, depth: int) -> Formula:
        if depth > _MOST_NESTED:
            raise _wrong(self._text, 0, f"nest no deeper than {_MOST_NESTED}")
        left = self._joined("|", lambda: self._joined("&", lambda: self._temporal(depth), And), Or)
        return implies(left, self.implication(depth + 1)) if self._take("->") else left

    def _joined(self, sign: str, inner: Callable[[], Formula], join: Callable[[Formula, Formula], Formula]) -> Formula:
        parts = [inner()]
        while self._take(sign):
            parts.append(inner())
        return joined(parts, join)

    def _temporal(self, depth: int) -> Formula:
        left = self._unary(depth)
        for word, join in _BETWEEN.items():
            if self._take(word):
                return join(left, self._temporal(depth + 1))
        return left

    def _unary(self, depth: int) -> Formula:
        if depth > _MOST_NESTED:
            raise _wrong(self._text, 0, f"nest no deeper than {_MOST_NESTED}")
        for sign, wrap in _BEFORE.items():
            if self._take(sign):
                return wrap(self._unary(depth + 1))
        if self._take("("):
            inner = self.implication(depth + 1)
            self._need(")")
            return inner
        return self._atom()

    def _atom(self) -> Formula:
        token = self._next()
        if token.quoted or not token.text.isidentifier():
            raise _wrong(self._text, token.at, 'expected an atom such as `text("…")`')
        if token.text in ("true", "false"):
            return Constant(value=token.text == "true")
        if token.text not in ATOMS:
            raise _wrong(self._text, token.at, f"atoms are {', '.join(sorted(ATOMS))}")
        if not ATOMS[token.text]:
            return Atom(token.text)
        self._need("(")
        argument = self._next()
        self._need(")")
        if not argument.text or (not argument.quoted and not argument.text.isidentifier()):
            raise _wrong(self._text, argument.at, "give the argument in quotes")
        return Atom(token.text, argument.text)

    def _take(self, sign: str) -> bool:
        if self._left and not self._left[-1].quoted and self._left[-1].text == sign:
            self._left.pop()
            return True
        return False

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            at = self._left[-1].at if self._left else len(self._text)
            raise _wrong(self._text, at, f"expected `{sign}`")

    def _next(self) -> _Token:
        if not self._left:
            raise _wrong(self._text, len(self._text), "the formula stops short")
        return self._left.pop()
