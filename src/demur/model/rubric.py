"""What a judge is asked, and what came back.

Laws: a judge answers with one of the rubric's labels or it has not answered: there is no middle score for a failed call; what
was spent is counted beside every answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["JudgeAsk", "JudgeReply", "JudgeUsage", "Rubric", "RubricLabel", "RubricMode"]


class RubricMode(StrEnum):
    """Whether each answer is judged alone, or the two against each other."""

    SINGLE = "single"
    PAIRWISE = "pairwise"


@dataclass(frozen=True, slots=True)
class RubricLabel:
    """A label that the judge may give, its meaning, and its score from 0 (worst) to 1.

    `bad` labels of a single rubric are counted, each as a rate of its own.
    """

    name: str
    score: float
    meaning: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Rubric:
    """A policy, and the labels by which an answer is held against it.

    A pairwise rubric has the labels `first_worse`, `same` and `second_worse`.
    """

    name: str
    domain: str
    policy: str
    labels: tuple[RubricLabel, ...]
    mode: RubricMode = RubricMode.SINGLE


@dataclass(frozen=True, slots=True)
class JudgeAsk:
    """One question to a judge: what it is told, what it is shown, and the labels it may answer with."""

    system: str
    user: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What came back: the text, or why there is none; the calls it took and the tokens they cost."""

    text: str | None
    why: str = ""
    cached: bool = False
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class JudgeUsage:
    """What judging took: questions, HTTP calls, answers from the cache, questions left without a verdict, tokens, cost."""

    asked: int = 0
    calls: int = 0
    cached: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
