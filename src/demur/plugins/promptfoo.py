"""A Python assertion for promptfoo: did the model answer, or refuse?

promptfoo calls `get_assert` with the output and a context, both decoded JSON, and they are parsed here. What the provider said
comes before the text; a response that failed or is empty passes neither expectation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

import msgspec

from demur.detect.check import classify_text
from demur.errors import UsageError
from demur.model.exchange import Choice, OpaquePart, Response, Signal, SignalKind, TextPart
from demur.model.verdict import NOT_JUDGED, Outcome
from demur.plugins.judge import judge_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.verdict import Verdict

__all__ = ["get_assert"]

_EXPECTATIONS = ("answered", "refused")

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


def get_assert(output: object, context: Mapping[str, object]) -> _GradingResult:
    """Return promptfoo's grading result for one output."""
    config = _config_in(context)
    judge = judge_by(config.pack, config.threshold, hint="drop `threshold` or `pack`")
    verdict, text = classify_text(_response_in(output, context), judge=judge)
    passed = verdict.outcome is Outcome.COMPLIED or (config.allow_partial and verdict.outcome is Outcome.PARTIAL)
    if config.expect == "refused":
        passed = verdict.abstained
    named = {"abstained": float(verdict.abstained), "refusal_score": verdict.score}
    return {
        "pass": passed,
        "score": float(passed),
        "reason": f"expected {config.expect}, got {_in_a_line(verdict, text)}",
        # Left out, not zero: promptfoo averages named scores, and what was not judged must not lower a rate.
        "namedScores": {} if verdict.outcome in NOT_JUDGED else named,
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


def _in_a_line(verdict: Verdict, text: str) -> str:
    """Return the verdict with its evidence quoted: promptfoo shows a reason in a cell of a table."""
    facts = [str(verdict.outcome), f"score {verdict.score:.2f}"]
    facts += [f"cause {verdict.cause}"] if verdict.cause else []
    evidence = [f"{s.path} = {s.value}" for s in verdict.signals]
    # A finding about the form of the answer has no words in the text: its rule says what it is.
    said = ((" ".join(f.span.of(text).split()) or f.rule, f) for f in verdict.findings)
    evidence += [f"“{words}” {f.weight:+.2f} {f.category}" for words, f in said]
    return ", ".join(facts) + (f": {'; '.join(evidence)}" if evidence else "")


def _response_in(output: object, context: Mapping[str, object]) -> Response:
    """Return the response that promptfoo hands over, in our words."""
    given = context.get("providerResponse")
    said: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    stop = said.get("finishReason")
    text = output if isinstance(output, str) else "\n".join(_texts_in(output))
    # A structured output without a word in it is an answer all the same.
    whole = (OpaquePart("structured", msgspec.json.encode(output)),) if not isinstance(output, str | None) else ()
    parts = (*((TextPart(text),) if text else ()), *whole)
    choice = Choice(0, parts, finish_raw=stop if isinstance(stop, str) else None)
    return Response("", (choice,), tuple(_signals_in(said)))


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


def _signals_in(said: Mapping[str, object]) -> Iterator[Signal]:
    """Yield what the provider said beside the output; a field of another kind than promptfoo's own says nothing."""
    given = said.get("guardrails")
    rails = given if isinstance(given, Mapping) else {}
    stop, error = said.get("finishReason"), said.get("error")
    why = rails["reason"] if isinstance(rails.get("reason"), str) else None
    refusal = said.get("isRefusal") is True
    # promptfoo writes `content_filter` for every provider's word, a model's own refusal among them.
    if isinstance(stop, str) and stop.lower() == "content_filter":
        yield Signal(SignalKind.FILTER_STOP, "finishReason", stop, 0)
    if refusal:
        yield Signal(SignalKind.REFUSAL_FIELD, "isRefusal", "true", 0)
    if rails.get("flaggedInput") is True:
        yield Signal(SignalKind.PROMPT_BLOCK, "guardrails.flaggedInput", "true", 0, detail=why)
    elif rails.get("flagged") is True:
        # It flags a model's own refusal too: only a flag that stands alone is a filter's.
        yield Signal(SignalKind.FILTER_FLAG, "guardrails.flagged", "true", 0, detail=why, blocked=not refusal)
    if isinstance(error, str) and error:
        yield Signal(SignalKind.ERROR, "error", error, 0)
