"""Rows that are read again: what is shown of flipped pairs and of refusals."""

from __future__ import annotations

import pytest
from tests.formats.examples import chat
from tests.runs.run_files import NO, YES

from demur.model.comparison import Pairing
from demur.model.estimate import Direction
from demur.model.run import Traced
from demur.model.verdict import Outcome
from demur.runs.examples import Excerpt, flip_of, phrase_counts, shown_key, still_flipped
from demur.wire.shapes import read_exchange

COUNTED = (Outcome.REFUSED, Outcome.FILTERED)


def row(text: str, line: int = 1, *, finish: str = "stop", **fields: str) -> Excerpt:
    return "run.jsonl", line, Traced(read_exchange(chat(text, finish=finish)), tuple(fields.items()))


def test_a_flip_shows_both_sides_where_they_stand() -> None:
    """A flip has the texts, verdicts and lines of both sides, and both values of a field that differs."""
    before, after = row(YES, 3, model="old", tier="1"), row(NO, 9, model="new", tier="1")
    fields = ("model", "tier", "none")
    flip = flip_of("q1", Direction.INCREASE, before=before, after=after, judge=None, fields=fields, prompt="capital?")
    assert (flip.baseline.text, flip.baseline.line, flip.candidate.line) == (YES, 3, 9)
    assert (flip.baseline.verdict.outcome, flip.candidate.verdict.outcome) == (Outcome.COMPLIED, Outcome.REFUSED)
    assert (flip.prompt, flip.fields) == ("capital?", (("model", "old → new"), ("tier", "1")))


@pytest.mark.parametrize(("texts", "direction"), [((YES, NO), Direction.INCREASE), ((NO, YES), Direction.DECREASE)])
def test_a_pair_that_no_longer_flips_is_told(texts: tuple[str, str], direction: Direction) -> None:
    """A pair flips in one direction alone; read again from a file that was rewritten, it does not."""
    before, after = map(row, texts)
    flip = flip_of("q", direction, before=before, after=after, judge=None, fields=())
    turned = flip_of("q", direction, before=after, after=before, judge=None, fields=())
    same = flip_of("q", direction, before=before, after=before, judge=None, fields=())
    assert [still_flipped(each, COUNTED) for each in (flip, turned, same)] == [True, False, False]


def test_phrases_are_counted_once_a_refusal() -> None:
    """Each refusal counts a phrase once, a provider's signal like a phrase, the most frequent first; of nothing there is nothing."""
    phrases, read = phrase_counts([row(f"{NO} {NO}"), row(NO), row("", finish="content_filter")], None)
    assert read == 3
    assert max(each.count for each in phrases) == phrases[0].count == 2
    assert [each.count for each in phrases if "content_filter" in each.phrase] == [1]
    assert phrase_counts([], None) == ((), 0)


def test_a_prompts_hash_is_shown_as_one() -> None:
    """A pair by prompt is called by the hash without its sign, any other by its key."""
    assert shown_key("-1", Pairing.PROMPT) == "prompt ffffffffffffffff"
    assert shown_key("-1", Pairing.ID) == "-1"
