"""What auditors are asked about: typed values, the mapping of methods, and what counts as the prompt."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from demur.audit.inputs import AuditorInput, prompt_of, request_input, response_input
from demur.audit.server import read_input
from demur.detect.check import classify
from demur.errors import ShapeError
from demur.model.claim import Phase
from demur.model.exchange import Choice, Message, Request, Response, Shape, TextPart, ThinkingPart
from demur.wire.shapes import CODECS, read_exchange

PICTURE = base64.b64encode(bytes(range(256)) * 4).decode()
TEXT_FILE = "data:text/plain;base64," + base64.b64encode(b"words in a file").decode()
CHAT = {"model": "m", "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def choice(content: str | None, finish: str = "stop", *, index: int = 0, **more: Any) -> dict[str, Any]:
    """A choice of a chat completion."""
    return {"index": index, "message": {"role": "assistant", "content": content, **more}, "finish_reason": finish}


ANSWERS: dict[str, dict[str, Any]] = {
    "text": {"choices": [choice("I can't help with that.")]},
    "refusal field": {"choices": [choice(None, refusal="I can't.")]},
    "filter": {"choices": [choice("", "content_filter")]},
    "tool call": {"choices": [choice(None, "tool_calls", tool_calls=[CALL])]},
    "two choices": {"choices": [choice("Paris."), choice("I'm sorry, but I can't help with that.", index=1)]},
    "anthropic": {"type": "message", "role": "assistant", "content": [], "stop_reason": "refusal", "model": "c"},
    "gemini block": {"promptFeedback": {"blockReason": "SAFETY"}},
    "error": {"error": {"message": "busy", "type": "server_error", "code": None}},
}


@pytest.mark.parametrize(
    "given",
    [
        "hello",
        {"prompt": "hello"},
        {"prompt": "hello", "model": "m"},
        CHAT,
        CHAT["messages"],
        {"system": "be brief", "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]},
        {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
        {"model": "m", "input": "hello"},
        {"question": "hello"},
    ],
)
def test_a_prompt_is_read_from_every_shape(given: object) -> None:
    """`prompt` is the user's text, whether a text, a mapping or a provider's request was sent."""
    seen = read_input(Phase.REQUEST, {"input": given, "metadata": {"session_id": "s", "n": 1}}).mapping()
    assert seen["prompt"] == "hello"
    assert {"role": "user", "content": "hello"} in seen["messages"]  # type: ignore[operator]  # a list of turns
    assert seen["metadata"] == {"session_id": "s", "n": "1"}


def test_the_model_falls_back_to_the_metadata() -> None:
    """A text has no model of its own; the metadata may name one."""
    seen = read_input(Phase.REQUEST, {"input": "hello", "metadata": {"model_id": "m"}}).mapping()
    assert seen["model"] == "m"


def test_turns_that_contradict_the_prompt_are_not_believed() -> None:
    """Where a mapping's messages say something else than its prompt, the prompt is what is audited."""
    given = {"prompt": "hello", "messages": [{"role": "user", "content": "something else"}]}
    seen = read_input(Phase.REQUEST, {"input": given}).mapping()
    assert seen["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_mapping_of_ours_reads_back(name: str) -> None:
    """Whatever the answer was, `content` is text, and an auditor behind HTTP comes to the verdict of one in the process."""
    seen = read_input(Phase.RESPONSE, {"output": ANSWERS[name]}).mapping()
    assert isinstance(seen["content"], str)
    response = read_exchange(ANSWERS[name]).response
    assert isinstance(response, Response)
    sent = msgspec.json.decode(msgspec.json.encode(response_input(response).output))
    again = read_input(Phase.RESPONSE, {"output": sent}).response
    assert again is not None
    assert classify(again) == classify(response)


def test_what_a_response_says_is_handed_on() -> None:
    """Refusal, finish reason, tool calls and all choices are there to be read."""
    refused = read_input(Phase.RESPONSE, {"output": ANSWERS["refusal field"], "input": "hello"}).mapping()
    assert (refused["content"], refused["refusal"], refused["finish_reason"]) == ("", "I can't.", "stop")
    assert refused["prompt"] == "hello"
    called = read_input(Phase.RESPONSE, {"output": ANSWERS["tool call"]}).mapping()
    assert called["tool_calls"] == [{"id": "1", "name": "f", "arguments": "{}"}]
    both = read_input(Phase.RESPONSE, {"output": ANSWERS["two choices"]}).mapping()
    assert both["content"] == "Paris.\n\nI'm sorry, but I can't help with that."


def test_thoughts_are_handed_on_apart() -> None:
    """What the model thought aloud is text to be read, in whole and choice by choice, and never part of the answer."""
    thoughts = (ThinkingPart("They ask for Paris."), ThinkingPart("I can't help with that."))
    response = Response("m", (Choice(0, (*thoughts, TextPart("Paris."))), Choice(1, (ThinkingPart("Hm."),))))
    given = response_input(response)
    seen: Any = given.mapping()
    assert (seen["content"], seen["thinking"]) == ("Paris.", "They ask for Paris.\nI can't help with that.\n\nHm.")
    assert [choice["thinking"] for choice in seen["choices"]] == ["They ask for Paris.\nI can't help with that.", "Hm."]
    sent = msgspec.json.decode(msgspec.json.encode(given.output))
    again = read_input(Phase.RESPONSE, {"output": sent}).mapping()
    assert (again["content"], again["thinking"]) == (seen["content"], seen["thinking"])


@pytest.mark.parametrize(
    ("given", "content"),
    [("hi", "hi"), ({"content": "hi"}, "hi"), ({"content": None, "refusal": "no"}, ""), ({"response": "hi"}, "hi")],
)
def test_plain_answers_are_read(given: object, content: str) -> None:
    """A text and a mapping with `content` are answers too; null is no text."""
    assert read_input(Phase.RESPONSE, {"output": given}).mapping()["content"] == content


def test_other_phases_hand_on_what_was_sent() -> None:
    """In the artifact and execution phases a method gets the fields as they were sent."""
    given = read_input(Phase.EXECUTION, {"input": {"tool": "rm"}, "output": "done"})
    seen = given.mapping()
    assert (seen["tool"], seen["content"]) == ("rm", "done")


def test_every_method_has_its_own_mapping() -> None:
    """What one auditor writes into its mapping, another does not see."""
    given = read_input(Phase.REQUEST, {"input": "hello"})
    given.mapping()["prompt"] = "changed"
    assert given.mapping()["prompt"] == "hello"


@pytest.mark.parametrize(
    ("phase", "data"),
    [
        (Phase.REQUEST, {}),
        (Phase.REQUEST, {"input": 7}),
        (Phase.REQUEST, {"input": {"strange": True}}),
        (Phase.REQUEST, {"input": "x", "metadata": []}),
        (Phase.RESPONSE, {"input": "x"}),
        (Phase.RESPONSE, {"output": ["x"]}),
        (Phase.RESPONSE, {"output": {"strange": True}}),
        (Phase.RESPONSE, {"output": {"content": "x", "signals": [{"kind": "mood"}]}}),
        (Phase.RESPONSE, {"output": {"content": "x", "signals": [], "choices": ["x"]}}),
        (Phase.RESPONSE, {"output": {"response": None}}),
        (Phase.ARTIFACT, {}),
    ],
)
def test_what_cannot_be_read_is_said(phase: Phase, data: dict[str, object]) -> None:
    """Data without a subject is a `ShapeError` and nothing else."""
    with pytest.raises(ShapeError):
        read_input(phase, data)


def test_auditors_of_all_stages_share_what_one_of_them_computed() -> None:
    """What is worked out from an input is worked out once, also for the auditors of later stages."""
    asked: list[AuditorInput] = []

    def count(given: AuditorInput) -> int:
        asked.append(given)
        return len(asked)

    first = request_input(Request("m", (Message("user", (TextPart("a"),)),)))
    later = msgspec.structs.replace(first, claims={"x": True})
    assert (first.shared(count), later.shared(count), first.shared(count)) == (1, 1, 1)
    assert asked == [first]


def words(content: Any, shape: Shape = Shape.ANTHROPIC, role: str = "user") -> str:
    return prompt_of(CODECS[shape].read_request({"model": "m", "messages": [{"role": role, "content": content}]}))


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_the_operator_and_the_model_are_not_the_prompt(role: str) -> None:
    """Turns of the operator and of the model are left out, by exactly their roles."""
    assert words("said", Shape.OPENAI_CHAT, role) == ""
    assert words("said", Shape.OPENAI_CHAT, role.title()) == "said"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]}, "found"),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a b"}}, "a b"),
        ({"type": "search_result", "title": "t", "content": [{"type": "text", "text": "c"}]}, "t\nc"),
        ({"type": "file", "file": {"file_data": TEXT_FILE}}, "words in a file"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}, ""),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}, ""),
        ({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}, ""),
    ],
)
def test_parts_are_read_for_their_words(part: dict[str, Any], said: str) -> None:
    """Results, documents and files of text are words; pictures and addresses are none."""
    assert words([part]) == said


