"""Widths are counted, texts wrapped and shortened, and nothing controls a terminal."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from demur.report.columns import columns, padded, printable, shown_char, wrapped

ANY = st.text(st.characters(exclude_categories=()), max_size=120)


def test_widths() -> None:
    """Letters take one column, Korean two, marks and invisible signs none."""
    assert [columns(text) for text in ("abc", "죄송", "e\u0301", "a\u200bb", "")] == [3, 4, 1, 2, 0]
    assert padded("죄", 4) == "죄  "
    assert padded("12", 4, right=True) == "  12"


def test_shortened_names_keep_both_ends() -> None:
    """The beginning and the end of a long name stay, even where the middle is endless."""
    assert printable("abcdefghij", most=5) == "ab…ij"
    assert printable("start" + "x" * 10_000 + "end", most=9) == "star…xend"


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
