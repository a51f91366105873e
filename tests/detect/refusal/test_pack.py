"""Classes are found by phrases and by pairs of phrases that touch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demur.detect.matcher import Phrase
from demur.detect.refusal.pack import Frame, Lexicon

# Group 0 and 1 are classes by themselves; 2 and 3 are halves of frames.
LEXICON = Lexicon(
    (
        Phrase("sorry"),
        Phrase("i cannot"),
        Phrase("i cannot"),
        Phrase(" help", left=False),
        Phrase(" help you", left=False),
    ),
    (0, 1, 2, 3, 3),
    (0, 1, -1, -1),
    (Frame(2, 3, 0), Frame(2, 3, 5)),
)


def test_a_pair_counts_where_its_halves_touch() -> None:
    """A left half directly before a right one is a hit of every class of the frame, from end to end."""
    assert LEXICON.find("i cannot help you") == [(0, 8, 1), (0, 13, 0), (0, 13, 5), (0, 17, 0), (0, 17, 5)]
    assert LEXICON.find("i cannot really help") == [(0, 8, 1)]
    assert LEXICON.find("help i cannot") == [(5, 13, 1)]


@given(
    st.lists(
        st.lists(st.sampled_from(["sorry", "i cannot", "help", "help you", "é", "."]), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_a_buffer_gives_the_hits_of_its_texts(parts: list[list[str]]) -> None:
    """Pairs and phrases of many texts at once are those of each alone."""
    views = [" ".join(words) for words in parts]
    buffer = ("\0" + "\0".join(views) + "\0\0").encode()
    found = list(zip(*(column.tolist() for column in LEXICON.find_in_buffer(buffer)), strict=True))
    at, expected = 1, []
    for view in views:
        expected += [(at + len(view[:s].encode()), at + len(view[:e].encode()), c) for s, e, c in LEXICON.find(view)]
        at += len(view.encode()) + 1
    assert found == expected
