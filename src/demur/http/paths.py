"""Request paths as different servers read them: escapes, doubled slashes, dots and parameters can lead to the same place.

A path is checked in every reading that servers differ about, so that no spelling gets past a check.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

from demur.model.exchange import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["path_readings", "plain_path", "shape_for_errors"]

_ROUNDS = 3  # how often escapes are decoded: a provider behind another proxy may do it twice
# Where a decoded escape ends the path: a query, a fragment, the end of a C string, the end of a line.
_CUTS = re.compile(r"[?#\0\r\n].*", re.DOTALL)
_ODD = re.compile(r"[;%?#\0\r\n]")
# What every server reads in the same way.
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)+")
_PARAMETERS = re.compile(r";[^/]*")


def plain_path(path: str) -> str:
    """Return a path as a lenient server would read it: no escapes, no empty or dotted steps, no slash at the end."""
    if _PLAIN.fullmatch(path):
        return path
    return _normalise(_unescape(path).partition(";")[0])


def path_readings(path: str) -> Iterator[str]:
    """Yield the paths that servers make of one."""
    yield plain_path(path)
    if path.isascii() and _ODD.search(path) is None:
        return
    once = _unescape(path)
    for spelt in dict.fromkeys((once, unicodedata.normalize("NFKC", once))):
        whole = _CUTS.sub("", spelt)
        # What follows a semicolon is part of the name, a parameter of its segment (RFC 3986, section 3.3), or cut off.
        yield from (_normalise(whole), _normalise(_PARAMETERS.sub("", whole)), _normalise(whole.partition(";")[0]))


def _unescape(path: str) -> str:
    for _ in range(_ROUNDS):
        again = unquote(path)
        if again == path:
            break
        path = again
    return path


def _normalise(path: str) -> str:
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        if step == "..":
            del steps[-1:]
        elif step.strip(" \t\0") not in ("", "."):
            steps.append(step.strip(" \t\0"))
    return "/" + "/".join(steps)


def shape_for_errors(path: str) -> Shape:
    """Return whose error format to use for a request that was not read."""
    return Shape.ANTHROPIC if plain_path(path).startswith("/v1/messages") else Shape.OPENAI_CHAT
