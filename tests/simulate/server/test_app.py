"""The simulator over the bare wire: determinism, truth, bad input, faults."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plain_http import knock
from tests.simulate.simulating import HARM, HARMLESS, asked, openai_client

from demur.simulate.engine import Simulator
from demur.simulate.scenario import builtin_scenarios, parse_scenario
from demur.simulate.server.run import RunningSimulator, running_simulator
from demur.simulate.settings import SimulatorSettings

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
GEMINI = "/v1beta/models/gemini-x:generateContent"
CONVERSE = "/model/some.model/converse"
RESPONSES = "/v1/responses"
AZURE = "/openai/deployments/d/chat/completions?api-version=1"
GEMINI_BODY: dict[str, Any] = {"contents": [{"parts": [{"text": HARM}]}]}
CONVERSE_BODY: dict[str, Any] = {"messages": [{"role": "user", "content": [{"text": HARM}]}]}
BODIES: dict[str, Any] = {
    CHAT: asked(HARM),
    RESPONSES: {"model": "m", "input": HARM},
    AZURE: asked(HARM),
    MESSAGES: asked(HARM, max_tokens=9),
    GEMINI: GEMINI_BODY,
    "/v1beta/models/gemini-x:streamGenerateContent": GEMINI_BODY,
    CONVERSE: CONVERSE_BODY,
    "/model/some.model/converse-stream": CONVERSE_BODY,
}


def turn(role: str, **fields: Any) -> Any:
    """Return a chat request with a single message of this role."""
    return {"model": "m", "messages": [{"role": role, **fields}]}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningSimulator]:
    quick = SimulatorSettings(slow_ms=20_000, stall_ms=20_000, max_body_bytes=100_000)
    with running_simulator(Simulator(quick)) as started:
        yield started


@pytest.mark.parametrize("path", BODIES)
def test_the_same_request_gives_the_same_bytes(running: RunningSimulator, path: str) -> None:
    """Headers and body are the same the second time, and others under another seed."""
    first = knock(running.url, path, BODIES[path])
    assert first.status == 200
    assert knock(running.url, path, BODIES[path]) == first
    other = knock(running.url, path, BODIES[path], x_demur_seed="5")
    assert other.headers["x-demur-truth"] == first.headers["x-demur-truth"]
    assert other != first


def test_the_truth_is_in_a_header_and_in_the_log(running: RunningSimulator) -> None:
    """Each reply says what it is, and the log says the same, without a word of the prompt."""
    running.replies.clear()
    came = knock(running.url, CHAT, asked(HARM, model="refuse-soft-de"))
    said = "refused; way=text; category=violence; style=soft; language=de; topic=violence; scenario=refuse-soft-de"
    assert came.headers["x-demur-truth"] == said
    (truth,) = running.truths
    assert truth.header() == said
    assert b"bomb" not in truth.line()


@pytest.mark.parametrize("name", [name for name in builtin_scenarios() if "fault" not in name and name != "flaky"])
@pytest.mark.parametrize("path", [path for path in BODIES if "tream" not in path])
def test_every_scenario_answers_in_every_shape(running: RunningSimulator, name: str, path: str) -> None:
    """A scenario has an answer for each provider, with its name in the truth."""
    came = knock(running.url, path, BODIES[path], x_demur_scenario=name)
    assert came.status in (200, 400)
    assert came.headers["x-demur-truth"].endswith(f"scenario={name}")
    assert came.json


BAD_CHAT: list[tuple[Any, str | None, str | None]] = [
    (b"{", None, None),
    (b"[]", None, None),
    (b"\xff", None, None),
    ({"messages": []}, "model", "missing_required_parameter"),
    ({"model": "m"}, "messages", "missing_required_parameter"),
    ({"model": 1, "messages": []}, "model", "invalid_type"),
    ({"model": "m", "messages": "hi"}, "messages", "invalid_type"),
    ({"model": "m", "messages": []}, "messages", "empty_array"),
    ({"model": "m", "messages": ["hi"]}, "messages[0]", "invalid_type"),
    ({"model": "m", "messages": [{"content": "hi"}]}, "messages[0].role", "missing_required_parameter"),
    (turn("wizard", content="hi"), "messages[0].role", "invalid_value"),
    (asked(3), "messages[0].content", "invalid_type"),
    (asked(None), "messages[0].content", "invalid_type"),
    (asked([{"type": "text"}]), "messages[0].content[0].text", "missing_required_parameter"),
    (asked([{"type": "smell"}]), "messages[0].content[0].type", "invalid_value"),
    (asked("hi", n=0), "n", "integer_below_min_value"),
    (asked("hi", n=129), "n", "integer_above_max_value"),
    (asked("hi", n="2"), "n", "invalid_type"),
    (asked("hi", n=True), "n", "invalid_type"),
    (asked("hi", stream="yes"), "stream", "invalid_type"),
    (asked("hi", temperature=3), "temperature", "integer_above_max_value"),
    (asked("hi", max_tokens=0), "max_tokens", "integer_below_min_value"),
    (asked("hi", stream_options={}, stream=1), "stream", "invalid_type"),
    (asked("hi", stream_options={"include_usage": True}), "stream_options", None),
    (asked("hi", stream_options={"include_usage": 1}, stream=True), "stream_options.include_usage", "invalid_type"),
    (asked("hi", top_p=1.5), "top_p", "decimal_above_max_value"),
    (asked("hi", presence_penalty=-3), "presence_penalty", "integer_below_min_value"),
    (asked("hi", frequency_penalty="x"), "frequency_penalty", "invalid_type"),
    (asked("hi", seed="x"), "seed", "invalid_type"),
    (asked("hi", user=5), "user", "invalid_type"),
    (asked("hi", tools={}), "tools", "invalid_type"),
    (asked("hi", response_format="json"), "response_format", "invalid_type"),
    (asked("hi", response_format={"type": "xml"}), "response_format.type", "invalid_value"),
    (asked("hi", response_format={"type": "json_schema"}), "response_format.json_schema", "missing_required_parameter"),
    (asked([]), "messages[0].content", "empty_array"),
    (asked([{"type": "image_url"}]), "messages[0].content[0].image_url", "missing_required_parameter"),
    (turn("assistant"), "messages[0].content", "invalid_type"),
    (turn("tool", content="x"), "messages[0].tool_call_id", "missing_required_parameter"),
]
NULLABLE = ("n", "stream", "temperature", "top_p", "stream_options", "response_format", "tools")
LIMITS = {"top_p": 1, "presence_penalty": -2, "frequency_penalty": 0.5, "seed": -1, "n": 128, "temperature": 2}
GOOD_CHAT: list[Any] = [
    asked("hi", **dict.fromkeys(NULLABLE)),
    asked("hi", **LIMITS, user="u", stop=["x"]),
    asked("hi", response_format={"type": "text"}, tools=[], logprobs=True, unheard_of={"x": 1}),
    asked([{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),
    {
        "model": "m",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "hi", "name": "Ann"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": {}}]},
            {"role": "tool", "content": "4", "tool_call_id": "a"},
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "user", "content": "and now?"},
        ],
    },
]


@pytest.mark.parametrize(("body", "param", "code"), BAD_CHAT)
def test_bad_chat_requests_are_told_what_is_wrong(
    running: RunningSimulator, body: Any, param: str | None, code: str | None
) -> None:
    """A bad request is a 400 with OpenAI's body: the parameter, the code and a sentence."""
    came = knock(running.url, CHAT, body)
    error = came.json["error"]
    assert (came.status, error["type"]) == (400, "invalid_request_error")
    assert (error["param"], error["code"]) == (param, code)
    assert error["message"]


