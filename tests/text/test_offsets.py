"""Rewriting a text and finding the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.model.verdict import NormalText, Span
from demur.text.offsets import compose, rewrite


def test_edits_are_made_and_mapped() -> None:
    """Inside a replacement every character maps to the whole stretch, outside to its own place."""
    done = rewrite("abcdef", [(1, 3, "XYZ"), (4, 5, "")])
    assert done.text == "aXYZdf"
    assert done.starts is not None
    assert done.ends is not None
    assert list(done.starts) == [0, 1, 1, 1, 3, 5]
    assert list(done.ends) == [1, 3, 3, 3, 4, 6]


def test_offsets_are_a_sequence() -> None:
    """Offsets answer negative indices and slices, and refuse what is beyond them."""
    starts = rewrite("abc", [(0, 1, "xx")]).starts
    assert starts is not None
    assert starts[-1] == 2
    assert starts[1:] == (0, 1, 2)
    with pytest.raises(IndexError):
        starts[4]


PLACES = st.lists(st.integers(0, 30), max_size=8, unique=True).map(sorted)


@given(st.text(min_size=31, max_size=40), PLACES, st.lists(st.text(max_size=3), min_size=4, max_size=4))
def test_composing_maps_is_mapping_twice(text: str, places: list[int], new: list[str]) -> None:
    """Two rewritings in turn map as their composition does."""
    pairs = list(zip(places[::2], places[1::2], strict=False))
    first = rewrite(text, [(start, end, word) for (start, end), word in zip(pairs, new, strict=False)])
    outer = NormalText(text, first.text, first.starts, first.ends)
    second = rewrite(first.text, [(0, 1, "ab")] if first.text else [])
    inner = NormalText(first.text, second.text, second.starts, second.ends)
    both = compose(outer, inner)
    assert both.original == text
    for at in range(len(both.text)):
        middle = inner.span(at, at + 1)
        assert both.span(at, at + 1) == outer.span(middle.start, middle.end)


def test_composing_with_a_text_that_did_not_move() -> None:
    """A rewriting without a map lends the other's map unchanged."""
    moved = rewrite("a", [(0, 1, "bc")])
    outer = NormalText("a", moved.text, moved.starts, moved.ends)
    assert compose(outer, NormalText("bc", "BC")).span(1, 2) == Span(0, 1)
    assert compose(NormalText("x", "a"), NormalText("a", "bc", moved.starts, moved.ends)).span(1, 2) == Span(0, 1)
