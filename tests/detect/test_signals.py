"""Structure first: what the provider says decides before any text is read."""

from __future__ import annotations

import pytest

from demur.detect.check import verdict_by_signals
from demur.model.exchange import (
    Choice,
    OpaquePart,
    Part,
    ProviderError,
    RefusalPart,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ToolCallPart,
)
from demur.model.verdict import Cause, Outcome


def response(
    *parts: Part, signals: tuple[Signal, ...] = (), error: ProviderError | None = None, complete: bool = True
) -> Response:
    choices = (Choice(0, parts),) if error is None else ()
    return Response("m", choices, signals, error, complete=complete)


def signal(kind: SignalKind, *, choice: int | None = 0, blocked: bool = True) -> Signal:
    return Signal(kind, "path", "value", choice, blocked=blocked)


TEXT = TextPart("Here you go.")
CALL = ToolCallPart("1", "search", "{}")

CASES = [
    (response(TEXT, signals=(signal(SignalKind.FILTER_STOP),)), Outcome.FILTERED, Cause.PROVIDER_FILTER),
    (response(TEXT, signals=(signal(SignalKind.PROMPT_BLOCK, choice=None),)), Outcome.FILTERED, Cause.PROVIDER_FILTER),
    (response(TEXT, signals=(signal(SignalKind.FILTER_FLAG),)), Outcome.FILTERED, Cause.PROVIDER_FILTER),
    (response(TEXT, signals=(signal(SignalKind.REFUSAL_STOP),)), Outcome.REFUSED, Cause.PROVIDER_REFUSAL),
    (response(RefusalPart("no"), signals=(signal(SignalKind.REFUSAL_FIELD),)), Outcome.REFUSED, Cause.PROVIDER_REFUSAL),
    (
        response(TEXT, signals=(signal(SignalKind.REFUSAL_STOP), signal(SignalKind.FILTER_STOP))),
        Outcome.FILTERED,
        Cause.PROVIDER_FILTER,
    ),
    (response(error=ProviderError("overloaded")), Outcome.FAILED, Cause.PROVIDER_ERROR),
    (response(TEXT, signals=(signal(SignalKind.ERROR),)), Outcome.FAILED, Cause.PROVIDER_ERROR),
    (
        response(error=ProviderError("blocked"), signals=(signal(SignalKind.PROMPT_BLOCK, choice=None),)),
        Outcome.FILTERED,
        Cause.PROVIDER_FILTER,
    ),
    (response(), Outcome.EMPTY, None),
    (response(TextPart("  ")), Outcome.EMPTY, None),
    (response(TextPart(""), complete=False), Outcome.FAILED, Cause.PROVIDER_ERROR),
    (response(CALL), Outcome.COMPLIED, None),
    (response(OpaquePart("image", b"{}")), Outcome.COMPLIED, None),
]


@pytest.mark.parametrize(("given", "outcome", "cause"), CASES)
def test_structure_decides(given: Response, outcome: Outcome, cause: Cause | None) -> None:
    """Filter over refusal over error over text; without text, a tool call or picture is an answer."""
    verdict = verdict_by_signals(given, given.choices[0] if given.choices else None)
    assert verdict is not None
    assert (verdict.outcome, verdict.cause) == (outcome, cause)


@pytest.mark.parametrize(
    "given",
    [
        response(TEXT),
        response(TEXT, signals=(signal(SignalKind.FILTER_FLAG, blocked=False),)),
        response(TEXT, signals=(signal(SignalKind.FILTER_STOP, choice=1),)),
    ],
)
def test_text_is_read_where_structure_is_silent(given: Response) -> None:
    """An annotation that did not block, or another choice's signal, leaves the decision to the text."""
    assert verdict_by_signals(given, given.choices[0]) is None


def test_refusal_text_joins_the_refusal_parts() -> None:
    """What the refusal field says is kept apart from the answer's text."""
    assert Choice(0, (RefusalPart("a"), TEXT, RefusalPart("b"))).refusal == "a\nb"
