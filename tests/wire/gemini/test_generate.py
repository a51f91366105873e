"""Gemini generateContent: each row of the provider table, both ways, streamed and not, against the real client."""

from __future__ import annotations

from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from tests.wire import laws
from tests.wire.loopback import serving, streaming

from demur.model.exchange import (
    Choice,
    Finish,
    Message,
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
from demur.wire import sse
from demur.wire.fields import Codec, JsonObject, decode, encode, plain
from demur.wire.gemini import generate as gemini

CODEC: Codec = gemini

FILTERS = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT")
NO_FILTERS = (
    *("RECITATION", "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"),
    *("UNEXPECTED_TOOL_CALL", "FINISH_REASON_UNSPECIFIED"),
)
BLOCKS = ("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK")


def answer(*parts: JsonObject, finish: str | None = "STOP", **more: Any) -> JsonObject:
    """Return a response body with one candidate."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish, "index": 0, **more}
    return {
        "candidates": [{name: value for name, value in candidate.items() if value is not None}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 5, "totalTokenCount": 8},
        "modelVersion": "gemini-x",
        "responseId": "r1",
    }


def rating(category: str, *, blocked: bool = False) -> JsonObject:
    """Return a safety rating."""
    flag = {"blocked": True} if blocked else {}
    return {"category": f"HARM_CATEGORY_{category}", "probability": "HIGH" if blocked else "NEGLIGIBLE", **flag}


def blocked(reason: str, **more: Any) -> JsonObject:
    """Return the body that answers a blocked prompt."""
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 0}
    return {"promptFeedback": {"blockReason": reason, **more}, "usageMetadata": usage, "modelVersion": "gemini-x"}


TEXT: JsonObject = {"text": "Hello, “world”."}
THOUGHT: JsonObject = {"text": "Let me see.", "thought": True, "thoughtSignature": "c2ln"}
CALL: JsonObject = {"functionCall": {"name": "look_up", "args": {"user_name": "Zoë", "days": [1, None]}}}
CALL_WITH_ID: JsonObject = {"functionCall": {"id": "c1", "name": "look_up", "args": {}}}
# Opaque parts keep the order of their fields; this is the order in which the SDK dumps them.
IMAGE: JsonObject = {"inlineData": {"data": "eHl6", "mimeType": "image/png"}}

BODIES: dict[str, JsonObject] = (
    {
        "plain": answer(TEXT),
        "no parts": answer(),
        "empty text": answer({"text": ""}),
        "thought, text, tool": answer(THOUGHT, TEXT, CALL, CALL_WITH_ID),
        "opaque": answer(TEXT, IMAGE, {"executableCode": {"code": "1", "language": "PYTHON"}}),
        "cut by length": answer(TEXT, finish="MAX_TOKENS", avgLogprobs=-0.5),
        "created": {**answer(TEXT), "createTime": "2025-01-02T03:04:05Z"},
        "rated": answer(TEXT, safetyRatings=[rating("HARASSMENT"), rating("HATE_SPEECH")]),
        "rated and blocked": answer(
            TEXT, finish="SAFETY", safetyRatings=[rating("HARASSMENT"), rating("HATE_SPEECH", blocked=True)]
        ),
        "blocked first": answer(
            finish="SAFETY", safetyRatings=[rating("HATE_SPEECH", blocked=True), rating("HARASSMENT")]
        ),
        "with a message": answer(finish="SAFETY", finishMessage="Blocked by our filter."),
        "two candidates": {
            "candidates": [
                {"content": {"role": "model", "parts": [TEXT]}, "finishReason": "STOP", "index": 0},
                {"finishReason": "SAFETY", "index": 1, "safetyRatings": [rating("HARASSMENT", blocked=True)]},
            ],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2},
        },
        "prompt rated": blocked("SAFETY", safetyRatings=[rating("DANGEROUS_CONTENT", blocked=True)]),
    }
    | {f"finish {word}": answer(TEXT, finish=word) for word in FILTERS + NO_FILTERS}
    | {f"block {word}": blocked(word, blockReasonMessage="no") for word in BLOCKS}
)

INVALID: JsonObject = {
    "error": {"code": 400, "message": "Bad input.", "status": "INVALID_ARGUMENT", "details": [{"reason": "x"}]}
}


@pytest.mark.parametrize("word", FILTERS)
def test_a_filter_is_a_signal(word: str) -> None:
    """A finish reason that is a filter is a signal at its path."""
    response = gemini.read_response(answer(finish=word, finishMessage="because"))
    expected = Signal(SignalKind.FILTER_STOP, "candidates[0].finishReason", word, choice=0, detail="because")
    assert response.signals == (expected,)
    assert (response.choices[0].finish, response.choices[0].finish_raw) == (Finish.CONTENT_FILTER, word)


@pytest.mark.parametrize("word", NO_FILTERS)
def test_what_is_no_refusal_is_no_signal(word: str) -> None:
    """RECITATION, LANGUAGE, OTHER and their like are reported and not counted."""
    response = gemini.read_response(answer(TEXT, finish=word))
    assert response.signals == ()
    assert (response.choices[0].finish, response.choices[0].finish_raw) == (Finish.UNKNOWN, word)


@pytest.mark.parametrize("word", BLOCKS)
def test_a_blocked_prompt_is_a_signal_without_candidates(word: str) -> None:
    """A block reason is a signal, its message the detail, and there is no choice."""
    response = gemini.read_response(blocked(word, blockReasonMessage="no"))
    assert response.signals == (Signal(SignalKind.PROMPT_BLOCK, "promptFeedback.blockReason", word, detail="no"),)
    assert response.choices == ()
    assert laws.streamed(CODEC, gemini.write_stream(response)).complete


def test_an_unspecified_block_reason_says_nothing() -> None:
    """The enum's zero value is no block."""
    assert gemini.read_response(blocked("BLOCKED_REASON_UNSPECIFIED")).signals == ()


def test_a_rating_that_blocked_is_a_flag() -> None:
    """Only ratings with `blocked: true` are flags, with category, probability and path."""
    response = gemini.read_response(BODIES["rated and blocked"])
    path, hate = "candidates[0].safetyRatings[1].blocked", "HARM_CATEGORY_HATE_SPEECH"
    flag = Signal(SignalKind.FILTER_FLAG, path, "true", choice=0, category=hate, severity="HIGH")
    assert response.signals[1:] == (flag,)
    prompt = gemini.read_response(BODIES["prompt rated"]).signals[1]
    assert (prompt.path, prompt.choice) == ("promptFeedback.safetyRatings[0].blocked", None)
    assert gemini.read_response(BODIES["rated"]).signals == ()


def test_parts_are_read_for_what_they_are() -> None:
    """Thoughts, text and calls become their parts; a call without an id goes by its name; names in it are kept."""
    choice = gemini.read_response(BODIES["thought, text, tool"]).choices[0]
    assert choice.parts == (
        ThinkingPart("Let me see."),
        TextPart("Hello, “world”."),
        ToolCallPart("look_up", "look_up", '{"user_name":"Zoë","days":[1,null]}'),
        ToolCallPart("c1", "look_up", "{}"),
    )
    assert (choice.finish, choice.finish_raw) == (Finish.TOOL, "STOP")
    assert gemini.read_response(BODIES["plain"]).usage == Usage(3, 5)
    assert gemini.read_response(BODIES["created"]).created_s == 1735787045


def test_a_time_that_is_none_is_kept_as_it_is() -> None:
    """A creation time that cannot be read is no error; one without a zone is UTC."""
    odd = {**answer(TEXT), "createTime": "yesterday"}
    assert gemini.read_response(odd).created_s is None
    laws.check_plain(CODEC, odd)
    assert gemini.read_response({**answer(TEXT), "createTime": "2025-01-02T03:04:05"}).created_s == 1735787045


def test_snake_case_is_read_and_camel_case_written() -> None:
    """A Python dump reads as the same value as the wire's body; a tool's own names are never touched."""
    content = {"role": "model", "parts": [{"function_call": CALL["functionCall"]}]}
    rated = {"finish_reason": "SAFETY", "index": 0, "safety_ratings": [rating("HARASSMENT", blocked=True)]}
    dump = {
        "candidates": [{"content": content, **rated}],
        "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 5},
        "model_version": "gemini-x",
        "prompt_feedback": {"block_reason": "OTHER"},
    }
    response = gemini.read_response(dump)
    kinds = [SignalKind.PROMPT_BLOCK, SignalKind.FILTER_STOP, SignalKind.FILTER_FLAG]
    assert [s.kind for s in response.signals] == kinds
    assert response.usage == Usage(3, 5)
    assert gemini.read_response(gemini.write_response(response)) == response
    assert gemini.reads_response(dump)
    assert {"candidates", "usageMetadata", "modelVersion", "promptFeedback"} == gemini.write_response(response).keys()


@pytest.mark.parametrize("finish", Finish)
def test_a_finish_of_another_shape_becomes_a_word_of_this_one(finish: Finish) -> None:
    """A foreign finish word is never written; a refusal is written as a filter, so that it stays visible."""
    raw = "alien" if finish is not Finish.UNKNOWN else None
    signals = (
        Signal(SignalKind.FILTER_FLAG, "choices[0].content_filter_results.hate", "true", choice=0),
        Signal(SignalKind.REFUSAL_FIELD, "choices[0].message.refusal", "no", choice=0),
    )
    foreign = Response("m", (Choice(0, (RefusalPart("no"),), finish, raw),), signals)
    candidate = gemini.write_response(foreign)["candidates"][0]
    assert (candidate["finishReason"] == "SAFETY") == (finish in (Finish.REFUSAL, Finish.CONTENT_FILTER))
    assert candidate["content"]["parts"] == [{"text": "no"}]
    types.Candidate.model_validate(candidate)


def test_an_error_body_is_a_response_with_an_error() -> None:
    """An error's code, status and message are kept, and it is a signal."""
    response = gemini.read_response(INVALID, status=400)
    assert response.error == ProviderError("Bad input.", code="400", kind="INVALID_ARGUMENT")
    assert response.signals == (Signal(SignalKind.ERROR, "error.status", "INVALID_ARGUMENT"),)
    bare = gemini.read_response({"error": {"code": 500}}, status=500)
    assert bare.signals == (Signal(SignalKind.ERROR, "error.code", "500"),)
    assert gemini.read_response({"error": {}}).signals[0].value == "error"
    assert gemini.write_response(Response("", error=ProviderError("x", code="busy"), status=503)) == {
        "error": {"code": 503, "message": "x", "status": "busy"}
    }


def test_an_error_in_mid_stream_keeps_what_had_arrived() -> None:
    """The text before an error is kept, and the response is not complete."""
    laws.check_errors_in_stream(CODEC, answer(TEXT, finish=None), error=INVALID)


def test_fragments_of_the_same_kind_are_one_part() -> None:
    """Texts that follow each other are joined, empty ones vanish, a blocked rating outlives a later harmless one."""
    fragments = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}, {"text": "b"}]}}]},
        {"candidates": [{"safetyRatings": [rating("HARASSMENT", blocked=True)]}]},
        {"candidates": [{"content": {"parts": [CALL, {"text": ""}]}, "safetyRatings": [rating("HARASSMENT")]}]},
        {"candidates": [{"content": {"parts": [{"text": "c"}]}, "finishReason": "STOP"}]},
    ]
    response = laws.streamed(CODEC, [sse.ServerEvent(encode(f).decode()) for f in fragments])
    call = ToolCallPart("look_up", "look_up", '{"user_name":"Zoë","days":[1,null]}')
    assert response.choices[0].parts == (TextPart("ab"), call, TextPart("c"))
    assert [s.kind for s in response.signals] == [SignalKind.FILTER_FLAG]
    assert response.complete


