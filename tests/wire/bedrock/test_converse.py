"""Bedrock Converse: each row of the provider table, both ways, streamed and not, against the real client."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import botocore.session
import msgspec
import pytest
from botocore.validate import ParamValidator
from tests.wire import laws
from tests.wire.loopback import answering, serving

from demur.model.exchange import (
    Choice,
    Finish,
    OpaquePart,
    ProviderError,
    RefusalPart,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from demur.wire import eventstream, sse
from demur.wire.bedrock import converse as bedrock
from demur.wire.fields import Codec, JsonObject, encode, plain

CODEC: Codec = bedrock

ASKED: Any = {"modelId": "some.model", "messages": [{"role": "user", "content": [{"text": "hi"}]}]}
FINISHES = {
    **dict.fromkeys(("end_turn", "stop_sequence"), Finish.STOP),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), Finish.LENGTH),
    "tool_use": Finish.TOOL,
    **dict.fromkeys(("guardrail_intervened", "content_filtered"), Finish.CONTENT_FILTER),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), Finish.UNKNOWN),
}


def answer(*content: JsonObject, stop: str = "end_turn", **more: Any) -> JsonObject:
    """Return a response body of `/converse`."""
    output = {"message": {"role": "assistant", "content": list(content)}}
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
    return {"output": output, "stopReason": stop, "usage": usage, "metrics": {"latencyMs": 12}, **more}


TEXT: JsonObject = {"text": "Hello, “world”."}
THOUGHT: JsonObject = {"reasoningContent": {"reasoningText": {"text": "Let me see.", "signature": "c2ln"}}}
CALL: JsonObject = {"toolUse": {"toolUseId": "t1", "name": "look_up", "input": {"city": "Zürich", "days": [1, None]}}}
IMAGE: JsonObject = {"image": {"format": "png", "source": {"bytes": "eHl6"}}}
CITED: JsonObject = {
    "citationsContent": {"content": [{"text": "It is so."}], "citations": [{"title": "t", "source": "s"}]}
}
RESULTS: JsonObject = {"toolResult": {"toolUseId": "t1", "content": [{"text": "rain"}], "status": "success"}}
ASSESSMENT: JsonObject = {
    "topicPolicy": {
        "topics": [
            {"name": "Harmless", "type": "DENY", "action": "NONE", "detected": False},
            {"name": "Medical advice", "type": "DENY", "action": "BLOCKED", "detected": True},
        ]
    },
    "contentPolicy": {
        "filters": [{"type": "VIOLENCE", "confidence": "HIGH", "filterStrength": "LOW", "action": "BLOCKED"}]
    },
    "wordPolicy": {
        "customWords": [{"match": "secret word", "action": "BLOCKED"}],
        "managedWordLists": [{"match": "darn", "type": "PROFANITY", "action": "NONE", "detected": True}],
    },
    "sensitiveInformationPolicy": {
        "piiEntities": [{"match": "a@b.c", "type": "EMAIL", "action": "ANONYMIZED"}],
        "regexes": [{"name": "badge", "match": "x1", "regex": "x.", "action": "BLOCKED"}],
    },
    "contextualGroundingPolicy": {
        "filters": [{"type": "GROUNDING", "threshold": 0.7, "score": 0.1, "action": "BLOCKED"}]
    },
    "invocationMetrics": {"guardrailProcessingLatency": 5},
}
TRACE: JsonObject = {
    "guardrail": {
        "inputAssessment": {"gr-1": ASSESSMENT},
        "outputAssessments": {"gr.2": [{}, {"contentPolicy": ASSESSMENT["contentPolicy"]}]},
        "actionReason": "Guardrail blocked.",
    }
}

BODIES: dict[str, JsonObject] = {
    "plain": answer(TEXT),
    "empty": answer(),
    "empty text": answer({"text": ""}),
    "two texts": answer({"text": "one"}, {"text": "two"}),
    "thought, text, tool": answer(THOUGHT, TEXT, CALL, stop="tool_use"),
    "a thought without a signature": answer({"reasoningContent": {"reasoningText": {"text": ""}}}, TEXT),
    "redacted thought": answer({"reasoningContent": {"redactedContent": "eHl6"}}, TEXT),
    "opaque": answer(IMAGE, TEXT),
    "not streamed by the service": answer({"video": {"format": "mp4", "source": {"bytes": "eHl6"}}}, TEXT),
    "cited": answer(CITED),
    "a tool's result": answer(RESULTS, TEXT),
    "no latency": answer(TEXT, metrics={"latencyMs": 0}),
    "more usage": answer(
        TEXT, usage={"inputTokens": 1, "outputTokens": 2, "totalTokens": 10, "cacheReadInputTokens": 7}
    ),
    "more fields": answer(TEXT, additionalModelResponseFields={"a": 1}, performanceConfig={"latency": "standard"}),
    "guardrail with its trace": answer({"text": "Blocked."}, stop="guardrail_intervened", trace=TRACE),
    "detected only": answer(TEXT, trace={"guardrail": {"inputAssessment": {"g": ASSESSMENT}}}),
} | {f"stop {word}": answer(TEXT, stop=word) for word in FINISHES}

THROTTLED: JsonObject = {"__type": "ThrottlingException", "message": "Too many requests."}


@pytest.mark.parametrize(("word", "finish"), FINISHES.items())
def test_each_stop_reason_has_its_meaning(word: str, finish: Finish) -> None:
    """Every stop reason of the API is read into our vocabulary; those of filters are signals."""
    response = bedrock.read_response(answer(TEXT, stop=word))
    assert (response.choices[0].finish, response.choices[0].finish_raw) == (finish, word)
    filtered = (Signal(SignalKind.FILTER_STOP, "stopReason", word, choice=0),)
    assert response.signals == (filtered if finish is Finish.CONTENT_FILTER else ())


def test_a_guardrail_is_summarised_without_the_words_that_matched() -> None:
    """Whatever acted or was detected is a flag by policy and name; matched words stay in the trace."""
    stop, *flags = bedrock.read_response(BODIES["guardrail with its trace"]).signals
    assert stop == Signal(
        SignalKind.FILTER_STOP, "stopReason", "guardrail_intervened", choice=0, detail="Guardrail blocked."
    )
    assert [(f.detail, f.category, f.value, f.blocked, f.severity, f.choice) for f in flags] == [
        ("topicPolicy", "Medical advice", "BLOCKED", True, None, None),
        ("contentPolicy", "VIOLENCE", "BLOCKED", True, "HIGH", None),
        ("wordPolicy", "customWords", "BLOCKED", True, None, None),
        ("wordPolicy", "PROFANITY", "NONE", False, None, None),
        ("sensitiveInformationPolicy", "EMAIL", "ANONYMIZED", False, None, None),
        ("sensitiveInformationPolicy", "badge", "BLOCKED", True, None, None),
        ("contextualGroundingPolicy", "GROUNDING", "BLOCKED", True, None, None),
        ("contentPolicy", "VIOLENCE", "BLOCKED", True, "HIGH", 0),
    ]
    assert flags[0].path == "trace.guardrail.inputAssessment.gr-1.topicPolicy.topics[1].action"
    assert flags[-1].path == 'trace.guardrail.outputAssessments["gr.2"][1].contentPolicy.filters[0].action'
    assert "secret word" not in repr(flags)


def test_flags_alone_are_written_as_a_trace() -> None:
    """Flags that nobody read from a trace make one; flags of other shapes are left out."""
    path = "trace.guardrail.inputAssessment.g.contentPolicy.filters[0].action"
    flag = Signal(SignalKind.FILTER_FLAG, path, "BLOCKED", category="HATE", severity="LOW", detail="contentPolicy")
    foreign = Signal(SignalKind.FILTER_FLAG, "choices[0].content_filter_results.hate", "true", category="hate")
    choice = Choice(0, (TextPart("no"),), Finish.CONTENT_FILTER, "guardrail_intervened")
    stop = Signal(SignalKind.FILTER_STOP, "stopReason", "guardrail_intervened", choice=0)
    response = Response("", (choice,), (stop, flag), usage=Usage(1, 2))
    body = bedrock.write_response(msgspec.structs.replace(response, signals=(stop, flag, foreign)))
    assert body["trace"]["guardrail"]["inputAssessment"]["g"] == {
        "contentPolicy": {"filters": [{"type": "HATE", "confidence": "LOW", "action": "BLOCKED"}]}
    }
    assert bedrock.read_response(body) == response


def test_parts_are_read_for_what_they_are() -> None:
    """Thoughts, text, calls, results and cited text become their parts; media is opaque."""
    parts = bedrock.read_response(BODIES["thought, text, tool"]).choices[0].parts
    call = ToolCallPart("t1", "look_up", '{"city":"Zürich","days":[1,null]}')
    assert parts == (ThinkingPart("Let me see."), TextPart("Hello, “world”."), call)
    assert bedrock.read_response(BODIES["cited"]).choices[0].text == "It is so."
    assert bedrock.read_response(BODIES["a tool's result"]).choices[0].parts[0] == ToolResultPart("t1", "rain")
    image = bedrock.read_response(BODIES["opaque"]).choices[0].parts[0]
    assert image == OpaquePart("image", encode(IMAGE))
    assert bedrock.read_response(BODIES["plain"]).usage == Usage(3, 5)


@pytest.mark.parametrize("finish", Finish)
def test_a_finish_of_another_shape_becomes_a_word_of_this_one(finish: Finish) -> None:
    """A foreign finish word is never written; a refusal is written as a filter, so that it stays visible."""
    raw = "alien" if finish is not Finish.UNKNOWN else None
    body = bedrock.write_response(Response("m", (Choice(0, (RefusalPart("no"),), finish, raw),)))
    assert body["stopReason"] in FINISHES
    assert (body["stopReason"] == "content_filtered") == (finish in (Finish.REFUSAL, Finish.CONTENT_FILTER))
    assert body["output"]["message"]["content"] == [{"text": "no"}]


def test_a_response_that_knows_little_is_still_whole() -> None:
    """Usage and metrics, which the shape requires, are written as zeros."""
    body = bedrock.write_response(Response("m"))
    assert body["usage"] == {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    assert body["metrics"] == {"latencyMs": 0}


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (THROTTLED, "ThrottlingException", "Too many requests."),
        ({"message": "No."}, None, "No."),
        ({"Message": "No.", "__type": "com.amazon#ValidationException:http://x"}, "ValidationException", "No."),
        ({"Error": {"Code": "AccessDeniedException", "Message": "No."}}, "AccessDeniedException", "No."),
        ({"__type": "InternalServerException"}, "InternalServerException", ""),
    ],
)
def test_an_error_body_is_a_response_with_an_error(body: JsonObject, kind: str | None, message: str) -> None:
    """An error's type and message are kept, wherever the service or boto3 puts them, and it is a signal."""
    response = bedrock.read_response(body, status=429)
    assert response.error == ProviderError(message, kind=kind)
    assert response.signals == (Signal(SignalKind.ERROR, "__type" if kind else "message", kind or message),)
    assert bedrock.reads_response(body)
    assert bedrock.read_response(bedrock.write_response(response), status=429) == response


