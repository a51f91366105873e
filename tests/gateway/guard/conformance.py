"""A table of streams that any guard must survive, with the real clients to hear what comes through.

A case is what a provider sends and what it says; a server under test is put between the two. What must hold:
a forbidden phrase is not heard, not even its first character, wherever it stands and however it is cut; a benign
answer is heard complete. `PHRASE` has characters of one to four bytes, so that cuts fall inside them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from tests.gateway.gatewaying import Running

from demur.gateway.guard.values import ScanText
from demur.model.exchange import Channel, Shape

PHRASE = "the söcret — 禁句 🚫 word"
BEFORE = "Here is what I was told about it: "
AFTER = " and then some more of the same."
ASKED: Any = [{"role": "user", "content": "hi"}]
CHAT_SHAPES = (Shape.OPENAI_CHAT, Shape.AZURE)
SHAPES = (*CHAT_SHAPES, Shape.OPENAI_RESPONSES, Shape.ANTHROPIC)
Strand = tuple[int, Channel, int]
"""Choice, channel, and which of the channel's blocks or calls."""


@dataclass(frozen=True)
class Said:
    """A piece of an answer as the provider sends it."""

    text: str
    choice: int = 0
    channel: Channel = Channel.TEXT
    place: int = 0

    @property
    def strand(self) -> Strand:
        """The strand that this piece continues."""
        return self.choice, self.channel, self.place


@dataclass(frozen=True)
class Case:
    """One stream: its events as they stand on the wire, and what it says strand by strand."""

    name: str
    shape: Shape
    events: tuple[bytes, ...]
    said: tuple[Said, ...]

    @property
    def payload(self) -> bytes:
        """All bytes of the stream."""
        return b"".join(self.events)

    @property
    def texts(self) -> dict[Strand, str]:
        """The text of every strand."""
        texts: dict[Strand, str] = {}
        for piece in self.said:
            texts[piece.strand] = texts.get(piece.strand, "") + piece.text
        return texts

    @property
    def is_forbidden(self) -> bool:
        """Whether a client could put the phrase together."""
        return any(PHRASE in text for text in self.joined.values())

    @property
    def joined(self) -> dict[tuple[int, Channel], str]:
        """The text of every channel, blocks one after the other; calls stay what they are."""
        return joined(self.texts)

    @property
    def harmless(self) -> dict[Strand, str]:
        """What a client may hear of every strand: all that stands before the phrase, in it or across its seams."""
        if any(PHRASE in text for text in self.texts.values()):
            return {strand: text.partition(PHRASE)[0] for strand, text in self.texts.items()}
        left = {key: len(text.partition(PHRASE)[0]) for key, text in self.joined.items()}
        allowed = {}
        for (choice, channel, place), text in sorted(self.texts.items()):
            allowed[choice, channel, place] = text[: left[choice, channel]]
            left[choice, channel] -= len(allowed[choice, channel, place])
        return allowed


@dataclass
class Heard:
    """What a client understood: texts, why each choice ended, what `demur` said."""

    texts: dict[Strand, str] = field(default_factory=dict)
    finishes: dict[int, str | None] = field(default_factory=dict)
    demur: dict[str, Any] | None = None

    def hear(self, text: str | None, choice: int, channel: Channel, place: int = 0) -> None:
        """Add to a strand."""
        if text:
            key = (choice, channel, place)
            self.texts[key] = self.texts.get(key, "") + text


def joined(texts: dict[Strand, str]) -> dict[tuple[int, Channel], str]:
    """Return the texts of every channel, in the order of their places."""
    whole: dict[tuple[int, Channel], str] = {}
    for (choice, channel, _), text in sorted(texts.items()):
        whole[choice, channel] = whole.get((choice, channel), "") + text
    return whole


_WITHHELD = {Shape.ANTHROPIC: "refusal"}
_FINISHED = {Shape.OPENAI_RESPONSES: "completed", Shape.ANTHROPIC: "end_turn"}


