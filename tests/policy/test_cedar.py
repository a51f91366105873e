"""The way from the dialect to Cedar, and back to the user's own text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import PolicyError
from demur.policy.cedar import PolicySource, TokenKind, Translation, policy_spans, tokens_of, translate

KEPT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
COMMENTS = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12).map(
    lambda text: f"// 0.8 @annotation {text}\n"
)
STRINGS = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs"]), max_size=12).map(
    lambda text: f'"0.5 // {text} \\" @annotation"'
)
CODE = st.sampled_from(
    [
        "0.8",
        "12.3456",
        "7",
        ">",
        "&&",
        "context.claims.x",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ";",
        "when",
        "-",
        "é",
        "\n",
        "\t",
    ]
)
ANNOTATIONS = st.sampled_from(['@annotation("decision", "deny")', '@id("0.8")', '@annotation ( "reason" , "// 0.5" )'])
TEXTS = st.lists(st.one_of(COMMENTS, STRINGS, CODE, ANNOTATIONS), max_size=14).map(" ".join)


def translated(text: str) -> Translation:
    return translate(PolicySource("t.cedar", text))


def error_of(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        translated(text)
    return caught.value


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
    error = error_of(text)
    assert (error.line, error.column) == (line, column)
    assert said in str(error)
    assert error.source == "t.cedar"


def test_policies_end_at_a_semicolon_outside_brackets() -> None:
    """A `;` inside a string, a comment or brackets ends nothing; what follows the last one is a policy of its own."""
    source = PolicySource("t", 'a (";" // ;\n [;]) ; b ; c')
    spans = [[token.text for token in span if token.kind is TokenKind.WORD] for span in policy_spans(tokens_of(source))]
    assert spans == [["a"], ["b"], ["c"]]
