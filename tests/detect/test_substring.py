"""The seeds' matching, kept with its faults, and spans that are right all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demur.detect.substring import contains_any, find_substrings


@given(st.text(), st.text(min_size=1, max_size=5))
def test_a_finding_is_there_iff_the_seed_hits(text: str, phrase: str) -> None:
    """A phrase is found exactly where the lower-cased text contains it."""
    found = find_substrings(text, [(phrase, "refusal")], pack="p")
    assert bool(found) == contains_any(text, [phrase]) == (phrase in text.lower())


@given(st.text(), st.text(alphabet="abcdé İß", min_size=1, max_size=4), st.text())
def test_a_span_holds_the_phrase(before: str, phrase: str, after: str) -> None:
    """Lower-casing the marked stretch gives a text that holds the phrase, even where lower-casing changes lengths."""
    lower = phrase.lower()
    text = before + phrase + after
    found = find_substrings(text, [(lower, "refusal")], pack="p")
    assert found
    assert all(lower in finding.span.of(text).lower() for finding in found)


def test_findings_come_in_the_order_of_the_pack() -> None:
    """The first phrase of the list is named first, as the seeds report it."""
    found = find_substrings("As an AI I cannot", [("i cannot", "r"), ("as an ai", "r")], pack="lucid")
    assert [f.rule for f in found] == ["lucid:i cannot", "lucid:as an ai"]
