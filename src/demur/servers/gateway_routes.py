"""Which requests are read, and in whose words? By the end of the path, however it is spelt.

Laws: what a provider could take for an audited path is audited: escapes, doubled slashes, dots and capitals lead to the
same door; whatever is no door is passed on unread or refused, by the settings, and never half read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from demur.model.exchange import Shape

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


@dataclass(frozen=True, slots=True)
class AuditedRoute:
    """A door whose requests and answers are read; `model` where the path names it, as Azure's does."""

    shape: Shape
    model: str = ""

    @property
    def label(self) -> str:
        """The shape as figures and logs name it: Azure speaks OpenAI's."""
        return Shape.OPENAI_CHAT.value if self.shape is Shape.AZURE else self.shape.value


def audited_route(method: str, path: str) -> AuditedRoute | None:
    """Return the door at a path, None where nothing is read."""
    if method != "POST":
        return None
    plain = plain_path(path)
    lowered = plain.lower()
    for end, shape in _ENDS:
        if lowered.endswith(end):
            found = _DEPLOYMENT.search(plain)
            is_azure = shape is Shape.OPENAI_CHAT and (found is not None or lowered.startswith("/openai/"))
            return AuditedRoute(Shape.AZURE if is_azure else shape, found[1] if found else "")
    return None


def plain_path(path: str) -> str:
    """Return a path as a lenient server would read it: no escapes, no empty or dotted steps, no slash at the end."""
    for _ in range(_ROUNDS):
        again = unquote(path)
        if again == path:
            break
        path = again
    steps: list[str] = []
    for step in path.replace("\\", "/").partition(";")[0].split("/"):
        if step == "..":
            del steps[-1:]
        elif step.strip(" \t\0") not in ("", "."):
            steps.append(step.strip(" \t\0"))
    return "/" + "/".join(steps)


def is_for_people(path: str) -> bool:
    """Return whether a path, as it stands or as a lenient server would read it, is below `/-/`: it is nobody else's then."""
    if "-" not in path and "%" not in path:
        return False
    return any(f"{each}/".startswith(PEOPLE) for each in (path, plain_path(path)))


def shape_for_errors(path: str) -> Shape:
    """Return whose words to use about a request that was not read."""
    return Shape.ANTHROPIC if plain_path(path).startswith("/v1/messages") else Shape.OPENAI_CHAT
