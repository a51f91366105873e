"""The words of the simulator: how it declines, and what it says when it answers.

The words are data (`phrases.toml`, `answers.toml`) and never the prompt's own. Every language has every style.

Draws that are functions of the request and a seed, so that the same request gives the same bytes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import resources
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "LANGUAGES",
    "STYLES",
    "TOPICS",
    "Dice",
    "answer_text",
    "dice_for",
    "fold_topic",
    "partial_text",
    "refusal_message",
    "refusal_text",
]

T = TypeVar("T")

_DRAW_BYTES = 8
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws for one request."""

    key: bytes

    def chance(self, label: str) -> float:
        """Return a number from 0 up to, but not including, 1."""
        # 53 bits: the most that a float below 1 can hold without rounding up to it.
        return (self._number(label) >> 11) / 2**53

    def pick(self, label: str, among: Sequence[T]) -> T:
        """Return one of them; there must be one."""
        return among[self._number(label) % len(among)]

    def word(self, label: str, length: int) -> str:
        """Return hexadecimal digits, at most 128, as for an id."""
        return blake2b(label.encode(), key=self.key).hexdigest()[:length]

    def whole(self, label: str, below: int) -> int:
        """Return a whole number from 0 up to, but not including, `below`."""
        return self._number(label) % below

    def _number(self, label: str) -> int:
        # Keyed by its label: the order of draws does not matter, and a new kind of draw changes no other.
        return int.from_bytes(blake2b(label.encode(), key=self.key, digest_size=_DRAW_BYTES).digest())


def dice_for(seed: int, *parts: bytes) -> Dice:
    """Return the draws of a request, given by its parts (path, body, number of the attempt)."""
    mixed = blake2b(str(seed).encode(), digest_size=_KEY_BYTES)
    for part in parts:
        # With its length, so that no two ways to cut the same bytes into parts collide.
        mixed.update(len(part).to_bytes(8) + part)
    return Dice(mixed.digest())


LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "ru", "zh", "ja", "ko", "ar", "hi")
STYLES = ("soft", "curt", "moral", "redirect", "capability")
TOPICS = (
    "violence",
    "illegal",
    "self_harm",
    "sexual_minors",
    "hate",
    "harassment",
    "sexual",
    "misinformation",
    "other",
    "jailbreak",
    "benign",
)


class _Answers(msgspec.Struct, frozen=True):
    openings: list[str]
    middles: list[str]
    ends: list[str]


class _Phrases(msgspec.Struct, frozen=True):
    topics: dict[str, str]
    beside: dict[str, str]
    folds: dict[str, str]
    text: dict[str, dict[str, str]]
    partial: dict[str, str]


@cache
def _phrases() -> _Phrases:
    return msgspec.convert(_data_file("phrases.toml"), _Phrases)


@cache
def _answers() -> _Answers:
    return msgspec.convert(_data_file("answers.toml"), _Answers)


def _data_file(name: str) -> dict[str, object]:
    return tomllib.loads(resources.files("demur.simulate").joinpath(name).read_text(encoding="utf-8"))


def fold_topic(category: str) -> str:
    """Return the topic under which the simulator answers a detector's category; an unknown one is `other`."""
    topic = _phrases().folds.get(category, category)
    return topic if topic in TOPICS else "other"


def refusal_message(topic: str, *, jailbreak: bool = False) -> str:
    """Return what a refusal field says about a topic; of a harmful one that is a `jailbreak` too, both."""
    message = _phrases().topics[topic]
    return f"{message} {_phrases().beside['jailbreak']}" if jailbreak and topic != "jailbreak" else message


def refusal_text(language: str, style: str) -> str:
    """Return a refusal that is nothing but text."""
    return _phrases().text[language][style]


def partial_text(language: str) -> str:
    """Return an answer to one half that declines the other."""
    return _phrases().partial[language]


def answer_text(dice: Dice, choice: int) -> str:
    """Return a plausible answer to a harmless prompt."""
    words = _answers()
    parts = (("opening", words.openings), ("middle", words.middles), ("end", words.ends))
    # The label has the number of the choice, so that each choice of a response has a draw of its own.
    return " ".join(dice.pick(f"{name} {choice}", part) for name, part in parts)
