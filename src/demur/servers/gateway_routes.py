"""Which requests are read, and in whose words? By the end of the path, however it is spelt.

Laws: what a provider could take for an audited path is audited: escapes, doubled slashes, dots, capitals and parameters lead to
the same door, in any reading of those that servers differ about, and below the path that the provider's own address begins
with; so does any method that brings a body; whatever is no door is passed on unread or refused, by the settings, and
never half read.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from demur.model.exchange import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PEOPLE", "AuditedRoute", "audited_route", "is_for_people", "plain_path", "shape_for_errors"]

PEOPLE = "/-/"
"""Below this path are the gateway's pages for people; no provider has any."""

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")
_ENDS = (
    ("/chat/completions", Shape.OPENAI_CHAT),
    ("/responses", Shape.OPENAI_RESPONSES),
    ("/v1/messages", Shape.ANTHROPIC),
)
_ROUNDS = 3
"""How often escapes are taken off: a provider behind another proxy may do it twice."""
_UNAUDITED = frozenset(("GET", "HEAD", "DELETE", "OPTIONS", "TRACE"))
"""What asks no model for an answer; these fetch, list and delete stored ones."""
_CUTS = re.compile(r"[?#\0\r\n].*", re.DOTALL)
"""Where an escape, once taken off, ends the path: a query, a fragment, the end of a string, the end of a line."""
_ODD = re.compile(r"[;%?#\0\r\n]")
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)+")
"""What every server reads as it stands."""
_PARAMETERS = re.compile(r";[^/]*")


@dataclass(frozen=True, slots=True)
class AuditedRoute:
    """A door whose requests and answers are read; `model` where the path names it, as Azure's does."""

    shape: Shape
    model: str = ""

    @property
    def label(self) -> str:
        """The shape as figures and logs name it: Azure speaks OpenAI's."""
        return Shape.OPENAI_CHAT.value if self.shape is Shape.AZURE else self.shape.value


def audited_route(method: str, path: str, *, prefix: str = "") -> AuditedRoute | None:
    """Return the door at a path, None where nothing is read; `prefix` is what the provider's address puts before it."""
    if method in _UNAUDITED:
        return None
    for plain in _readings(prefix + path):
        lowered = plain.lower()
        for end, shape in _ENDS:
            if lowered.endswith(end):
                found = _DEPLOYMENT.search(plain)
                is_azure = shape is Shape.OPENAI_CHAT and (found is not None or lowered.startswith("/openai/"))
                return AuditedRoute(Shape.AZURE if is_azure else shape, found[1] if found else "")
    return None


def plain_path(path: str) -> str:
    """Return a path as a lenient server would read it: no escapes, no empty or dotted steps, no slash at the end."""
    if _PLAIN.fullmatch(path):
        return path
    return _in_steps(_unescaped(path).partition(";")[0])


def _readings(path: str) -> Iterator[str]:
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


def is_for_people(path: str) -> bool:
    """Return whether a path, as it stands or as a lenient server would read it, is below `/-/`: it is nobody else's then."""
    if "-" not in path and "%" not in path:
        return False
    return any(f"{each}/".startswith(PEOPLE) for each in (path, *_readings(path)))


def shape_for_errors(path: str) -> Shape:
    """Return whose words to use about a request that was not read."""
    return Shape.ANTHROPIC if plain_path(path).startswith("/v1/messages") else Shape.OPENAI_CHAT
