"""Which requests are read, and in whose words? By the end of the path, however it is spelt.

Laws: what a provider could take for an audited path is audited: escapes, doubled slashes, dots, capitals and parameters lead to
the same door, in any reading of those that servers differ about, and below the path that the provider's own address begins
with; so does any method that brings a body; whatever is no door is passed on unread or refused, by the settings, and
never half read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from demur.http.paths import path_readings
from demur.model.exchange import Shape

__all__ = ["PEOPLE", "AuditedRoute", "audited_route", "is_for_people"]

PEOPLE = "/-/"
"""Below this path are the gateway's pages for people; no provider has any."""

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")
_ENDS = (
    ("/chat/completions", Shape.OPENAI_CHAT),
    ("/responses", Shape.OPENAI_RESPONSES),
    ("/v1/messages", Shape.ANTHROPIC),
)
_UNAUDITED = frozenset(("GET", "HEAD", "DELETE", "OPTIONS", "TRACE"))
"""What asks no model for an answer; these fetch, list and delete stored ones."""


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
    for plain in path_readings(prefix + path):
        lowered = plain.lower()
        for end, shape in _ENDS:
            if lowered.endswith(end):
                found = _DEPLOYMENT.search(plain)
                is_azure = shape is Shape.OPENAI_CHAT and (found is not None or lowered.startswith("/openai/"))
                return AuditedRoute(Shape.AZURE if is_azure else shape, found[1] if found else "")
    return None


def is_for_people(path: str) -> bool:
    """Return whether a path, as it stands or as a lenient server would read it, is below `/-/`: it is nobody else's then."""
    if "-" not in path and "%" not in path:
        return False
    return any(f"{each}/".startswith(PEOPLE) for each in (path, *path_readings(path)))
