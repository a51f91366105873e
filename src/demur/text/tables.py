"""What does Unicode say about a character, as far as folding needs it?

The tables are derived from Python's own Unicode data and shipped, since deriving them takes seconds. Characters that
were unassigned then count as irregular, so a newer Python handles its newer characters on the careful path.

Laws: nothing is read or compiled before the first text needs it; ASCII text never does.
"""

from __future__ import annotations

import json
import pkgutil
import re
from functools import cache

__all__ = ["confusables", "pattern", "replacements", "table"]


@cache
def _data(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(pkgutil.get_data(__package__, name) or b"{}")
    return found


@cache
def table(name: str) -> str:
    """Return a table's characters as the inside of a regular expression's character class."""
    spans = (part.partition("-") for part in _data("tables.json")[name].split())
    return "".join(_escape(low) + ("-" + _escape(high) if high else "") for low, _, high in spans)


def _escape(code: str) -> str:
    return f"\\U{int(code, 16):08x}"


@cache
def pattern(template: str) -> re.Pattern[str]:
    """Return the compiled template, where `<name>` stands for the characters of that table."""
    return re.compile(re.sub(r"<(\w+)>", lambda found: table(found[1]), template), re.DOTALL)


@cache
def confusables() -> dict[str, str]:
    """Return each look-alike letter, case-folded, with the Latin letter that it imitates."""
    return {char: latin for latin, chars in _data("confusables.json").items() for char in chars}


@cache
def replacements() -> dict[int, str | None]:
    """Return the table for `str.translate`: quotes, dashes, small capitals; white space; what vanishes; surrogates."""
    found: dict[int, str | None] = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    found |= dict.fromkeys(_codes("space"), " ") | dict.fromkeys(_codes("ignorable"), None)
    return found | {ord(char): new for new, chars in _data("replacements.json").items() for char in chars}


def _codes(name: str) -> list[int]:
    spans = (part.partition("-") for part in _data("tables.json")[name].split())
    return [code for low, _, high in spans for code in range(int(low, 16), int(high or low, 16) + 1)]
