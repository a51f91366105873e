"""What a prompt tries: an attack on the model's instructions, a harmful request, both or neither.

The text is read as it is and, where it looks disguised, with the disguise removed; the strongest reading wins. Spans are in
the text that was read, no text raises, and time is linear in its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from demur.detect.phrase_lists import Target, find_substrings
from demur.detect.prompts.features import SUFFIX, UNNAMED, attack_score, distinct_attacks, harm_categories, harm_score
from demur.detect.prompts.pack import find_evidence, prompt_pack
from demur.errors import PackError, ShapeError
from demur.model.exchange import Exchange, Request
from demur.model.verdict import Finding, PromptVerdict
from demur.text.normalise import normalise, view
from demur.text.unmask import unmask
from demur.wire.fields import plain
from demur.wire.shapes import CODECS, shape_of_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from demur.detect.check import PromptJudge
    from demur.detect.phrase_lists import Pack
    from demur.detect.prompts.pack import Evidence, PromptPack, PromptScore, Spans
    from demur.model.verdict import NormalText

__all__ = [
    "ATTACK_CATEGORIES",
    "WINDOW",
    "PromptDetector",
    "PromptPackJudge",
    "check_prompt",
    "default_prompt_judge",
    "prompt_judge_at",
    "prompt_judge_of_pack",
    "prompt_text",
    "windows",
]

# Characters that are judged together: longer than nearly every prompt, short enough that padding does not dilute an
# attack. Windows overlap, so that none hides on a border.
WINDOW = 16_000
_OVERLAP = 2_000
_TOXIC_PER_ATTACK = 0.45
_SPANS_PER_RULE = 3
_KINDS = {
    "override": "injection",
    "delimiter": "injection",
    "extraction": "extraction",
    "secret": "extraction",
    "jailbreak": "jailbreak",
    SUFFIX: "jailbreak",
    UNNAMED: "jailbreak",
}


class _Judged(msgspec.Struct, frozen=True):
    """One window of one reading, judged."""

    method: str
    normal: NormalText
    offset: int
    evidence: Evidence
    attack: PromptScore
    harm: PromptScore


@dataclass(frozen=True, slots=True)
class PromptDetector:
    """Judges by the trained pack."""

    pack: PromptPack = field(default_factory=prompt_pack)

    def judge(self, text: str) -> PromptVerdict:
        """Return what a prompt tries, with spans in it; there is at least one window, even of an empty text."""
        readings = self._read(text)
        attack = harm = next(readings)
        families = set(self._attacks(attack))
        for judged in readings:
            found = self._attacks(judged)
            families.update(found)
            # Removing a disguise can make words out of noise, so such a reading wins only if it is flagged.
            if judged.attack.margin > attack.attack.margin and (found or not judged.method):
                attack = judged
            if judged.harm.margin > harm.harm.margin and (judged.harm.flagged or not judged.method):
                harm = judged
        chosen = [judged for judged, found in ((attack, attack.attack), (harm, harm.harm)) if found.flagged]
        if not chosen:
            return PromptVerdict(adversarial=False, score=attack.attack.probability, harm_score=harm.harm.probability)
        # The unnamed family is a fallback: beside a named one it would count the same attack twice.
        named = families - {UNNAMED} or families
        return PromptVerdict(
            adversarial=attack.attack.flagged,
            score=attack.attack.probability,
            attacks=tuple(sorted({_KINDS[family] for family in named})),
            harm=harm_categories(harm.harm, self.pack),
            harm_score=harm.harm.probability,
            toxic_content=min(1.0, _TOXIC_PER_ATTACK * len(named)),
            findings=(*self._findings(attack, attack.attack), *self._findings(harm, harm.harm)),
            readings=tuple(dict.fromkeys(judged.method for judged in chosen if judged.method)),
        )

    def _attacks(self, judged: _Judged) -> tuple[str, ...]:
        """Return the distinct attacks in a window; one that shows only without its disguise must be of a named family."""
        found = distinct_attacks(judged.evidence, judged.attack, pack=self.pack)
        return () if judged.method and found == (UNNAMED,) else found

    def _read(self, text: str) -> Iterator[_Judged]:
        """Yield every window of every reading, the text as it is first."""
        for method, normal in [("", normalise(text)), *((found.method, found.normal) for found in unmask(text))]:
            for offset, seen in windows(normal):
                # Once a disguise is off, capitals, brackets and lines are what it left behind and say nothing.
                raw = "" if method else normal.span(offset, offset + len(seen)).of(text)
                evidence = find_evidence(seen, raw, self.pack)
                attack, harm = attack_score(evidence, self.pack), harm_score(evidence, self.pack)
                yield _Judged(method, normal, offset, evidence, attack, harm)

    def _findings(self, judged: _Judged, found: PromptScore) -> Iterator[Finding]:
        """Yield the classes that spoke for a flag, the heaviest first."""
        if not found.flagged:
            return
        spans: Mapping[str, Spans] = {**judged.evidence.attack, **judged.evidence.harm}
        for name in sorted(found.weights, key=lambda name: (-found.weights[name], name)):
            weight = found.weights[name]
            for start, end in sorted(set(spans.get(name, ())))[:_SPANS_PER_RULE] if weight > 0 else ():
                span = judged.normal.span(judged.offset + start, judged.offset + end)
                yield Finding(name, self.pack.classes[name].family, weight, span)


def check_prompt(prompt: object, *, judge: PromptJudge | None = None) -> PromptVerdict:
    """Return what a prompt tries: a text, a provider's request, or a list of messages."""
    return (judge or default_prompt_judge()).judge(prompt_text(prompt))