RESULTS: list[JsonObject] = [
    {"name": "look_up", "response": {"output": "rain"}},
    {"id": "c1", "name": "look_up", "response": {"degrees": 7}},
    {"id": "lost", "name": "other", "response": {"output": '{"a":1}'}},
    {"name": "mute"},
    {"name": "empty", "response": {"output": ""}},
]
REQUESTS: dict[str, JsonObject] = {
    "small": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "settings": {
        "model": "models/gemini-x",
        "systemInstruction": {"role": "system", "parts": [{"text": "Be brief."}]},
        "contents": [{"parts": [{"text": "hi"}, IMAGE, {"fileData": {"fileUri": "u"}}]}],
        "generationConfig": {"candidateCount": 2, "temperature": 0.5},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    },
    "one candidate": {"contents": [], "generationConfig": {"candidateCount": 1}},
    "tools": {
        "contents": [
            {"role": "user", "parts": [{"text": "weather?"}]},
            {"role": "model", "parts": [THOUGHT, CALL, CALL_WITH_ID]},
            {"role": "function", "parts": [{"functionResponse": result} for result in RESULTS]},
        ],
        "tools": [{"functionDeclarations": [{"name": "look_up"}]}],
    },
}


def test_a_request_is_read_for_what_it_is() -> None:
    """The instruction is a leading system message, roles and counts are ours, results find their calls."""
    request = gemini.read_request(REQUESTS["settings"])
    assert (request.model, request.n, request.prompt) == ("models/gemini-x", 2, "hi")
    assert request.messages[0] == Message("system", (TextPart("Be brief."),))
    tools = gemini.read_request(REQUESTS["tools"]).messages
    assert [m.role for m in tools] == ["user", "assistant", "tool"]
    said = {"look_up": "rain", "c1": '{"degrees":7}', "lost": '{"output":"{\\"a\\":1}"}', "mute": "{}", "empty": ""}
    assert tools[2].parts == tuple(ToolResultPart(call, text) for call, text in said.items())


