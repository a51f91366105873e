"""The way from the dialect to Cedar, and back to the user's own text.

Some of the texts are written to make a rule vanish, or to take the process down with Cedar's parser.
"""

from __future__ import annotations

import re
import subprocess
import sys

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import PolicyError
from demur.model.claim import Effect, Phase
from demur.policy.cedar import MAX_CHARS, PolicySource, TokenKind, Translation, policy_spans, tokens_of, translate
from demur.policy.gate import Ask, PolicyGate, load_gate

KEPT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
COMMENTS = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12).map(
    lambda text: f"// 0.8 @annotation {text}\n"
)
STRINGS = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs"]), max_size=12).map(
    lambda text: f'"0.5 // {text} \\" @annotation"'
)
CODE = st.sampled_from([*"()[]{};->7é\n\t", "0.8", "12.3456", "&&", "context.claims.x", "when"])
ANNOTATIONS = st.sampled_from(['@annotation("decision", "deny")', '@id("0.8")', '@annotation ( "reason" , "// 0.5" )'])
TEXTS = st.lists(st.one_of(COMMENTS, STRINGS, CODE, ANNOTATIONS), max_size=14).map(" ".join)
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


def translated(text: str) -> Translation:
    return translate(PolicySource("t.cedar", text))


def gate_of(text: str) -> PolicyGate:
    return load_gate([PolicySource("t.cedar", text)])


@pytest.mark.parametrize(
    ("written", "cedar"),
    [
        ('@annotation("decision", "deny") forbid', '@decision("deny") forbid'),
        ("x > 0.8", 'x > decimal("0.8")'),
        ("x > -0.8", 'x > decimal("-0.8")'),
        ("x - 0.8", 'x - decimal("0.8")'),
        ("if a then -0.5 else 0.5", 'if a then decimal("-0.5") else decimal("0.5")'),
        ('x == "0.8" // 0.8', 'x == "0.8" // 0.8'),
        ('@annotation("decision") x > 3', '@annotation("decision") x > 3'),
        ('x.greaterThan(decimal("0.8"))', 'x.greaterThan(decimal("0.8"))'),
    ],
)
def test_the_two_forms_become_cedar_and_cedar_stays(written: str, cedar: str) -> None:
    """Annotations with two strings and numbers with a point are rewritten, everything else stands as it was."""
    assert translated(written).text == cedar


@given(TEXTS)
def test_strings_and_comments_stay(text: str) -> None:
    """Every comment, and every string but an annotation's key, stands in the result unchanged and in order."""
    kept = [piece for piece in KEPT.findall(text) if piece not in ('"decision"', '"reason"')]
    result = [piece for piece in KEPT.findall(translated(text).text) if not re.fullmatch(r'"-?\d+\.\d{1,4}"', piece)]
    assert result == [piece for piece in kept if not re.fullmatch(r'"-?\d+\.\d{1,4}"', piece)]


@given(TEXTS)
def test_offsets_lead_back(text: str) -> None:
    """An offset leads to the same character of the user's text, or to the start of the piece that was rewritten."""
    result = translated(text)
    back = [result.original(offset) for offset in range(len(result.text) + 1)]
    assert back == sorted(back)
    assert back[-1] == len(text)
    for token in tokens_of(PolicySource("t", result.text)):
        at = result.original(token.start)
        rewritten = text[at : at + 11].startswith(("annotation", "-")) or text[at : at + 1].isdigit()
        assert text.startswith(token.text, at) or rewritten


@given(TEXTS)
def test_translating_twice_changes_nothing(text: str) -> None:
    """The result is Cedar already: it is its own translation."""
    once = translated(text).text
    assert translated(once).text == once


@given(TEXTS)
def test_tokens_and_gaps_are_the_text(text: str) -> None:
    """The tokens stand where they say, in order, with nothing but space and comments between them."""
    done = 0
    for token in tokens_of(PolicySource("t", text)):
        assert text[token.start : token.end] == token.text
        assert not re.sub(r"//[^\n]*|\s+", "", text[done : token.start])
        done = token.end
    assert not re.sub(r"//[^\n]*|\s+", "", text[done:])


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the pass raise anything but an error with a place."""
    place = (1, 1)
    try:
        translated(text)
    except PolicyError as error:
        place = (error.line or 0, error.column or 0)
    assert min(place) >= 1


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("a >\n  0.80001", 2, 3, "has 5 digits after the point"),
        ('x == decimal("0.12345")', 1, 14, "has 5 digits after the point"),
        ('x == decimal("8")', 1, 14, "is no number"),
        ("x > 1e3", 1, 5, "is no number"),
        ("x > 922337203685477.5808", 1, 5, "too large"),
        ("x > .5", 1, 5, "`.5` is no number"),
        ('\n "open', 2, 2, "does not end"),
        ("x == 'a'", 1, 6, "single quote"),
        ('@annotation("a b", "c")', 1, 2, "no known form"),
        ('@annotation("a", b)', 1, 2, "no known form"),
    ],
)
def test_an_error_points_at_the_users_text(text: str, line: int, column: int, said: str) -> None:
    """What cannot be meant is refused with line and column, counted from 1."""
    with pytest.raises(PolicyError) as caught:
        translated(text)
    assert (caught.value.line, caught.value.column, caught.value.source) == (line, column, "t.cedar")
    assert said in str(caught.value)


def test_policies_end_at_a_semicolon_outside_brackets() -> None:
    """A `;` inside a string, a comment or brackets ends nothing; what follows the last one is a policy of its own."""
    source = PolicySource("t", 'a (";" // ;\n [;]) ; b ; c')
    spans = [[token.text for token in span if token.kind is TokenKind.WORD] for span in policy_spans(tokens_of(source))]
    assert spans == [["a"], ["b"], ["c"]]


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
    command, text = [sys.executable, "-c", LOADER], f"forbid {ANY} when {{ {condition} }};"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)  # noqa: S603 — our own code
    line, column, what = done.stdout.split(" ", 2)
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