def check_withheld(case: Case, heard: Heard, message: str) -> None:
    """Nothing of the phrase was heard, all else as it was said, and the stream ended as the provider's filter ends it.

    `message` is the sentence that stands in a chat refusal in place of the answer.
    """
    for strand, text in heard.texts.items():
        assert (strand[1] is Channel.REFUSAL and text == message) or case.harmless[strand].startswith(text)
    stop = _WITHHELD.get(case.shape, "content_filter")
    assert stop in heard.finishes.values()
    assert set(heard.finishes.values()) <= {stop, "stop"}
    assert heard.demur is not None
    assert heard.demur["end"] == "deny"


def check_whole(case: Case, heard: Heard) -> None:
    """All was heard, strand by strand, and the stream ended as it did at the provider."""
    assert heard.texts == case.texts
    assert set(heard.finishes.values()) == {_FINISHED.get(case.shape, "stop")}


def forbids(due: ScanText) -> bool:
    """Return whether the phrase stands in what is due: the plainest auditor there is."""
    channels = {(s.choice, s.channel) for s in due.strands}
    return any(PHRASE in due.joined(*key) for key in channels) or any(PHRASE in s.text for s in due.strands)


def on_wire(body: Any, name: str | None = None, *, ascii_only: bool = False) -> bytes:
    """Return a JSON body as an event."""
    text = msgspec.json.encode(body).decode()
    if ascii_only:
        pairs = (char.encode("utf-16-be").hex() if ord(char) > 126 else char for char in text)
        text = "".join(p if len(p) == 1 else "".join(f"\\u{p[i : i + 4]}" for i in range(0, len(p), 4)) for p in pairs)
    return f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode()