def test_an_instruction_may_be_mere_text() -> None:
    """The SDK's short form of the instruction is read, in snake_case too."""
    request = gemini.read_request({"system_instruction": "Be brief.", "contents": []})
    assert request.messages == (Message("system", (TextPart("Be brief."),)),)


@pytest.mark.parametrize("body", [{}, {"contents": "hi"}, {"contents": [{"role": "user"}]}, {"messages": []}])
def test_other_requests_are_not_taken_for_ours(body: JsonObject) -> None:
    """Contents are a list of objects with parts."""
    assert not gemini.reads_request(body)


@pytest.mark.parametrize("body", [{}, {"error": {"message": "x", "code": "y"}}, {"candidates": "x"}, {"choices": []}])
def test_other_responses_are_not_taken_for_ours(body: JsonObject) -> None:
    """Only candidates, feedback, usage or a status error are this API's."""
    assert not gemini.reads_response(body)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_sdk_types_accept_what_is_written(body: JsonObject) -> None:
    """Every response and every fragment validates as the SDK's own type, and reads back as the same value."""
    response = gemini.read_response(body)
    parsed = types.GenerateContentResponse.model_validate(gemini.write_response(response))
    assert gemini.read_response(plain(parsed)) == response
    for event in gemini.write_stream(response, piece_chars=4):
        types.GenerateContentResponse.model_validate(decode(event.data))