def test_an_error_is_streamed_as_an_exception() -> None:
    """An exception event closes to the error; in mid-stream it keeps what had arrived."""
    assert [e.event for e in bedrock.write_stream(bedrock.read_response(THROTTLED))] == ["throttlingException"]
    event = sse.ServerEvent('{"__type":"InternalFailure","message":"broken"}', event="error")
    assert laws.streamed(CODEC, [event]).error == ProviderError("broken", kind="InternalFailure")


def test_padding_and_unknown_events_are_passed_over() -> None:
    """The service's padding, and events from the future, change nothing."""
    response = bedrock.read_response(BODIES["more fields"])
    padded = [replace(e, data=e.data[:-1] + ',"p":"abc"}') for e in bedrock.write_stream(response)]
    assert laws.streamed(CODEC, [*padded, sse.ServerEvent("{}", event="new"), sse.ServerEvent("{}")]) == response


def test_a_tool_call_cut_off_keeps_its_arguments_as_text() -> None:
    """Arguments that are no JSON yet are kept as they arrived."""
    events = list(bedrock.write_stream(bedrock.read_response(answer(CALL)), piece_chars=9))
    cut = laws.streamed(CODEC, events[:3])
    assert cut.choices[0].parts == (ToolCallPart("t1", "look_up", '{"city":"'),)
    assert laws.streamed(CODEC, bedrock.write_stream(cut)) == cut


