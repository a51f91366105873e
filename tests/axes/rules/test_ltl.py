"""Temporal logic on finite traces: against its definition, and by its laws."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.axes.rules import ltl
from demur.axes.rules.ltl import And, Atom, Constant, Formula, Next, Not, Or, Until, WeakNext, eventually, globally
from demur.errors import UsageError

Trace: TypeAlias = list[frozenset[str]]
P, Q = Atom("p"), Atom("q")
TRACES = st.lists(st.sets(st.sampled_from("pq")).map(frozenset), min_size=1, max_size=6)
LEAVES = st.sampled_from([P, Q, Constant(value=True), Constant(value=False)])
FORMULAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Next, inner),
        st.builds(WeakNext, inner),
        st.builds(And, inner, inner),
        st.builds(Or, inner, inner),
        st.builds(Until, inner, inner),
    ),
    max_leaves=6,
)


def on(trace: Trace, formula: Formula) -> bool:
    return ltl.holds_on(formula, lambda atom, i: atom.word in trace[i], len(trace))


def defined(trace: Trace, i: int, formula: Formula) -> bool:  # noqa: PLR0911 - one a kind
    """The definition, position by position."""
    last = len(trace) - 1
    match formula:
        case Atom(word):
            return word in trace[i]
        case Constant(value):
            return value
        case Not(part):
            return not defined(trace, i, part)
        case And(left, right):
            return defined(trace, i, left) and defined(trace, i, right)
        case Or(left, right):
            return defined(trace, i, left) or defined(trace, i, right)
        case Next(part):
            return i < last and defined(trace, i + 1, part)
        case WeakNext(part):
            return i == last or defined(trace, i + 1, part)
        case Until(hold, goal):
            return any(
                defined(trace, j, goal) and all(defined(trace, k, hold) for k in range(i, j))
                for j in range(i, last + 1)
            )


@given(TRACES, FORMULAS)
def test_one_pass_is_the_definition(trace: Trace, formula: Formula) -> None:
    """The truth at every position is that of the definition."""
    along = ltl.truth_along(formula, lambda atom, i: atom.word in trace[i], len(trace))
    assert along[:-1] == [defined(trace, i, formula) for i in range(len(trace))]


@given(TRACES, FORMULAS, FORMULAS)
def test_dualities(trace: Trace, a: Formula, b: Formula) -> None:
    """Each operator is the negation of its dual on negations."""
    assert on(trace, Not(Next(a))) == on(trace, WeakNext(Not(a)))
    assert on(trace, Not(eventually(a))) == on(trace, globally(Not(a)))
    assert on(trace, Not(Until(a, b))) == on(trace, ltl.release(Not(a), Not(b)))
    assert on(trace, Not(And(a, b))) == on(trace, Or(Not(a), Not(b)))


@given(TRACES, FORMULAS, FORMULAS)
def test_expansions(trace: Trace, a: Formula, b: Formula) -> None:
    """What holds_on from now on holds_on now and from the next position on."""
    assert on(trace, eventually(a)) == on(trace, Or(a, Next(eventually(a))))
    assert on(trace, globally(a)) == on(trace, And(a, WeakNext(globally(a))))
    assert on(trace, Until(a, b)) == on(trace, Or(b, And(a, Next(Until(a, b)))))
    assert on(trace, ltl.release(a, b)) == on(trace, And(b, Or(a, WeakNext(ltl.release(a, b)))))
    assert on(trace, ltl.weak_until(a, b)) == on(trace, Or(b, And(a, WeakNext(ltl.weak_until(a, b)))))


@given(TRACES, FORMULAS)
def test_repetition_adds_nothing(trace: Trace, a: Formula) -> None:
    """F and G are idempotent, and implication is truth-functional."""
    assert on(trace, eventually(eventually(a))) == on(trace, eventually(a))
    assert on(trace, globally(globally(a))) == on(trace, globally(a))
    assert on(trace, ltl.implies(a, a))


@pytest.mark.parametrize(
    ("formula", "so"),
    [
        (eventually(P), False),
        (globally(P), True),
        (Next(P), False),
        (WeakNext(P), True),
        (P, False),
        (Until(P, Q), False),
    ],
)
def test_the_empty_trace(formula: Formula, so: bool) -> None:  # noqa: FBT001 - a table
    """On nothing, what must come fails and what must stay holds_on."""
    assert on([], formula) is so


def test_a_breach_has_its_place() -> None:
    """The first position at which G's part fails is to blame, or what must hold until; for F it is the whole."""
    trace = [frozenset("p"), frozenset("pq"), frozenset("q")]
    truth = lambda atom, i: atom.word in trace[i]  # noqa: E731 - as short as it gets
    assert ltl.first_breach(globally(P), truth, 3) == 2
    assert ltl.first_breach(And(eventually(P), globally(Not(Q))), truth, 3) == 1
    assert ltl.first_breach(eventually(Atom("r")), truth, 3) is None
    assert (
        ltl.first_breach(ltl.weak_until(P, Atom("r")), truth, 3) == ltl.first_breach(Until(P, Atom("r")), truth, 3) == 2
    )


@given(TRACES, FORMULAS, FORMULAS)
def test_a_broken_until_is_broken_for_good_at_its_breach(trace: Trace, a: Formula, b: Formula) -> None:
    """Up to the position that is blamed the goal has not come, and what must hold does not hold there."""
    if on(trace, ltl.weak_until(a, b)):
        return
    truth = lambda atom, i: atom.word in trace[i]  # noqa: E731 - as short as it gets
    at = ltl.first_breach(ltl.weak_until(a, b), truth, len(trace))
    assert at is not None
    assert not defined(trace, at, a)
    assert not any(defined(trace, i, b) for i in range(at + 1))


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
        ("refused -> called -> refused", ltl.implies(R, ltl.implies(C, R))),
        ("G (called -> F refused)", globally(ltl.implies(C, eventually(R)))),
        ("X WX refused", Next(WeakNext(R))),
        ("refused U called & refused", And(Until(R, C), R)),
        ("refused W called", ltl.weak_until(R, C)),
        ("refused R called", ltl.release(R, C)),
        ('F text("not legal advice")', eventually(T)),
        ("F text('not legal advice')", eventually(T)),
        ("call(refund)", Atom("call", "refund")),
        (r'text("say \"no\"")', Atom("text", 'say "no"')),
        ("((refused))", R),
    ],
)
def test_reading(text: str, formula: Formula) -> None:
    """Signs bind as the page says, and words may stand for them."""
    assert ltl.parse_formula(text) == formula


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
        ltl.parse_formula(text)


@pytest.mark.heavy
def test_long_formulas_are_read_flat() -> None:
    """A thousand alternatives are one formula that can be valued; order within them does not matter."""
    text = " | ".join(f"call(t{chr(97 + i % 26)}{'x' * (i // 26)})" for i in range(1000))
    formula = ltl.parse_formula(text)
    names = {atom.argument for atom in ltl.atoms_in(formula)}
    assert len(names) == 1000
    assert ltl.holds_on(formula, lambda atom, _: atom.argument == "tz", 1)
    assert not ltl.holds_on(formula, lambda *_: False, 1)


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
        ltl.parse_formula(text)
    assert len(str(caught.value)) < 300
