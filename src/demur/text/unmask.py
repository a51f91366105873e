"""How else a disguised text may be read.

A reading is the whole text without one disguise, or several in turn, normalised and mapped back to what the user wrote. It
is not a verdict: it costs one more scan, so ordinary text must yield none.

Which parts of a text are encoded letters: base64, hexadecimal, percent signs, entities, escapes, rot13, reversed text.

Nothing decodes to more characters than its code has.
"""

from __future__ import annotations

import binascii
import codecs
import json
import pkgutil
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from demur.model.verdict import NormalText, Reading
from demur.text.normalise import fold, normalise
from demur.text.offsets import compose, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.text.offsets import Edit

__all__ = [
    "Limits",
    "base64_edits",
    "disguises",
    "escape_edits",
    "known_words",
    "scrambles",
    "starts_of_words",
    "unmask",
]

_PRINTABLE_SHARE = 0.9
_LETTER_SHARE = 0.5
_GROUP = 4
_CODE = re.compile(
    r"(?<![\w+/=-])(?:[A-Za-z0-9+/_-]{16,}+(?:\r?\n[A-Za-z0-9+/_-]{16,}+)*+={0,2}|[A-Za-z0-9+/_-]{14,15}={1,2})"
)
_HEX = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2})+")
_URL_SAFE = str.maketrans("-_", "+/")
_ESCAPES = re.compile(
    r"(?P<percent>(?:%[0-9a-fA-F]{2})+)"
    r"|&\#(?:[xX](?P<entity_hex>[0-9a-fA-F]{1,6})|(?P<entity>[0-9]{1,7}));?"
    r"|\\(?:x(?P<byte>[0-9a-fA-F]{2})|u(?P<unit>[0-9a-fA-F]{4})|u\{(?P<braced>[0-9a-fA-F]{1,6})\}|U(?P<long>[0-9a-fA-F]{8}))"
)


def base64_edits(text: str) -> list[Edit]:
    """Return an edit for every run of base64 or hexadecimal that hides a text."""
    edits: list[Edit] = []
    for run in _CODE.finditer(text):
        start = run.start()
        hidden = _decoded("".join(run[0].split()))
        if hidden is not None:
            edits.append((start, run.end(), hidden))
            continue
        for line in run[0].splitlines(keepends=True):
            code = line.rstrip("\r\n")
            hidden = _decoded(code)
            if hidden is not None:
                edits.append((start, start + len(code), hidden))
            start += len(line)
    return edits


def _decoded(code: str) -> str | None:
    if _HEX.fullmatch(code):
        hidden = _readable(bytes.fromhex(code.removeprefix("0x")))
        if hidden is not None:
            return hidden
    body = code.rstrip("=").translate(_URL_SAFE)
    if len(body) % _GROUP == 1:
        return None
    try:
        raw = binascii.a2b_base64(body + "=" * (-len(body) % _GROUP))
    except binascii.Error:  # pragma: no cover - the pattern admits nothing that base64 rejects
        return None
    return _readable(raw)


def _readable(raw: bytes) -> str | None:
    """Return the bytes as text, if they look like one."""
    # Only printable UTF-8: a random identifier also is base64, but of noise.
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    printable = sum(char.isprintable() or char.isspace() for char in text)
    letters = sum(char.isalnum() or char.isspace() for char in text)
    enough = printable >= _PRINTABLE_SHARE * len(text) and letters >= _LETTER_SHARE * len(text)
    return text if enough else None


def escape_edits(text: str) -> list[Edit]:
    """Return an edit for every escape, if one of them hides a letter or a digit."""
    edits: list[Edit] = []
    for escape in _ESCAPES.finditer(text):
        start, end = escape.span()
        if escape["percent"]:
            edits += _percent(escape[0], start)
            continue
        digits = escape[escape.lastgroup or 0]
        code = int(digits, 10 if escape.lastgroup == "entity" else 16)
        if code <= 0x10FFFF:  # noqa: PLR2004 - the last code point
            edits.append((start, end, chr(code)))
    # `%20` and `&#8217;` are how honest tools write: only a hidden letter or digit is suspicious.
    return edits if any(new.isalnum() for _, _, new in edits) else []