MORE_RESULTS: list[JsonObject] = [
    {"toolUseId": "t2", "content": [{"json": {"unit": "C", "degrees": 7}}]},
    {"toolUseId": "t3", "content": [{"text": "a"}, IMAGE]},
    {"toolUseId": "t4", "content": []},
]
GUARDED: JsonObject = {"guardContent": {"text": {"text": "judge this", "qualifiers": ["query"]}}}
REQUESTS: dict[str, JsonObject] = {
    "small": {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
    "settings": {
        "modelId": "some.model",
        "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
        "messages": [{"role": "user", "content": [GUARDED, IMAGE, {"document": {"name": "d", "source": {}}}]}],
        "inferenceConfig": {"maxTokens": 5},
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
    },
    "guarded image": {"messages": [{"role": "user", "content": [{"guardContent": {"image": {"format": "png"}}}]}]},
    "tools": {
        "messages": [
            {"role": "user", "content": [{"text": "weather?"}]},
            {"role": "assistant", "content": [THOUGHT, CALL]},
            {"role": "user", "content": [RESULTS, *({"toolResult": result} for result in MORE_RESULTS)]},
        ]
    },
}


def test_a_request_is_read_for_what_it_is() -> None:
    """The system list is a leading message, guarded text is text, results carry theirs."""
    request = bedrock.read_request(REQUESTS["settings"])
    assert (request.model, request.prompt, request.messages[0].text) == ("some.model", "judge this", "Be brief.")
    results = bedrock.read_request(REQUESTS["tools"]).messages[-1].parts
    texts = [part.text for part in results if isinstance(part, ToolResultPart)]
    assert texts == ["rain", '{"unit":"C","degrees":7}', "a", ""]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": ["x"]},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"messages": [{"role": "user", "content": ["x"]}]},
    ],
)
def test_other_requests_are_not_taken_for_ours(body: JsonObject) -> None:
    """Blocks have a name and no type."""
    assert not bedrock.reads_request(body)


