"""When a guard sends, asks and stops: order, rest, limits, bodies that are no streams, and what its account says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.guard.conformance import PHRASE, SHAPES, Said, chat_events, events_of, make, on_wire, parts

from demur.errors import UsageError
from demur.gateway.guard.guard import StreamGuard, open_guard
from demur.gateway.guard.values import (
    CharCount,
    Denial,
    FinishReason,
    GuardEnd,
    GuardLimits,
    GuardMode,
    GuardStep,
    ScanText,
)
from demur.model.exchange import Channel, Shape
from demur.model.passport import Coverage, StreamMode

HOLDING = (GuardMode.WINDOW, GuardMode.BUFFER)
LONG = "Nothing here is of any interest to anyone. " * 20


def chat(mode: GuardMode = GuardMode.WINDOW, *, window: int = 10, every: int = 5, **limits: int) -> StreamGuard:
    return open_guard(
        Shape.OPENAI_CHAT, mode=mode, window_chars=window, scan_every_chars=every, limits=GuardLimits(**limits)
    )


def delta(text: str, choice: int = 0, **more: Any) -> bytes:
    return on_wire({"id": "c", "choices": [{"index": choice, "delta": {"content": text, **more}}]})


def allowed(guard: StreamGuard, step: GuardStep) -> bytes:
    """Return what is sent when every scan allows."""
    out = step.send
    while step.due is not None:
        step = guard.verdict(allow=True)
        out += step.send
    return out


def fed(guard: StreamGuard, chunks: Iterable[bytes]) -> bytes:
    return b"".join(allowed(guard, guard.feed(chunk)) for chunk in chunks)


def due(step: GuardStep) -> ScanText:
    assert step.due is not None
    return step.due


@pytest.mark.parametrize("shape", SHAPES)
def test_text_flows_while_it_streams(shape: Shape) -> None:
    """In window mode what is held never exceeds the window, a scan's interval and one piece."""
    guard = open_guard(shape, mode=GuardMode.WINDOW, window_chars=30, scan_every_chars=20)
    for event in events_of(shape, [Said(piece) for piece in parts(LONG, 200)]):
        allowed(guard, guard.feed(event))
        assert guard.account.chars().withheld <= 30 + 20 + 5


@pytest.mark.parametrize("shape", SHAPES)
def test_a_strand_at_rest_holds_nobody_up(shape: Shape) -> None:
    """Thoughts that are over go on once a window of the text after them was scanned."""
    said = [Said(p, channel=Channel.THINKING) for p in parts(LONG, 50)] + [Said(p) for p in parts(LONG, 50)]
    guard = open_guard(shape, mode=GuardMode.WINDOW, window_chars=30, scan_every_chars=20)
    held = []
    for event in events_of(shape, said):
        allowed(guard, guard.feed(event))
        held.append(guard.account.chars().withheld)
    assert max(held) <= 2 * (30 + 20 + 18)


