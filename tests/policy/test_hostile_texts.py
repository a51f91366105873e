"""Texts that are written to make a rule vanish, or to take the process down with Cedar's parser."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import PolicyError
from demur.model.claim import Effect, Phase
from demur.policy.cedar import MAX_CHARS, PolicySource
from demur.policy.gate import Ask, PolicyGate, load_gate

ANY = "(principal, action, resource)"
NEVER = f"forbid {ANY} when {{ false }};\n"
LOADER = """
import sys
from demur.errors import PolicyError
from demur.policy.gate import load_gate
from demur.policy.cedar import PolicySource
try:
    load_gate([PolicySource("p.cedar", sys.stdin.read())])
except PolicyError as exc:
    print(exc.line, exc.column, exc.what)
"""


def gate_of(text: str) -> PolicyGate:
    return load_gate([PolicySource("p.cedar", text)])


def loaded_elsewhere(text: str) -> str:
    """Return what loading a text says, in a process of its own that may die of it."""
    command = [sys.executable, "-c", LOADER]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 — our own code
    assert done.returncode == 0, done.returncode
    return done.stdout.strip()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_comment_ends_where_cedar_ends_it(end: str) -> None:
    """A deny after a comment is a rule of the set, whichever line end Cedar takes stands between them."""
    gate = gate_of(f"{NEVER}// note{end}forbid {ANY};\n")
    assert len(gate.rules) == 2
    assert gate.decide(Ask(Phase.REQUEST)).effect is Effect.DENY


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_other_breaks_do_not_end_a_comment(mark: str) -> None:
    """What Cedar reads as part of a comment is no rule here either."""
    assert len(gate_of(f"{NEVER}// note{mark}forbid {ANY};\n").rules) == 1


@given(st.lists(st.sampled_from(["//", "\r", "\n", "\u2028", '"', "a", " ", f"forbid {ANY};", NEVER]), max_size=8))
def test_the_rules_are_those_that_cedar_finds(parts: list[str]) -> None:
    """Whatever comments, line ends and quotes stand between rules, a text that loads has as many as Cedar finds in it."""
    import cedarpy

    text = "".join(parts)
    try:
        gate = gate_of(text)
    except PolicyError:
        return
    assert len(gate.rules) == len(cedarpy.policies_to_pst(text).static_policies)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "condition",
    [
        "(" * 700 + "true" + ")" * 700,
        "[" * 1000 + "1" + "]" * 1000 + " == [1]",
        "{x: " * 1000 + "1" + "}" * 1000 + " == {}",
        " && ".join(["true"] * 5000),
        " || ".join(["true"] * 5000),
        "if true then " * 5000 + "true" + " else true" * 5000,
        "if true then true else " * 5000 + "true",
        "!" * 5000 + "true",
        "-" * 5000 + "1 == 1",
        "+".join(["1"] * 5000) + " == 1",
        "context" + ".a" * 5000 + " == 1",
        "context" + '["a"]' * 5000 + " == 1",
        "!(" * 700 + "true" + ")" * 700,
        "(}" * 5000,
    ],
    ids=["(", "[", "{", "&&", "||", "then", "else", "!", "-", "+", ".", "[]", "!(", "(}"],
)
def test_nesting_without_end_is_refused_and_survived(condition: str) -> None:
    """An expression that would use up the parser's stack is an error at its place, and no end of the process."""
    said = loaded_elsewhere(f"forbid {ANY} when {{ {condition} }};")
    line, column, what = said.split(" ", 2)
    assert line == "1"
    assert int(column) >= 1
    assert "too" in what


def test_the_place_of_the_nesting_is_named() -> None:
    """The error points at the bracket that is one too many, in the user's own text."""
    with pytest.raises(PolicyError) as caught:
        gate_of(f"{NEVER}forbid {ANY} when {{ 0.5 == 0.5 && {'(' * 700}true{')' * 700} }};")
    assert caught.value.line == 2
    assert caught.value.column is not None
    assert 100 < caught.value.column < 300


@pytest.mark.heavy
def test_what_is_long_but_flat_loads() -> None:
    """Long sets, many clauses, many rules and ninety joined predicates are no nesting."""
    wide = "[" + ", ".join(map(str, range(2000))) + "].contains(3)"
    gate_of(f"forbid {ANY} when {{ {wide} }};")
    gate_of(f"forbid {ANY} " + "when { context.claims.a > 0.5 } " * 400 + ";")
    gate_of(f"forbid {ANY} when {{ " + " && ".join(["context.claims.a > 0.5"] * 90) + " };")
    assert len(gate_of(NEVER * 400).rules) == 400


def test_a_text_without_end_is_refused() -> None:
    """A text above the limit is refused before it is taken apart."""
    with pytest.raises(PolicyError, match="1,000,000 characters"):
        gate_of(NEVER + " " * MAX_CHARS)


@pytest.mark.heavy
def test_a_slip_in_a_long_rule_is_found() -> None:
    """The place of an error is named in a rule of thousands of pieces too."""
    text = f"forbid {ANY} when {{ [{', '.join(['1'] * 2000)}].contains(1) ! }};"
    with pytest.raises(PolicyError) as caught:
        gate_of(text)
    assert caught.value.column == text.index("!") + 1


@pytest.mark.parametrize(
    "condition",
    [
        "[context.claims.toxic_content].contains(1)",
        "[context.claims.toxic_content].containsAny([1])",
        "[context.claims.toxic_content].containsAll([1])",
        "[1].containsAny([context.claims.toxic_content])",
        "[context.claims.toxic_content] == [1]",
        "[[context.claims.toxic_content]] == [[1]]",
        "context.claims.toxic_content == {x: 1}.x",
        "context.claims.toxic_content == 1",
        "context.claims.toxic_content.greaterThanOrEqual(1)",
        "[1, 2].contains(context.claims.toxic_content)",
    ],
)
def test_whole_numbers_are_scores_wherever_they_stand(condition: str) -> None:
    """A whole number beside a claim is the score of that value, in sets too: 1 is met at 1.0 and not below."""
    gate = gate_of(f"forbid {ANY} when {{ {condition} }};")
    decided = [gate.decide(Ask(Phase.REQUEST, {"toxic_content": score})) for score in (1.0, 0.9)]
    assert [decision.effect for decision in decided] == [Effect.DENY, Effect.ALLOW]
    assert not any(decision.errors for decision in decided)


@pytest.mark.parametrize(
    ("condition", "what"),
    [
        ("{x: context.claims.toxic_content}.x == 1", "record"),
        ("{x: context.claims.toxic_content} == {x: 1}", "record"),
        ("[{x: context.claims.toxic_content}].contains({x: 1})", "record"),
        ("[context.claims.toxic_content, context.tries].contains(1)", "whole number"),
        ("context.claims.toxic_content == -(1)", "calculation"),
        ("[context.claims.toxic_content].contains(2 - 1)", "calculation"),
    ],
)
def test_what_could_be_a_score_or_not_is_refused(condition: str, what: str) -> None:
    """Where a whole number could silently miss a score, the rule does not load."""
    with pytest.raises(PolicyError, match=what):
        gate_of(f"forbid {ANY} when {{ {condition} }};")


def test_whole_numbers_without_a_claim_stay_whole() -> None:
    """An attribute of the context that is a whole number is compared as one."""
    gate = gate_of(f"forbid {ANY} when {{ [context.tries].contains(3) }};")
    assert gate.decide(Ask(Phase.REQUEST, extras={"tries": 3})).effect is Effect.DENY
