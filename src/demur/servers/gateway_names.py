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
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject

__all__ = ["is_other_charset", "reads_two_ways"]

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*+:)?', re.DOTALL)
"""A string of JSON, and the colon after it where it is a name."""
_READ_NAMES = frozenset(
    {
        *("messages", "input", "instructions", "system", "prompt", "model", "stream", "metadata", "conversation", "n"),
        *("role", "content", "type", "text", "refusal", "tool_calls", "output", "source", "data", "file", "input_text"),
    }
)
_TURNS = ("messages", "input", "system")
_WITHIN = ("content", "output")
"""Where turns have parts; what a tool was given (`input`) has names of the tool's own."""
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
    written = len([colon for colon in _STRING.findall(plain) if colon])
    return written != _names_in(found) or any(_is_misspelt(name) for name in _names_of_api(found))


def _names_in(found: object) -> int:
    """Return how many names stand in a value."""
    count, stack = 0, [found]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            count += len(each)
            stack += [item for item in each.values() if isinstance(item, dict | list)]
        elif isinstance(each, list):
            stack += [item for item in each if isinstance(item, dict | list)]
    return count


def _names_of_api(found: JsonObject) -> Iterator[str]:
    """Yield the names in a request, in its turns and in their parts."""
    yield from found
    stack: list[object] = [found[name] for name in _TURNS if name in found]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            yield from each
            stack += [each[name] for name in _WITHIN if name in each]
        elif isinstance(each, list):
            stack += each


def _is_misspelt(name: str) -> bool:
    return name not in _READ_NAMES and name.casefold() in _READ_NAMES
