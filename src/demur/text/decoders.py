"""Which stretches of a text are letters in code: base64, hexadecimal, percent signs, entities, escapes?

Laws: a run is decoded only to printable UTF-8; an escape is offered only if some escape hides a letter or a digit, since
`%20` and `&#8217;` are how honest tools write; nothing decodes to more characters than its code has.
"""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.text.offsets import Edit

__all__ = ["base64_edits", "escape_edits"]

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
    except binascii.Error:  # pragma: no cover - the pattern admits nothing that base64 refuses
        return None
    return _readable(raw)


def _readable(raw: bytes) -> str | None:
    """Return the bytes as text, if they look like one."""
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
    return edits if any(new.isalnum() for _, _, new in edits) else []


def _percent(run: str, start: int) -> list[Edit]:
    try:
        hidden = bytes.fromhex(run.replace("%", "")).decode("utf-8")
    except UnicodeDecodeError:
        return []
    if len(hidden) * 3 == len(run):
        return [(start + 3 * at, start + 3 * at + 3, char) for at, char in enumerate(hidden)]
    return [(start, start + len(run), hidden)]
