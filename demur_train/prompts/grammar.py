"""Which phrases, frames and priors are written by hand?

The grammar is TOML, one file a subject, and files of one domain are merged: a slot or a class may go on in another file (other
languages stand in files of their own). `{a|b|}` in a phrase expands to its alternatives, inside each other too; a `*` at
an end lets the word go on there. Members of a class share one weight.

Laws: phrases are folded as prompts are; a phrase of more than six words is refused; scripts that put no space between
words, and those that hang particles on them, need no edge there.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from demur.detect.prompts.pack import FrameFile, PromptClass
from demur.text.normalise import view

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from demur.detect.prompts.pack import Domain

__all__ = ["MAX_WORDS", "Grammar", "GrammarError", "expand", "read_grammar"]

MAX_WORDS = 6
_UNSPACED = ((0x0E00, 0x0F00), (0x3040, 0x3100), (0x3400, 0xA000))
_SUFFIXING = ((0xAC00, 0xD7B0), (0x0900, 0x0980))
_ARABIC = (0x0600, 0x0700)
_ARABIC_WORD = 4
"""Shorter Arabic words occur by chance inside others."""


class GrammarError(Exception):
    """A grammar file contradicts the rules of this module."""


class _Phrases(msgspec.Struct, forbid_unknown_fields=True):
    family: str = ""
    prior: float = 0.0
    strong: bool = False
    list: tuple[str, ...] = ()
    literal: tuple[str, ...] = ()


class _Frame(msgspec.Struct, forbid_unknown_fields=True):
    family: str = ""
    prior: float = 0.0
    gap: int = 0
    strong: bool = False
    seqs: tuple[tuple[str, ...], ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    slots: dict[str, tuple[str, ...]] = {}
    frames: dict[str, _Frame] = {}
    phrases: dict[str, _Phrases] = {}


@dataclass(slots=True)
class Grammar:
    """Groups of phrases, classes with their priors, and frames, in the order of the files."""

    groups: dict[str, dict[str, None]] = field(default_factory=dict)
    classes: dict[str, PromptClass] = field(default_factory=dict)
    frames: list[FrameFile] = field(default_factory=list)

    def add(self, name: str, phrases: Iterable[str]) -> None:
        """Put phrases into a group."""
        group = self.groups.setdefault(name, {})
        for phrase in phrases:
            group[_edged(phrase)] = None


def read_grammar(folder: Path) -> Grammar:
    """Return the grammar in a folder: files named after their domain, `attack*.toml` and `harm*.toml`."""
    grammar = Grammar()
    domains: tuple[Domain, ...] = ("attack", "harm")
    for domain in domains:
        for path in sorted(folder.glob(f"{domain}*.toml")):
            _merge(grammar, msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File), domain=domain)
    return grammar


def _merge(grammar: Grammar, read: _File, *, domain: Domain) -> None:
    for name, words in read.slots.items():
        grammar.add(f"{domain}/{name}", [e for w in words for e in expand(w)])
    for name, phrases in read.phrases.items():
        key = f"{domain}:{name}"
        grammar.add(key, [e for t in phrases.list for e in expand(t)] + list(phrases.literal))
        if phrases.family:
            grammar.classes[key] = PromptClass(domain, phrases.family, phrases.prior, phrases.strong)
    for name, frame in read.frames.items():
        key = f"{domain}:{name}"
        grammar.classes[key] = PromptClass(domain, frame.family, frame.prior, frame.strong)
        for slots in frame.seqs:
            grammar.frames.append(FrameFile(key, tuple(f"{domain}/{slot}" for slot in slots), frame.gap))


def expand(template: str) -> list[str]:
    """Return every phrase that a template stands for."""
    start = template.find("{")
    if start < 0:
        return [template]
    parts, end = _alternatives(template, start)
    tails = expand(template[end + 1 :])
    return [template[:start] + head + tail for part in parts for head in expand(part) for tail in tails]


def _alternatives(template: str, start: int) -> tuple[list[str], int]:
    """Return the alternatives of the brace at `start`, and where it closes."""
    parts: list[str] = []
    depth, last = 0, start + 1
    for index in range(start, len(template)):
        char = template[index]
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return [*parts, template[last:index]], index
        if char == "|" and depth == 1:
            parts.append(template[last:index])
            last = index + 1
    raise GrammarError(f"`{template}` has a brace that does not close")


def _edged(phrase: str) -> str:
    """Return the folded phrase, with a star at each end that needs no edge."""
    folded = " ".join(view(phrase.strip("*")).split())
    if len(folded) < 1 + folded.isascii() or len(folded.split()) > MAX_WORDS:
        raise GrammarError(f"`{phrase}` is too short in folded form, or has more than {MAX_WORDS} words")
    left = phrase.startswith("*") or _open(folded[0], folded, right=False)
    right = phrase.endswith("*") or _open(folded[-1], folded, right=True)
    return "*" * left + folded + "*" * right


def _open(char: str, phrase: str, *, right: bool) -> bool:
    """Return whether a phrase that begins or ends with this character needs no edge there."""
    code = ord(char)
    if char.isascii():
        return not char.isalnum()
    if _ARABIC[0] <= code < _ARABIC[1]:
        return len(phrase) >= _ARABIC_WORD
    if right and any(low <= code < high for low, high in _SUFFIXING):
        return True
    return any(low <= code < high for low, high in _UNSPACED)
