"""Azure OpenAI: each row of the provider table, both ways, streamed and not, against the real client."""

from __future__ import annotations

from typing import Any

import openai as sdk
import pytest
from msgspec.structs import replace
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.plain_http import openai_http
from tests.wire import laws
from tests.wire.loopback import serving, streaming

from demur.model.exchange import Choice, Finish, ProviderError, Response, Signal, SignalKind, TextPart
from demur.wire import azure, sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain
from demur.wire.openai import chat as openai_chat

CODEC: Codec = azure

ASKED: Any = {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}
SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
JAILBREAK = {"filtered": True, "detected": True}
QUIET = {"jailbreak": {"filtered": False, "detected": False}}
CITED = {"filtered": False, "detected": True, "citation": {"URL": "https://example.org", "license": "MIT"}}


def answer(index: int = 0, *, finish: str = "stop", results: Any = SAFE, **message: Any) -> JsonObject:
    """Return one choice with its annotations."""
    said = {"role": "assistant", "content": None, **message}
    return {"index": index, "message": said, "finish_reason": finish, "content_filter_results": results}


def body(*choices: JsonObject, prompt: Any = SAFE) -> JsonObject:
    """Return a body as the service answers it."""
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-x"}
    prompts = [{"prompt_index": 0, "content_filter_results": prompt}]
    return {**head, "choices": list(choices), "prompt_filter_results": prompts}


def blocked(results: Any, *, name: str = "content_filter_result", **inner: Any) -> JsonObject:
    """Return the error by which the service refuses a prompt."""
    error = {"message": "The response was filtered", "type": None, "param": "prompt", "code": "content_filter"}
    innererror = {"code": "ResponsibleAIPolicyViolation", **inner, name: results}
    return {"error": {**error, "status": 400, "innererror": innererror}}


def rated(severity: str, *, filtered: bool) -> JsonObject:
    """Return a category's annotation."""
    return {"filtered": filtered, "severity": severity}


BODIES = {
    "safe": body(answer(content="Hello."), prompt={**SAFE, **QUIET}),
    "filter stop": body(
        answer(content="Half", finish="content_filter", results={**SAFE, "hate": rated("high", filtered=True)})
    ),
    "low but let through": body(answer(content="Hm.", results={**SAFE, "violence": rated("low", filtered=False)})),
    "prompt flagged": body(answer(content="Hm."), prompt={**SAFE, "jailbreak": {"filtered": False, "detected": True}}),
    "citation": body(answer(content="x = 1", results={**SAFE, "protected_material_code": CITED})),
    "filter failed": body(
        answer(content="Hi.", results={"error": {"code": "content_filter_error", "message": "late"}})
    ),
    "refusal": body(answer(refusal="I can't help with that.")),
    "two choices": body(
        answer(0, content="One."),
        answer(1, finish="content_filter", results={**SAFE, "sexual": rated("medium", filtered=True)}),
    ),
}
ERRORS = {
    "harm": blocked({**SAFE, "violence": rated("medium", filtered=True)}),
    "jailbreak": blocked({**SAFE, "jailbreak": JAILBREAK}, revised_prompt="x"),
    "plural": blocked({**SAFE, "hate": rated("high", filtered=True)}, name="content_filter_results"),
    "unexplained": blocked(SAFE),
}


def test_a_filter_may_break_an_answer_off() -> None:
    """An error in mid-stream keeps what had arrived, and its flags."""
    laws.check_errors_in_stream(CODEC, BODIES["safe"], error=ERRORS["unexplained"])
    answer_then_error = [
        *CODEC.write_stream(replace(CODEC.read_response(BODIES["safe"]), complete=False)),
        *CODEC.write_stream(CODEC.read_response(ERRORS["harm"])),
    ]
    broken = laws.streamed(CODEC, answer_then_error)
    assert (broken.signals, broken.complete) == (CODEC.read_response(ERRORS["harm"]).signals, False)


