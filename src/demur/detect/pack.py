"""Phrase packs: which phrases speak for a refusal or an attack, and how they are matched.

Laws: a pack is data (TOML); a pack without phrases is refused, since it would pass everything; `substring` packs keep the
seeds' exact behaviour (lower-cased containment, nothing normalised), `words` packs match whole words of the
normalised text.

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

import msgspec

from demur.errors import PackError

__all__ = ["BUILTIN_PACKS", "MatchMode", "Pack", "PhraseGroup", "Target", "builtin_pack", "parse_pack"]

BUILTIN_PACKS = ("shadow", "lucid", "fakeai")


class MatchMode(StrEnum):
    """How a pack's phrases are looked for."""

    SUBSTRING = "substring"
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
