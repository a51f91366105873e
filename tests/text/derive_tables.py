"""Derive `tables.json` from this Python's Unicode data: `python tests/text/derive_tables.py > src/demur/text/tables.json`.

The laws that the tables keep are written here as predicates, and `test_normalise.py` holds the shipped file to them.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from functools import cache
from itertools import groupby
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "demur" / "text"
GENERIC = (range(0x300, 0x370), range(0x483, 0x48A), range(0x1AB0, 0x1B00), range(0x1DC0, 0x1E00))
GENERIC_SYMBOLS = (range(0x20D0, 0x2100), range(0xFE20, 0xFE30))
INVISIBLE = {0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, 0x2800, 0x034F, 0x180B, 0x180C, 0x180D, 0x180F}
SELECTORS = (range(0xFE00, 0xFE10), range(0xE0000, 0xE1000))
ASTRAL = 0x10000


@cache
def seconds() -> frozenset[str]:
    """Return every character that canonical composition can glue to the one before it."""
    found = {chr(c) for c in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    for code in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


def is_space(char: str) -> bool:
    """Return whether the character is white space."""
    return char.isspace()


def is_ignorable(char: str) -> bool:
    """Return whether the character is invisible and carries no word: controls, formats, selectors, fillers."""
    code = ord(char)
    if code in INVISIBLE or any(code in part for part in SELECTORS):
        return True
    return unicodedata.category(char) in {"Cc", "Cf"} and not is_space(char)


def is_generic(char: str) -> bool:
    """Return whether the character is a combining mark that decorates any script."""
    return any(ord(char) in part for part in (*GENERIC, *GENERIC_SYMBOLS)) and not is_ignorable(char)


def is_stacking(char: str) -> bool:
    """Return whether the character opens with a non-zero combining class once decomposed."""
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) != 0 or is_generic(char)


def is_continuing(char: str) -> bool:
    """Return whether the character may change, or vanish into, the one before it."""
    first = unicodedata.normalize("NFKD", char)[0]
    return is_ignorable(char) or is_stacking(char) or char in seconds() or first in seconds()


def is_irregular(char: str, replaced: frozenset[str]) -> bool:
    """Return whether folding the character is more than one `casefold` to one character, or is unknown as yet."""
    if ord(char) >= ASTRAL or char in replaced or is_continuing(char):
        return True
    if unicodedata.category(char) in {"Cn", "Cs"} or (is_space(char) and char != " "):
        return True
    folded = char.casefold()
    if folded in replaced:
        return True
    return (
        len(folded) != 1
        or unicodedata.normalize("NFKC", char) != char
        or unicodedata.normalize("NFKC", folded) != folded
    )


def ranges(codes: list[int]) -> str:
    """Return sorted code points as `a-b` hexadecimal ranges."""
    found = []
    for _, group in groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0]):
        block = [code for _, code in group]
        found.append(f"{block[0]:x}-{block[-1]:x}" if len(block) > 1 else f"{block[0]:x}")
    return " ".join(found)


def replaced_characters() -> frozenset[str]:
    """Return every character that `replacements.json` replaces, beyond ASCII."""
    data = json.loads((PACKAGE / "replacements.json").read_text(encoding="utf-8"))
    return frozenset(char for chars in data.values() for char in chars if not char.isascii())


def derive() -> dict[str, str]:
    """Return the tables for this Python's Unicode version."""
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    replaced = replaced_characters()
    irregular = [ord(c) for c in every[:ASTRAL] if is_irregular(c, replaced)]
    irregular.extend(range(ASTRAL, sys.maxunicode + 1))
    return {
        "unicode": unicodedata.unidata_version,
        "irregular": ranges(irregular),
        "continuing": ranges([ord(c) for c in every if is_continuing(c)]),
        "stacking": ranges([ord(c) for c in every if is_stacking(c)]),
        "generic": ranges([ord(c) for c in every if is_generic(c)]),
        "ignorable": ranges([ord(c) for c in every if is_ignorable(c)]),
        "space": ranges([ord(c) for c in every if is_space(c)]),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(derive(), indent=1) + "\n")
