"""Which language a text is in, by script and by common short words, without a model.

`language_of` guesses among the twelve; `uncovered_language` tells where a text is surely in a language that the refusal
detector does not cover. Which ones it covers is declared in `languages.json`, and nowhere else. A text that is too short or
mixed is None, never a random guess.
"""

from __future__ import annotations

import json
import pkgutil
import re
import struct
import unicodedata
from dataclasses import dataclass, replace
from functools import cache

__all__ = ["covered_languages", "language_of", "uncovered_language"]

_READ_CHARS = 2000
_MIN_LETTERS = 2
_MIN_WORDS = 2
# Tried in this order: Japanese is written with Chinese characters too, Chinese never with kana.
_SCRIPTS = {
    "ko": re.compile("[\uac00-\ud7af\u1100-\u11ff]"),
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u4e00-\u9fff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
}
_SMALL_WORDS = {
    "en": "the and is are you to of in that it for with what how can not my do on this",
    "de": "der die das und ist nicht ich du ein eine zu mit wie was für auf den mir kann wir",
    "fr": "le la les et est je vous un une des pas que pour dans comment qui sur avec mon ce",
    "es": "el la los y es que no un una por para con cómo qué mi en puedo las del se",
    "it": "il lo la e è che non un una per con come cosa mi di sono della nel gli si",
    "pt": "o a os e é que não um uma por para com como do da em meu você eu se",
}
_LATIN = tuple(_SMALL_WORDS)
_WORD = re.compile(r"[^\W\d_]+")
# ASCII letters in lower case, everything else a space: what `_WORD` finds in a folded text, and a fifth of its cost.
_LETTERS = bytes(code | 32 if chr(code).isalpha() else ord(" ") for code in range(128)) + b" " * 128
_COUNTS = struct.Struct(f"<{len(_SMALL_WORDS)}H")
# One more small word of each language that has it: the counts stand side by side in one number, and are added up at
# once. Sixteen bits hold each of them: folding makes three characters of one at most, and `_READ_CHARS` are read.
_ONE_MORE = {
    word: sum(1 << 16 * at for at, words in enumerate(_SMALL_WORDS.values()) if word in words.split())
    for word in " ".join(_SMALL_WORDS.values()).split()
}


def language_of(text: str) -> str | None:
    """Return the language's two letters, None where it cannot be told."""
    start = text[:_READ_CHARS]
    if not start.isascii():
        letters = sum(map(str.isalpha, start))
        for language, script in _SCRIPTS.items():
            found = len(script.findall(start))
            # A few letters are enough, since only one of the twelve uses the script, but not a name in a foreign text.
            if found >= _MIN_LETTERS and found * 3 >= letters:
                return language
    words = start.encode().translate(_LETTERS).decode().split() if start.isascii() else _WORD.findall(start.casefold())
    counted = sum(filter(None, map(_ONE_MORE.get, words)))
    counts = _COUNTS.unpack(counted.to_bytes(_COUNTS.size, "little"))
    *_, next_most, most = sorted(counts)
    # Languages of Latin script share short words, so the winner needs twice as many as the next.
    return _LATIN[counts.index(most)] if most >= _MIN_WORDS and most >= 2 * next_most else None


_SAMPLE_CHARS = 400
_GLANCE_CHARS = 200
_MIN_MARKS = 3  # one foreign word is a name, two are a title
_MIN_MARKS_SHORT = 2  # but two are enough where they are a third of all words, and none is of a covered language
_MAX_TIED = 3  # Croatian, Serbian and Bosnian share their words; what more languages share may be a transcription
_MIN_SHARE = 0.12  # of all words; a language that says much by endings has few short words
_MIN_SCRIPT_CHARS = 16  # a name is shorter
# The signs that Indic and other scripts write vowels with are no letters to `re`, and a word does not end at them.
_SPELT_WORD = re.compile(
    r"(?:[^\W\d_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u0655\u0900-\u0963\u0970-\u0dff\u200c\u200d])+"
)


@dataclass(frozen=True, slots=True)
class _Language:
    """A language with its common words, and the letters that no covered language of its script has."""

    code: str
    name: str
    words: frozenset[str]
    letters: frozenset[str]

    def marks(self, common: frozenset[str], rare: frozenset[str]) -> int:
        """Return how many of these words are common in this language, or have a letter of its own."""
        return len((common & self.words).union([word for word in rare if not self.letters.isdisjoint(word)]))


@dataclass(frozen=True, slots=True)
class _Script:
    """A script with its languages; `marks` and `letters` are of uncovered ones, and no covered one has them."""

    characters: re.Pattern[str]
    uncovered: tuple[_Language, ...]
    covered: tuple[_Language, ...]
    marks: frozenset[str]
    letters: frozenset[str]


