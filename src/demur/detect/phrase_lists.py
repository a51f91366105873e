"""Phrase packs: TOML files of phrases that indicate a refusal or an attack, and how they are matched.

name = "my-product"
match = "words"                # or "substring"
stops = ["content_filter"]     # stop reasons that are abstentions by themselves

[[group]]
target = "response"            # or "prompt"
category = "refusal"
phrases = ["that is outside my remit"]
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from demur.detect.matcher import Matcher, Phrase
from demur.errors import PackError
from demur.model.verdict import Finding, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.model.verdict import NormalText

__all__ = [
    "BUILTIN_PACKS",
    "MatchMode",
    "Pack",
    "PhraseGroup",
    "Target",
    "builtin_pack",
    "contains_any",
    "find_substrings",
    "find_words",
    "parse_pack",
    "words_matcher",
]

BUILTIN_PACKS = ("shadow", "lucid", "fakeai")


class MatchMode(StrEnum):
    """How a pack's phrases are looked for."""

    # Lower-cased containment and nothing normalised: exactly what Shadow, Lucid and FakeAI do.
    SUBSTRING = "substring"
    # Whole words of the normalised text.
    WORDS = "words"


class Target(StrEnum):
    """Which side of an exchange a group of phrases is about."""

    RESPONSE = "response"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class PhraseGroup:
    """Phrases of one category for one side of an exchange."""

    target: Target
    category: str
    phrases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pack:
    """A named set of phrase groups and the stop reasons that count by themselves."""

    name: str
    match: MatchMode
    groups: tuple[PhraseGroup, ...]
    stops: tuple[str, ...] = ()

    def phrases(self, target: Target) -> tuple[tuple[str, str], ...]:
        """Return (phrase, category) for one side, in the order of the file."""
        return tuple((p, g.category) for g in self.groups if g.target is target for p in g.phrases)


class _GroupFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    target: Target
    category: str
    phrases: tuple[str, ...]


class _PackFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    group: tuple[_GroupFile, ...]
    match: MatchMode = MatchMode.WORDS
    stops: tuple[str, ...] = ()


def parse_pack(text: str, *, source: str) -> Pack:
    """Return the pack in a TOML text; raise `PackError` naming `source` where it is not sound."""
    try:
        read = msgspec.convert(tomllib.loads(text), _PackFile)
    except tomllib.TOMLDecodeError as exc:
        raise PackError(f"`{source}` is not TOML: {str(exc).lower()}") from exc
    except msgspec.ValidationError as exc:
        message = str(exc)[:1].lower() + str(exc)[1:]
        raise PackError(f"`{source}` is not a pack: {message}", hint="see `demur check --help` for the layout") from exc
    groups = tuple(PhraseGroup(g.target, g.category, g.phrases) for g in read.group)
    phrases = [p for g in groups for p in g.phrases]
    # A pack without phrases would pass everything, one with an empty phrase would flag everything.
    if not phrases or not all(p.strip() for p in phrases):
        raise PackError(f"`{source}` has an empty phrase or none at all", hint="an empty pack would pass everything")
    capital = next((p for p in phrases if read.match is MatchMode.SUBSTRING and p != p.lower()), None)
    if capital:
        raise PackError(
            f"`{source}` has the phrase `{capital}`", hint="substring packs compare lower-cased text: write it so"
        )
    return Pack(read.name, read.match, groups, read.stops)


@cache
def builtin_pack(name: str) -> Pack:
    """Return a pack that ships with Demur; raise `PackError` for a name that does not."""
    if name not in BUILTIN_PACKS:
        raise PackError(f"no pack is called `{name}`", hint=f"choose {', '.join(BUILTIN_PACKS)}, or name a .toml file")
    text = resources.files("demur.detect.packs").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse_pack(text, source=f"{name}.toml")


def contains_any(text: str, patterns: Iterable[str]) -> bool:
    """Return whether the lower-cased text contains a pattern; patterns are not lower-cased, as in Shadow."""
    lower = text.lower()
    return any(pattern in lower for pattern in patterns)


def find_substrings(text: str, phrases: Iterable[tuple[str, str]], *, pack: str) -> tuple[Finding, ...]:
    """Return the first hit of each (phrase, category) in the text, with its span in the original."""
    lower = text.lower()
    # The original offset of each character of `text.lower()`: a few capitals lower to two characters.
    back = None if len(lower) == len(text) else [i for i, char in enumerate(text) for _ in char.lower()]
    found = []
    for phrase, category in phrases:
        at = lower.find(phrase)
        if at >= 0:
            end = at + len(phrase)
            span = Span(at, end) if back is None else Span(back[at], back[end - 1] + 1)
            found.append(Finding(f"{pack}:{phrase}", category, 1.0, span))
    return tuple(found)


_UNSPACED_FROM = "\u0e00"  # Thai, Chinese, Japanese and Korean, all behind this, do not separate words by spaces


def words_matcher(views: Sequence[str]) -> Matcher:
    """Return a matcher for phrases that have been folded to views."""

    def has_edge(char: str) -> bool:
        return char < _UNSPACED_FROM and char.isalnum()

    return Matcher(tuple(Phrase(view, left=has_edge(view[0]), right=has_edge(view[-1])) for view in views))


def find_words(
    view: NormalText, matcher: Matcher, *, phrases: Sequence[tuple[str, str]], pack: str
) -> tuple[Finding, ...]:
    """Return the first hit of each (phrase, category); the matcher holds the same phrases in the same order."""
    first: dict[int, tuple[int, int]] = {}
    for index, start, end in matcher.find(view.text.replace("\n", " ")):
        first.setdefault(index, (start, end))
    return tuple(
        Finding(f"{pack}:{phrases[index][0]}", phrases[index][1], 1.0, view.span(*first[index]))
        for index in sorted(first)
    )
