"""Does a finished sequence keep a temporal rule? Linear temporal logic on finite traces (De Giacomo and Vardi 2013).

A formula holds at a position of a trace. `Next` asks for a next position and its truth, `WeakNext` only for its truth should there be one;
`until` needs its goal to come, `weak_until` does not. Past the end no atom, no next and no goal is found, so that on an
empty trace F and X fail and G and WX hold.

Laws, on every trace but the empty one: ¬X φ = WX ¬φ, ¬F φ = G ¬φ, ¬(φ U ψ) = ¬φ R ¬ψ; F φ = φ or X F φ, G φ = φ and WX G φ, φ U ψ = ψ or (φ and X(φ U ψ)). One pass from the last
position to the first values every part of a formula once a position: time is formula times trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
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
    "release",
    "truth_along",
    "weak_until",
]


@dataclass(frozen=True, slots=True)
class Atom:
    """A thing that is so or not at a position, as `call("refund")`; `argument` is empty where the word says it all."""

    word: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false everywhere on the trace, and past its end."""

    value: bool


@dataclass(frozen=True, slots=True)
class Not:
    """Not so."""

    part: Formula


@dataclass(frozen=True, slots=True)
class And:
    """Both."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Or:
    """At least one."""

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
    """Return parts joined by an operator whose order does not matter, as a tree that is as flat as can be."""
    half = len(parts) // 2
    return join(joined(parts[:half], join), joined(parts[half:], join)) if half else parts[0]


def formula_size(formula: Formula) -> int:
    """Return how many parts a formula has, one that stands in several places counted in each."""
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
    known: list[list[bool]] = []
    for part, places in _schedule(formula):
        known.append(_truth_of(part, [known[place] for place in places], truth, length))
    return known[-1]


def first_breach(formula: Formula, truth: Callable[[Atom, int], bool], length: int) -> int | None:
    """Return the position to blame for a formula that fails; None where it is the whole trace.

    Of G that is where its part first fails, of U and W where what must hold first does not.
    """
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


# A rule is held against thousands of traces: what to value in which order is worked out once.
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


def _truth_of(  # noqa: PLR0911 - one a kind of formula
    formula: Formula, parts: list[list[bool]], truth: Callable[[Atom, int], bool], length: int
) -> list[bool]:
    match formula:
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