def flag(path: str, value: str, **more: Any) -> Signal:
    """Return a filter's flag."""
    return Signal(SignalKind.FILTER_FLAG, path, value, category=path.rpartition(".")[2], **more)


CHOICE = "choices[0].content_filter_results"
PROMPT = "prompt_filter_results[0].content_filter_results"
INNER = "error.innererror.content_filter_result"
BLOCK = Signal(SignalKind.PROMPT_BLOCK, "error.code", "content_filter", detail="ResponsibleAIPolicyViolation")

SOURCE = '{"citation":{"URL":"https://example.org","license":"MIT"}}'
LATE = '{"code":"content_filter_error","message":"late"}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (BODIES["safe"], ()),
        (
            BODIES["filter stop"],
            (
                Signal(SignalKind.FILTER_STOP, "choices[0].finish_reason", "content_filter", 0),
                flag(f"{CHOICE}.hate", "high", choice=0, severity="high", blocked=True),
            ),
        ),
        (BODIES["low but let through"], (flag(f"{CHOICE}.violence", "low", choice=0, severity="low", blocked=False),)),
        (BODIES["prompt flagged"], (flag(f"{PROMPT}.jailbreak", "detected", blocked=False),)),
        (
            BODIES["citation"],
            (flag(f"{CHOICE}.protected_material_code", "detected", choice=0, blocked=False, detail=SOURCE),),
        ),
        (BODIES["filter failed"], (flag(f"{CHOICE}.error", "failed", choice=0, blocked=False, detail=LATE),)),
        (ERRORS["harm"], (BLOCK, flag(f"{INNER}.violence", "medium", severity="medium"))),
        (ERRORS["jailbreak"], (BLOCK, flag(f"{INNER}.jailbreak", "detected"))),
        (ERRORS["unexplained"], (BLOCK,)),
        (body(answer(results={"hate": {"filtered": True}})), (flag(f"{CHOICE}.hate", "filtered", choice=0),)),
        (body(answer(results={"custom_blocklists": []})), ()),
        (
            {"error": {"code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            (Signal(SignalKind.PROMPT_BLOCK, "error.innererror.code", "ResponsibleAIPolicyViolation"),),
        ),
    ],
)
def test_signals(given: JsonObject, expected: tuple[Signal, ...]) -> None:
    """What a filter says is a flag at its exact path, with severity and whether it acted; harmless says nothing."""
    assert CODEC.read_response(given).signals == expected
    assert CODEC.read_response(CODEC.write_response(CODEC.read_response(given))).signals == expected


def test_an_error_keeps_both_codes() -> None:
    """The outer and the inner code of a blocked prompt are both kept."""
    read = CODEC.read_response(ERRORS["harm"], status=400)
    expected = ProviderError("The response was filtered", "content_filter", None, "ResponsibleAIPolicyViolation")
    assert (read.error, read.status, read.choices) == (expected, 400, ())


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (BODIES["safe"], True),
        ({"choices": [{"content_filter_results": {}}]}, True),
        ({"choices": [], "prompt_filter_results": []}, True),
        (ERRORS["harm"], True),
        ({"error": {"code": "content_filter"}}, True),
        ({"error": {"code": "rate_limit_exceeded"}}, False),
        ({"choices": [5]}, False),
        ({"candidates": []}, False),
    ],
)
def test_only_annotated_bodies_are_azures(given: JsonObject, *, ours: bool) -> None:
    """A body without annotations is left to the chat shape."""
    assert CODEC.reads_response(given) is ours


OWN_DATA: JsonObject = {**ASKED, "data_sources": [{"type": "azure_search"}]}


def test_requests_are_chat_requests() -> None:
    """A request is read and written as a chat request, and known as Azure's by its own data."""
    assert CODEC.read_request(ASKED) == openai_chat.read_request(ASKED)
    assert not CODEC.reads_request(ASKED)
    assert CODEC.reads_request(OWN_DATA)


