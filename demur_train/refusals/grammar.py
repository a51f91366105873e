"""Which phrases does the grammar mean? Templates expanded into folded phrases, with the edges that each language asks for.

Laws: a phrase has at most six words; English asks for whole words, longer stems of other languages only for a word's start
(what follows is inflection), scripts without spaces for neither; Arabic prefixes may stand before a long phrase.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demur.text.view import view

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Entry", "Grammar", "GrammarClass", "load_grammar"]

_PATH = Path(__file__).with_name("grammar.toml")
_PIECES = re.compile(r"(\{\w+\}|\[[^\]]*\])")
_MAX_WORDS = 6
_STEM_CHARS = 10
_ARABIC_FREE_CHARS = 8
_WITHOUT_EDGES = ("zh", "ja", "ko", "raw")


@dataclass(frozen=True, slots=True)
class GrammarClass:
    """A class as the grammar states it."""

    name: str
    kind: str
    reason: str
    roles: tuple[str, ...]
    prior_any: float
    prior_opening: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One phrase: its class, language and edges."""

    text: str
    of: int
    lang: str
    left: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Grammar:
    """The classes and all their phrases."""

    classes: tuple[GrammarClass, ...]
    entries: tuple[Entry, ...]


def load_grammar() -> Grammar:
    """Return the grammar with its templates expanded."""
    read = tomllib.loads(_PATH.read_text(encoding="utf-8"))
    classes = tuple(
        GrammarClass(
            c["name"], c["kind"], c["reason"], tuple(c["roles"]), float(c["prior"]["any"]), float(c["prior"]["open"])
        )
        for c in read["class"]
    )
    entries = {
        (entry.text, entry.of): entry
        for of, c in enumerate(read["class"])
        for entry in _entries(of, c, read["slots"])
    }
    return Grammar(classes, tuple(entries.values()))


def _entries(of: int, described: dict[str, Any], slots: dict[str, list[str]]) -> Iterator[Entry]:
    for lang, templates in described.items():
        if lang == "roles" or not isinstance(templates, list):
            continue
        for template in templates:
            for phrase in _expand(template, slots):
                text = phrase if lang == "raw" else view(phrase).strip()
                if text and len(text.split()) <= _MAX_WORDS:
                    yield _edged(text, of, lang, described["kind"])


def _edged(text: str, of: int, lang: str, kind: str) -> Entry:
    free = lang in _WITHOUT_EDGES
    stem = len(text) >= _STEM_CHARS and " " in text
    left = (not free and not (lang == "ar" and len(text) >= _ARABIC_FREE_CHARS)) or (lang == "ko" and kind == "t")
    right = not free and (lang == "en" or not stem) and text[-1].isalnum()
    return Entry(text, of, lang, left, right)


def _expand(template: str, slots: dict[str, list[str]]) -> Iterator[str]:
    """Yield every phrase that a template stands for."""
    pieces = _PIECES.split(template)
    options = [
        slots[p[1:-1]] if p.startswith("{") else [p[1:-1], ""] if p.startswith("[") else [p] for p in pieces
    ]
    for combination in itertools.product(*options):
        spaced = re.sub(r" +", " ", "".join(combination))
        yield re.sub(r" (?=['’])", "", spaced).strip()