def _percent(run: str, start: int) -> list[Edit]:
    try:
        hidden = bytes.fromhex(run.replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:
        return []
    # One edit per character keeps offsets exact where every escape is one character.
    if len(hidden) * 3 == len(run):
        return [(start + 3 * at, start + 3 * at + 3, char) for at, char in enumerate(hidden)]
    return [(start, start + len(run), hidden)]


_ENOUGH = 2
_LONG_WORD = 8
_SHORT_TEXT = 256
# Letters between digits and signs are code, in which anything may be read.
_WORD = re.compile(r"(?<![a-z0-9+/=_])[a-z]{3,20}+(?![a-z0-9+/=_])")


def scrambles(text: str, folded: bytes) -> Iterator[tuple[str, list[Edit]]]:
    """Yield `rot13`, `reversed` or both with their edits, if the text (and its lower-case ASCII) seems to be that."""
    if len(folded) > _SHORT_TEXT:
        # Substring tests in place of a search for words, since this is what every long honest text costs.
        turned = b"gur " in folded or b"lbh" in folded or b"ubj " in folded or b" gb " in folded
        backwards = b"eht " in folded or b"noit" in folded or b" ot " in folded or b"uoy" in folded
    else:
        turned = backwards = not _hidden_words().isdisjoint(folded.split())
    if turned and _is_scrambled(folded, _turned):
        other = _turned(text)
        yield "rot13", [(at, at + 1, new) for at, (old, new) in enumerate(zip(text, other, strict=True)) if old != new]
    if backwards and _is_scrambled(folded, _backwards):
        yield "reversed", [(0, len(text), _backwards(text))]


def _turned(text: str) -> str:
    return codecs.encode(text, "rot13")


def _backwards(text: str) -> str:
    return text[::-1]


@cache
def _evidence(unscramble: Callable[[str], str]) -> dict[str, int]:
    plain = known_words()
    hidden = {unscramble(word) for word in plain}
    weights = {word: _ENOUGH if len(word) >= _LONG_WORD else 1 for word in hidden - plain}
    return dict.fromkeys(plain - hidden, -1) | weights


@cache
def _hidden_words() -> frozenset[bytes]:
    weights = [*_evidence(_turned).items(), *_evidence(_backwards).items()]
    return frozenset(word.encode() for word, weight in weights if weight > 0)


def _is_scrambled(folded: bytes, unscramble: Callable[[str], str]) -> bool:
    """Return whether some part has `_ENOUGH` more hidden words than plain ones."""
    weigh = _evidence(unscramble).get
    best = 0
    for word in _WORD.findall(folded.decode("ascii")):
        best = max(0, best + weigh(word, 0))
        if best >= _ENOUGH:
            return True
    return False


_MAX_LETTERS = 16
_COMMON, _KNOWN, _STRANGE = 8, 10, 20  # what a word of each kind costs; of strange letters, each


@cache
def known_words() -> frozenset[str]:
    """Return all words that occur in phrases of the detector, and the commonest of English."""
    return frozenset(_shipped_words("vocabulary.json")) | frozenset(_shipped_words("words.json"))


@cache
def _costs() -> dict[str, int]:
    return dict.fromkeys(known_words(), _KNOWN) | dict.fromkeys(_shipped_words("words.json"), _COMMON)


def _shipped_words(name: str) -> list[str]:
    found: list[str] = json.loads(pkgutil.get_data(__package__, name) or b"[]")
    return found


def starts_of_words(letters: str, *, strange_share: float = 0.5) -> frozenset[int]:
    """Return where words begin in a run of lower-case letters, by the cheapest division; none where it makes no sense."""
    costs = _costs()
    # For every position, the cost of what is before it and the length of the last word, -1 for a strange letter.
    best = [(0, 0)]
    for end in range(1, len(letters) + 1):
        found = (best[end - 1][0] + _STRANGE, -1)
        for start in range(max(0, end - _MAX_LETTERS), end):
            cost = costs.get(letters[start:end])
            if cost is not None:
                found = min(found, (best[start][0] + cost, end - start))
        best.append(found)
    starts, strange, at = set(), 0, len(letters)
    while at:
        length = best[at][1]
        at -= abs(length)
        strange += length < 0
        if not (length < 0 and at and best[at][1] < 0):
            starts.add(at)
    return frozenset(starts) if strange <= strange_share * len(letters) else frozenset()


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


_KINDS, _CHAR_CLASS = _class_tables()

_LEET = dict(zip("01345789@$!|", "oieastbgasil", strict=True))
_PLAIN_LETTERS = str.maketrans(_LEET)
_LEET_TOKEN = re.compile(r"(?<![\w/.=#%&:\\@$!|-])[a-zA-Z01345789@$!|]{2,16}+(?![\w@$/=\\]|[.:]\w)")
_LEET_INSIDE = re.compile(r"[a-zA-Z][01345789@$!|]{1,2}(?=[a-zA-Z])")
_SPACED = re.compile(r"(?<![^\W_])[A-Za-z0-9@$!](?![^\W_])(?:[\s._\-*+~/·•]{1,3}[A-Za-z0-9@$!](?![^\W_])){3,}+")
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
    if _RUN in raw.translate(_CHAR_CLASS):
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
