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

_FOLDER = Path(__file__).with_name("grammar")
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
    stated = tomllib.loads((_FOLDER / "classes.toml").read_text(encoding="utf-8"))["class"]
    classes = tuple(
        GrammarClass(
            c["name"], c["kind"], c["reason"], tuple(c["roles"]), float(c["prior"]["any"]), float(c["prior"]["opening"])
        )
        for c in stated
    )
    files = sorted(path for path in _FOLDER.glob("*.toml") if path.stem != "classes")
    entries = {(entry.text, entry.of): entry for path in files for entry in _entries(path, classes)}
    return Grammar(classes, tuple(entries.values()))


def _entries(path: Path, classes: tuple[GrammarClass, ...]) -> Iterator[Entry]:
    """Yield the phrases of one language's file."""
    read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    index = {c.name: i for i, c in enumerate(classes)}
    slots: dict[str, list[str]] = read.get("slots", {})
    for name, templates in read["phrases"].items():
        of = index[name]
        for phrase in (p for template in templates for p in _expand(template, slots)):
            text = phrase if path.stem == "raw" else view(phrase).strip()
            if text and len(text.split()) <= _MAX_WORDS:
                yield _edged(text, of, path.stem, classes[of].kind)


def _edged(text: str, of: int, lang: str, kind: str) -> Entry:
    free = lang in _WITHOUT_EDGES
    stem = len(text) >= _STEM_CHARS and " " in text
    left = (not free and not (lang == "ar" and len(text) >= _ARABIC_FREE_CHARS)) or (lang == "ko" and kind == "t")
    right = not free and (lang == "en" or not stem) and text[-1].isalnum()
    return Entry(text, of, lang, left, right)


def _expand(template: str, slots: dict[str, list[str]]) -> Iterator[str]:
    """Yield every phrase that a template stands for."""
    pieces = _PIECES.split(template)
    options = [slots[p[1:-1]] if p.startswith("{") else [p[1:-1], ""] if p.startswith("[") else [p] for p in pieces]
    for combination in itertools.product(*options):
        spaced = re.sub(r" +", " ", "".join(combination))
        yield re.sub(r" (?=['’])", "", spaced).strip()
