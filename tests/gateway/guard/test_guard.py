"""The stream guard against the table of `guard_conformance`, heard by a plain reader of the bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.guard.conformance import (
    AFTER,
    BEFORE,
    PHRASE,
    SHAPES,
    Case,
    Heard,
    Said,
    benign_cases,
    channels_of,
    check_withheld,
    forbidden_cases,
    forbids,
    joined,
    make,
    parts,
)

from demur.gateway.guard.guard import StreamGuard, open_guard
from demur.gateway.guard.values import CharCount, Denial, FinishReason, GuardEnd, GuardMode, GuardStep
from demur.model.exchange import Channel, Shape
from demur.wire.sse import Decoder

FORBIDDEN = list(forbidden_cases())
BENIGN = list(benign_cases())
HOLDING = (GuardMode.WINDOW, GuardMode.BUFFER)
DENIAL = Denial("forbidden_phrase", "This answer was withheld.", ("no-phrase",))


def opened(shape: Shape, mode: GuardMode, *, window: int = len(PHRASE), every: int = 5) -> StreamGuard:
    return open_guard(shape, mode=mode, window_chars=window, scan_every_chars=every)


def drive(guard: StreamGuard, chunks: Iterable[bytes], reason: FinishReason = FinishReason.END) -> list[GuardStep]:
    """Return all steps of a stream whose every scan is answered at once."""
    steps: list[GuardStep] = []
    for chunk in chunks:
        steps += answered(guard, guard.feed(chunk))
    return steps + answered(guard, guard.finish(reason))


def answered(guard: StreamGuard, step: GuardStep) -> list[GuardStep]:
    steps = [step]
    while steps[-1].due is not None:
        steps.append(guard.verdict(allow=not forbids(steps[-1].due), denial=DENIAL))
    return steps


def sent(steps: Iterable[GuardStep]) -> bytes:
    return b"".join(step.send for step in steps)


def cut(payload: bytes, size: int) -> list[bytes]:
    return [payload[i : i + size] for i in range(0, len(payload), size)]


def overheard(shape: Shape, payload: bytes) -> Heard:
    """Return what a naive reader of the bytes hears; every event must be whole JSON."""
    heard = Heard()
    decoder = Decoder()
    events = decoder.feed(payload)
    assert decoder.close().complete
    for event in events:
        if event.data != "[DONE]":
            READERS[shape](json.loads(event.data), heard)
    return heard


def read_chat(body: Any, heard: Heard) -> None:
    heard.demur = body.get("demur", heard.demur)
    for choice in body["choices"]:
        delta, index = choice["delta"], choice["index"]
        heard.hear(delta.get("content"), index, Channel.TEXT)
        heard.hear(delta.get("refusal"), index, Channel.REFUSAL)
        heard.hear(delta.get("reasoning_content"), index, Channel.THINKING)
        for call in delta.get("tool_calls", ()):
            heard.hear(call["function"]["arguments"], index, Channel.TOOL, call["index"])
        heard.finishes[index] = choice["finish_reason"] or heard.finishes.get(index)


def read_responses(body: Any, heard: Heard) -> None:
    names = {"output_text": "text", "refusal": "refusal", "reasoning_summary_text": "thinking"}
    stem = body["type"].removeprefix("response.").removesuffix(".delta")
    if body["type"].endswith(".delta"):
        heard.hear(body["delta"], 0, Channel(names.get(stem, "tool")), body["output_index"])
    if body["type"] in ("response.completed", "response.incomplete"):
        details = body["response"]["incomplete_details"]
        heard.finishes[0] = details["reason"] if details else "completed"
        heard.demur = body["response"].get("demur")


def read_messages(body: Any, heard: Heard) -> None:
    delta = body.get("delta", {})
    for name, channel in (("text", Channel.TEXT), ("thinking", Channel.THINKING), ("partial_json", Channel.TOOL)):
        heard.hear(delta.get(name), 0, channel, body.get("index", 0))
    if body["type"] == "message_delta":
        heard.finishes[0], heard.demur = delta["stop_reason"], body.get("demur")


READERS = {
    Shape.OPENAI_CHAT: read_chat,
    Shape.AZURE: read_chat,
    Shape.OPENAI_RESPONSES: read_responses,
    Shape.ANTHROPIC: read_messages,
}


def check_denied(case: Case, heard: Heard) -> None:
    """Nothing of the phrase is heard, what is heard is what was said, and the end is the provider's own."""
    check_withheld(case, heard, DENIAL.message)
    assert heard.demur is not None
    assert heard.demur["reason"] == DENIAL.reason


def check_account(guard: StreamGuard, heard: Heard) -> None:
    """The account agrees with what was heard, and nothing was released that was not scanned."""
    account = guard.account
    for (choice, channel), text in joined(heard.texts).items():
        mine = [s for s in account.strands if (s.choice, s.channel) == (choice, channel)]
        if not (channel is Channel.REFUSAL and text == DENIAL.message):
            assert sum(s.released for s in mine) == len(text)
    assert all(s.released <= s.scanned <= s.received for s in account.strands)


@pytest.mark.parametrize("mode", HOLDING)
@pytest.mark.parametrize("case", FORBIDDEN, ids=lambda case: case.name)
def test_no_character_of_a_forbidden_phrase_gets_through(case: Case, mode: GuardMode) -> None:
    """However a phrase is cut and wherever it stands, not its first character is sent, and the stream ends well."""
    assert case.is_forbidden
    for every in (1, 17):
        guard = opened(case.shape, mode, every=every)
        steps = drive(guard, case.events)
        heard = overheard(case.shape, sent(steps))
        check_denied(case, heard)
        assert steps[-1].end is GuardEnd.DENY
        check_account(guard, heard)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", HOLDING)
