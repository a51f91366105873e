"""The auditors that come with Demur: the seed's claims and finer ones, made by our own detectors.

Laws: the claims, their types and which of them quote are those of the policies' own vocabulary; signals outrank text, as
everywhere; `model_refused` means an abstention: refused or filtered; a text of more than `MOST_CHARS` is not read in part, for
the part left out could be the attack: it is a problem, and the chain's failure mode decides; both auditors ask for one verdict on one
text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from demur._version import __version__
from demur.audit.causes import causes_of
from demur.audit.sdk import ClaimsAuditor, claims
from demur.audit.subjects import Handed
from demur.detect.check import check, classify_once
from demur.detect.judges import default_judge
from demur.detect.prompts.check import check_prompt_once, default_prompt_judge
from demur.errors import UsageError
from demur.model.audit import Problem
from demur.model.claim import Phase, Vocabulary
from demur.model.exchange import Response
from demur.policy.vocabulary import SAFETY_VOCABULARY
from demur.text.language import language_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.model.prompt import PromptVerdict
    from demur.model.verdict import Verdict

__all__ = ["BUILTIN_AUDITORS", "MOST_CHARS", "RefusalAuditor", "SafetyChecker", "builtin_auditor"]

MOST_CHARS = 1_000_000
"""Of a text that is read: about a second's work."""
_TOO_LONG = Problem("too_long", f"a text of more than {MOST_CHARS:,} characters is not read")


def _vocabulary_of(*names: str) -> Vocabulary:
    return Vocabulary(tuple(spec for spec in SAFETY_VOCABULARY.specs if spec.name in names))


class SafetyChecker(ClaimsAuditor):
    """The seed's five claims."""

    auditor_id = "safety-checker"
    version = __version__
    vocabulary = _vocabulary_of(
        "toxic_content", "refusal_category", "safety_flagged", "model_refused", "refusal_phrase"
    )

    @claims(phase=Phase.REQUEST)
    def check_adversarial(self, request: Mapping[str, object]) -> dict[str, object] | Problem:
        """State whether the prompt is an attack or asks for harm, and of which kind."""
        verdict = _prompt_verdict(request)
        if verdict is None:
            return _TOO_LONG
        return {
            "toxic_content": verdict.toxic_content,
            "refusal_category": next(iter((*verdict.attacks, *verdict.harm)), None),
            "safety_flagged": verdict.adversarial or bool(verdict.harm),
        }

    @claims(phase=Phase.RESPONSE)
    def check_refusal(self, response: Mapping[str, object]) -> dict[str, object] | Problem:
        """State whether the model refused, and by which words."""
        found = _response_verdict(response)
        if found is None:
            return _TOO_LONG
        verdict, text = found
        return {
            "model_refused": verdict.abstained,
            "refusal_phrase": _heaviest_words(verdict, text) if verdict.abstained else None,
        }


class RefusalAuditor(ClaimsAuditor):
    """Finer claims: outcome, score and reason of an answer; attack, harm and language of a prompt."""

    auditor_id = "refusal-detector"
    version = __version__
    vocabulary = _vocabulary_of(
        "adversarial_score",
        "adversarial_flagged",
        "harm_categories",
        "harm_score",
        "language",
        "refusal_outcome",
        "refusal_score",
        "refusal_reason",
        "refusal_cause",
    )

    @claims(phase=Phase.REQUEST)
    def judge_prompt(self, request: Mapping[str, object]) -> dict[str, object] | Problem:
        """State how likely the prompt is an attack, and which harm it asks for."""
        verdict = _prompt_verdict(request)
        if verdict is None:
            return _TOO_LONG
        return {
            "adversarial_score": verdict.score,
            "adversarial_flagged": verdict.adversarial,
            "harm_categories": verdict.harm,
            "harm_score": verdict.harm_score,
            "language": language_of(str(request.get("prompt") or "")),
        }

    @claims(phase=Phase.RESPONSE)
    def judge_response(self, response: Mapping[str, object]) -> dict[str, object] | Problem:
        """State what happened in the response, how surely, and why."""
        found = _response_verdict(response)
        if found is None:
            return _TOO_LONG
        verdict, _ = found
        return {
            "refusal_outcome": str(verdict.outcome),
            "refusal_score": verdict.score,
            "refusal_reason": str(verdict.reason) if verdict.reason else None,
            "refusal_cause": next(map(str, causes_of(verdict, blocked=False)), None),
        }


BUILTIN_AUDITORS: Final[Mapping[str, type[ClaimsAuditor]]] = {
    SafetyChecker.auditor_id: SafetyChecker,
    RefusalAuditor.auditor_id: RefusalAuditor,
}


def builtin_auditor(name: str) -> ClaimsAuditor:
    """Return an auditor that comes with Demur, its detectors loaded, so that the first exchange does not wait for them."""
    kind = BUILTIN_AUDITORS.get(name)
    if kind is None:
        hint = f"choose from {', '.join(BUILTIN_AUDITORS)}, or name a class as module:Class"
        raise UsageError(f"no auditor is called `{name}`", hint=hint)
    default_prompt_judge()
    default_judge()
    return kind()


def _prompt_verdict(request: Mapping[str, object]) -> PromptVerdict | None:
    """Return what is found in a prompt, None where it is too long to be read."""
    text = str(request.get("prompt") or "")
    return None if len(text) > MOST_CHARS else check_prompt_once(text)


def _response_verdict(response: Mapping[str, object]) -> tuple[Verdict, str] | None:
    """Return what is found in a response and the text that was read, None where that is too long."""
    if len(str(response.get("content") or "")) > MOST_CHARS:
        return None
    source = response.source if isinstance(response, Handed) else None
    if isinstance(source, Response):
        return classify_once(source)
    text = str(response.get("content") or "")
    return check(text), text


def _heaviest_words(verdict: Verdict, text: str) -> str | None:
    """Return the words that weighed most, None where a signal decided without any."""
    best = max((f for f in verdict.findings if f.span.of(text)), key=lambda f: f.weight, default=None)
    return best.span.of(text) if best else None
