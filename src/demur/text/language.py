"""A guess at which of the twelve languages a text is in, by script and by common short words, without a model.

A text that is too short, mixed or in another language is None, never a random guess.
"""

from __future__ import annotations

import re
import struct

__all__ = ["language_of"]

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