def test_a_choice_that_ended_holds_nobody_up() -> None:
    """After the finish reason of one choice its tail waits for a scan alone, while another choice goes on."""
    guard = chat(window=30)
    done = on_wire({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    fed(guard, [delta("a short answer"), done, *(delta(piece, 1) for piece in parts(LONG, 100))])
    assert guard.account.chars(0) == CharCount(14, 14, 14)
    assert guard.account.chars(1).withheld <= 30 + 5 + 9


def test_a_choice_that_goes_on_after_its_end_is_held_again() -> None:
    """Text behind a finish reason is text: it waits for its scan and its window like any other."""
    guard = chat(window=30, every=1)
    done = on_wire({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert fed(guard, [delta("so far"), done, delta("and more")]) == delta("so far") + done
    assert guard.account.chars(0) == CharCount(14, 14, 6)


def test_a_rest_is_not_taken_for_the_end() -> None:
    """A phrase that goes on after a long tool call is not completed, whatever was sent of it before the rest."""
    guard = chat(window=30, every=1)
    call = {"tool_calls": [{"index": 0, "function": {"arguments": LONG}}]}
    fed(guard, [delta(PHRASE[:9]), on_wire({"choices": [{"index": 0, "delta": call}]})])
    step = guard.feed(delta(PHRASE[9:]))
    assert PHRASE in due(step).joined(0, Channel.TEXT)
    assert b"word" not in step.send + guard.verdict(allow=False).send


def test_events_without_text_keep_their_place() -> None:
    """Pings, comments, usage and kinds from the future wait for the text before them, and for nothing else."""
    extras = [b": ping\n\n", on_wire({"choices": [], "usage": {"total_tokens": 3}}), b"event: later\n\n", b"id: 7\n\n"]
    guard = chat()
    assert fed(guard, extras) == b"".join(extras)
    assert fed(guard, [delta("ab"), *extras]) == b""
    assert fed(guard, [delta("c" * 20), delta("d" * 20)]) == delta("ab") + b"".join(extras) + delta("c" * 20)


def test_the_last_event_waits_for_the_final_scan() -> None:
    """The end mark is sent only after the scan that saw the whole answer, even where no text is left to scan."""
    for mode in HOLDING:
        guard = chat(mode, every=1)
        events = list(chat_events([Said("Hello there, friend.")]))
        fed(guard, events[:-1])
        step = guard.feed(events[-1])
        assert due(step).final
        assert b"[DONE]" not in step.send
        after = guard.verdict(allow=True)
        assert after.send.endswith(b"data: [DONE]\n\n")
        assert guard.finish(FinishReason.END) == GuardStep(end=GuardEnd.END)


def test_the_end_mark_ends_every_choice() -> None:
    """Where a server gives no finish reason, the end mark lets the tail go after the final scan, window or not."""
    for mode in HOLDING:
        guard = chat(mode, window=50)
        events = [delta("Hello"), delta("there", 1), b"data: [DONE]\n\n"]
        assert fed(guard, events) == b"".join(events)


def test_a_buffer_sends_nothing_before_the_whole_was_decided() -> None:
    """In buffer mode not even an event without text goes early, and one scan decides."""
    guard = chat(GuardMode.BUFFER)
    events = list(chat_events([Said(piece) for piece in parts(LONG, 30)]))
    assert all(guard.feed(event) == GuardStep() for event in events[:-1])
    step = guard.feed(events[-1])
    assert (step.send, due(step).final) == (b"", True)
    assert guard.verdict(allow=True).send == b"".join(events)
    assert guard.account.scans == 1


def test_a_stream_without_an_end_mark_ends_with_its_bytes() -> None:
    """Where a server sends no end mark, `finish` asks for the final scan."""
    for mode in HOLDING:
        guard = chat(mode, every=1000)
        assert fed(guard, [delta("Hello"), delta(" there")]) == b""
        step = guard.finish(FinishReason.END)
        assert due(step).joined(0, Channel.TEXT) == "Hello there"
        last = guard.verdict(allow=True)
        assert (last.send, last.end) == (delta("Hello") + delta(" there"), GuardEnd.END)


@pytest.mark.parametrize(
    ("rest", "reason", "sent"),
    [
        (b"data: [DONE]\n", FinishReason.END, b"data: [DONE]\n\n\n"),
        (delta("world")[:-9], FinishReason.END, b""),
        (delta("world").rstrip(), FinishReason.CUT, b""),
    ],
    ids=["whole", "half", "cut where it looks whole"],
)
def test_an_event_without_its_blank_line_is_sent_whole_or_not_at_all(
    rest: bytes, reason: FinishReason, sent: bytes
) -> None:
    """At the end of the bytes a whole event gets its blank line; what may be half of one is dropped, counted, and a cut."""
    guard = chat()
    fed(guard, [delta("Hello"), rest])
    assert allowed(guard, guard.finish(reason)) == delta("Hello") + sent
    unread = 0 if sent else len(rest)
    assert (guard.account.end, guard.account.unread_bytes) == (GuardEnd.END if sent else GuardEnd.CUT, unread)
    assert guard.account.coverage.total_bytes - guard.account.coverage.scanned_bytes == unread


def test_passing_on_is_byte_for_byte_even_when_cut() -> None:
    """In pass mode all bytes go on, halves too; the scan comes last, stops nothing, and the account tells."""
    guard = chat(GuardMode.PASS)
    payload = delta("Hello") + delta(PHRASE) + delta("half")[:-9]
    assert guard.feed(payload) == GuardStep(delta("Hello") + delta(PHRASE))
    step = guard.finish(FinishReason.CUT)
    assert step.send == delta("half")[:-9]
    assert due(step).joined(0, Channel.TEXT) == "Hello" + PHRASE
    assert guard.account.chars() == CharCount(5 + len(PHRASE), 0, 5 + len(PHRASE))
    assert guard.verdict(allow=False) == GuardStep(end=GuardEnd.CUT)
    assert guard.account.denied
    assert guard.account.coverage.mode is StreamMode.PASSED


@pytest.mark.parametrize("mode", GuardMode)
def test_a_body_that_is_no_stream_is_handed_back(mode: GuardMode) -> None:
    """A JSON error with status 200, or a page, is given back whole, unsent and unscanned."""
    for body in (b' \n{"error": {"message": "no"}}', b"[]", b"<html></html>", b"\xef\xbb\xbf{}"):
        guard = chat(mode)
        steps = [guard.feed(body[i : i + 1]) for i in range(len(body))]
        assert steps == [GuardStep()] * len(body)
        assert guard.finish(FinishReason.END) == GuardStep(end=GuardEnd.END, body=body)


def test_blank_beginnings_are_kept() -> None:
    """Blank lines before the first event go on with it; a stream of nothing ends as nothing."""
    for mode in GuardMode:
        guard = chat(mode)
        events = list(chat_events([Said("Hi.")]))
        out = fed(guard, [b"\n", b"\n\r\n", b"".join(events)])
        assert out + allowed(guard, guard.finish(FinishReason.END)) == b"\n\n\r\n" + b"".join(events)
    guard = chat(GuardMode.PASS)
    assert fed(guard, [b" \n"]) == b""
    assert guard.finish(FinishReason.END).send == b" \n"


def test_a_client_that_is_gone_ends_everything() -> None:
    """When the client has gone nothing is due any more, and what was not scanned is not said to be."""
    guard = chat(every=3)
    assert guard.feed(delta("Hello")).due is not None
    assert guard.finish(FinishReason.CLIENT_GONE) == GuardStep(end=GuardEnd.CLIENT_GONE)
    assert guard.verdict(allow=True) == GuardStep(end=GuardEnd.CLIENT_GONE)
    assert guard.account.chars() == CharCount(5, 0, 0)


def test_the_end_may_come_before_the_verdict() -> None:
    """Bytes that end while a scan runs wait for it, and then for the final one."""
    guard = chat(every=3)
    assert not due(guard.feed(delta("Hello"))).final
    guard.feed(delta("there"))
    assert guard.finish(FinishReason.END) == guard.finish(FinishReason.END) == GuardStep()
    step = guard.verdict(allow=True)
    assert (step.send, due(step).final, due(step).seen(0, Channel.TEXT)) == (b"", True, 5)
    assert guard.verdict(allow=True) == GuardStep(delta("Hello") + delta("there"), end=GuardEnd.END)


def test_nothing_follows_the_end() -> None:
    """After a denial bytes, verdicts and ends change nothing, and nothing is sent."""
    guard = chat(every=1)
    guard.feed(delta(PHRASE))
    assert guard.verdict(allow=False).end is GuardEnd.DENY
    over = GuardStep(end=GuardEnd.DENY)
    assert [guard.feed(delta("x")), guard.verdict(allow=True), guard.finish(FinishReason.END)] == [over] * 3


def test_text_behind_the_end_mark_gets_no_second_ending() -> None:
    """What a server says after its end mark is scanned, and denied without a word: the client has stopped reading."""
    guard = chat(every=1)
    fed(guard, chat_events([Said("Fine.")]))
    assert guard.feed(delta(PHRASE)).due is not None
    assert guard.verdict(allow=False) == GuardStep(end=GuardEnd.DENY)
    assert guard.account.chars().withheld == len(PHRASE)


def test_a_call_out_of_order_is_refused() -> None:
    """A verdict answers a scan, bytes come before the end, and a guard knows its shape."""
    with pytest.raises(UsageError, match="no scan is due"):
        chat().verdict(allow=True)
    guard = chat()
    guard.feed(delta("Hello"))
    guard.finish(FinishReason.END)
    with pytest.raises(UsageError, match="takes no more bytes"):
        guard.feed(b"x")
    with pytest.raises(UsageError, match="no stream guard for `gemini`"):
        open_guard(Shape.GEMINI, mode=GuardMode.PASS)
    with pytest.raises(UsageError, match="negative"):
        chat(window=-1)


LIMITED: dict[str, tuple[dict[str, int], list[bytes]]] = {
    "one long line": ({"event_bytes": 100}, [b"data: " + b"x" * 60, b"x" * 60]),
    "one long event": ({"event_bytes": 100}, [b"data: " + b"x" * 200 + b"\n\n"]),
    "held text": ({"held_chars": 50}, [delta("a" * 30), delta("b" * 30)]),
    "held bytes": ({"held_bytes": 100}, [delta("a"), delta("b")]),
    "all text": ({"text_chars": 50}, [delta("a" * 30), delta("b" * 30)]),
    "choices": ({"choices": 3}, [delta("a", index) for index in range(4)]),
    "strands": ({"strands": 2}, [delta("a", 0, **{f"field_{n}": "x"}) for n in range(3)]),
    "endless": ({"stream_bytes": 1000}, [b": ping\n\n"] * 200),
    "no stream": ({"held_bytes": 100}, [b"{" + b" " * 200]),
    "blank": ({"held_bytes": 100}, [b" " * 200]),
}


@pytest.mark.parametrize("mode", GuardMode)
@pytest.mark.parametrize("name", LIMITED)
def test_every_limit_ends_the_stream_cleanly(name: str, mode: GuardMode) -> None:
    """Beyond a limit the stream ends as a denied one does, with `limit` as its end, and takes no more."""
    limits, chunks = LIMITED[name]
    guard = chat(mode, window=100, every=1000, **limits)
    out = b"".join(guard.feed(chunk).send for chunk in chunks)
    if mode is GuardMode.PASS and name.startswith("held"):
        assert guard.account.end is None
        return
    assert guard.account.end is GuardEnd.LIMIT
    assert out.endswith(b"\n\ndata: [DONE]\n\n")
    last = json.loads(out.split(b"\n\n")[-3].removeprefix(b"data: "))
    assert last["demur"]["end"] == "limit"
    assert last["choices"][0]["finish_reason"] == "content_filter"
    assert guard.feed(b"data: more\n\n") == GuardStep(end=GuardEnd.LIMIT)


def test_a_limit_met_by_the_last_event_is_met() -> None:
    """An event that only the end of the bytes completes counts against the limits too."""
    guard = chat(text_chars=3)
    guard.feed(delta("Hello").rstrip())
    assert guard.finish(FinishReason.END).end is GuardEnd.LIMIT


def test_a_scan_sees_what_is_new_and_all_before_it() -> None:
    """A scan has all text of every strand, and says from where on it was not scanned yet."""
    guard = chat(every=5)
    first = due(guard.feed(delta("Hello", 1, reasoning="Hm.")))
    assert first.choices == (1,)
    assert (first.joined(1, Channel.TEXT), first.seen(1, Channel.TEXT)) == ("Hello", 0)
    assert guard.feed(delta(" there")).due is None
    again = due(guard.verdict(allow=True))
    assert (again.joined(1, Channel.THINKING), again.seen(1, Channel.THINKING)) == ("Hm.", 3)
    assert (again.joined(0, Channel.TEXT), again.seen(0, Channel.TEXT)) == (" there", 0)
    assert not again.final


def test_halves_of_a_character_are_scanned_as_one() -> None:
    """A surrogate pair that comes in two pieces is one character to a scan; a half that stays alone is a mark."""
    halves = [
        b'data: {"choices": [{"delta": {"content": "no \\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\udeab way"}}]}\n\n',
    ]
    guard = chat(every=4)
    first = due(guard.feed(halves[0]))
    assert first.joined(0, Channel.TEXT) == "no \ufffd"
    guard.verdict(allow=True)
    again = due(guard.feed(halves[1]))
    assert (again.joined(0, Channel.TEXT), again.seen(0, Channel.TEXT)) == ("no 🚫 way", 3)


def test_the_account_is_the_passports_coverage() -> None:
    """Bytes are those of UTF-8, and a channel is named only where it was scanned to its end."""
    guard = chat(every=5, window=0)
    fed(guard, [delta("Söcret", refusal="No.")])
    guard.feed(delta("禁"))
    assert guard.account.chars() == CharCount(10, 9, 9)
    assert guard.account.coverage == Coverage(StreamMode.WINDOWED, 10, 13, (Channel.REFUSAL,))


@given(
    st.lists(st.sampled_from(["Hi ", "there ", "söcret", "\u2028", "🚫"]), max_size=12), st.integers(1, 9), st.data()
)
def test_line_ends_of_every_kind_are_kept(pieces: list[str], size: int, data: st.DataObject) -> None:
    """Whatever ends its lines, a benign stream goes on byte for byte, and all its text is counted once."""
    end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    case = make("line ends", data.draw(st.sampled_from(SHAPES)), [Said(piece) for piece in pieces])
    payload = case.payload.replace(b"\n", end)
    guard = open_guard(case.shape, mode=data.draw(st.sampled_from(list(GuardMode))), window_chars=4, scan_every_chars=3)
    out = fed(guard, [payload[i : i + size] for i in range(0, len(payload), size)])
    out += allowed(guard, guard.finish(FinishReason.END))
    assert out == payload
    assert guard.account.chars() == CharCount(*[len("".join(pieces))] * 3)


def test_a_denial_needs_no_words() -> None:
    """A verdict without a denial says that the answer was denied, and no more."""
    guard = chat(every=1)
    guard.feed(delta(PHRASE))
    out = guard.verdict(allow=False).send
    assert json.loads(out.split(b"\n\n")[0].removeprefix(b"data: "))["demur"]["message"] == Denial("").message
