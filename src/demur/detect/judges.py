"""The ways to judge the text of a response: the learned detector, another tool's phrase list, a user's own pack.

A judge can be shared by threads and pickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from demur.detect.phrase_lists import MatchMode, Target, builtin_pack, find_substrings, find_words, words_matcher
from demur.detect.refusal.detector import RefusalDetector, Thresholds
from demur.detect.refusal.pack import load_refusal_pack
from demur.errors import PackError, UsageError
from demur.model.verdict import Cause, Outcome, Reason, Verdict
from demur.text.view import view, view_of

if TYPE_CHECKING:
    from demur.detect.matcher import Matcher
    from demur.detect.phrase_lists import Pack

__all__ = [
    "BLANK_CHARS",
    "READ_CHARS",
    "LearnedJudge",
    "PackJudge",
    "default_judge",
    "judge_named",
    "judge_of_pack",
    "judge_with",
]


READ_CHARS = 100_000  # how much of a response is judged: a model that has written a book first has not declined


BLANK_CHARS = 64  # a shorter view may be blank: any number of invisible characters folds to nothing


@dataclass(frozen=True)
class PackJudge:
    """Judges by a pack alone: refused if the text contains a phrase, complied otherwise."""

    pack: Pack

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop reasons that are abstentions by themselves."""
        return self.pack.stops

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        phrases = self.pack.phrases(Target.RESPONSE)
        if self.pack.match is MatchMode.SUBSTRING:
            findings = find_substrings(text, phrases, pack=self.pack.name)
        else:
            findings = find_words(view_of(text), self._matcher, phrases=phrases, pack=self.pack.name)
        # A phrase list has no degrees: the tools that these lists come from say yes or no, and so does the score.
        if findings:
            return Verdict(Outcome.REFUSED, 1.0, Reason.OTHER, Cause.TEXT, findings)
        return Verdict(Outcome.COMPLIED, 0.0, None, Cause.TEXT)

    @cached_property
    def _matcher(self) -> Matcher:
        folded = [view(phrase).strip() for phrase, _ in self.pack.phrases(Target.RESPONSE)]
        if not all(folded):
            raise PackError(
                f"pack `{self.pack.name}` has a phrase of invisible characters", hint="an empty phrase is everywhere"
            )
        return words_matcher(folded)


@dataclass(frozen=True)
class LearnedJudge:
    """Judges by the learned lexicon."""

    detector: RefusalDetector
    stops: tuple[str, ...] = ()

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        text = text[:READ_CHARS]
        seen = view(text)
        if len(seen) < BLANK_CHARS and not seen.strip():
            return Verdict(Outcome.EMPTY, 0.0)
        # Most responses hold nothing that declines; only the others need offsets in the original.
        if not self.detector.pack.screen.passes(seen.replace("\n", " ")):
            return self.detector.floor
        return self.detector.judge(view_of(text))


def judge_of_pack(pack: Pack) -> PackJudge:
    """Return the judge of a pack; raise `PackError` if it has no phrase for responses, since it would pass every one."""
    if not pack.phrases(Target.RESPONSE):
        raise PackError(f"pack `{pack.name}` has phrases for prompts only", hint="judge prompts with it: --prompt")
    return PackJudge(pack)


@cache
def judge_named(name: str) -> PackJudge:
    """Return the judge of a pack that ships with Demur."""
    return judge_of_pack(builtin_pack(name))


@cache
def default_judge() -> LearnedJudge:
    """Return the judge that is used where none is named."""
    return LearnedJudge(RefusalDetector(load_refusal_pack()))


def judge_with(*, refused: float | None = None, complied: float | None = None) -> LearnedJudge:
    """Return the learned judge with thresholds of the user's own; between them a response is `unsure`."""
    for value in (refused, complied):
        if value is not None and not 0.0 < value <= 1.0:
            raise UsageError(f"`{value}` is no threshold", hint="give a probability above 0 and at most 1")
    if refused is not None and complied is not None and complied > refused:
        raise UsageError(f"`{complied}` to comply is above `{refused}` to refuse", hint="swap the two")
    return LearnedJudge(RefusalDetector(load_refusal_pack(), Thresholds(refused, complied)))