@pytest.mark.parametrize(
    "body", [{}, {"output": []}, {"output": {}}, {"message": {}}, {"message": "x", "level": "info"}]
)
def test_other_responses_are_not_taken_for_ours(body: JsonObject) -> None:
    """Only an output with a message, or an error and nothing else, is this API's."""
    assert not bedrock.reads_response(body)


def client_of(url: str) -> Any:
    """Return a client that talks to the stub, with credentials that open nothing."""
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - the stub asks for no secret
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )


@pytest.mark.heavy
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_real_client_reads_what_is_written(body: JsonObject) -> None:
    """The client's response, plain and streamed, is the response that was served, and of the service's own shape."""
    response = bedrock.read_response(body)
    with serving(CODEC, response) as stub, closing(client_of(stub.url)) as client:
        got = client.converse(**ASKED)
    assert stub.paths == ["/model/some.model/converse"]
    assert bedrock.reads_request(stub.bodies[0])
    assert bedrock.read_response(plain(got)) == response
    shape = botocore.session.get_session().get_service_model("bedrock-runtime").shape_for("ConverseResponse")
    del got["ResponseMetadata"]
    # A trace is written as far as its flags say, which is less than the service's own shape asks for.
    got.pop("trace", None)
    assert not ParamValidator().validate(got, shape).has_errors()


STREAMED = {name: body for name, body in BODIES.items() if name != "not streamed by the service"}


@pytest.mark.parametrize("body", STREAMED.values(), ids=STREAMED)
def test_the_real_client_streams_what_is_written(body: JsonObject) -> None:
    """The client finds every event in the binary stream, and they make the response that was served."""
    response = bedrock.read_response(body)
    payload = b"".join(map(eventstream.frame, bedrock.write_stream(response, piece_chars=4)))
    with answering(payload, content_type=eventstream.MEDIA_TYPE) as stub, closing(client_of(stub.url)) as client:
        pairs = [pair for event in client.converse_stream(**ASKED)["stream"] for pair in event.items()]
    events = [sse.ServerEvent(encode(plain(value)).decode(), event=name) for name, value in pairs]
    assert laws.streamed(CODEC, events) == response


def test_the_real_client_raises_on_errors() -> None:
    """An error body is the client's own exception, plain and streamed, and its dict reads as the error."""
    failure = bedrock.read_response(THROTTLED, status=429)
    with (
        serving(CODEC, failure, status=429) as stub,
        closing(client_of(stub.url)) as client,
        pytest.raises(client.exceptions.ThrottlingException) as caught,
    ):
        client.converse(**ASKED)
    again = bedrock.read_response(plain(caught.value.response), status=429)
    assert again.error == failure.error
    payload = b"".join(map(eventstream.frame, bedrock.write_stream(failure)))
    with (
        answering(payload, content_type=eventstream.MEDIA_TYPE) as stub,
        closing(client_of(stub.url)) as client,
        pytest.raises(botocore.exceptions.EventStreamError, match="Too many requests"),
    ):
        list(client.converse_stream(**ASKED)["stream"])
