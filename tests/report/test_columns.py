"""Widths are counted, texts wrapped, shortened and underlined, and nothing controls a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.model.verdict import Span
from demur.report.columns import columns, padded, printable, shown_char, underline, wrapped

ANY = st.text(st.characters(exclude_categories=()), max_size=120)


def east_asian_columns(line: str) -> int:
    return len(line) + sum(1 for c in line if unicodedata.east_asian_width(c) in ("W", "F"))


def test_widths() -> None:
    """Letters take one column, Korean two, marks and invisible signs none."""
    assert [columns(text) for text in ("abc", "죄송", "e\u0301", "a\u200bb", "")] == [3, 4, 1, 2, 0]
    assert padded("죄", 4) == "죄  "
    assert padded("12", 4, right=True) == "  12"


@given(ANY, st.integers(4, 40))
def test_names_and_lines_fit(text: str, width: int) -> None:
    """Whatever the text, a name and each wrapped line take at most the width and hold no control character."""
    for shown in (printable(text, most=width), *wrapped(text, width)):
        assert columns(shown) <= width
        assert {unicodedata.category(c) for c in shown}.isdisjoint({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


@given(st.characters(exclude_categories=["Cf"]))
def test_a_sign_takes_the_columns_counted_for_it(char: str) -> None:
    """What is shown for a character is as wide as the character was counted."""
    assert columns(shown_char(char)) == columns(char)


def test_words_are_kept_whole_where_they_fit() -> None:
    """Lines break at spaces, and only a word wider than the line is broken."""
    assert list(wrapped("one two three", 7)) == ["one two", "three"]
    assert list(wrapped("abcdefgh ij", 5)) == ["abcde", "fgh", "ij"]
    assert list(wrapped(" \n ", 5)) == []


@pytest.mark.parametrize(
    ("text", "span", "lines"),
    [
        ("But I can't.", Span(4, 11), ["But I", "    ^", "can't.", "^^^^^"]),
        ("죄송 x", Span(0, 2), ["죄송 x", "^^^^"]),
        ("aaa bbb ccc", Span(4, 11), ["aaa bbb", "    ^^^", "ccc", "^^^"]),
    ],
)
def test_carets_stand_below_the_evidence(text: str, span: Span, lines: list[str]) -> None:
    """Words and carets share their columns: two for a Korean syllable, and on each line that the evidence wraps over."""
    assert underline(text, [span], width=7) == lines


def test_long_stretches_without_evidence_are_left_out() -> None:
    """Only the neighbourhood of the evidence is shown, and the gaps are said."""
    text = "\n".join(f"line {i}" for i in range(20))
    at = text.index("line 10")
    assert underline(text, [Span(at, at + 7)]) == ["[…]", "line 9", "line 10", "^^^^^^^", "line 11", "[…]"]
    assert len(underline(text, [Span(at, at + 7)], whole=True)) == 21


def test_a_text_without_evidence_shows_its_beginning() -> None:
    """The first three lines stand for an answer that complied."""
    assert underline("a\nb\nc\nd", []) == ["a", "b", "c", "[…]"]


def test_marks_do_not_make_a_row_endless() -> None:
    """Half a million marks on one letter are not printed in one row."""
    lines = underline("a" + "\u0301" * 500_000 + " no", [Span(500_002, 500_004)], width=80)
    assert sum(map(len, lines)) < 5000


def test_control_characters_never_reach_the_terminal() -> None:
    """An escape sequence in a model's answer cannot colour or move the reader's screen."""
    assert underline("a\x1b[31mb\tc\u202ed", []) == ["a\ufffd[31mb cd"]


@given(st.text(max_size=300), st.integers(2, 40), st.booleans())
def test_no_line_is_wider_than_asked(text: str, width: int, whole: bool) -> None:  # noqa: FBT001 — drawn by hypothesis
    """Lines wrap and are never cut: each fits the width, and the visible characters are all there."""
    lines = underline(text, [], width=max(width, 3), whole=whole)
    assert all(east_asian_columns(line) <= max(width, 3) for line in lines)
    if whole and text.isascii() and text.isprintable():
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 9, "short"),
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghij", 5, "ab…ij"),
        ("start" + "x" * 10_000 + "end", 9, "star…xend"),
        ("abcdefghijk", 10, "abcde…hijk"),
        ("a\nb\x1b", 9, "a\ufffdb\ufffd"),
        ("한국어한국어", 7, "한…국어"),
    ],
)
def test_names_are_shortened_in_the_middle(text: str, most: int, shown: str) -> None:
    """A name keeps both its ends and never takes more columns than it may."""
    assert printable(text, most=most) == shown
    assert columns(shown) <= most