def covered_languages() -> frozenset[str]:
    """Return the codes of the languages in which the refusal detector knows refusals."""
    return frozenset(language.code for script in _scripts() for language in script.covered)


def uncovered_language(text: str) -> str | None:
    """Return name and code of the language that the start of a text is surely in, where the detector does not cover it.

    None where the language is covered, or cannot be told. Languages that share their common words are named together.
    """
    start = text[:_SAMPLE_CHARS]
    # Nearly every text in English leaves here: what follows takes ten times as long.
    if (" the " in start and (" to " in start or " and " in start or " with " in start or " you " in start)) or (
        " and " in start and (" of " in start or " with " in start or " you " in start or " this " in start)
    ):
        return None
    latin, glance = _scripts()[0], start[:_GLANCE_CHARS]
    # So does most of what is code or a list: a text in another language of this script soon has one of its small words.
    if glance.isascii() and latin.marks.isdisjoint(glance.lower().split()):
        return None
    if start.isascii():
        found = _by_words(latin, start.encode().translate(_LETTERS).decode().split())
    else:
        found = _by_script(unicodedata.normalize("NFC", start))
    return " or ".join(f"{language.name} ({language.code})" for language in found) or None


def _by_script(start: str) -> tuple[_Language, ...]:
    """Return the uncovered languages that a text is surely of, by the script of most of its letters and by its words."""
    letters = sum(map(str.isalpha, start))
    for script in _scripts():
        found = len(script.characters.findall(start))
        if 2 * found > letters:
            words = _SPELT_WORD.findall(start)
            if script.covered:
                return _by_words(script, words)
            # The script alone tells that the language is not covered; words only tell its languages apart.
            return _most_marked(script, words)[0] if found >= _MIN_SCRIPT_CHARS else ()
    return ()


def _by_words(script: _Script, words: list[str]) -> tuple[_Language, ...]:
    """Return the uncovered languages that the words are surely of; none where they may be of a covered one."""
    best, marks = _most_marked(script, words)
    if marks < _MIN_MARKS_SHORT or len(best) > _MAX_TIED:
        return ()
    folded = [word.casefold() for word in words]
    own = frozenset().union(*(language.words for language in best))
    rival = max(len(language.words.intersection(folded) - own) for language in script.covered)
    if marks < _MIN_MARKS:
        return best if not rival and _MIN_MARKS <= len(words) <= _MIN_MARKS * marks else ()
    share = max(marks, sum(map(own.__contains__, folded))) / len(words)
    return best if marks >= 2 * rival and share >= _MIN_SHARE else ()


def _most_marked(script: _Script, words: list[str]) -> tuple[tuple[_Language, ...], int]:
    """Return the script's uncovered languages that have the most marks among these words, and how many."""
    common = script.marks.intersection([word.casefold() for word in words])
    # A word in capitals may be a name, and names keep their letters in every language.
    rare = frozenset(word for word in words if not (word[0].isupper() or script.letters.isdisjoint(word)))
    if len(common) + len(rare) < _MIN_MARKS_SHORT and script.covered:
        return (), 0
    counts = [language.marks(common, rare) for language in script.uncovered]
    most = max(counts)
    return tuple(one for one, count in zip(script.uncovered, counts, strict=True) if count == most), most


@cache
def _scripts() -> tuple[_Script, ...]:
    """Return the scripts with their languages, Latin first."""
    table = json.loads(pkgutil.get_data(__package__, "languages.json") or b"{}")
    codes = frozenset(table["covered"].split())
    return tuple(_script(row["characters"], row["languages"], codes) for row in table["scripts"].values())


def _script(characters: str, rows: dict[str, dict[str, str]], codes: frozenset[str]) -> _Script:
    def language(code: str) -> _Language:
        row = rows[code]
        return _Language(code, row["name"], frozenset(row["words"].split()), frozenset(row.get("letters", "")))

    covered = tuple(language(code) for code in rows if code in codes)
    known = frozenset().union(*(one.words for one in covered))
    spelt = frozenset().union(*(one.letters for one in covered))
    others = tuple(language(code) for code in rows if code not in codes)
    others = tuple(replace(one, letters=one.letters - spelt) for one in others)
    # A single letter is a variable, an option or a point in a list at least as often as a word.
    marks = {word for one in others for word in one.words - known if len(word) > 1 or word in one.letters}
    ranges = re.sub("[0-9a-f]{4}", r"\\u\g<0>", characters).replace(" ", "")
    letters = frozenset().union(*(one.letters for one in others))
    return _Script(re.compile(f"[{ranges}]"), others, covered, frozenset(marks), letters)
