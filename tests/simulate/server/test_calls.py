"""The plain way of reading a request: it may be quicker, never different."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.model.exchange import Shape
from demur.simulate.server.calls import Knock, call_of, plain_call
from demur.simulate.server.checks import first_problem
from demur.simulate.server.routes import Door, Route
from demur.wire.fields import decode

CHAT = Route(Door.ANSWER, Shape.OPENAI_CHAT)
AZURE = Route(Door.ANSWER, Shape.AZURE, "mine")
PLAIN = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}

numbers: st.SearchStrategy[object] = st.sampled_from([None, -1, 0, 1, 1.0, 2, 2.5, 128, 129, 10**30, True, "1", []])
contents = st.one_of(st.text(max_size=5), st.none(), st.just([{"type": "text", "text": "hi"}]), st.just(5))
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "wizard"]), "content": contents},
    optional={"name": st.just("Ann"), "refusal": st.just("no")},
)
bodies = st.fixed_dictionaries(
    {"messages": st.one_of(st.lists(turns, max_size=3), st.just("hi"))},
    optional={
        "model": st.sampled_from(["m", "", None, 3]),
        "stream": st.sampled_from([True, False, None, 1]),
        "stream_options": st.sampled_from([None, {}, {"include_usage": True}, {"include_usage": 1}, []]),
        "response_format": st.sampled_from([None, {"type": "json_object"}]),
        "text": st.sampled_from([None, {"format": {"type": "json_object"}}]),
        "inferenceConfig": st.sampled_from([None, {"maxTokens": 3}]),
        "tools": st.sampled_from([None, [], 5]),
        "user": st.sampled_from([None, "u", 5]),
        **dict.fromkeys(("n", "temperature", "max_tokens", "max_completion_tokens", "max_output_tokens"), numbers),
        **dict.fromkeys(("top_p", "presence_penalty", "frequency_penalty", "seed"), numbers),
    },
)


def knock(body: object, **headers: str) -> Knock:
    """Return the request with that body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Knock("/v1/chat/completions", "", named, msgspec.json.encode(body))


@given(body=bodies, route=st.sampled_from([CHAT, AZURE]))
def test_what_is_read_plainly_is_accepted_and_read_alike_by_the_general_way(
    body: dict[str, object], route: Route
) -> None:
    """A plain call is the general call but for the fields that a simulator has no use for."""
    asked = knock(body)
    plain = plain_call(route, asked)
    if plain is None:
        return
    again = decode(asked.body)
    assert first_problem(again, route.shape, model_in_path=bool(route.model)) is None
    general = call_of(route, asked, again)
    assert plain == general


@pytest.mark.parametrize("route", [CHAT, AZURE])
def test_text_turns_are_read_plainly(route: Route) -> None:
    """The commonest request takes the quick way, so the test above is about something."""
    assert plain_call(route, knock({**PLAIN, "temperature": 0.2, "n": 2, "stream": True, "user": "u"})) is not None


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"model":"\\ud800"}', b"[]", b"null"])
def test_what_is_no_json_is_not_plain(body: bytes) -> None:
    """Nothing that cannot be read stops the plain way; it is left to the general one."""
    assert plain_call(CHAT, replace(knock({}), body=body)) is None


@pytest.mark.parametrize("seed", ["", "x", "1.5", "9" * 19, "9" * 5000, "--1"])
def test_a_seed_that_is_no_number_is_refused(seed: str) -> None:
    """A seed of any length that cannot be used is the caller's mistake, never the simulator's."""
    with pytest.raises(UsageError, match="x-demur-seed"):
        plain_call(CHAT, knock(PLAIN, x_demur_seed=seed))


def test_an_attempt_of_any_length_is_no_fault() -> None:
    """A counter that no client sends reads as the first attempt."""
    found = plain_call(CHAT, knock(PLAIN, amz_sdk_request="attempt=" + "9" * 5000))
    assert found == plain_call(CHAT, knock(PLAIN))
