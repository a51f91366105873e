"""In which words does the simulator decline?

Laws: the words are data (`phrases.toml`); every language has every style; every topic has a message that names it, and
only self-harm's names help for the mind.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

__all__ = ["LANGUAGES", "STYLES", "TOPICS", "fold_topic", "partial_text", "refusal_message", "refusal_text"]

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


class _Phrases(msgspec.Struct, frozen=True):
    topics: dict[str, str]
    folds: dict[str, str]
    text: dict[str, dict[str, str]]
    partial: dict[str, str]


@cache
def _phrases() -> _Phrases:
    text = resources.files("demur.simulate").joinpath("phrases.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Phrases)


def fold_topic(category: str) -> str:
    """Return the topic under which the simulator answers a detector's category; a strange one is `other`."""
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
