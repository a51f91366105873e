"""Which provider's door is this path, and what is behind it?

Laws: a path is matched whole; a door that exists and is knocked at with another method is 405, a path without a door
404, each in the words of the provider whose path it looks like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from demur.model.exchange import Shape

__all__ = ["Door", "Route", "route_of", "shape_of_path"]


class Door(StrEnum):
    """What a path asks for."""

    ANSWER = "answer"
    STREAM = "stream"
    MODERATIONS = "moderations"
    MODELS = "models"
    MODEL = "model"
    TOKENS = "tokens"
    HEALTH = "health"


@dataclass(frozen=True, slots=True)
class Route:
    """A door: what it gives, in which shape, for which model where the path names one."""

    door: Door
    shape: Shape
    model: str = ""

    @property
    def method(self) -> str:
        """The method that the door opens to."""
        return "GET" if self.door in (Door.MODELS, Door.MODEL, Door.HEALTH) else "POST"


_GEMINI = r"/v1(?:alpha|beta1?)?/(?:[\w/.@-]+/)?(?:models|tunedModels)/(?P<model>[^:/]+)"
_ROUTES = tuple(
    (re.compile(pattern), door, shape)
    for pattern, door, shape in (
        (r"(?:/v1)?/chat/completions", Door.ANSWER, Shape.OPENAI_CHAT),
        (r"(?:/v1)?/responses", Door.ANSWER, Shape.OPENAI_RESPONSES),
        (r"/v1/messages", Door.ANSWER, Shape.ANTHROPIC),
        (r"/v1/messages/count_tokens", Door.TOKENS, Shape.ANTHROPIC),
        (r"/openai/deployments/(?P<model>[^/]+)/chat/completions", Door.ANSWER, Shape.AZURE),
        (r"/openai/v1/chat/completions", Door.ANSWER, Shape.AZURE),
        (r"/openai/(?:v1/|deployments/(?P<model>[^/]+)/)?responses", Door.ANSWER, Shape.OPENAI_RESPONSES),
        (rf"{_GEMINI}:generateContent", Door.ANSWER, Shape.GEMINI),
        (rf"{_GEMINI}:streamGenerateContent", Door.STREAM, Shape.GEMINI),
        (rf"{_GEMINI}:countTokens", Door.TOKENS, Shape.GEMINI),
        (r"/model/(?P<model>.+)/converse", Door.ANSWER, Shape.BEDROCK),
        (r"/model/(?P<model>.+)/converse-stream", Door.STREAM, Shape.BEDROCK),
        (r"(?:/v1)?/moderations", Door.MODERATIONS, Shape.OPENAI_CHAT),
        (r"(?:/v1|/openai|/openai/v1)?/models", Door.MODELS, Shape.OPENAI_CHAT),
        (r"(?:/v1|/openai|/openai/v1)?/models/(?P<model>[^/:]+)", Door.MODEL, Shape.OPENAI_CHAT),
        (r"/v1beta/models", Door.MODELS, Shape.GEMINI),
        (r"/v1beta/models/(?P<model>[^/:]+)", Door.MODEL, Shape.GEMINI),
        (r"/(?:health)?", Door.HEALTH, Shape.OPENAI_CHAT),
    )
)


def route_of(path: str) -> Route | None:
    """Return the door at a path, None where there is none."""
    for pattern, door, shape in _ROUTES:
        found = pattern.fullmatch(path)
        if found is not None:
            return Route(door, shape, found.groupdict().get("model") or "")
    return None


def shape_of_path(path: str) -> Shape:
    """Return whose words to use about a path without a door."""
    if path.startswith("/v1/messages"):
        return Shape.ANTHROPIC
    if path.startswith("/model/"):
        return Shape.BEDROCK
    if path.startswith(("/v1beta", "/v1alpha")):
        return Shape.GEMINI
    return Shape.AZURE if path.startswith("/openai/") else Shape.OPENAI_CHAT
