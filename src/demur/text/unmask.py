"""How else a disguised text may be read.

A reading is the whole text without one disguise, or several in turn, normalised and mapped back to what the user wrote. It
is not a verdict: it costs one more scan, so ordinary text must yield none.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from demur.model.text import NormalText, Reading
from demur.text.decoders import base64_edits, escape_edits, scrambles, starts_of_words
from demur.text.normalise import fold, normalise
from demur.text.offsets import compose, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.text.offsets import Edit

__all__ = ["Limits", "disguises", "unmask"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far `unmask` goes: characters looked at, disguises on top of each other, readings, characters read in all."""

    length: int = 100_000
    depth: int = 3
    readings: int = 12
    work: int = 1_000_000


_DEFAULT = Limits()


def unmask(text: str, *, limits: Limits = _DEFAULT) -> tuple[Reading, ...]:
    """Return the readings of the text, those without the fewest disguises first; none where nothing looks disguised."""
    seen = text if len(text) <= limits.length else text[: limits.length]
    layers = [("", NormalText(text, seen))]
    if not seen.isascii() and (clear := normalise(seen)).text != seen.casefold():
        layers.append(("", NormalText(text, clear.text, clear.starts, clear.ends)))
    found: dict[str, Reading] = {}
    plain = ""
    work = 0
    for _ in range(limits.depth):
        below: list[tuple[str, NormalText]] = []
        for method, layer in layers:
            for step, edits in disguises(layer.text):
                done = rewrite(layer.text, edits)
                deeper = compose(layer, NormalText(layer.text, done.text, done.starts, done.ends))
                plain = plain or fold(seen)
                work += len(deeper.text)
                # Disguises can be nested and repeated at will, so the total work is bounded, not only the depth.
                if len(found) >= limits.readings or work > limits.work:
                    return tuple(found.values())
                name = f"{method}+{step}" if method else step
                normal = compose(deeper, normalise(deeper.text))
                # Another way to the same text, or back to the plain one, would only be scanned again.
                if normal.text != plain and normal.text not in found:
                    found[normal.text] = Reading(name, normal)
                    below.append((name, deeper))
        layers = below
    return tuple(found.values())


_SYMBOLS = b"@$!|"
_SEPARATORS = b" \t\n\r.-_*+~/"
_RUN = b"x" * 16
_FEW_LETTERS = 3
_FEW_WORDS = 3


def _class_tables() -> tuple[bytes, bytes]:
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


_KINDS, _CODE = _class_tables()

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
    """Yield each disguise that the text seems to have, with the edits that remove it."""
    # One pass that turns the text into classes of characters rules out most disguises before any pattern is tried.
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
        edits: list[Edit] = []
        for run in _SOLID.finditer(text):
            ends = sorted(run.start() + at for at in starts_of_words(run[0].lower(), strange_share=0.0) if at)
            if _FEW_WORDS <= len(ends) + 1 <= len(run[0]) / _FEW_LETTERS:
                edits += [(end - 1, end, text[end - 1] + " ") for end in ends]
        yield from _offered("joined", edits)
    yield from scrambles(text, raw.lower())


def _offered(method: str, edits: list[Edit]) -> Iterator[tuple[str, list[Edit]]]:
    if edits:
        yield method, edits


def _leet(text: str) -> Iterator[tuple[str, list[Edit]]]:
    tokens = [token for token in _LEET_TOKEN.finditer(text) if not token[0].isalpha()]
    if not any(_LEET_INSIDE.search(token[0]) for token in tokens):
        return
    # "1" stands for either letter: both readings are offered if there is one.
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
        # Where words begin inside the runs of a chain: between evenly spaced letters no gap says so.
        inner_starts = {
            start + at
            for start, end in pairwise([0, *sorted(wide), len(letters)])
            for at in starts_of_words(letters[start:end])
        }
        starts = wide | inner_starts
        edits += [(start, end, " " if at in starts else "") for at, (start, end) in enumerate(gaps, 1)]
    return edits
