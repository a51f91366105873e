"""The words of the simulator: how it declines, and what it says when it answers.

The words are data (`phrases.toml`, `answers.toml`) and never the prompt's own. Every language has every style.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from demur.simulate.dice import Dice

__all__ = [
    "LANGUAGES",
    "STYLES",
    "TOPICS",
    "answer_text",
    "fold_topic",
    "partial_text",
    "refusal_message",
    "refusal_text",
]

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


def refusal_message(topic: str) -> str:
    """Return what a refusal field says about a topic."""
    return _phrases().topics[topic]


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
