"""A stream that is denied ends as the provider's own streams do, read by the clients' own helpers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from tests.gateway.gatewaying import Running
from tests.gateway.guard.conformance import ASKED, BEFORE, PHRASE, Said, events_of, forbids, on_wire, parts
from tests.wire.loopback import answering

from demur.gateway.guard.guard import open_guard
from demur.gateway.guard.values import Denial, GuardLimits, GuardMode
from demur.model.exchange import Channel, Finish, RefusalPart, Response, Shape
from demur.wire.shapes import CODECS
from demur.wire.sse import Decoder

DENIAL = Denial("forbidden_phrase", "This answer was withheld.", ("no-phrase",))
HOLDING = (GuardMode.WINDOW, GuardMode.BUFFER)


def denied(shape: Shape, events: Iterable[bytes], mode: GuardMode = GuardMode.WINDOW) -> bytes:
    """Return what a client gets of a stream that is denied."""
    guard, out = open_guard(shape, mode=mode, window_chars=len(PHRASE), scan_every_chars=4), b""
    for event in events:
        step = guard.feed(event)
        out += step.send
        while step.due is not None:
            step = guard.verdict(allow=not forbids(step.due), denial=DENIAL)
            out += step.send
    assert guard.account.denied
    return out


def said(*channels: Channel) -> list[Said]:
    """Return an answer in these channels, the phrase in the last."""
    opening = {Channel.TOOL: '{"q": "'}
    pieces = [
        Said(piece, channel=channel)
        for channel in channels
        for piece in parts(opening.get(channel, "") + BEFORE * 2, 20)
    ]
    return [*pieces, *(Said(piece, channel=channels[-1]) for piece in parts(PHRASE, 5))]


@contextmanager
def served(payload: bytes) -> Iterator[Running]:
    with answering(payload, content_type="text/event-stream") as stub:
        yield Running(stub.url)


def read(shape: Shape, payload: bytes) -> Response:
    reader = CODECS[shape].open_stream()
    for event in Decoder().feed(payload):
        reader.feed(event)
    return reader.close()


def bodies(payload: bytes) -> list[Any]:
    return [json.loads(event.data) for event in Decoder().feed(payload) if event.data != "[DONE]"]


@pytest.mark.parametrize("mode", HOLDING)
@pytest.mark.parametrize("shape", [Shape.OPENAI_CHAT, Shape.AZURE, Shape.OPENAI_RESPONSES, Shape.ANTHROPIC])
def test_our_own_readers_see_a_filtered_answer(shape: Shape, mode: GuardMode) -> None:
    """The codecs read a denied stream as complete, and as stopped by a filter."""
    response = read(shape, denied(shape, events_of(shape, said(Channel.TEXT)), mode))
    assert response.complete
    expected = Finish.REFUSAL if shape is Shape.ANTHROPIC else Finish.CONTENT_FILTER
    assert [choice.finish for choice in response.choices] == [expected]
    assert (BEFORE * 2).startswith(response.choices[0].text)
    if shape in (Shape.OPENAI_CHAT, Shape.AZURE):
        assert RefusalPart(DENIAL.message) in response.choices[0].parts


@pytest.mark.parametrize("mode", HOLDING)
def test_the_chat_helper_reads_it(mode: GuardMode) -> None:
    """The official chat helper hears a denied stream out and raises its own error for filters, with role and refusal."""
    payload = denied(Shape.OPENAI_CHAT, events_of(Shape.OPENAI_CHAT, said(Channel.TEXT)), mode)
    with (
        answering(payload, content_type="text/event-stream") as stub,
        Running(stub.url).openai() as client,
        client.chat.completions.stream(model="gpt-x", messages=ASKED) as stream,
    ):
        stream.until_done()
        with pytest.raises(openai.ContentFilterFinishReasonError) as raised:
            stream.get_final_completion()
    assert raised.value.completion is not None
    choice = raised.value.completion.choices[0]
    assert (choice.finish_reason, choice.message.role) == ("content_filter", "assistant")
    assert choice.message.refusal == DENIAL.message
    assert (BEFORE * 2).startswith(choice.message.content or "")


@pytest.mark.heavy
@pytest.mark.parametrize("mode", HOLDING)
@pytest.mark.parametrize("channels", [(Channel.TEXT,), (Channel.THINKING, Channel.TEXT), (Channel.TOOL,)])
def test_the_responses_helper_reads_it(channels: tuple[Channel, ...], mode: GuardMode) -> None:
    """The official responses helper follows a denied stream to `response.incomplete`, items and all."""
    payload = denied(Shape.OPENAI_RESPONSES, events_of(Shape.OPENAI_RESPONSES, said(*channels)), mode)
    with served(payload) as stub, stub.openai() as client, client.responses.stream(model="gpt-x", input="hi") as stream:
        events: list[Any] = list(stream)
    last = events[-1]
    assert (last.type, last.response.status, last.response.id) == ("response.incomplete", "incomplete", "resp_7")
    assert last.response.incomplete_details.reason == "content_filter"
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.id for item in done] == [item.id for item in last.response.output]


@pytest.mark.parametrize("mode", HOLDING)
@pytest.mark.parametrize("channels", [(Channel.TEXT,), (Channel.THINKING, Channel.TEXT), (Channel.TEXT, Channel.TOOL)])
def test_the_messages_helper_reads_it(channels: tuple[Channel, ...], mode: GuardMode) -> None:
    """The official messages helper accumulates a denied stream to a message that refused, and says why."""
    payload = denied(Shape.ANTHROPIC, events_of(Shape.ANTHROPIC, said(*channels)), mode)
    with (
        answering(payload, content_type="text/event-stream") as stub,
        Running(stub.url).anthropic() as client,
        client.messages.stream(model="claude-x", max_tokens=9, messages=ASKED) as stream,
    ):
        message = stream.get_final_message()
    assert (message.id, message.stop_reason) == ("msg_7", "refusal")
    assert message.stop_details is not None
    assert message.stop_details.explanation == DENIAL.message
    kinds = [body["type"] for body in bodies(payload)]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop")
    assert kinds[-2:] == ["message_delta", "message_stop"]


def test_every_open_choice_ends_and_no_other() -> None:
    """A choice that had finished keeps its reason; each open one gets `content_filter`, once."""
    first = on_wire({"id": "c", "choices": [{"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}]})
    rest = [on_wire({"id": "c", "choices": [{"index": n, "delta": {"content": BEFORE}}]}) for n in (1, 2, 1, 2)]
    bad = on_wire({"id": "c", "choices": [{"index": 1, "delta": {"content": PHRASE}}]})
    chunks = bodies(denied(Shape.OPENAI_CHAT, [first, *rest, bad]))
    reasons = [(c["index"], c["finish_reason"]) for b in chunks for c in b["choices"] if c.get("finish_reason")]
    assert reasons == [(0, "stop"), (1, "content_filter"), (2, "content_filter")]


def test_a_refusal_that_has_begun_is_not_spliced() -> None:
    """Where the client has read words of the model's own refusal, ours are only in the `demur` field."""
    events = events_of(Shape.OPENAI_CHAT, said(Channel.REFUSAL))
    chunks = bodies(denied(Shape.OPENAI_CHAT, events))
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert chunks[-1]["demur"]["message"] == DENIAL.message


