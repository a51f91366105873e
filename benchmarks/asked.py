"""Exchanges to load a gateway with: requests such as applications send, each another one. Seeded, no text of others.

The mix: half are one question of 40 to 250 characters, a quarter has a system prompt of some 300 before it, a tenth is the third
turn of a conversation, and the rest carries a pasted text of 700 to 3,000 characters to work on. None is an attack, so that all of
them go on to the provider. Answers are those of `runs`, half to three times 1 KB long: a quarter of them with a phrase that
declining answers hold too, and five in a hundred decline.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from runs import answer, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["answer_bodies", "request_bodies"]

_TOPICS = (
    *("tides", "sourdough bread", "bicycle gears", "tax forms", "photosynthesis", "chess openings", "database indexes"),
    *("jazz harmony", "soil acidity", "mortgage rates", "vaccines", "solar panels", "Spanish verb tenses", "knots"),
    *("the French Revolution", "Python generators", "compound interest", "watercolour washes", "houseplants"),
)
_PEOPLE = ("a child of eight", "my team", "new customers", "a beginner", "the board", "our neighbours", "students")
_FORMS = ("in three short paragraphs", "as a list", "in plain words", "with one example", "in under 200 words")
_QUESTIONS = (
    "How do {topic} work? Explain it to {people} {form}.",
    "What should I know about {topic} before I start? Answer {form}, please.",
    "Write an e-mail to {people} about {topic}. Keep it friendly, mention the date {number} May, and sign it with my name.",
    "Compare {topic} with {other} {form}.",
    "I have {number} minutes and want to explain {topic} to {people}. What would you leave out?",
    "Give me {number} ideas for a workshop about {topic}, and say for each what {people} would get out of it.",
    "My code raises a KeyError when it looks up `{topic}` in a dict of {number} entries. How do I find the reason?",
    "Translate this sentence into German and French: we talked about {topic} for {number} minutes.",
)
_SYSTEM = (
    "You are the assistant of a small company that sells books about {topic}. Answer politely and briefly, {form}. If a "
    "question is about orders, ask for the order number first. Do not make up prices, and say so when you do not know "
    "something. Today is the {number}. of the month, and the shop is open from nine to five."
)
_TASKS = (
    "Summarise the following text {form}:\n\n{text}",
    "What are the main claims in this text, and which of them need a source?\n\n{text}",
    "Correct spelling and grammar, and change nothing else:\n\n{text}",
)
_PASTED = (
    "In the spring of 19{number}, a study of {topic} began with more questions than money.",
    "Nobody expected that {other} would matter, but the notes of the first {number} weeks say otherwise.",
    "Each visit was written down with its time, the weather and the number of people in the room.",
    "The report, which was read by {people}, asks for a second round with {number} more places.",
    "According to the appendix, {number} per cent of the answers mention {topic} without being asked.",
    "Later versions leave this paragraph out; we keep it, since the figures below depend on it.",
)


def request_bodies(count: int, *, seed: int = 1, stream: bool = False) -> Iterator[bytes]:
    """Yield the bodies of so many chat requests, no two alike."""
    draw = random.Random(seed)  # noqa: S311 — texts to measure with
    for number in range(count):
        body: dict[str, object] = {"model": "m", "messages": _messages(draw, number), "temperature": 0.7}
        yield json.dumps(body | ({"stream": True} if stream else {})).encode()


def answer_bodies(count: int, *, seed: int = 2) -> Iterator[bytes]:
    """Yield the bodies of so many chat completions."""
    draw = random.Random(seed)  # noqa: S311 — texts to measure with
    for number in range(count):
        declines = draw.random() < 0.05
        text = refusal(draw) if declines else "\n\n".join(answer(draw) for _ in range(draw.choice((1, 1, 1, 2, 3))))
        text = text if declines else text[: draw.randrange(400, 1 + max(401, len(text)))]
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 60 + number, "completion_tokens": len(text) // 4, "total_tokens": 900}
        body = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "m"}
        yield json.dumps({**body, "choices": [choice], "usage": usage}).encode()


def _messages(draw: random.Random, number: int) -> list[dict[str, str]]:
    kind = draw.random()
    asked = _filled(draw, draw.choice(_QUESTIONS)) + f" (Request {number}.)"
    if kind < 0.5:
        return [_turn("user", asked)]
    if kind < 0.75:
        return [_turn("system", _filled(draw, _SYSTEM)), _turn("user", asked)]
    if kind < 0.85:
        before = _filled(draw, draw.choice(_QUESTIONS))
        return [_turn("user", before), _turn("assistant", answer(draw)), _turn("user", asked)]
    pasted = " ".join(_filled(draw, draw.choice(_PASTED)) for _ in range(draw.randrange(8, 33)))
    return [_turn("user", _filled(draw, draw.choice(_TASKS)).replace("{text}", f"[{number}] {pasted}"))]


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _filled(draw: random.Random, text: str) -> str:
    topic, other = draw.sample(_TOPICS, 2)
    return text.format(
        topic=topic,
        other=other,
        people=draw.choice(_PEOPLE),
        form=draw.choice(_FORMS),
        number=draw.randrange(10, 60),
        text="{text}",
    )
