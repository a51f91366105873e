"""Phrases are found at the edges of words, in one text as in a buffer of many."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.detect.matcher import Matcher, Phrase, Screen

PHRASES = (Phrase("but i can"), Phrase("can", left=False), Phrase("할 수 없", left=False, right=False))
MATCHER = Matcher((*PHRASES, Phrase("no", right=False)))
VIEWS = st.text(alphabet="abcino 수없할é'.\n", max_size=30)


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ("but i can help", [(0, 0, 9), (1, 6, 9)]),
        ("but i can't", []),
        ("but i can'", [(0, 0, 9), (1, 6, 9)]),
        ("but i cane", []),
        ("xbut i can.", [(1, 7, 10)]),
        ("toucan", [(1, 3, 6)]),
        ("도와줄 할 수 없습니다", [(2, 4, 9)]),
        ("nobody", [(3, 0, 2)]),
        ("éno", []),
        ("", []),
    ],
)
def test_words_have_edges(view: str, found: list[tuple[int, int, int]]) -> None:
    """A phrase that asks for an edge is not found inside a longer word, nor before an apostrophe that goes on with it."""
    assert sorted(MATCHER.find(view)) == sorted(found)


@given(st.lists(VIEWS, min_size=1, max_size=5))
def test_a_buffer_gives_the_hits_of_its_texts(views: list[str]) -> None:
    """Scanning many texts at once finds in each what scanning it alone finds."""
    views = [view.replace("\n", " ") for view in views]
    buffer = ("\0" + "\0".join(views) + "\0\0").encode()
    found = [hit[:1] + hit[1:] for hit in zip(*(a.tolist() for a in MATCHER.find_in_buffer(buffer)), strict=True)]
    at, expected = 1, []
    for view in views:
        for index, start, end in MATCHER.find(view):
            first, last = len(view[:start].encode()), len(view[:end].encode())
            expected.append((index, at + first, at + last))
        at += len(view.encode()) + 1
    assert sorted(found) == sorted(expected)


def test_a_screen_never_says_no_wrongly() -> None:
    """A screen asks for no edges, so it passes whatever the phrases could be in."""
    screen = Screen(("can",))
    assert screen.passes("toucan")
    assert not screen.passes("cap")
    assert screen.positions(b"\0can toucan").tolist() == [1, 8]


def test_matchers_travel() -> None:
    """A matcher and a screen can be pickled, as cluster workers need it."""
    assert pickle.loads(pickle.dumps(MATCHER)).find("but i can") == MATCHER.find("but i can")  # noqa: S301 — our own bytes
    assert pickle.loads(pickle.dumps(Screen(("a",)))).passes("a")  # noqa: S301 — our own bytes