@pytest.mark.parametrize("body", GOOD_CHAT)
def test_what_clients_send_is_no_problem(running: RunningSimulator, body: Any) -> None:
    """Nulls, limits, unheard-of fields, tools' turns and the role developer are taken."""
    assert knock(running.url, CHAT, body).status == 200


# Where the errors of a provider say what went wrong, by the path.
AT = {
    CHAT: ("error", "code"),
    RESPONSES: ("error", "code"),
    "/v1/moderations": ("error", "code"),
    AZURE: ("error", "code"),
    MESSAGES: ("error", "type"),
    GEMINI: ("error", "status"),
    CONVERSE: ("__type",),
}


def word_of(error: Any, path: str) -> Any:
    """Return the provider's word for what went wrong."""
    return reduce(getitem, AT[path], error)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RESPONSES, {"model": "m"}),
        (RESPONSES, {"model": "m", "input": [{"role": "user", "content": [{"type": "smell"}]}]}),
        (RESPONSES, {"model": "m", "input": "x", "text": 5}),
        (RESPONSES, {"model": "m", "input": "x", "text": {"format": {"type": "xml"}}}),
        (RESPONSES, {"model": "m", "input": [{"role": "wizard", "content": "x"}]}),
        ("/v1/moderations", {}),
        ("/v1/moderations", {"input": [3]}),
        (MESSAGES, asked("", max_tokens=9)),
        (MESSAGES, asked([{"type": "smell"}], max_tokens=9)),
        (MESSAGES, asked([{"type": "text"}], max_tokens=9)),
        (MESSAGES, asked("hi", max_tokens=9, temperature=1.5)),
        (MESSAGES, asked("hi")),
        (MESSAGES, asked("hi", max_tokens=0)),
        (MESSAGES, {**turn("system", content="x"), "max_tokens": 9}),
        (GEMINI, {"contents": [{"parts": []}]}),
        (GEMINI, {**GEMINI_BODY, "generationConfig": {"maxOutputTokens": "x"}}),
        (GEMINI, {**GEMINI_BODY, "generationConfig": {"temperature": 9}}),
        (GEMINI, {}),
        (GEMINI, {"contents": [{"role": "wizard", "parts": []}]}),
        (GEMINI, {**GEMINI_BODY, "generationConfig": {"candidateCount": 99}}),
        (CONVERSE, turn("user", content=[])),
        (CONVERSE, turn("assistant", content=[{"text": "x"}])),
        (CONVERSE, {**CONVERSE_BODY, "inferenceConfig": {"maxTokens": 0}}),
        (CONVERSE, {}),
        (CONVERSE, turn("user", content="x")),
    ],
)
def test_bad_requests_get_their_provider_s_error(running: RunningSimulator, path: str, body: Any) -> None:
    """A bad request is a 400 with the fields that its provider's errors have."""
    came = knock(running.url, path, body)
    assert came.status == 400
    assert word_of(came.json, path)


