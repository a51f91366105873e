"""The auditors that come with Demur: Lucid's five claims and finer ones, made by our own detectors.

The claims, their types and which of them quote are those of `SAFETY_VOCABULARY`. Both auditors share one verdict per
text, and the gateway records that same verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from demur._version import __version__
from demur.audit.claims import decline_causes
from demur.audit.inputs import AuditorInput, request_input, response_input
from demur.audit.sdk import ClaimsAuditor, claims
from demur.detect.check import classify_text, default_judge
from demur.detect.prompts.check import check_prompt, default_prompt_judge
from demur.errors import UsageError
from demur.model.claim import Phase, Problem, Vocabulary
from demur.model.exchange import Choice, Message, Request, Response, TextPart
from demur.policy.values import SAFETY_VOCABULARY
from demur.text.language import language_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.model.verdict import PromptVerdict, Verdict

__all__ = ["BUILTIN_AUDITORS", "MAX_CHARS", "RefusalAuditor", "SafetyChecker", "builtin_auditor", "response_verdict"]

MAX_CHARS = 1_000_000
"""Of a text that is read: about a second's work."""
# Not read in part, for the part left out could be the attack: the chain's failure mode decides.
_TOO_LONG = Problem("too_long", f"a text of more than {MAX_CHARS:,} characters is not read")


def response_verdict(given: AuditorInput) -> Verdict:
    """Return the verdict on the response that auditors are asked about, judged once for all of them."""
    return given.shared(_classify)[0]


def _classify(given: AuditorInput) -> tuple[Verdict, str]:
    """Return the verdict and the text that its spans count in."""
    return classify_text(given.response)


def _judge_prompt(given: AuditorInput) -> PromptVerdict:
    return check_prompt(given.prompt)


def _as_input(given: AuditorInput | Mapping[str, object], phase: Phase) -> AuditorInput | None:
    """Return what to judge, None where its text is too long; a method called by hand may be given a bare mapping."""
    if not isinstance(given, AuditorInput):
        if phase is Phase.REQUEST:
            given = request_input(Request("", (Message("user", (TextPart(str(given.get("prompt") or "")),)),)))
        else:
            given = response_input(Response("", (Choice(0, (TextPart(str(given.get("content") or "")),)),)))
    return None if len(given.prompt if phase is Phase.REQUEST else given.content) > MAX_CHARS else given


def _vocabulary_of(*names: str) -> Vocabulary:
    return Vocabulary(tuple(spec for spec in SAFETY_VOCABULARY.specs if spec.name in names))


class SafetyChecker(ClaimsAuditor):
    """Lucid's five claims."""

    auditor_id = "safety-checker"
    version = __version__
    vocabulary = _vocabulary_of(
        "toxic_content", "refusal_category", "safety_flagged", "model_refused", "refusal_phrase"
    )

    @claims(phase=Phase.REQUEST, typed=True)
    def check_adversarial(self, request: AuditorInput | Mapping[str, object]) -> dict[str, object] | Problem:
        """State whether the prompt is an attack or asks for harm, and of which kind."""
        given = _as_input(request, Phase.REQUEST)
        if given is None:
            return _TOO_LONG
        verdict = given.shared(_judge_prompt)
        return {
            "toxic_content": verdict.toxic_content,
            "refusal_category": next(iter((*verdict.attacks, *verdict.harm)), None),
            "safety_flagged": verdict.adversarial or bool(verdict.harm),
        }

    @claims(phase=Phase.RESPONSE, typed=True)
    def check_refusal(self, response: AuditorInput | Mapping[str, object]) -> dict[str, object] | Problem:
        """State whether the model refused, and by which words."""
        given = _as_input(response, Phase.RESPONSE)
        if given is None:
            return _TOO_LONG
        verdict, text = given.shared(_classify)
        phrase = None
        if verdict.abstained:
            # The words that weighed most; none where a signal decided without any.
            best = max((f for f in verdict.findings if f.span.of(text)), key=lambda f: f.weight, default=None)
            phrase = best.span.of(text) if best else None
        return {"model_refused": verdict.abstained, "refusal_phrase": phrase}


class RefusalAuditor(ClaimsAuditor):
    """Finer claims: outcome, score and reason of a response; attack, harm and language of a prompt."""

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

    @claims(phase=Phase.REQUEST, typed=True)
    def judge_prompt(self, request: AuditorInput | Mapping[str, object]) -> dict[str, object] | Problem:
        """State how likely the prompt is an attack, and which harm it asks for."""
        given = _as_input(request, Phase.REQUEST)
        if given is None:
            return _TOO_LONG
        verdict = given.shared(_judge_prompt)
        return {
            "adversarial_score": verdict.score,
            "adversarial_flagged": verdict.adversarial,
            "harm_categories": verdict.harm,
            "harm_score": verdict.harm_score,
            "language": language_of(given.prompt),
        }

    @claims(phase=Phase.RESPONSE, typed=True)
    def judge_response(self, response: AuditorInput | Mapping[str, object]) -> dict[str, object] | Problem:
        """State what happened in the response, how surely, and why."""
        given = _as_input(response, Phase.RESPONSE)
        if given is None:
            return _TOO_LONG
        verdict = response_verdict(given)
        return {
            "refusal_outcome": str(verdict.outcome),
            "refusal_score": verdict.score,
            "refusal_reason": str(verdict.reason) if verdict.reason else None,
            "refusal_cause": next(map(str, decline_causes(verdict, blocked=False)), None),
        }


BUILTIN_AUDITORS: Final[Mapping[str, type[ClaimsAuditor]]] = {
    SafetyChecker.auditor_id: SafetyChecker,
    RefusalAuditor.auditor_id: RefusalAuditor,
}


def builtin_auditor(name: str) -> ClaimsAuditor:
    """Return an auditor that comes with Demur, its detectors loaded."""
    kind = BUILTIN_AUDITORS.get(name)
    if kind is None:
        hint = f"choose from {', '.join(BUILTIN_AUDITORS)}, or name a class as module:Class"
        raise UsageError(f"no auditor is called `{name}`", hint=hint)
    # Loading takes a tenth of a second, which must not count against the first exchange's time limit.
    default_prompt_judge()
    default_judge()
    return kind()
