"""What arrives while an answer is still being written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Channel", "Delta"]


class Channel(StrEnum):
    """Which of a choice's strands a piece belongs to."""

    TEXT = "text"
    REFUSAL = "refusal"
    THINKING = "thinking"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer: which choice, which strand, and the characters that are new."""

    choice: int
    channel: Channel
    text: str