def chat_events(said: Iterable[Said], *, azure: bool = False, ascii_only: bool = False) -> Iterator[bytes]:
    """Yield the chunks of a chat completion."""
    said = tuple(said)
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-x"}
    safe = {"hate": {"filtered": False, "severity": "safe"}}
    notes: dict[str, Any] = {"content_filter_results": safe} if azure else {}
    if azure:
        prompt = {"prompt_index": 0, "content_filter_results": safe}
        yield on_wire({**head, "id": "", "model": "", "choices": [], "prompt_filter_results": [prompt]})
    choices = sorted({piece.choice for piece in said})
    for index in choices:
        delta: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        yield on_wire({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
    begun: set[Strand] = set()
    for piece in said:
        delta = _chat_delta(piece, is_new=piece.strand not in begun)
        begun.add(piece.strand)
        choice = {"index": piece.choice, "delta": delta, "finish_reason": None, "logprobs": None, **notes}
        yield on_wire({**head, "choices": [choice]}, ascii_only=ascii_only)
    for index in choices:
        yield on_wire({**head, "choices": [{"index": index, "delta": {}, "finish_reason": "stop", **notes}]})
    yield on_wire({**head, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}})
    yield b"data: [DONE]\n\n"


def _chat_delta(piece: Said, *, is_new: bool) -> dict[str, Any]:
    if piece.channel is Channel.TOOL:
        call: dict[str, Any] = {"index": piece.place, "function": {"arguments": piece.text}}
        if is_new:
            call |= {"id": f"call_{piece.place}", "type": "function"}
            call["function"] |= {"name": "look"}
        return {"tool_calls": [call]}
    names = {Channel.TEXT: "content", Channel.REFUSAL: "refusal", Channel.THINKING: "reasoning_content"}
    return {names[piece.channel]: piece.text}


def message_events(said: Iterable[Said]) -> Iterator[bytes]:
    """Yield the events of an Anthropic message, a block for every run of a strand, a ping in each."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield on_wire({"type": "message_start", "message": message}, "message_start")
    for index, (strand, run) in enumerate(itertools.groupby(said, key=lambda piece: piece.strand)):
        block, kind, name = _BLOCKS[strand[1]]
        start = {"type": "content_block_start", "index": index, "content_block": block}
        yield on_wire(start, "content_block_start")
        yield on_wire({"type": "ping"}, "ping")
        for piece in run:
            delta = {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: piece.text}}
            yield on_wire(delta, "content_block_delta")
        yield on_wire({"type": "content_block_stop", "index": index}, "content_block_stop")
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield on_wire({"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}}, "message_delta")
    yield on_wire({"type": "message_stop"}, "message_stop")


_BLOCKS: dict[Channel, tuple[dict[str, Any], str, str]] = {
    Channel.TEXT: ({"type": "text", "text": ""}, "text_delta", "text"),
    Channel.THINKING: ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"),
    Channel.TOOL: ({"type": "tool_use", "id": "t", "name": "look", "input": {}}, "input_json_delta", "partial_json"),
}


def response_events(said: Iterable[Said], *, deltas: bool = True) -> Iterator[bytes]:
    """Yield the events of a response, an item for every run of a strand; some servers send no deltas."""
    bodies = _response_bodies(tuple(said), deltas=deltas)
    for number, body in enumerate(bodies):
        yield on_wire({**body, "sequence_number": number}, body["type"])


def _response_bodies(said: tuple[Said, ...], *, deltas: bool) -> Iterator[dict[str, Any]]:
    response: dict[str, Any] = {"id": "resp_7", "object": "response", "created_at": 1700000000, "model": "gpt-x"}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "output": []}
    # The request's own words come back with the response; a phrase in them is not the model's.
    response |= {"instructions": f"Never say {PHRASE}.", "incomplete_details": None, "status": "in_progress"}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    output = []
    for index, (strand, run) in enumerate(itertools.groupby(said, key=lambda piece: piece.strand)):
        pieces = [piece.text for piece in run]
        item = _item(strand[1], "".join(pieces), index)
        output.append(item)
        yield from _item_bodies(item, strand[1], pieces if deltas else [], index)
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": output}}


def _item(channel: Channel, text: str, index: int) -> dict[str, Any]:
    if channel is Channel.TOOL:
        return {"type": "function_call", "id": f"fc_{index}", "call_id": "c", "name": "look", "arguments": text}
    if channel is Channel.THINKING:
        return {"type": "reasoning", "id": f"rs_{index}", "summary": [{"type": "summary_text", "text": text}]}
    parts: dict[Channel, dict[str, Any]] = {
        Channel.TEXT: {"type": "output_text", "text": text, "annotations": []},
        Channel.REFUSAL: {"type": "refusal", "refusal": text},
    }
    head = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed"}
    return {**head, "content": [parts[channel]]}


_STEMS = {
    Channel.TEXT: ("response.output_text", "text", "content"),
    Channel.REFUSAL: ("response.refusal", "refusal", "content"),
    Channel.THINKING: ("response.reasoning_summary_text", "text", "summary"),
    Channel.TOOL: ("response.function_call_arguments", "arguments", ""),
}


def _item_bodies(item: dict[str, Any], channel: Channel, pieces: list[str], index: int) -> Iterator[dict[str, Any]]:
    stem, name, within = _STEMS[channel]
    place: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    bare = {key: {"content": [], "summary": [], "arguments": ""}.get(key, value) for key, value in item.items()}
    yield {"type": "response.output_item.added", "output_index": index, "item": bare}
    part = item[within][0] if within else item
    inner = place | ({f"{within}_index": 0} if within else {})
    prefix = "response.content_part" if within == "content" else "response.reasoning_summary_part"
    more: dict[str, Any] = {"logprobs": []} if channel is Channel.TEXT else {}
    if within:
        yield {"type": f"{prefix}.added", "part": {**part, name: ""}, **inner}
    for piece in pieces:
        yield {"type": f"{stem}.delta", "delta": piece, **more, **inner}
    yield {"type": f"{stem}.done", name: part[name], **more, **inner, **({} if within else {"name": "look"})}
    if within:
        yield {"type": f"{prefix}.done", "part": part, **inner}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def events_of(shape: Shape, said: Iterable[Said]) -> Iterator[bytes]:
    """Yield a stream of this shape that says this."""
    if shape is Shape.ANTHROPIC:
        return message_events(said)
    if shape is Shape.OPENAI_RESPONSES:
        return response_events(said)
    return chat_events(said, azure=shape is Shape.AZURE)


def channels_of(shape: Shape) -> tuple[Channel, ...]:
    """Return the channels that a shape can stream."""
    return tuple(c for c in Channel if shape is not Shape.ANTHROPIC or c is not Channel.REFUSAL)


def make(name: str, shape: Shape, said: Iterable[Said]) -> Case:
    """Return a case of these pieces."""
    said = tuple(piece for piece in said if piece.text)
    if shape is not Shape.OPENAI_RESPONSES and shape is not Shape.ANTHROPIC:
        return Case(name, shape, tuple(events_of(shape, said)), said)
    # These two number their blocks; every run of a strand is one.
    runs = enumerate(itertools.groupby(said, key=lambda piece: piece.strand))
    placed = tuple(replace(piece, place=index) for index, (_, run) in runs for piece in run)
    return Case(name, shape, tuple(events_of(shape, said)), placed)


def parts(text: str, count: int) -> list[str]:
    """Return the text in that many pieces, as even as they can be."""
    bounds = [len(text) * n // count for n in range(count + 1)]
    return [text[a:b] for a, b in itertools.pairwise(bounds)]


def forbidden_cases() -> Iterator[Case]:
    """Yield every case that holds the phrase; before it stands `BEFORE` or another benign text."""
    for shape in SHAPES:
        for channel in channels_of(shape):
            for at in range(1, len(PHRASE)):
                pieces = [BEFORE, PHRASE[:at], PHRASE[at:], AFTER]
                yield make(f"{shape}-{channel}-split-{at}", shape, [Said(p, channel=channel) for p in pieces])
            for count in range(2, 21):
                pieces = [*parts(BEFORE, count), *parts(PHRASE, count), *parts(AFTER, count)]
                yield make(f"{shape}-{channel}-pieces-{count}", shape, [Said(p, channel=channel) for p in pieces])
            yield make(f"{shape}-{channel}-whole", shape, [Said(BEFORE + PHRASE + AFTER, channel=channel)])
            yield make(f"{shape}-{channel}-at-end", shape, [Said(p, channel=channel) for p in (BEFORE, PHRASE)])
            yield make(f"{shape}-{channel}-alone", shape, [Said(p, channel=channel) for p in parts(PHRASE, 7)])
    yield from _interleaved()
    yield from _odd()


def _interleaved() -> Iterator[Case]:
    whole = parts(BEFORE + PHRASE + AFTER, 30)
    other = parts("Nothing to see in this one, which goes on for about as long as the others do, or longer.", 30)
    for shape in CHAT_SHAPES:
        for guilty in range(3):
            said = [Said(whole[n] if choice == guilty else other[n], choice) for n in range(30) for choice in range(3)]
            yield make(f"{shape}-choices-{guilty}", shape, said)
        calls = [
            Said(texts[n], channel=Channel.TOOL, place=at) for n in range(30) for at, texts in enumerate((whole, other))
        ]
        yield make(f"{shape}-calls", shape, calls)
        mixed = [
            Said(texts[n], channel=channel)
            for n in range(30)
            for channel, texts in ((Channel.THINKING, other), (Channel.TEXT, whole))
        ]
        yield make(f"{shape}-thoughts-between", shape, mixed)


def _odd() -> Iterator[Case]:
    for shape in (Shape.OPENAI_RESPONSES, Shape.ANTHROPIC):
        seam = [Said(BEFORE + PHRASE[:9]), Said("{}", channel=Channel.TOOL), Said(PHRASE[9:] + AFTER)]
        yield make(f"{shape}-seam", shape, seam)
    said: tuple[Said, ...] = (Said(BEFORE + PHRASE + AFTER),)
    silent = tuple(response_events(said, deltas=False))
    yield Case("openai_responses-no-deltas", Shape.OPENAI_RESPONSES, silent, said)
    said = tuple(Said(p) for p in parts(BEFORE + PHRASE + AFTER, 9))
    yield Case("openai_chat-escaped", Shape.OPENAI_CHAT, tuple(chat_events(said, ascii_only=True)), said)


def benign_cases() -> Iterator[Case]:
    """Yield cases without the phrase, some with all of it but its last character."""
    near = BEFORE + PHRASE[:-1] + "!" + AFTER
    for shape in SHAPES:
        for channel in channels_of(shape):
            for count in (1, 3, 20, len(near)):
                said = [Said(p, channel=channel) for p in parts(near, count)]
                yield make(f"{shape}-{channel}-benign-{count}", shape, said)
        order = [c for c in (Channel.THINKING, Channel.TEXT, Channel.TOOL) if c in channels_of(shape)]
        said = [Said(p, channel=channel) for channel in order for p in parts(near, 12)]
        yield make(f"{shape}-all-channels", shape, said)
        yield make(f"{shape}-long", shape, [Said(p) for p in parts(near * 30, 400)])
    for shape in CHAT_SHAPES:
        said = [Said(p, choice) for p in parts(near, 25) for choice in range(4)]
        yield make(f"{shape}-choices-benign", shape, said)


def listen(shape: Shape, url: str) -> Heard:
    """Return what the provider's own client hears of a stream served there."""
    if shape is Shape.ANTHROPIC:
        return _listen_messages(url)
    if shape is Shape.OPENAI_RESPONSES:
        return _listen_responses(url)
    return _listen_chat(url, azure=shape is Shape.AZURE)


def _listen_chat(url: str, *, azure: bool) -> Heard:
    client = Running(url).azure() if azure else Running(url).openai()
    heard = Heard()
    with client, client.chat.completions.create(model="gpt-x", messages=ASKED, stream=True) as stream:
        for chunk in stream:
            heard.demur = (chunk.model_extra or {}).get("demur", heard.demur)
            for choice in chunk.choices:
                delta, index = choice.delta, choice.index
                heard.hear(delta.content, index, Channel.TEXT)
                heard.hear(delta.refusal, index, Channel.REFUSAL)
                heard.hear((delta.model_extra or {}).get("reasoning_content"), index, Channel.THINKING)
                for call in delta.tool_calls or ():
                    heard.hear(call.function.arguments if call.function else None, index, Channel.TOOL, call.index)
                heard.finishes[index] = choice.finish_reason or heard.finishes.get(index)
    return heard


def _listen_responses(url: str) -> Heard:
    """Hear the last event: it is what the client keeps; the deltas must say the same."""
    heard, told = Heard(), ""
    with Running(url).openai() as client:
        last: Any = None
        for event in client.responses.create(model="gpt-x", input="hi", stream=True):
            last = event
            told += last.delta if last.type.endswith(".delta") else ""
    response = last.response
    for index, item in enumerate(response.output):
        for channel, within in ((Channel.THINKING, "summary"), (Channel.TEXT, "content")):
            for part in getattr(item, within, None) or ():
                is_refusal = part.type == "refusal"
                text = part.refusal if is_refusal else part.text
                heard.hear(text, 0, Channel.REFUSAL if is_refusal else channel, index)
        heard.hear(getattr(item, "arguments", None), 0, Channel.TOOL, index)
    assert told in ("", "".join(heard.texts.values()))
    reason = response.incomplete_details.reason if response.incomplete_details else response.status
    heard.finishes[0], heard.demur = reason, (response.model_extra or {}).get("demur")
    return heard


def _listen_messages(url: str) -> Heard:
    heard = Heard()
    with Running(url).anthropic() as client:
        for event in client.messages.create(model="claude-x", max_tokens=9, messages=ASKED, stream=True):
            if event.type == "content_block_delta":
                kind: Any = event.delta
                for name, channel in (("text", Channel.TEXT), ("thinking", Channel.THINKING)):
                    heard.hear(getattr(kind, name, None), 0, channel, event.index)
                heard.hear(getattr(kind, "partial_json", None), 0, Channel.TOOL, event.index)
            if event.type == "message_delta":
                heard.finishes[0] = event.delta.stop_reason
                heard.demur = (event.model_extra or {}).get("demur")
            if event.type == "message_stop":
                heard.finishes.setdefault(0, None)
    return heard
