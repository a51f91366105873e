"""What the axes see of an exchange."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.axes.steps import folded, step_of
from demur.model import exchange
from demur.model.exchange import Choice, Exchange, Finish, Response, TextPart, ToolCallPart, Usage


def called(arguments: str) -> tuple[str, int]:
    """The shape and the number of keys of a call's arguments."""
    response = Response("m", (Choice(0, (ToolCallPart("1", "f", arguments),)),))
    [call] = step_of(Exchange(None, response), "q", refused=False).calls
    return call.shape, call.keys


@pytest.mark.parametrize(
    ("arguments", "shape", "keys"),
    [
        ('{"b": 1, "a": "x"}', "{a: string, b: number}", 2),
        ('{"a": [1, 2.5, "x"], "c": {"d": null, "e": true}}', "{a: [number | string], c: {d: null, e: boolean}}", 2),
        ("", "{}", 0),
        ("null", "{}", 0),
        ("[]", "[]", 0),
        ("3", "number", 0),
        ("{broken", "unreadable", 0),
    ],
)
def test_arguments_have_a_shape(arguments: str, shape: str, keys: int) -> None:
    """Keys and kinds count, values and the order of keys do not; what is no JSON has a shape too."""
    assert called(arguments) == (shape, keys)


def test_an_exchange_is_read_once() -> None:
    """Prompt, text, stop and tokens are those of the first choice; thoughts are none of it."""
    parts = (exchange.ThinkingPart("hm"), TextPart("yes"))
    response = Response(
        "m", (Choice(0, parts, Finish.STOP, "end_turn"), Choice(1, (TextPart("no"),))), usage=Usage(2, 3)
    )
    step = step_of(
        Exchange(None, response, exchange.Request("m", (exchange.Message("user", (TextPart("Is it?"),)),))),
        "q",
        refused=True,
    )
    assert (step.prompt, step.text, step.stop, step.stop_raw) == ("Is it?", "yes", "stop", "end_turn")
    assert (step.total_tokens, step.refused) == (5, True)


def test_little_is_known_of_nothing() -> None:
    """No response has no text, no calls and no tokens; a refusal field stands in for a text."""
    nothing = step_of(Exchange(None, None), "q", refused=False)
    assert (nothing.text, nothing.calls, nothing.stop, nothing.total_tokens) == ("", (), "unknown", None)
    refusal = step_of(Exchange(None, Response("m", (Choice(0, (exchange.RefusalPart("no"),)),))), "q", refused=True)
    assert refusal.text == "no"


@given(st.text())
def test_folding_is_idempotent(text: str) -> None:
    """Folding twice is folding once, for any text."""
    assert folded(folded(text)) == folded(text)


@pytest.mark.parametrize(
    ("finish", "word", "stop"),
    [
        (None, "end_turn", "stop"),
        (None, "FinishReason.STOP", "stop"),
        (None, "tool_calls", "tool"),
        (None, "max_tokens", "length"),
        (None, "whim", "unknown"),
        (None, None, "unknown"),
        (Finish.LENGTH, "stop", "length"),
    ],
)
def test_a_stop_is_the_same_in_every_format(finish: Finish | None, word: str | None, stop: str) -> None:
    """Where a format keeps the provider's word alone, it is read as a format that knows it does."""
    step = step_of(Exchange(None, Response("m", (Choice(0, (TextPart("x"),), finish, word),))), "q", refused=False)
    assert (step.stop, step.stop_raw) == (stop, word or "unknown")


def test_arguments_nested_without_end_have_a_shape() -> None:
    """Depth is cut, so that no arguments are too deep."""
    assert called("[" * 500 + "]" * 500)[0] == called("[" * 300 + "]" * 300)[0]
    assert called("[" * 20 + "]" * 20)[0] == "[" * 20 + "]" * 20
