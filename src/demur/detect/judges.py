"""The ways to judge the text of an answer: the learned detector, a seed's list, a pack of the user's own.

Laws: a judge is built once and can be used by many threads and pickled; the learned detector is the default.
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
    from demur.model.verdict import Finding

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


READ_CHARS = 100_000  # how much of an answer is judged: whoever has written a book before declining has not declined


BLANK_CHARS = 64  # a view shorter than this may be blank: whatever number of invisible characters folds to nothing


@dataclass(frozen=True)
class PackJudge:
    """Judges by a pack alone: refused where a phrase stands in the text, complied otherwise."""

    pack: Pack

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop reasons that are abstentions by themselves."""
        return self.pack.stops

    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text."""
        findings = self._find(text)
        if findings:
            return Verdict(Outcome.REFUSED, 1.0, Reason.OTHER, Cause.TEXT, findings)
        return Verdict(Outcome.COMPLIED, 0.0, None, Cause.TEXT)

    def _find(self, text: str) -> tuple[Finding, ...]:
        phrases = self.pack.phrases(Target.RESPONSE)
        if self.pack.match is MatchMode.SUBSTRING:
            return find_substrings(text, phrases, pack=self.pack.name)
        return find_words(view_of(text), self._matcher, phrases=phrases, pack=self.pack.name)

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
        # Most answers hold nothing that declines; only the others are worth the way back to the original.
        text = text[:READ_CHARS]
        seen = view(text)
        if len(seen) < BLANK_CHARS and not seen.strip():
            return Verdict(Outcome.EMPTY, 0.0)
        if not self.detector.pack.screen.passes(seen.replace("\n", " ")):
            return self.detector.floor
        return self.detector.judge(view_of(text))


def judge_of_pack(pack: Pack) -> PackJudge:
    """Return the judge of a pack; one without a phrase for responses would pass every one, and is refused."""
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
    """Return the learned judge with thresholds of the user's own; between them an answer is `unsure`."""
    for value in (refused, complied):
        if value is not None and not 0.0 < value <= 1.0:
            raise UsageError(f"`{value}` is no threshold", hint="give a probability above 0 and at most 1")
    if refused is not None and complied is not None and complied > refused:
        raise UsageError(f"`{complied}` to comply is above `{refused}` to refuse", hint="swap the two")
    return LearnedJudge(RefusalDetector(load_refusal_pack(), Thresholds(refused, complied)))
