"""Could a provider read another request out of the same bytes than was read here?

Providers differ about objects in which one name stands twice (the first counts, or the last) and about names that differ by
capitals alone (Go's reader takes `Messages` for `messages`); and a body in another charset is another text.

Laws: what could be read in two ways is refused, not guessed at; a name that stands twice is found at any depth; capitals
count only where names are the API's own, in the request, its turns and their parts, and not in schemas or metadata.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.wire.interface import JsonObject

__all__ = ["is_other_charset", "reads_two_ways"]

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*+:)?', re.DOTALL)
"""A string of JSON, and the colon after it where it is a name."""
_QUOTE_AND_COLON = re.compile(rb'"\s*+:')
"""How every name ends, and now and then a text has it too."""
_READ_NAMES = frozenset(
    {
        *("messages", "input", "instructions", "system", "prompt", "model", "stream", "metadata", "conversation", "n"),
        *("role", "content", "type", "text", "refusal", "tool_calls", "output", "source", "data", "file", "input_text"),
    }
)
_TURNS = ("messages", "input", "system")
_WITHIN = ("content", "output")
"""Where turns have parts; what a tool was given (`input`) has names of the tool's own."""
_NESTED = (dict, list)
_CHARSET = re.compile(r'charset\s*=\s*"?([^";,\s]*)', re.IGNORECASE)
_OURS = frozenset({"utf-8", "utf8", "us-ascii", "ascii", ""})


def is_other_charset(content_type: str) -> bool:
    """Return whether a content type names a charset in which JSON cannot be read by its bytes alone."""
    return any(named.lower() not in _OURS for named in _CHARSET.findall(content_type))


def reads_two_ways(plain: bytes, found: JsonObject) -> bool:
    """Return whether a request, as it came and as it was read, could be another one to somebody else."""
    encoding = json.detect_encoding(plain)
    if encoding not in ("utf-8", "utf-8-sig"):
        plain = plain.decode(encoding, errors="surrogatepass").encode("utf-8", errors="surrogatepass")
    return _stands_twice(plain, found) or _has_misspelt(_names_of_api(found))


def _stands_twice(plain: bytes, found: JsonObject) -> bool:
    """Return whether fewer names were read than are written.

    There are as many names as a colon follows a quote, at most, and that is soon counted; to tell names from texts takes long.
    """
    read, most = _names_in(found), len(_QUOTE_AND_COLON.findall(plain))
    if most == read or most - _escaped_in(plain) == read:
        return False
    return len([colon for colon in _STRING.findall(plain) if colon]) != read


def _escaped_in(plain: bytes) -> int:
    """Return how many quotes before a colon end no name (JSON in a text): after one backslash; after several they might."""
    return plain.count(b'\\":') - plain.count(b'\\\\":')


def _names_in(found: object) -> int:
    """Return how many names stand in a value."""
    count, met = 0, [found]
    for each in met:
        if isinstance(each, dict):
            count += len(each)
            met += each.values()
        elif isinstance(each, list):
            met += [item for item in each if isinstance(item, _NESTED)]
    return count


def _names_of_api(found: JsonObject) -> list[str]:
    """Return the names in a request, in its turns and in their parts."""
    names = list(found)
    met: list[object] = [found[name] for name in _TURNS if name in found]
    for each in met:
        if isinstance(each, dict):
            names += each
            met += [each[name] for name in _WITHIN if name in each]
        elif isinstance(each, list):
            met += each
    return names


def _has_misspelt(names: list[str]) -> bool:
    """Return whether a name differs by capitals alone from one that is read; what has none is known at a glance."""
    together = "".join(names)
    return not (together.isascii() and together.islower()) and any(map(_is_misspelt, names))


def _is_misspelt(name: str) -> bool:
    return name not in _READ_NAMES and name.casefold() in _READ_NAMES