# The client for the Gemini API drops `createTime` and `finishMessage`, which its types have for Vertex AI.
SEEN_BY_CLIENT = {name: body for name, body in BODIES.items() if name not in ("created", "with a message")}


@pytest.mark.heavy
@pytest.mark.parametrize("body", SEEN_BY_CLIENT.values(), ids=SEEN_BY_CLIENT)
def test_the_real_client_reads_what_is_written(body: JsonObject) -> None:
    """The client's response, plain and streamed, is the response that was served."""
    response = gemini.read_response(body)
    with serving(CODEC, response) as stub, client_of(stub.url) as client:
        got = client.models.generate_content(model="gemini-x", contents="hi")
        assert gemini.read_response(plain(got)) == response
        assert gemini.reads_request(stub.bodies[0])
        assert stub.paths[0].endswith("/models/gemini-x:generateContent")
    with streaming(CODEC, response) as stub, client_of(stub.url) as client:
        chunks = client.models.generate_content_stream(model="gemini-x", contents="hi")
        events = [sse.ServerEvent(encode(plain(chunk)).decode()) for chunk in chunks]
    assert laws.streamed(CODEC, events) == response


def test_the_real_client_raises_on_errors() -> None:
    """An error body is the client's own exception, plain and streamed."""
    failure = gemini.read_response(INVALID, status=400)
    with (
        serving(CODEC, failure, status=400) as stub,
        client_of(stub.url) as client,
        pytest.raises(errors.ClientError, match=r"Bad input\."),
    ):
        client.models.generate_content(model="gemini-x", contents="hi")
    with (
        streaming(CODEC, failure) as stub,
        client_of(stub.url) as client,
        pytest.raises(errors.ClientError, match=r"Bad input\."),
    ):
        list(client.models.generate_content_stream(model="gemini-x", contents="hi"))


def client_of(url: str) -> genai.Client:
    """Return a client that talks to the stub."""
    return genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))
