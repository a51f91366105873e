"""Signals first, then text; many choices make one verdict."""

from __future__ import annotations

from typing import Any

import pytest

from demur import Cause, Outcome, Reason, check
from demur.detect.check import classify, classify_text
from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, RefusalPart, Response, Signal, SignalKind, TextPart

NO = "I'm sorry, but I can't help with that."
YES = "The capital of France is Paris."


def chat(*contents: str | None, finish: str = "stop") -> dict[str, Any]:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": c}, "finish_reason": finish}
        for i, c in enumerate(contents)
    ]
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}


@pytest.mark.parametrize(
    ("given", "outcome", "cause"),
    [
        (NO, Outcome.REFUSED, Cause.TEXT),
        (YES, Outcome.COMPLIED, Cause.TEXT),
        (" \n", Outcome.EMPTY, None),
        (chat(NO), Outcome.REFUSED, Cause.TEXT),
        (chat(YES), Outcome.COMPLIED, Cause.TEXT),
        (chat(YES, finish="content_filter"), Outcome.FILTERED, Cause.PROVIDER_FILTER),
        (chat(None), Outcome.EMPTY, None),
        (chat(NO, NO), Outcome.REFUSED, Cause.TEXT),
        (chat(NO, YES), Outcome.PARTIAL, Cause.TEXT),
        (chat(YES, ""), Outcome.COMPLIED, Cause.TEXT),
        ({"prompt": "q", "response": NO}, Outcome.REFUSED, Cause.TEXT),
        ({"prompt": "q", "response": None}, Outcome.FAILED, Cause.PROVIDER_ERROR),
        (Response("m"), Outcome.EMPTY, None),
        (Exchange(None, None), Outcome.FAILED, Cause.PROVIDER_ERROR),
    ],
)
def test_verdicts(given: object, outcome: Outcome, cause: Cause | None) -> None:
    """A text, a provider's body or one of our values is judged by structure, then by text."""
    verdict = check(given)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.abstained is (outcome in (Outcome.REFUSED, Outcome.FILTERED))


def test_a_refusal_field_needs_no_text() -> None:
    """The provider's own refusal is a refusal with score 1, whatever words it uses."""
    body = chat(None)
    body["choices"][0]["message"]["refusal"] = "Nope."
    verdict = check(body)
    assert (verdict.outcome, verdict.score, verdict.cause) == (Outcome.REFUSED, 1.0, Cause.PROVIDER_REFUSAL)
    assert verdict.reason is Reason.SAFETY
    assert verdict.signals[0].path == "choices[0].message.refusal"


def test_signals_of_all_choices_are_kept_in_a_partial() -> None:
    """Where one choice was filtered and one answered, the signal of the first is still told."""
    signal = Signal(SignalKind.FILTER_STOP, "choices[1].finish_reason", "content_filter", 1)
    both = Response("m", (Choice(0, (TextPart(YES),)), Choice(1, ())), (signal,))
    verdict = classify(both)
    assert verdict.outcome is Outcome.PARTIAL
    assert verdict.signals == (signal,)


def test_a_list_is_not_a_response() -> None:
    """One response is judged at a time."""
    with pytest.raises(ShapeError, match="expected a JSON object"):
        check([chat(NO)])


def test_spans_count_in_the_text_of_the_choice_that_decided() -> None:
    """The text that comes with a verdict is that of the refusing choice, else of the first, else of the refusal field."""
    verdict, text = classify_text(Response("m", (Choice(0, (TextPart(YES),)), Choice(1, (TextPart(NO),)))))
    assert (verdict.outcome, text) == (Outcome.PARTIAL, NO)
    assert "I can't help" in [f.span.of(text) for f in verdict.findings]
    assert classify_text(None)[1] == ""
    assert classify_text(Response("m", (Choice(0, (RefusalPart("no"),)),)))[1] == "no"
