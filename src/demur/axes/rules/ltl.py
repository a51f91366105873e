"""Linear temporal logic on finite traces (De Giacomo and Vardi 2013): whether a finished sequence keeps a temporal rule.

On every trace but the empty one: ¬X φ = WX ¬φ, ¬F φ = G ¬φ, ¬(φ U ψ) = ¬φ R ¬ψ; F φ = φ or X F φ, G φ = φ and WX G φ,
φ U ψ = ψ or (φ and X(φ U ψ)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from demur.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "ATOMS",
    "And",
    "Atom",
    "Constant",
    "Formula",
    "Next",
    "Not",
    "Or",
    "Until",
    "WeakNext",
    "atoms_in",
    "eventually",
    "first_breach",
    "formula_size",
    "globally",
    "holds_on",
    "implies",
    "joined",
    "parse_formula",
    "release",
    "truth_along",
    "weak_until",
]


@dataclass(frozen=True, slots=True)
class Atom:
    """A proposition that holds or not at a position, as `call("refund")`; some words take no argument."""

    word: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false everywhere on the trace, and past its end."""

    value: bool


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Formula


@dataclass(frozen=True, slots=True)
class And:
    """Both parts hold."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Next:
    """There is a next position, and there it holds."""

    part: Formula


@dataclass(frozen=True, slots=True)
class WeakNext:
    """This is the last position, or it holds at the next."""

    part: Formula


@dataclass(frozen=True, slots=True)
class Until:
    """The goal comes, and until then it holds."""

    hold: Formula
    goal: Formula


Formula = Atom | Constant | Not | And | Or | Next | WeakNext | Until


def eventually(part: Formula) -> Formula:
    """Return F φ: it holds now or later."""
    return Until(Constant(value=True), part)


def globally(part: Formula) -> Formula:
    """Return G φ: it holds from now to the end."""
    return Not(eventually(Not(part)))


def implies(left: Formula, right: Formula) -> Formula:
    """Return φ → ψ."""
    return Or(Not(left), right)


def release(free: Formula, hold: Formula) -> Formula:
    """Return φ R ψ: ψ holds up to and with the position where φ does, or to the end."""
    return Not(Until(Not(free), Not(hold)))


def weak_until(hold: Formula, goal: Formula) -> Formula:
    """Return φ W ψ: φ holds until ψ, or to the end."""
    return Or(Until(hold, goal), globally(hold))


def joined(parts: Sequence[Formula], join: Callable[[Formula, Formula], Formula]) -> Formula:
    """Return parts joined by an associative operator, as a balanced tree."""
    # Balanced, since hashing and comparing formulas recurses.
    half = len(parts) // 2
    return join(joined(parts[:half], join), joined(parts[half:], join)) if half else parts[0]


def formula_size(formula: Formula) -> int:
    """Return how many parts a formula has; one that occurs several times counts each time."""
    # Without recursion: a chain of a thousand `X` is a thousand deep.
    sizes: dict[int, int] = {}
    waiting = [formula]
    while waiting:
        part = waiting[-1]
        missing = [inner for inner in _formula_parts(part) if id(inner) not in sizes]
        if missing:
            waiting += missing
            continue
        sizes[id(waiting.pop())] = 1 + sum(sizes[id(inner)] for inner in _formula_parts(part))
    return sizes[id(formula)]


@lru_cache(maxsize=256)
def atoms_in(formula: Formula) -> tuple[Atom, ...]:
    """Return the atoms of a formula, each once."""
    return tuple(part for part, _ in _schedule(formula) if isinstance(part, Atom))


def holds_on(formula: Formula, truth: Callable[[Atom, int], bool], length: int) -> bool:
    """Return whether a formula holds at the start of a trace of `length` positions; `truth` values its atoms."""
    return truth_along(formula, truth, length)[0]


def truth_along(formula: Formula, truth: Callable[[Atom, int], bool], length: int) -> list[bool]:
    """Return the truth of a formula at each position, and last past the end."""
    # Each part is valued once per position, from the last to the first: time is formula times trace.
    known: list[list[bool]] = []
    for part, places in _schedule(formula):
        known.append(_truth_of(part, [known[place] for place in places], truth, length))
    return known[-1]


def first_breach(formula: Formula, truth: Callable[[Atom, int], bool], length: int) -> int | None:
    """Return the position to blame for a formula that fails; None where it is the whole trace."""
    # Of G that is where its part first fails, of U and W where what must hold first does not.
    match formula:
        case And(left, right):
            failing = left if not holds_on(left, truth, length) else right
            return first_breach(failing, truth, length)
        case Not(Until(Constant(value=True), part)):
            along = truth_along(part, truth, length)[:length]
            return along.index(True) if True in along else None
        case Or(Until(hold, _) as strong, Not(Until(Constant(value=True), Not(always)))) if hold == always:
            return first_breach(strong, truth, length)
        case Until(hold, _):
            along = truth_along(hold, truth, length)[:length]
            return along.index(False) if False in along else None
        case _:
            return None


# A rule is checked on thousands of traces, so the order of evaluation is worked out once.
@lru_cache(maxsize=256)
def _schedule(formula: Formula) -> tuple[tuple[Formula, tuple[int, ...]], ...]:
    """Return the parts of a formula, each once and after its own parts, with the places of those."""
    places: dict[Formula, int] = {}
    ordered: list[tuple[Formula, tuple[int, ...]]] = []
    waiting = [formula]
    while waiting:
        part = waiting[-1]
        missing = [inner for inner in _formula_parts(part) if inner not in places]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if part not in places:
            places[part] = len(ordered)
            ordered.append((part, tuple(places[inner] for inner in _formula_parts(part))))
    return tuple(ordered)


def _formula_parts(formula: Formula) -> tuple[Formula, ...]:
    match formula:
        case Atom() | Constant():
            return ()
        case Not(part) | Next(part) | WeakNext(part):
            return (part,)
        case And(left, right) | Or(left, right) | Until(left, right):
            return (left, right)
        case _:
            assert_never(formula)


def _truth_of(  # noqa: PLR0911 - one per kind of formula
    formula: Formula, parts: list[list[bool]], truth: Callable[[Atom, int], bool], length: int
) -> list[bool]:
    match formula:
        # Past the end no atom, no next and no goal is found, so that on an empty trace F and X fail and G and WX hold.
        case Atom():
            return [truth(formula, i) for i in range(length)] + [False]
        case Constant(value):
            return [value] * (length + 1)
        case Not():
            return [not now for now in parts[0]]
        case And():
            return [a and b for a, b in zip(*parts, strict=True)]
        case Or():
            return [a or b for a, b in zip(*parts, strict=True)]
        case Next() | WeakNext():
            # Past the end there is no next: the strong one fails there and at the last position, the weak one holds.
            end = isinstance(formula, WeakNext)
            return [*parts[0][1:length], *([end] * (1 if length else 0)), end]
        case Until():
            found = [False] * (length + 1)
            for i in range(length - 1, -1, -1):
                found[i] = parts[1][i] or (parts[0][i] and found[i + 1])
            return found
        case _:
            assert_never(formula)


# The words that can be valued in an exchange, and whether they take an argument.
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
_MAX_NESTED = 100  # the parser recurses
_MAX_CHARS = 50_000
_MAX_QUOTED = 120
_MAX_PARTS = 5_000


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    quoted: bool
    at: int


def parse_formula(text: str) -> Formula:
    """Return the formula in a text; raise `UsageError` with the place of what is wrong."""
    if len(text) > _MAX_CHARS:
        raise UsageError(f"a formula of {len(text):,} characters", hint=f"at most {_MAX_CHARS:,}: make several rules")
    reader = _Formulas(text)
    formula = reader.implication(0)
    reader.end()
    # `W` contains its first part twice, so nesting it doubles the work.
    if formula_size(formula) > _MAX_PARTS:
        raise UsageError(f"a formula of more than {_MAX_PARTS:,} parts", hint="make several rules, or nest W less")
    return formula


def _wrong(text: str, at: int, hint: str) -> UsageError:
    bare = text.strip()
    quoted = bare if len(bare) <= _MAX_QUOTED else f"{bare[:_MAX_QUOTED]}…"
    return UsageError(f"`{quoted}` is no temporal formula, from character {at + 1} on", hint=hint)


class _Formulas:
    """Reads one formula by descending from the loosest operator to the tightest."""

    def __init__(self, text: str) -> None:
        self._text = text
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise _wrong(text, at, "expected an atom or a sign")
            plain, double, single = match.groups()
            quoted = double if double is not None else single
            if quoted is not None:
                tokens.append(_Token(re.sub(r"\\(.)", r"\1", quoted), quoted=True, at=match.start()))
            else:
                tokens.append(_Token(_WORDS.get(plain, plain), quoted=False, at=match.start()))
            at = match.end()
        # Reversed, so that the next token is popped from the end.
        self._left = tokens[::-1]

    def end(self) -> None:
        if self._left:
            raise _wrong(self._text, self._left[-1].at, "the formula ends before this")

    def implication(self, depth: int) -> Formula:
        if depth > _MAX_NESTED:
            raise _wrong(self._text, 0, f"nest no deeper than {_MAX_NESTED}")
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
        if depth > _MAX_NESTED:
            raise _wrong(self._text, 0, f"nest no deeper than {_MAX_NESTED}")
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
