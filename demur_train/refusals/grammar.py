"""Which phrases does the grammar mean? Templates turned into folded phrases and frames, with the edges each language asks for.

A template with few readings is expanded into phrases of its class. One with many is cut in two between its slots: its
left half before its right half is a frame, so that sixty ways to say "i cannot" and two hundred verbs cost 260 phrases.

Laws: a phrase has at most six words; English asks for whole words, longer stems of other languages only for a word's start
(what follows is inflection), scripts without spaces for neither; Arabic prefixes may stand before a long phrase.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ahocorasick_rs import AhoCorasick

from demur.text.normalise import view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Entry", "Grammar", "GrammarClass", "load_grammar"]

_FOLDER = Path(__file__).with_name("grammar")
_PIECES = re.compile(r"(\{\w+\}|\[[^\]]*\])")
_MAX_WORDS = 6
_FEW = 24
_STEM_CHARS = 10
_ARABIC_FREE_CHARS = 8
_WITHOUT_EDGES = ("zh", "ja", "ko", "raw")
_MIN_LEFT_CHARS = 4
_OTHER_SCRIPTS = ("ar", "hi", "ru")


@dataclass(frozen=True, slots=True)
class GrammarClass:
    """A class as the grammar states it."""

    name: str
    kind: str
    reason: str
    roles: tuple[str, ...]
    prior_any: float
    prior_opening: float


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One phrase: its group, language and edges."""

    group: int
    lang: str
    left: bool
    right: bool
    text: str


@dataclass
class Grammar:
    """The classes, the groups of phrases (with the class that each is of by itself, or -1) and the frames."""

    classes: tuple[GrammarClass, ...]
    groups: list[int] = field(default_factory=list)
    entries: set[Entry] = field(default_factory=set)
    frames: set[tuple[int, int, int]] = field(default_factory=set)
    _halves: dict[tuple[str, frozenset[tuple[str, bool, bool]]], int] = field(default_factory=dict)

    def screen(self, sample: Sequence[str]) -> set[str]:
        """Return phrases of which one stands in every text that holds a declining phrase.

        Of a frame's halves one that is there anyway is taken, else the one that is rarer in the sample, so that few
        other texts pass.
        """
        declining = {i for i, c in enumerate(self.classes) if "declining" in c.roles}
        texts: dict[int, list[str]] = {}
        for entry in self.entries:
            texts.setdefault(entry.group, []).append(entry.text)
        chosen = {text for group, of in enumerate(self.groups) if of in declining for text in texts.get(group, ())}
        common, known = self._counts(sample), AhoCorasick(sorted(chosen))
        for left, right, of in sorted(self.frames):
            # A half whose every phrase contains one that is in the screen already costs nothing more.
            free = any(all(known.find_matches_as_indexes(text) for text in texts[half]) for half in (left, right))
            if of in declining and not free:
                chosen.update(texts[min(left, right, key=lambda half: common[half])])
        return chosen

    def _counts(self, sample: Sequence[str]) -> Counter[int]:
        """Return how often each group's phrases stand in a sample."""
        entries = sorted(self.entries)
        automaton = AhoCorasick([entry.text for entry in entries])
        hits = (i for text in sample for i, _, _ in automaton.find_matches_as_indexes(text, overlapping=True))
        return Counter(entries[i].group for i in hits)

    def add(self, template: str, slots: dict[str, list[str]], *, of: int, lang: str) -> None:
        """Add what a template stands for."""
        pieces = [_options(piece, slots) for piece in _PIECES.split(template) if piece]
        if math.prod(map(len, pieces)) <= _FEW or (cut := _cut(pieces, lang)) is None:
            for text in _texts(pieces, lang):
                self.entries.add(_edged(text, of, lang, self.classes[of].kind))
            return
        free = lang in _WITHOUT_EDGES
        joint = "" if free else " "
        prefixed = lang == "ar"
        lefts = {
            (text, not free and not (prefixed and len(text) >= _ARABIC_FREE_CHARS), False)
            for text in _texts(pieces[:cut], lang)
        }
        rights = {(joint + text, False, lang == "en" and text[-1].isalnum()) for text in _texts(pieces[cut:], lang)}
        self.frames.add((self._half(lang, lefts), self._half(lang, rights), of))

    def _half(self, lang: str, texts: set[tuple[str, bool, bool]]) -> int:
        """Return the group of these phrases, made on first use."""
        key = (lang, frozenset(texts))
        if key not in self._halves:
            self._halves[key] = len(self.groups)
            self.groups.append(-1)
            self.entries |= {Entry(self._halves[key], lang, left, right, text) for text, left, right in texts}
        return self._halves[key]


