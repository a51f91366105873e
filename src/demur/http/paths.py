"""Request paths as servers read them: escapes, doubled slashes, dots and parameters lead to the same place.

A path is judged in every reading that servers differ about, so that no spelling gets past a check.
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

_ROUNDS = 3
"""How often escapes are taken off: a provider behind another proxy may do it twice."""
_CUTS = re.compile(r"[?#\0\r\n].*", re.DOTALL)
"""Where an escape, once taken off, ends the path: a query, a fragment, the end of a string, the end of a line."""
_ODD = re.compile(r"[;%?#\0\r\n]")
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)+")
"""What every server reads as it stands."""
_PARAMETERS = re.compile(r";[^/]*")


def plain_path(path: str) -> str:
    """Return a path as a lenient server would read it: no escapes, no empty or dotted steps, no slash at the end."""
    if _PLAIN.fullmatch(path):
        return path
    return _in_steps(_unescaped(path).partition(";")[0])


def path_readings(path: str) -> Iterator[str]:
    """Yield the paths that servers make of one: what follows a semicolon is the step's, the whole path's, or the name itself."""
    yield plain_path(path)
    if path.isascii() and _ODD.search(path) is None:
        return
    once = _unescaped(path)
    for spelt in dict.fromkeys((once, unicodedata.normalize("NFKC", once))):
        whole = _CUTS.sub("", spelt)
        yield from (_in_steps(whole), _in_steps(_PARAMETERS.sub("", whole)), _in_steps(whole.partition(";")[0]))


def _unescaped(path: str) -> str:
    for _ in range(_ROUNDS):
        again = unquote(path)
        if again == path:
            break
        path = again
    return path


def _in_steps(path: str) -> str:
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        if step == "..":
            del steps[-1:]
        elif step.strip(" \t\0") not in ("", "."):
            steps.append(step.strip(" \t\0"))
    return "/" + "/".join(steps)


def shape_for_errors(path: str) -> Shape:
    """Return whose words to use about a request that was not read."""
    return Shape.ANTHROPIC if plain_path(path).startswith("/v1/messages") else Shape.OPENAI_CHAT
