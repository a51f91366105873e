"""Which parts of a text are encoded letters: base64, hexadecimal, percent signs, entities, escapes, rot13, reversed text.

Nothing decodes to more characters than its code has.
"""

from __future__ import annotations

import binascii
import codecs
import json
import pkgutil
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.text.offsets import Edit

__all__ = ["base64_edits", "escape_edits", "known_words", "scrambles", "starts_of_words"]

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
