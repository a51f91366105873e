"""Formulas as people write them."""

from __future__ import annotations

import pytest

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
    atoms_in,
    eventually,
    globally,
    holds_on,
    implies,
    release,
    weak_until,
)
from demur.axes.rules.ltl_syntax import parse_formula
from demur.errors import UsageError

R, C, T = Atom("refused"), Atom("called"), Atom("text", "not legal advice")


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("refused", R),
        ("true & false", And(Constant(value=True), Constant(value=False))),
        ("!refused", Not(R)),
        ("!!refused", Not(Not(R))),
        ("not refused and called", And(Not(R), C)),
        ("refused || called && refused", Or(R, And(C, R))),
        ("refused -> called -> refused", implies(R, implies(C, R))),
        ("G (called -> F refused)", globally(implies(C, eventually(R)))),
        ("X WX refused", Next(WeakNext(R))),
        ("refused U called & refused", And(Until(R, C), R)),
        ("refused W called", weak_until(R, C)),
        ("refused R called", release(R, C)),
        ('F text("not legal advice")', eventually(T)),
        ("F text('not legal advice')", eventually(T)),
        ("call(refund)", Atom("call", "refund")),
        (r'text("say \"no\"")', Atom("text", 'say "no"')),
        ("((refused))", R),
    ],
)
def test_reading(text: str, formula: Formula) -> None:
    """Signs bind as the page says, and words may stand for them."""
    assert parse_formula(text) == formula


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "from character 1"),
        ("refused called", "from character 8"),
        ("(refused", "from character 9"),
        ("G", "from character 2"),
        ("refuzed", "atoms are"),
        ("call", "expected `\\(`"),
        ('call("")', "in quotes"),
        ("call(->)", "in quotes"),
        ('"refused"', "expected an atom"),
        ("refused # called", "from character 8"),
        ("!" * 300 + "refused", "nest no deeper"),
        ("(" * 300 + "refused", "nest no deeper"),
    ],
)
def test_what_is_no_formula_says_where(text: str, where: str) -> None:
    """A slip of the pen is an error with its place, never a formula that passes anything."""
    with pytest.raises(UsageError, match=where):
        parse_formula(text)


def test_long_formulas_are_read_flat() -> None:
    """A thousand alternatives are one formula that can be valued; order within them does not matter."""
    text = " | ".join(f"call(t{chr(97 + i % 26)}{'x' * (i // 26)})" for i in range(1000))
    formula = parse_formula(text)
    names = {atom.argument for atom in atoms_in(formula)}
    assert len(names) == 1000
    assert holds_on(formula, lambda atom, _: atom.argument == "tz", 1)
    assert not holds_on(formula, lambda *_: False, 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (" & ".join(["called"] * 3000), "more than 5,000 parts"),
        ("(" * 40 + "called" + " W refused)" * 40, "more than 5,000 parts"),
        (" " * 60_000 + "called", "a formula of 60,006 characters"),
        ("(" * 5000 + "called" + ")" * 5000, "^`\\(+…` is no temporal formula"),
    ],
)
def test_huge_formulas_are_refused(text: str, what: str) -> None:
    """What would take for ever to value is an error, at once and in few words."""
    with pytest.raises(UsageError, match=what) as caught:
        parse_formula(text)
    assert len(str(caught.value)) < 300