@pytest.mark.parametrize("case", FORBIDDEN[:: len(FORBIDDEN) // 40], ids=lambda case: case.name)
def test_bytes_may_be_cut_anywhere(case: Case, mode: GuardMode) -> None:
    """Cuts inside characters and lines change nothing: the same is heard as with an event a chunk."""
    whole = sent(drive(opened(case.shape, mode, every=1), case.events))
    for size in (1, 2, 7, 64):
        steps = drive(opened(case.shape, mode, every=1), cut(case.payload, size))
        assert overheard(case.shape, sent(steps)) == overheard(case.shape, whole)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", GuardMode)
@pytest.mark.parametrize("case", BENIGN, ids=lambda case: case.name)
def test_a_benign_answer_arrives_byte_for_byte(case: Case, mode: GuardMode) -> None:
    """What no scan denies is sent exactly as it came, in every mode."""
    assert not case.is_forbidden
    for chunks in (case.events, [case.payload], cut(case.payload, 5)):
        guard = opened(case.shape, mode)
        steps = drive(guard, chunks)
        assert sent(steps) == case.payload
        assert steps[-1].end is GuardEnd.END
        assert guard.account.chars() == CharCount(*[sum(len(text) for text in case.texts.values())] * 3)


@st.composite
def any_stream(draw: st.DrawFn) -> tuple[Case, list[bytes]]:
    """Draw a stream with the phrase somewhere in one of its strands, cut into any pieces and any chunks."""
    shape = draw(st.sampled_from(SHAPES))
    channel = draw(st.sampled_from(channels_of(shape)))
    before, after = draw(st.text("ab the", max_size=60)), draw(st.text("xy the", max_size=60))
    text = before + PHRASE + after
    bounds = sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=20)))
    said = [Said(text[a:b], channel=channel) for a, b in zip([0, *bounds], [*bounds, len(text)], strict=True)]
    case = make("drawn", shape, said)
    cuts = sorted(draw(st.sets(st.integers(1, len(case.payload) - 1), max_size=30)))
    return case, [case.payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(case.payload)], strict=True)]


@pytest.mark.heavy
@given(any_stream(), st.sampled_from(HOLDING), st.integers(1, 60), st.integers(0, 80))
def test_any_chunking_keeps_the_law(drawn: tuple[Case, list[bytes]], mode: GuardMode, every: int, beyond: int) -> None:
    """For any cut of any stream and any window from the phrase's length on, nothing of the phrase is sent."""
    case, chunks = drawn
    guard = opened(case.shape, mode, window=len(PHRASE) + beyond, every=every)
    steps = drive(guard, chunks)
    check_denied(case, overheard(case.shape, sent(steps)))


@pytest.mark.heavy
@given(any_stream(), st.data())
def test_verdicts_may_come_late(drawn: tuple[Case, list[bytes]], data: st.DataObject) -> None:
    """A caller may feed on while a scan runs; what came after it was due is not taken for scanned."""
    case, chunks = drawn
    guard = opened(case.shape, GuardMode.WINDOW)
    steps, due = [], None
    for chunk in chunks:
        steps.append(guard.feed(chunk))
        due = steps[-1].due or due
        if due is not None and data.draw(st.booleans()):
            steps.append(guard.verdict(allow=not forbids(due), denial=DENIAL))
            due = steps[-1].due
    if due is not None:
        steps += answered(guard, guard.verdict(allow=not forbids(due), denial=DENIAL))
    steps += answered(guard, guard.finish(FinishReason.END))
    check_denied(case, overheard(case.shape, sent(steps)))


@given(any_stream(), st.integers(0, 400))
def test_a_cut_stream_leaks_nothing(drawn: tuple[Case, list[bytes]], end: int) -> None:
    """Wherever the provider breaks off, only whole events with scanned text are sent, and the step says so."""
    case, _ = drawn
    guard = opened(case.shape, GuardMode.WINDOW)
    steps = drive(guard, [case.payload[: end * len(case.payload) // 400]], FinishReason.CUT)
    heard = overheard(case.shape, sent(steps))
    assert steps[-1].end in (GuardEnd.CUT, GuardEnd.DENY)
    for key, text in joined(heard.texts).items():
        assert PHRASE not in text
        assert text == DENIAL.message or case.joined[key].startswith(text)
    check_account(guard, heard)


@given(st.integers(0, len(PHRASE) - 1))
def test_a_window_shorter_than_the_phrase_leaks_no_more_than_the_difference(window: int) -> None:
    """With a window of w characters, at most the phrase's length less w of its characters are sent."""
    case = make("short", Shape.OPENAI_CHAT, [Said(char) for char in BEFORE + PHRASE + AFTER])
    payload = sent(drive(opened(case.shape, GuardMode.WINDOW, window=window, every=1), case.events))
    text = overheard(case.shape, payload).texts[0, Channel.TEXT, 0]
    assert len(text) - len(BEFORE) <= len(PHRASE) - window
    assert PHRASE not in text


def test_pieces_are_even() -> None:
    """The table's own cutter loses nothing."""
    assert "".join(parts(PHRASE, 7)) == PHRASE