def test_the_worst_of_a_stream_stands() -> None:
    """A flag raised in one frame is not taken back by later frames, and frames without choices are read."""

    def frame(severity: str, *, filtered: bool) -> JsonObject:
        results = {"hate": rated(severity, filtered=filtered)}
        return {"choices": [{"index": 0, "delta": {"content": "x"}, "content_filter_results": results}]}

    prompts = [{"prompt_index": 0, "content_filter_results": {"jailbreak": JAILBREAK}}]
    first = {"id": "", "model": "", "created": 0, "object": "", "choices": [], "prompt_filter_results": prompts}
    frames = [first, frame("safe", filtered=False), frame("medium", filtered=True), frame("low", filtered=False)]
    closed = laws.streamed(CODEC, [sse.ServerEvent(encode(each).decode()) for each in frames])
    assert closed.signals == (
        flag(f"{PROMPT}.jailbreak", "detected"),
        flag(f"{CHOICE}.hate", "medium", choice=0, severity="medium", blocked=True),
    )
    assert closed.choices[0].text == "xxx"


def test_a_prompt_in_several_parts() -> None:
    """A flag on a later prompt is written at its place."""
    second = {"prompt_index": 1, "content_filter_results": {"jailbreak": JAILBREAK}}
    given = body(answer(content="x"))
    given["prompt_filter_results"].append(second)
    read = CODEC.read_response(given)
    assert [signal.path for signal in read.signals] == ["prompt_filter_results[1].content_filter_results.jailbreak"]
    laws.check_plain(CODEC, given)


def test_a_plain_response_becomes_azures() -> None:
    """A response that no filter saw is written with every category safe, so that it is known as Azure's."""
    response = Response("m", (Choice(0, (TextPart("hi"),), Finish.STOP, "stop"),))
    written = CODEC.write_response(response)
    assert written["choices"][0]["content_filter_results"] == SAFE
    assert CODEC.reads_response(written)
    assert CODEC.read_response(written) == response


@pytest.mark.parametrize("name", BODIES)
def test_the_client_reads_the_answer(name: str) -> None:
    """The real client reads what is written, streamed or not, and what it hands out is the same response."""
    response = CODEC.read_response(BODIES[name])
    ChatCompletion.model_validate(CODEC.write_response(response))
    with serving(CODEC, response) as stub, client(stub.url) as door:
        completion = door.chat.completions.create(**ASKED)
    assert CODEC.read_response(plain(completion)) == response
    assert stub.paths == ["/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"]
    with streaming(CODEC, response) as stub, client(stub.url) as door:
        chunks = list(door.chat.completions.create(**ASKED, stream=True))
    events = [sse.ServerEvent(encode(plain(chunk)).decode()) for chunk in chunks]
    assert isinstance(chunks[0], ChatCompletionChunk)
    assert chunks[0].choices == []
    closed = laws.streamed(CODEC, [*events, sse.ServerEvent("[DONE]")])
    assert closed == response


def test_the_client_raises_on_a_blocked_prompt() -> None:
    """A blocked prompt is the client's error with its code and its inner error."""
    blocked_prompt = CODEC.read_response(ERRORS["harm"], status=400)
    with (
        serving(CODEC, blocked_prompt, status=400) as stub,
        client(stub.url) as door,
        pytest.raises(sdk.BadRequestError) as caught,
    ):
        door.chat.completions.create(**ASKED)
    assert caught.value.code == "content_filter"
    failed: Any = caught.value.body
    assert CODEC.read_response({"error": failed}, status=400) == blocked_prompt
    assert decode(encode(failed))["innererror"]["content_filter_result"]["violence"]["filtered"]


def client(url: str) -> sdk.AzureOpenAI:
    """Return the real client."""
    return sdk.AzureOpenAI(
        azure_endpoint=url, api_key="x", api_version="2024-10-21", max_retries=0, http_client=openai_http()
    )