def test_wrong_doors(running: RunningSimulator) -> None:
    """Unknown paths are 404, wrong methods 405, other media 415, large bodies 413, unknown scenarios 400."""
    assert knock(running.url, "/v1/nothing", {}).status == 404
    assert knock(running.url, "/v1/messages/nothing", {}).json["type"] == "error"
    refused = knock(running.url, CHAT, method="GET")
    assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert knock(running.url, "/v1/models", {}, method="POST").status == 405
    assert knock(running.url, CHAT, b"a=1", content_type="application/x-www-form-urlencoded").status == 415
    assert knock(running.url, CHAT, asked("x" * 100_001)).status == 413
    assert "no scenario" in knock(running.url, CHAT, asked("x"), x_demur_scenario="nothing").json["error"]["message"]
    assert knock(running.url, CHAT, asked("x"), x_demur_seed="seven").status == 400
    assert knock(running.url, "/health", method="GET").json == {"status": "ok"}


PLACES = {
    "openai": (CHAT, "/v1/nothing"),
    "azure": (AZURE, "/openai/nothing"),
    "anthropic": (MESSAGES, "/v1/messages/nothing"),
    "gemini": (GEMINI, "/v1beta/nothing"),
    "bedrock": (CONVERSE, "/model/m/nothing"),
}
OPENAI_WORDS = ("method_not_supported", "request_too_large", "unsupported_content_type")
CLAUDE_WORDS = ("invalid_request_error", "request_too_large", "invalid_request_error")
# By status: 404 of a path, 404 of a model, 405, 413, 415.
SAID = {
    "openai": ("unknown_url", "model_not_found", *OPENAI_WORDS),
    "azure": ("404", "DeploymentNotFound", *OPENAI_WORDS),
    "anthropic": ("not_found_error", "not_found_error", *CLAUDE_WORDS),
    "gemini": ("NOT_FOUND", "NOT_FOUND", *["INVALID_ARGUMENT"] * 3),
    "bedrock": ("UnknownOperationException", "ResourceNotFoundException", *["ValidationException"] * 3),
}


