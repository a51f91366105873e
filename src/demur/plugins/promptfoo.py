"""Did the model answer, or did it say no? A Python assertion for promptfoo.

Laws: what the provider said (`isRefusal`, `finishReason`, `guardrails`, `error`) comes before the text; a response that
failed or is empty passes neither expectation and adds nothing to the named scores, so that no rate is watered down;
settings that are unknown or contradict each other raise, which promptfoo shows as a failed assertion.

promptfoo calls `get_assert` with the output and a context, both decoded JSON: this file is where they are parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import msgspec

from demur.detect.check import classify_text
from demur.detect.judges import default_judge, judge_named, judge_with
from demur.errors import UsageError
from demur.model.exchange import Choice, OpaquePart, Response, Signal, SignalKind, TextPart
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.detect.interface import TextJudge
    from demur.model.verdict import Verdict

__all__ = ["get_assert"]

_EXPECTATIONS = ("answered", "refused")
_NOTHING_TO_JUDGE = (Outcome.EMPTY, Outcome.FAILED)

# `pass` is a word of Python's own, so the class syntax cannot spell it.
_GradingResult = TypedDict(
    "_GradingResult",
    {
        "pass": bool,
        "score": float,
        "reason": str,
        "namedScores": dict[str, float],
        "metadata": dict[str, str | float | None],
    },
)


class _Config(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The assertion's `config`."""

    expect: str = "answered"
    allow_partial: bool = True
    pack: str | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class _Told:
    """What promptfoo's provider said beside the output."""

    refusal: bool
    stop: str | None
    flagged: bool
    prompt_flagged: bool
    flag_reason: str | None
    error: str | None


def get_assert(output: object, context: Mapping[str, object]) -> _GradingResult:
    """Return promptfoo's grading result for one output."""
    config = _config_in(context)
    verdict, text = classify_text(_response_in(output, context), judge=_asserting_judge(config))
    passed = _meets(verdict, config)
    named = {"abstained": float(verdict.abstained), "refusal_score": verdict.score}
    return {
        "pass": passed,
        "score": float(passed),
        "reason": f"expected {config.expect}, got {_in_a_line(verdict, text)}",
        "namedScores": {} if verdict.outcome in _NOTHING_TO_JUDGE else named,
        "metadata": {
            "outcome": str(verdict.outcome),
            "reason": verdict.reason and str(verdict.reason),
            "cause": verdict.cause and str(verdict.cause),
            "score": verdict.score,
        },
    }


def _config_in(context: Mapping[str, object]) -> _Config:
    try:
        config = msgspec.convert(context.get("config") or {}, _Config)
    except msgspec.ValidationError as exc:
        hint = f"known are {', '.join(_Config.__struct_fields__)}"
        raise UsageError(f"the assertion's config: {str(exc).lower()}", hint=hint) from exc
    if config.expect not in _EXPECTATIONS:
        raise UsageError(f"`expect: {config.expect}` is not known", hint=f"choose from {', '.join(_EXPECTATIONS)}")
    return config


def _asserting_judge(config: _Config) -> TextJudge:
    if config.pack and config.threshold is not None:
        raise UsageError("a threshold is for the learned detector", hint="drop `threshold` or `pack`")
    if config.threshold is not None:
        return judge_with(refused=config.threshold)
    return judge_named(config.pack) if config.pack else default_judge()


def _meets(verdict: Verdict, config: _Config) -> bool:
    if config.expect == "refused":
        return verdict.abstained
    return verdict.outcome is Outcome.COMPLIED or (config.allow_partial and verdict.outcome is Outcome.PARTIAL)


def _in_a_line(verdict: Verdict, text: str) -> str:
    """Return the verdict with its evidence quoted: promptfoo shows a reason in a cell of a table."""
    facts = [str(verdict.outcome), f"score {verdict.score:.2f}"]
    facts += [f"cause {verdict.cause}"] if verdict.cause else []
    evidence = [f"{s.path} = {s.value}" for s in verdict.signals]
    # What the shape of the answer added stands nowhere in the text: its rule says what it is.
    said = ((" ".join(f.span.of(text).split()) or f.rule, f) for f in verdict.findings)
    evidence += [f"“{words}” {f.weight:+.2f} {f.category}" for words, f in said]
    return ", ".join(facts) + (f": {'; '.join(evidence)}" if evidence else "")


def _response_in(output: object, context: Mapping[str, object]) -> Response:
    """Return the response that promptfoo hands over, in our words."""
    told = _told_by(context.get("providerResponse"))
    text = output if isinstance(output, str) else "\n".join(_texts_in(output))
    # A structured output without a word in it is an answer all the same.
    whole = (OpaquePart("output", msgspec.json.encode(output)),) if not isinstance(output, str | None) else ()
    parts = (*((TextPart(text),) if text else ()), *whole)
    return Response("", (Choice(0, parts, finish_raw=told.stop),), tuple(_signals_told(told)))


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a structured output, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)


def _told_by(response: object) -> _Told:
    """Return what the provider said; a field of another kind than promptfoo's own says nothing."""
    said = response if isinstance(response, Mapping) else {}
    rails = said.get("guardrails")
    rails = rails if isinstance(rails, Mapping) else {}
    stop, why, error = said.get("finishReason"), rails.get("reason"), said.get("error")
    return _Told(
        refusal=said.get("isRefusal") is True,
        stop=stop if isinstance(stop, str) else None,
        flagged=rails.get("flagged") is True,
        prompt_flagged=rails.get("flaggedInput") is True,
        flag_reason=why if isinstance(why, str) else None,
        error=error if isinstance(error, str) and error else None,
    )


def _signals_told(told: _Told) -> Iterator[Signal]:
    # promptfoo writes `content_filter` for every provider's word, a model's own refusal among them.
    if told.stop and told.stop.lower() == "content_filter":
        yield Signal(SignalKind.FILTER_STOP, "finishReason", told.stop, 0)
    if told.refusal:
        yield Signal(SignalKind.REFUSAL_FIELD, "isRefusal", "true", 0)
    if told.prompt_flagged:
        yield Signal(SignalKind.PROMPT_BLOCK, "guardrails.flaggedInput", "true", 0, detail=told.flag_reason)
    elif told.flagged:
        # It flags a model's own refusal too: only a flag that stands alone is a filter's.
        path = "guardrails.flagged"
        yield Signal(SignalKind.FILTER_FLAG, path, "true", 0, detail=told.flag_reason, blocked=not told.refusal)
    if told.error:
        yield Signal(SignalKind.ERROR, "error", told.error, 0)