def load_grammar() -> Grammar:
    """Return the grammar of all languages."""
    stated = tomllib.loads((_FOLDER / "classes.toml").read_text(encoding="utf-8"))["class"]
    classes = tuple(
        GrammarClass(
            c["name"], c["kind"], c["reason"], tuple(c["roles"]), float(c["prior"]["any"]), float(c["prior"]["opening"])
        )
        for c in stated
    )
    grammar = Grammar(classes, list(range(len(classes))))
    index = {c.name: i for i, c in enumerate(classes)}
    for path in sorted(path for path in _FOLDER.glob("*.toml") if path.stem != "classes"):
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        for name, templates in read["phrases"].items():
            for template in templates:
                grammar.add(template, read.get("slots", {}), of=index[name], lang=path.stem)
    return grammar


def _options(piece: str, slots: dict[str, list[str]]) -> list[str]:
    if piece.startswith("{"):
        return slots[piece[1:-1]]
    return [piece[1:-1], ""] if piece.startswith("[") else [piece]


def _cut(pieces: Sequence[list[str]], lang: str) -> int | None:
    """Return where to cut so that the halves have the fewest phrases; between words, where a script has spaces."""
    spaced = lang not in _WITHOUT_EDGES
    best: tuple[int, int] | None = None
    for at in range(1, len(pieces)):
        between = all(o.endswith(" ") or not o for o in pieces[at - 1]) or all(o.startswith(" ") for o in pieces[at])
        if spaced and not between:
            continue
        if not spaced and ("" in pieces[at - 1] or "" in pieces[at]):
            continue
        # A half of a letter or two would be found everywhere; a half without phrases is no half.
        shortest = min(map(len, _texts(pieces[:at], lang)), default=0)
        if shortest < (_MIN_LEFT_CHARS if spaced and lang not in _OTHER_SCRIPTS else 1):
            continue
        if not any(_texts(pieces[at:], lang)) or "" in ("".join(c) for c in itertools.product(*pieces[at:])):
            continue
        cost = math.prod(map(len, pieces[:at])) + math.prod(map(len, pieces[at:]))
        best = min(best or (cost, at), (cost, at))
    return best[1] if best else None


def _texts(pieces: Sequence[list[str]], lang: str) -> Iterator[str]:
    """Yield every folded phrase that a run of pieces stands for, without edge spaces."""
    for combination in itertools.product(*pieces):
        spaced = re.sub(r" +", " ", "".join(combination))
        phrase = re.sub(r" (?=['’])", "", spaced)
        text = phrase if lang == "raw" else view(phrase).strip()
        if text and len(text.split()) <= _MAX_WORDS:
            yield text


def _edged(text: str, of: int, lang: str, kind: str) -> Entry:
    free = lang in _WITHOUT_EDGES
    stem = len(text) >= _STEM_CHARS and " " in text
    left = (not free and not (lang == "ar" and len(text) >= _ARABIC_FREE_CHARS)) or (lang == "ko" and kind == "t")
    right = not free and (lang == "en" or not stem) and text[-1].isalnum()
    return Entry(of, lang, left, right, text)