@pytest.mark.parametrize("provider", PLACES)
def test_each_provider_says_no_in_its_own_words(provider: str) -> None:
    """Unknown paths and models, wrong methods, large bodies and other media have the status and the word of each."""
    door, nowhere = PLACES[provider]
    with running_simulator(Simulator(SimulatorSettings(models=("one",), max_body_bytes=1000))) as started:
        came = (
            knock(started.url, nowhere, {}),
            knock(started.url, door, BODIES[door]),
            knock(started.url, door, method="GET"),
            knock(started.url, door, b" " * 1001),
            knock(started.url, door, b"x", content_type="text/plain"),
        )
    assert [found.status for found in came] == [404, 404, 405, 413, 415]
    assert tuple(word_of(found.json, door) for found in came) == SAID[provider]


def test_models_can_be_limited() -> None:
    """Where models are named, these alone are answered and are the list."""
    with running_simulator(Simulator(SimulatorSettings(models=("one",)))) as started:
        assert knock(started.url, CHAT, asked("hi", model="one")).status == 200
        listed = knock(started.url, "/v1/models", method="GET").json["data"]
        assert [model["id"] for model in listed] == ["one"]
        assert knock(started.url, "/v1/models/two", method="GET").status == 404


FIELDS = st.sampled_from(["model", "messages", "role", "content", "input", "contents", "parts"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner),
    max_leaves=12,
)


@settings(max_examples=60)
@given(body=VALUES, path=st.sampled_from(sorted(BODIES)))
def test_no_body_is_a_fault_of_ours(running: RunningSimulator, body: Any, path: str) -> None:
    """Whatever is sent, the answer is never a 500."""
    assert knock(running.url, path, body).status in (200, 400)


def test_faults_of_time_meet_the_client_s_patience(running: RunningSimulator) -> None:
    """A late first byte and a stream that stalls end in the client's own timeout."""
    with openai_client(running, timeout=0.3) as client:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**asked(HARMLESS, model="fault-slow"))
        # On a busy machine even the head of the stream may come too late; that is a timeout of the client's as well.
        with pytest.raises(Exception, match=r"(?i)timed? ?out"):
            list(client.chat.completions.create(**asked(HARMLESS, model="fault-stall"), stream=True))