def test_a_legacy_completion_ends_in_its_own_shape() -> None:
    """The old completions endpoint has `text` where chat has `delta`."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    events = [on_wire({**head, "choices": [{"index": 0, "text": text}]}) for text in (BEFORE, BEFORE, PHRASE)]
    with (
        served(denied(Shape.OPENAI_CHAT, events)) as stub,
        stub.openai() as client,
        client.completions.create(model="m", prompt="hi", stream=True) as stream,
    ):
        heard = [(chunk.choices[0].text, chunk.choices[0].finish_reason) for chunk in stream]
    assert heard == [(BEFORE, None), ("", "content_filter")]


@pytest.mark.parametrize("shape", [Shape.OPENAI_CHAT, Shape.OPENAI_RESPONSES, Shape.ANTHROPIC])
def test_a_stream_that_never_began_ends_whole(shape: Shape) -> None:
    """A limit met by the first event still gives a stream that reads as complete and filtered."""
    guard = open_guard(shape, mode=GuardMode.WINDOW, limits=GuardLimits(event_bytes=10))
    response = read(shape, guard.feed(b"data: " + b"x" * 50).send)
    assert response.complete
    assert response.choices[0].finish in (Finish.CONTENT_FILTER, Finish.REFUSAL)


def test_an_ending_repeats_nothing_that_was_held() -> None:
    """A first event that holds the whole response lends its head to the ending, and no word of its text."""
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": PHRASE}]}
    response = {"id": "resp_9", "object": "response", "model": "m", "created_at": 5, "output": [item], "note": PHRASE}
    payload = denied(Shape.OPENAI_RESPONSES, [on_wire({"type": "response.completed", "response": response})])
    assert PHRASE not in json.dumps(bodies(payload), ensure_ascii=False)
    assert [body["response"]["id"] for body in bodies(payload)] == ["resp_9", "resp_9"]
    start = {"type": "message_start", "message": {"id": "msg_9", "model": "m", "content": [{"text": PHRASE}]}}
    payload = denied(Shape.ANTHROPIC, [on_wire(start, "message_start")])
    assert PHRASE not in json.dumps(bodies(payload), ensure_ascii=False)
    assert bodies(payload)[0]["message"]["id"] == "msg_9"


def test_an_ending_can_repeat_half_a_character() -> None:
    """Where a server parts a surrogate pair, the text that the ending repeats has both halves, and clients join them."""
    events = list(events_of(Shape.OPENAI_RESPONSES, [Said(text) for text in ("A", "B", BEFORE, PHRASE)]))
    parted = [
        e.replace(b'"delta":"A"', b'"delta":"\\ud83d"').replace(b'"delta":"B"', b'"delta":"\\udeab"') for e in events
    ]
    last = bodies(denied(Shape.OPENAI_RESPONSES, parted))[-1]["response"]
    assert last["output"][0]["content"][0]["text"] == "🚫"


def test_a_part_that_was_never_announced_has_its_type() -> None:
    """Where a server sends deltas alone, the ending says what they were deltas of."""
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    events = [on_wire({**delta, "delta": text}) for text in (BEFORE, BEFORE, PHRASE)]
    last = bodies(denied(Shape.OPENAI_RESPONSES, events))[-1]["response"]
    assert last["output"][0]["content"] == [{"type": "output_text", "annotations": [], "text": BEFORE}]


def test_an_answer_that_had_stopped_only_stops() -> None:
    """Where the stop reason has gone out, a late denial ends the message without a second one."""
    events = list(events_of(Shape.ANTHROPIC, [Said("Fine.")]))[:-1]
    late = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": PHRASE}}
    payload = denied(Shape.ANTHROPIC, [*events, on_wire(late, "content_block_delta")])
    assert [body["type"] for body in bodies(payload)][-2:] == ["message_delta", "message_stop"]
