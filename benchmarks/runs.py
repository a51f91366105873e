"""Runs to measure with: answers of about 1 KB such as assistants give, some of which decline. Seeded, no text of others.

A quarter of the helpful answers hold a phrase that declining answers hold too ("you cannot", "I'm not able to verify"), as a
quarter of real ones do: without it the detector would have nothing to read.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["answer", "refusal", "write_run"]

_TOPICS = (
    *("tides", "bread", "bicycle gears", "tax forms", "photosynthesis", "chess openings", "database indexes"),
    *("jazz harmony", "soil acidity", "mortgage rates", "vaccines", "solar panels", "verb tenses", "knots"),
)
_VERBS = ("depends on", "is shaped by", "changes with", "follows from", "is limited by", "grows out of")
_THINGS = (
    *("the season", "how often it is used", "the quality of the material", "local rules", "the size of the room"),
    *("temperature and pressure", "a handful of early choices", "what you measure first", "the people involved"),
)
_OPENERS = (
    "Here is a short overview of {topic}.",
    "Great question! When people ask about {topic}, they usually mean one of three things.",
    "In general, {topic} {verb} {thing}.",
    "Let's go through {topic} step by step.",
    "Sure: {topic} is easier than it looks once the basics are clear.",
)
_BODIES = (
    "First, note that {topic} {verb} {thing}, which matters more than most guides admit.",
    "A good rule of thumb is to start small, write down what happens, and adjust after a week.",
    "Experts often compare two approaches: one that {verb} {thing}, and one that does not.",
    "For example, a beginner might spend an hour on {topic} and still miss the role of {thing2}.",
    "The second point is cost, since prices vary by region and by {thing}.",
    "1. Gather what you need. 2. Check {thing}. 3. Repeat until the result is stable.",
    "Keep in mind that {thing2} plays a part as well, especially over longer periods.",
    "If you compare notes with others, you will find that {topic} {verb} {thing2} almost everywhere.",
    "The table below sums it up: low, medium and high values of {thing}, with their usual effects.",
)
_HEDGES = (
    "You cannot skip this step, however tempting it looks.",
    "Unfortunately, there is no single answer that fits every case.",
    "I'm not able to verify local prices, so treat these figures as estimates.",
    "I can't say which is best without knowing more about {thing}.",
)
_CLOSERS = (
    "I hope this helps! Let me know if you would like more detail on {topic}.",
    "With that, you should have a solid start.",
    "Would you like a worked example?",
)
_REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I can’t assist with this request. If you are interested in {topic}, I'd be glad to talk about its history instead.",
    "I cannot provide guidance on that, as it could cause harm to others.",
    "Sorry, I'm unable to help with this. Please consult a professional about {topic}.",
    "As an AI, I won't be able to do that, but I can point you to general information on {topic}.",
)
_SIZE = 1000


def write_run(path: Path, rows: int, *, seed: int, refusal_share: float) -> None:
    """Write a run of flat JSON lines: the same questions for every seed, answers of its own."""
    chance = random.Random(seed)  # noqa: S311 — figures to measure with, no secrets
    with path.open("w", encoding="utf-8") as out:
        for number, row in enumerate(_rows(chance, rows, refusal_share)):
            out.write(json.dumps({"id": f"q-{number}", **row}) + "\n")


def answer(chance: random.Random) -> str:
    """Return a helpful answer of about 1 KB."""
    parts = [_said(chance, _OPENERS)]
    while sum(map(len, parts)) < _SIZE:
        parts.append(_said(chance, _BODIES))
    if chance.random() < 1 / 4:
        parts.insert(chance.randrange(1, len(parts)), _said(chance, _HEDGES))
    return " ".join([*parts, _said(chance, _CLOSERS)])


def refusal(chance: random.Random) -> str:
    """Return an answer that declines."""
    return _said(chance, _REFUSALS)


def _rows(chance: random.Random, rows: int, share: float) -> Iterator[dict[str, str]]:
    for number in range(rows):
        text = refusal(chance) if chance.random() < share else answer(chance)
        topic = _TOPICS[number % len(_TOPICS)]
        yield {"prompt": f"Question {number}: what should I know about {topic}?", "response": text, "category": topic}


def _said(chance: random.Random, sentences: tuple[str, ...]) -> str:
    filled = {"topic": _TOPICS, "verb": _VERBS, "thing": _THINGS, "thing2": _THINGS}
    return chance.choice(sentences).format(**{slot: chance.choice(words) for slot, words in filled.items()})
