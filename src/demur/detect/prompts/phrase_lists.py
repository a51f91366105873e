"""What does a phrase pack alone say of a prompt?

Laws: a hit of a category that is an attack makes the prompt adversarial, any other category is a harm; `toxic_content` is
Lucid's score, 0.45 for each distinct attack phrase found and at most 1; a pack gives no probability, so its scores
are 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.detect.pack import Target
from demur.detect.substring import find_substrings
from demur.errors import PackError
from demur.model.verdict import PromptVerdict

if TYPE_CHECKING:
    from demur.detect.pack import Pack

__all__ = ["ATTACK_CATEGORIES", "PromptPackJudge", "prompt_judge_of_pack"]

ATTACK_CATEGORIES = frozenset({"adversarial", "attack", "jailbreak", "injection", "extraction"})
_TOXIC_PER_ATTACK = 0.45


@dataclass(frozen=True, slots=True)
class PromptPackJudge:
    """Judges by a pack's prompt phrases alone."""

    pack: Pack

    def judge(self, text: str) -> PromptVerdict:
        """Return what the pack finds in a prompt; categories stand in the order of the pack."""
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
    """Return the judge of a pack; one without a phrase for prompts would pass every one, and is refused."""
    if not pack.phrases(Target.PROMPT):
        raise PackError(f"pack `{pack.name}` has phrases for responses only", hint="drop --prompt")
    return PromptPackJudge(pack)
