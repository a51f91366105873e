"""Which part of an answer is judged, and how it is built."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.detect.refusal.passage import items, quotations, sentence_starts, take_passage


@pytest.mark.parametrize(
    ("view", "text", "speakers"),
    [
        ("i cannot help.", "i cannot help.", 0),
        ("<s> i cannot help.", "i cannot help.", 0),
        ("# - i cannot help.", "i cannot help.", 0),
        ("[normal] i cannot help.\n[free] sure, here it is.", "sure, here it is.", 2),
        ("gpt: i cannot help.\ndan: sure, here it is, friend.", "sure, here it is, friend.", 2),
        ("gpt: i cannot help.\ngpt: i cannot help.", "i cannot help.\ngpt: i cannot help.", 1),
        ("note: ok", "note: ok", 1),
        ("...", "...", 0),
    ],
)
def test_the_last_voice_is_judged(view: str, text: str, speakers: int) -> None:
    """Artefacts are passed over, and of two voices the second counts."""
    passage = take_passage(view)
    assert (passage.text, passage.speakers) == (text, speakers)
    assert view[passage.start :].rstrip(" \n") == passage.text


def test_dense_scripts_count_more() -> None:
    """A text of Korean, Chinese or Japanese says in few characters what Latin script says in many."""
    assert take_passage("죄송하지만 도와드릴 수 없습니다").density > take_passage("é i cannot help").density == 1.0


def test_sentences_lists_and_quotations() -> None:
    """Full stops inside numbers end nothing, short cries join the next sentence, fences and quotes are found."""
    text = 'version 3.5 is out. no! the next one is longer\n- one\n2) two\n"a quoted line" and ```code```'
    assert [text[start:].split(maxsplit=1)[0] for start in sentence_starts(text)] == ["version", "no!", "-"]
    assert [text[at:].split(maxsplit=1)[0] for at in items(text)] == ["-", "2)"]
    assert [text[a:b] for a, b in quotations(text)] == ['"a quoted line"', "```code```"]
    assert items("1. a\n 2. b") == [0, 4]
    assert quotations("```open") == [(0, 7)]


@given(st.text(alphabet='a.!?"`\n 1-', max_size=80))
def test_structure_is_sorted_and_inside(text: str) -> None:
    """Starts grow, stay inside the text, and quotations do not overlap their own kind."""
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert all(0 <= start <= len(text) for start in [*starts, *items(text)])
    assert all(0 <= a < b <= len(text) for a, b in quotations(text))
