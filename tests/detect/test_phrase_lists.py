"""Packs are data, and unsound data is refused with its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.detect.phrase_lists import (
    BUILTIN_PACKS,
    MatchMode,
    Target,
    builtin_pack,
    contains_any,
    find_substrings,
    parse_pack,
)
from demur.errors import PackError


@pytest.mark.parametrize(
    ("name", "target", "count"),
    [
        ("shadow", Target.RESPONSE, 11),
        ("lucid", Target.RESPONSE, 4),
        ("lucid", Target.PROMPT, 3),
        ("fakeai", Target.PROMPT, 88),
    ],
)
def test_seed_packs_hold_the_seeds_lists(name: str, target: Target, count: int) -> None:
    """Each seed's list is complete."""
    assert len(builtin_pack(name).phrases(target)) == count


@pytest.mark.parametrize("name", BUILTIN_PACKS)
def test_seed_packs_are_lower_case_substrings(name: str) -> None:
    """A substring pack is compared with lower-cased text, so a capital in it could never match."""
    pack = builtin_pack(name)
    assert pack.match is MatchMode.SUBSTRING
    assert all(p == p.lower() for target in Target for p, _ in pack.phrases(target))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "`my.toml` is not TOML"),
        ('name = "x"', "`my.toml` is not a pack: object missing required field `group`"),
        ('name = "x"\ngroup = []', "`my.toml` has an empty phrase or none at all"),
        ('name = "x"\n[[group]]\ntarget = "response"\ncategory = "c"\nphrases = [" "]', "has an empty phrase"),
        (
            'name = "x"\nmatch = "substring"\n[[group]]\ntarget = "response"\ncategory = "c"\nphrases = ["No Way"]',
            "has the phrase `No Way`; substring packs compare lower-cased text",
        ),
        ('name = "x"\n[[group]]\ntarget = "reply"\ncategory = "c"\nphrases = ["a"]', "invalid enum value 'reply'"),
        (
            'name = "x"\nmach = "words"\n[[group]]\ntarget = "response"\ncategory = "c"\nphrases = ["a"]',
            "unknown field `mach`",
        ),
    ],
)
def test_an_unsound_pack_is_refused(text: str, complaint: str) -> None:
    """The error names the file and what is wrong with it."""
    with pytest.raises(PackError) as caught:
        parse_pack(text, source="my.toml")
    assert complaint in str(caught.value)


def test_an_unknown_pack_is_refused_with_the_known_ones() -> None:
    """A misspelt name is answered with the names there are."""
    with pytest.raises(PackError, match="no pack is called `shadw`; choose shadow, lucid, fakeai"):
        builtin_pack("shadw")


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
