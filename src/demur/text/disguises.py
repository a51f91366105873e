r"""Which disguises does a text seem to wear, and by which edits do they come off?

| method | what it looks like | and what it is not |
|---|---|---|
| `leet` | digits or symbols between letters: h0w, w34p0n (twice where `1` may be i or l) | 401k, b2b, mp3, addresses, long ids |
| `spacing` | four or more single characters with little between them: k i l l, k.i.l.l, words evenly run together | I a m, U.S., 1 2 3 4 |
| `joined` | sixteen letters or more that are known words run together | internationalisation, addresses |
| `base64` | long runs, hexadecimal too, that decode to printable UTF-8, either alphabet | words, hashes, paths, keys |
| `escapes` | `%68`, `&#104;`, `\x68`, `\u0068` of a letter or digit | `%20`, `&amp;`, `\n` |
| `rot13`, `reversed` | a stretch with known words only that way round | anything else |

Laws: edits are sorted and do not overlap; every search is linear; an ASCII text without any of these costs microseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from demur.text.decoders import base64_edits, escape_edits
from demur.text.scrambles import scrambles
from demur.text.vocabulary import starts_of_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.text.offsets import Edit

__all__ = ["disguises"]

_SYMBOLS = b"@$!|"
_SEPARATORS = b" \t\n\r.-_*+~/"
_RUN = b"x" * 16
_FEW_LETTERS = 3
_FEW_WORDS = 3


def _classes() -> tuple[bytes, bytes]:
    """Return two tables: letters `a`, digits and symbols `0`, separators blank, and characters of a code `x`."""
    kinds, code = bytearray(b"." * 256), bytearray(b"." * 256)
    for byte in range(128):
        letter = chr(byte).isalpha()
        if letter or chr(byte).isdigit() or byte in b"+/_-=":
            code[byte] = ord("x")
        if letter:
            kinds[byte] = ord("a")
        elif byte in _SEPARATORS:
            kinds[byte] = ord(" ")
        elif chr(byte).isdigit() or byte in _SYMBOLS:
            kinds[byte] = ord("0")
    return bytes(kinds), bytes(code)


_KINDS, _CODE = _classes()

_LEET = dict(zip("01345789@$!|", "oieastbgasil", strict=True))
_PLAIN_LETTERS = str.maketrans(_LEET)
_LEET_TOKEN = re.compile(r"(?<![\w/.=#%&:\\@$!|-])[a-zA-Z01345789@$!|]{2,16}+(?![\w@$/=\\]|[.:]\w)")
_LEET_INSIDE = re.compile(r"[a-zA-Z][01345789@$!|]{1,2}(?=[a-zA-Z])")
_SPACED = re.compile(
    r"(?<![^\W_])[A-Za-z0-9@$!](?![^\W_])(?:[\s._\-*+~/·•]{1,3}[A-Za-z0-9@$!](?![^\W_])){3,}+",
)
_GAP = re.compile(r"[\s._\-*+~/·•]+")
_SOLID = re.compile(r"(?<![\w+/=.@-])[A-Za-z]{16,80}+(?![\w+/=@]|[.-]\w)")


def disguises(text: str) -> Iterator[tuple[str, list[Edit]]]:
    """Yield each disguise that the text seems to wear, with the edits that take it off."""
    raw = text.encode("ascii", "replace")
    kinds = raw.translate(_KINDS)
    if b"0" in kinds and b"a0" in kinds and b"0a" in kinds:
        yield from _leet(text)
    if b" a a " in kinds:
        yield from _offered("spacing", _spacing(text))
    if "%" in text or "\\" in text or ("&" in text and "&#" in text):
        yield from _offered("escapes", escape_edits(text))
    if _RUN in raw.translate(_CODE):
        yield from _offered("base64", base64_edits(text))
        yield from _offered("joined", _joined(text))
    yield from scrambles(text, raw.lower())


def _offered(method: str, edits: list[Edit]) -> Iterator[tuple[str, list[Edit]]]:
    if edits:
        yield method, edits


def _leet(text: str) -> Iterator[tuple[str, list[Edit]]]:
    tokens = [token for token in _LEET_TOKEN.finditer(text) if not token[0].isalpha()]
    if not any(_LEET_INSIDE.search(token[0]) for token in tokens):
        return
    for one in "il":
        letters = str.maketrans(_LEET | {"1": one})
        edits = [
            (token.start() + at, token.start() + at + 1, char.translate(letters))
            for token in tokens
            if any(map(str.isalpha, token[0]))
            for at, char in enumerate(token[0])
            if char in _LEET
        ]
        yield "leet", edits
        if not any(text[at] == "1" for at, _, _ in edits):
            return


def _spacing(text: str) -> list[Edit]:
    edits: list[Edit] = []
    for chain in _SPACED.finditer(text):
        if sum(map(str.isalpha, chain[0])) < _FEW_LETTERS:
            continue
        gaps = [gap.span() for gap in _GAP.finditer(text, *chain.span())]
        marks = Counter(text[start:end] for start, end in gaps)
        usual = min(marks, key=lambda mark: (len(mark), -marks[mark]))
        wide = {at for at, (start, end) in enumerate(gaps, 1) if text[start:end] != usual}
        letters = _GAP.sub("", chain[0]).lower().translate(_PLAIN_LETTERS)
        starts = wide | _inner_starts(letters, [0, *sorted(wide), len(letters)])
        edits += [(start, end, " " if at in starts else "") for at, (start, end) in enumerate(gaps, 1)]
    return edits


def _joined(text: str) -> list[Edit]:
    edits: list[Edit] = []
    for run in _SOLID.finditer(text):
        ends = sorted(run.start() + at for at in starts_of_words(run[0].lower(), strange_share=0.0) if at)
        if _FEW_WORDS <= len(ends) + 1 <= len(run[0]) / _FEW_LETTERS:
            edits += [(end - 1, end, text[end - 1] + " ") for end in ends]
    return edits


def _inner_starts(letters: str, bounds: list[int]) -> set[int]:
    """Return where words begin inside the runs of a chain: between evenly spaced letters no gap says so."""
    return {start + at for start, end in pairwise(bounds) for at in starts_of_words(letters[start:end])}
