"""Evidence is underlined where it stands, at any width, in any script."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from demur.model.text import Span
from demur.report.evidence import underline


def columns(line: str) -> int:
    wide = sum(1 for c in line if unicodedata.east_asian_width(c) in ("W", "F"))
    return len(line) + wide


def test_carets_stand_below_the_evidence() -> None:
    """The marked words and the carets share their columns."""
    text = "I'm sorry, but I can't help with that."
    assert underline(text, [Span(15, 37)]) == [text, " " * 15 + "^" * 22]


def test_wide_characters_take_two_carets() -> None:
    """A Korean syllable is two columns wide, and so is its mark."""
    assert underline("죄송 x", [Span(0, 2)]) == ["죄송 x", "^^^^"]


def test_evidence_that_wraps_is_marked_on_both_lines() -> None:
    """A span over a line break is underlined on each line."""
    assert underline("aaa bbb ccc", [Span(4, 11)], width=7) == ["aaa bbb", "    ^^^", "ccc", "^^^"]


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
    assert all(columns(line) <= max(width, 3) for line in lines)
    if whole and text.isascii() and text.isprintable():
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