def prompt_judge_at(*, attack: float = 0.5, harm: float = 0.5) -> PromptDetector:
    """Return the judge that flags from these probabilities on."""
    pack = prompt_pack()
    return PromptDetector(replace(pack, attack=pack.attack.at(attack), harm=pack.harm.at(harm)))


@cache
def default_prompt_judge() -> PromptDetector:
    """Return the judge that is used where none is named."""
    return PromptDetector()


def prompt_text(prompt: object) -> str:
    """Return the text of all user turns: what a verdict's spans count in."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Exchange) and prompt.request is not None:
        return prompt.request.prompt
    if isinstance(prompt, Request):
        return prompt.prompt
    body = plain(prompt)
    if isinstance(body, list):
        # A list of turns as the request that they belong to: Gemini's have parts, all others content.
        parts = any(isinstance(turn, dict) and "parts" in turn for turn in body)
        body = {"contents" if parts else "messages": body}
    shape = shape_of_request(body)
    if shape is not None:
        return CODECS[shape].read_request(body).prompt
    raise ShapeError("unknown shape of a prompt", hint=f"expected a text, or a request of {', '.join(CODECS)}")


def windows(normal: NormalText) -> Iterator[tuple[int, str]]:
    """Yield the offset and the view of each window of a normalised text; a short text is one window."""
    text = normal.text
    start = 0
    while True:
        piece = text[start : start + WINDOW]
        yield start, piece if piece.isascii() else view(piece)
        if start + WINDOW >= len(text):
            return
        start += WINDOW - _OVERLAP


ATTACK_CATEGORIES = frozenset({"adversarial", "attack", "jailbreak", "injection", "extraction"})


@dataclass(frozen=True, slots=True)
class PromptPackJudge:
    """Judges by a pack's prompt phrases alone."""

    pack: Pack

    def judge(self, text: str) -> PromptVerdict:
        """Return what the pack finds in a prompt, its categories in the order of the pack."""
        findings = find_substrings(text, self.pack.phrases(Target.PROMPT), pack=self.pack.name)
        attacks = [f.category for f in findings if f.category in ATTACK_CATEGORIES]
        harm = tuple(dict.fromkeys(f.category for f in findings if f.category not in ATTACK_CATEGORIES))
        return PromptVerdict(
            adversarial=bool(attacks),
            score=float(bool(attacks)),
            attacks=tuple(dict.fromkeys(attacks)),
            harm=harm,
            harm_score=float(bool(harm)),
            toxic_content=min(1.0, _TOXIC_PER_ATTACK * len(attacks)),
            findings=findings,
        )


def prompt_judge_of_pack(pack: Pack) -> PromptPackJudge:
    """Return the judge of a pack; raise `PackError` if it has no phrase for prompts, since it would pass every one."""
    if not pack.phrases(Target.PROMPT):
        raise PackError(f"pack `{pack.name}` has phrases for responses only", hint="drop --prompt")
    return PromptPackJudge(pack)