def test_faults_of_the_wire_break_what_they_say(running: RunningSimulator) -> None:
    """A cut answer ends early, a malformed one is no JSON, a wrong type is a web page."""
    with pytest.raises(http.client.IncompleteRead):
        knock(running.url, CHAT, asked(HARMLESS, model="fault-cut"))
    with pytest.raises(http.client.IncompleteRead):
        knock(running.url, CHAT, asked(HARMLESS, model="fault-cut", stream=True))
    with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
        _ = knock(running.url, CHAT, asked(HARMLESS, model="fault-malformed")).json
    assert b'"delta"\n\n' in knock(running.url, CHAT, asked(HARMLESS, model="fault-malformed", stream=True)).body
    page = knock(running.url, CHAT, asked(HARMLESS, model="fault-content-type"))
    assert page.headers["content-type"].startswith("text/html")
    binary = "/model/fault-malformed/converse-stream"
    whole = knock(running.url, binary.replace("fault-malformed", "m"), BODIES[CONVERSE])
    assert len(knock(running.url, binary, BODIES[CONVERSE]).body) >= len(whole.body) - 64


def test_a_retry_may_meet_with_better_luck() -> None:
    """The attempt that a client counts is part of the request, so a rate of faults is a rate for retries too."""
    flaky = parse_scenario("[faults]\nrate_limit = 0.5\n", source="flaky")
    with running_simulator(Simulator(SimulatorSettings(scenario=flaky))) as started:
        seen = {knock(started.url, CHAT, asked("hi"), x_stainless_retry_count=str(n)).status for n in range(12)}
    assert seen == {200, 429}


@pytest.mark.heavy
def test_rates_are_kept() -> None:
    """A rule with a rate of one half refuses about half of many prompts: 150 to 250 of 400 (beyond 5 sigma)."""
    half = parse_scenario('[[rules]]\non = ["any"]\nway = "text"\nrate = 0.5\n', source="half")
    with running_simulator(Simulator(SimulatorSettings(scenario=half))) as started:
        with httpx.Client(base_url=started.url) as client:
            for number in range(400):
                client.post(CHAT, json=asked(f"Question {number}"))
        refused = sum(truth.outcome == "refused" for truth in started.truths)
    assert 150 < refused < 250


def test_latency_is_off_unless_asked_for(running: RunningSimulator) -> None:
    """A profile of delays changes no byte."""
    usual = knock(running.url, CHAT, asked(HARMLESS, stream=True))
    slowed = Simulator(replace(running.app.simulator.settings, first_token_ms=1, piece_ms=1))
    with running_simulator(slowed) as started:
        assert knock(started.url, CHAT, asked(HARMLESS, stream=True)) == usual


@pytest.mark.heavy
def test_many_streams_at_once_do_not_mix(running: RunningSimulator) -> None:
    """Sixty-four streams side by side each say what they say alone."""
    paced = Simulator(replace(running.app.simulator.settings, piece_ms=1))
    asks = [asked(f"Question {number}", stream=True, n=1 + number % 3) for number in range(64)]
    with running_simulator(paced) as started, ThreadPoolExecutor(64) as pool:
        together = list(pool.map(lambda ask: knock(started.url, CHAT, ask).body, asks))
    assert together == [knock(running.url, CHAT, ask).body for ask in asks]


@pytest.mark.heavy
def test_as_many_choices_as_the_api_allows(running: RunningSimulator) -> None:
    """All 128 choices come, whole and streamed, and end."""
    whole = knock(running.url, CHAT, asked(HARMLESS, n=128)).json
    assert [choice["index"] for choice in whole["choices"]] == list(range(128))
    with openai_client(running) as client:
        chunks = list(client.chat.completions.create(**asked(HARMLESS, n=128, stream=True)))
    ended = [choice.index for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert sorted(ended) == list(range(128))


@pytest.mark.heavy
@pytest.mark.parametrize("letter", ["a", "\u3042", "\U0001f469\u200d"])
def test_long_prompts_are_answered(letter: str) -> None:
    """A prompt of half a megabyte, read beside the others, is judged to its end."""
    filler = f"{letter} " * (400_000 // len(f"{letter} ".encode()))
    with running_simulator() as started:
        came = knock(started.url, CHAT, asked(f"{filler}\n{HARM}"))
        assert came.json["choices"][0]["message"]["refusal"]
        assert [truth.outcome for truth in started.truths] == ["refused"]