def test_a_word_broken_by_parts_is_read_whole() -> None:
    """Parts that end in the middle of a word are read with and without the seam, others only one a line."""
    assert words([{"type": "text", "text": "se"}, {"type": "text", "text": "cret"}]) == "se\ncret\nsecret"
    assert words([{"type": "text", "text": "one."}, {"type": "text", "text": "Two"}]) == "one.\nTwo"


def test_items_and_templates_are_read() -> None:
    """Items of an unknown kind and a template's values are words, unless the model wrote them."""
    items = [{"type": "odd", "role": "user", "content": "a"}, {"type": "odd", "role": "assistant", "content": "b"}]
    body = {"model": "m", "input": items, "prompt": {"id": "p", "variables": {"x": "c"}}}
    assert prompt_of(CODECS[Shape.OPENAI_RESPONSES].read_request(body)) == "a\nc"


def test_plain_turns_are_the_prompt_as_ever() -> None:
    """A request of plain turns has the prompt that it always had."""
    turns = (("user", "a"), ("assistant", "b"), ("user", "c"))
    request = Request("m", tuple(Message(role, (TextPart(text),)) for role, text in turns))
    assert prompt_of(request) == request.prompt == "a\nc"


def test_fields_beside_the_conversation_are_read() -> None:
    """Words in another input field than the format's own are part of the prompt; the operator's turns are not."""
    turns = [{"role": "system", "content": "rules"}, {"role": "user", "content": "a"}]
    chat = {"model": "m", "messages": turns, "documents": [{"text": "b"}], "input": None, "query": "", "top_p": 1}
    assert prompt_of(CODECS[Shape.OPENAI_CHAT].read_request(chat)) == "a\nb"
    assert prompt_of(CODECS[Shape.OPENAI_RESPONSES].read_request({"model": "m", "input": turns})) == "a"
