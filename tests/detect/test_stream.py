"""An answer in pieces is the same answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur import Outcome, TextStream, check

NO = "Thank you for asking. I’m sorry, but I can’t help with that request."
YES = "Here is the recipe: two eggs, a cup of flour, and a pinch of salt."


@pytest.mark.parametrize("text", [NO, YES, "죄송하지만 도와드릴 수 없습니다."])
@given(data=st.data())
def test_pieces_give_the_verdict_of_the_whole(text: str, data: st.DataObject) -> None:
    """Cut anywhere, any number of times, the verdict at the end is that of the whole text."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    stream = TextStream()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        stream.feed(text[start:end])
    assert stream.verdict() == check(text)
    assert stream.feed("") or check(text).outcome is Outcome.COMPLIED


def test_a_stream_is_judged_at_any_time() -> None:
    """Before anything has come the text is empty; a refusal shows as soon as its words are there."""
    stream = TextStream()
    assert stream.verdict().outcome is Outcome.EMPTY
    assert not stream.feed("Well,")
    assert stream.feed(" I can't help you with that.")
    assert stream.verdict().outcome is Outcome.REFUSED
