"""Ends a stream that may not go on so that the provider's own client reads it as withheld, and not as broken.

An ending follows what the client has been sent, and takes ids and models from whatever was received, sent or not.
It is whole events only; with what was sent before, it is a stream that the provider could have sent; what has ended does
not end again; the field `demur` says who ended it and why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from demur.gateway.guard.events import index_in
from demur.model.exchange import Shape
from demur.wire.fields import ServerEvent
from demur.wire.sse import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from demur.gateway.guard.events import Body
    from demur.gateway.guard.values import Denial, GuardEnd

__all__ = ["ENDINGS", "ChatEnding", "Ending", "MessageEnding", "ResponsesEnding", "demur_field"]


class Ending(Protocol):
    """Follows one stream of one shape, and can end it at any event."""

    def note_received(self, body: Body) -> None:
        """Take note of an event as it arrives."""

    def note_sent(self, body: Body) -> None:
        """Take note of an event that the client gets."""

    def write(self, end: GuardEnd, denial: Denial) -> bytes:
        """Return the events that end the stream."""


def demur_field(end: GuardEnd, denial: Denial) -> Body:
    """Return what the field `demur` says; clients of the provider ignore it."""
    return {"end": end.value, "reason": denial.reason, "message": denial.message, "rules": list(denial.rules)}


def _event(body: Body, name: str | None = None) -> bytes:
    # In ASCII, so that half a surrogate pair in a text can be written too.
    return encode(ServerEvent(json.dumps(body, separators=(",", ":")), name))


class ChatEnding:
    """Ends a chat completion, or a legacy completion, which says `text` where chat says `delta`."""

    def __init__(self) -> None:
        self._head: Body = {}
        self._open: dict[int, bool] = {}
        """The choices that came and whether the client may still expect something of them."""
        # Choices with a refusal field of the model's own.
        self._refused: set[int] = set()
        self._opened: set[int] = set()

    def note_received(self, body: Body) -> None:
        """Keep the head of the first chunk that has one, and the number of each choice."""
        if not self._head.get("id"):
            self._head = {key: body.get(key) for key in ("id", "object", "created", "model")}
        choices = body.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._open.setdefault(index_in(choice), True)

    def note_sent(self, body: Body) -> None:
        """Keep which choices have begun, have ended, or have refused in words already."""
        choices = body.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            index = index_in(choice)
            self._opened.add(index)
            if choice.get("finish_reason") is not None:
                self._open[index] = False
            delta = choice.get("delta")
            if isinstance(delta, dict) and delta.get("refusal"):
                self._refused.add(index)

    def write(self, end: GuardEnd, denial: Denial) -> bytes:
        """Return a last chunk for every open choice, and the end mark."""
        known = self._open or {0: True}
        events = [self._chunk(index, end, denial) for index, is_open in sorted(known.items()) if is_open]
        # OpenAI's clients read until this mark; without it they report a broken connection.
        return b"".join([*events, encode(ServerEvent("[DONE]"))])

    def _chunk(self, index: int, end: GuardEnd, denial: Denial) -> bytes:
        legacy = self._head.get("object") == "text_completion"
        choice: Body = {"index": index, "finish_reason": "content_filter", "logprobs": None}
        if legacy:
            choice["text"] = ""
        else:
            delta: Body = {} if index in self._opened else {"role": "assistant"}
            # A refusal of the model's own that has begun is not spliced with our sentence.
            choice["delta"] = delta if index in self._refused else {**delta, "refusal": denial.message}
        head: Body = {
            "id": self._head.get("id") or "chatcmpl-demur",
            "object": "text_completion" if legacy else "chat.completion.chunk",
            "created": self._head.get("created") or 0,
            "model": self._head.get("model") or "",
        }
        return _event({**head, "choices": [choice], "demur": demur_field(end, denial)})


class MessageEnding:
    """Ends an Anthropic message."""

    def __init__(self) -> None:
        self._message: Body = {}
        self._blocks: set[int] = set()
        self._output_tokens = 0
        self._begun = self._stopping = False

    def note_received(self, body: Body) -> None:
        """Keep the message's head and its count of tokens."""
        message = body.get("message")
        if isinstance(message, dict) and body.get("type") == "message_start":
            self._message = message
            self._count(message)
        elif body.get("type") == "message_delta":
            self._count(body)

    def note_sent(self, body: Body) -> None:
        """Keep which blocks are open, and how far the message has ended."""
        match body.get("type"):
            case "message_start":
                self._begun = True
            case "content_block_start":
                self._blocks.add(index_in(body))
            case "content_block_stop":
                self._blocks.discard(index_in(body))
            case "message_delta":
                self._stopping = True
            case _:
                pass

    def write(self, end: GuardEnd, denial: Denial) -> bytes:
        """Return the end of every open block and of the message, its start before them where it was held back."""
        events: list[Body] = []
        if not self._begun:
            head: Body = {"id": "msg_demur", "type": "message", "role": "assistant", "model": ""}
            bare: Body = {"content": [], "stop_reason": None, "stop_sequence": None}
            tokens = {"input_tokens": 0, "output_tokens": self._output_tokens}
            message = {**head, "usage": tokens, **self._message, **bare}
            events.append({"type": "message_start", "message": message})
        events += [{"type": "content_block_stop", "index": index} for index in sorted(self._blocks)]
        # `refusal` is the stop reason that Anthropic's own classifiers end a message with.
        if not self._stopping:
            details = {"type": "refusal", "category": None, "explanation": denial.message}
            delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
            usage = {"output_tokens": self._output_tokens}
            field = demur_field(end, denial)
            events.append({"type": "message_delta", "delta": delta, "usage": usage, "demur": field})
        events.append({"type": "message_stop"})
        return b"".join(_event(event, str(event["type"])) for event in events)

    def _count(self, holder: Body) -> None:
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self._output_tokens = index_in(usage, "output_tokens")


# The stem of a strand's events → the list of the item that holds it, the event's index into that list, the text's field.
_PLACES = {
    "response.output_text": ("content", "content_index", "text"),
    "response.refusal": ("content", "content_index", "refusal"),
    "response.reasoning_text": ("content", "content_index", "text"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text"),
    "response.function_call_arguments": ("", "", "arguments"),
}
# What a part is where a server never announced it.
_PART_HEADS: dict[str, Body] = {
    "response.output_text": {"type": "output_text", "annotations": []},
    "response.refusal": {"type": "refusal"},
    "response.reasoning_text": {"type": "reasoning_text"},
    "response.reasoning_summary_text": {"type": "summary_text"},
}
_PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
_PART_STEMS = {"content": "response.content_part", "summary": "response.reasoning_summary_part"}
_STARTS = frozenset({"response.created", "response.queued", "response.in_progress"})
_REST: Body = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
_HEAD: Body = {"id": "resp_demur", "object": "response", "created_at": 0, "model": "", **_REST}


@dataclass(slots=True)
class _SentPart:
    """A part of an item as the client knows it: the strand's stem, its pieces, and how far it is done."""

    head: Body = field(default_factory=dict)
    stem: str = ""
    pieces: list[str] = field(default_factory=list)
    text_done: bool = False
    done: bool = False

    def whole(self) -> Body:
        name = _PLACES[self.stem][2] if self.stem else ""
        head = self.head or _PART_HEADS.get(self.stem, {})
        return {**head, name: "".join(self.pieces)} if name else head


@dataclass(slots=True)
class _SentItem:
    head: Body = field(default_factory=dict)
    parts: dict[tuple[str, int], _SentPart] = field(default_factory=dict)
    done: bool = False

    def whole(self) -> Body:
        """Return the item with what was sent of it."""
        if self.done:
            return self.head
        item: Body = {**self.head, "status": "incomplete"}
        for within in ("content", "summary"):
            found = [
                part.whole() for (where, _), part in sorted(self.parts.items(), key=itemgetter(0)) if where == within
            ]
            item |= {within: found} if found else {}
        call = self.parts.get(("", 0))
        return item | call.whole() if call is not None else item


class ResponsesEnding:
    """Ends a response of the Responses API: every open text, part and item is closed before the response itself."""

    def __init__(self) -> None:
        self._response: Body = {}
        self._items: dict[int, _SentItem] = {}
        self._number = -1
        self._begun = False

    def note_received(self, body: Body) -> None:
        """Keep the response as it began."""
        response = body.get("response")
        if not self._response and isinstance(response, dict):
            # A first event that already ends the response says more than its head; that is not ours to repeat.
            starts = body.get("type") in _STARTS
            self._response = {key: value for key, value in response.items() if starts or key in _HEAD}

    def note_sent(self, body: Body) -> None:
        """Keep what the client has of every item."""
        kind = body.get("type")
        self._number = max(self._number, index_in(body, "sequence_number"))
        if not isinstance(kind, str):
            return
        stem, _, step = kind.rpartition(".")
        if stem in _PLACES:
            self._sent_piece(body, stem, step)
        elif "response" in body:
            self._begun = True
        elif stem == "response.output_item":
            head, item = body.get("item"), self._item(body)
            item.head, item.done = dict(head) if isinstance(head, dict) else {}, step == "done"
        elif stem in _PARTS:
            self._sent_part(body, _PARTS[stem], step)

    def write(self, end: GuardEnd, denial: Denial) -> bytes:
        """Return the events that close what is open and then the response."""
        events = [*self._events(end, denial)]
        # Every event of the Responses API has a number; clients sort by it.
        numbered = ({**event, "sequence_number": self._number + 1 + n} for n, event in enumerate(events))
        return b"".join(_event(event, str(event["type"])) for event in numbered)

    def _sent_piece(self, body: Body, stem: str, step: str) -> None:
        within, index, _ = _PLACES[stem]
        part = self._item(body).parts.setdefault((within, index_in(body, index) if within else 0), _SentPart())
        part.stem = stem
        delta = body.get("delta")
        if isinstance(delta, str):
            part.pieces.append(delta)
        elif step == "done":
            text = body.get(_PLACES[stem][2])
            part.pieces[:] = [text] if isinstance(text, str) else part.pieces
            part.text_done = True

    def _sent_part(self, body: Body, within: str, step: str) -> None:
        where = (within, index_in(body, "content_index" if within == "content" else "summary_index"))
        part, head = self._item(body).parts.setdefault(where, _SentPart()), body.get("part")
        part.head = dict(head) if isinstance(head, dict) else part.head
        part.done = part.text_done = step == "done"

    def _item(self, body: Body) -> _SentItem:
        return self._items.setdefault(index_in(body, "output_index"), _SentItem())

    def _events(self, end: GuardEnd, denial: Denial) -> Iterator[Body]:
        start: Body = {**_HEAD, **self._response, "error": None, "output": [], "usage": None}
        if not self._begun:
            yield {"type": "response.created", "response": {**start, "status": "in_progress"}}
        for index, item in sorted(self._items.items()):
            if not item.done:
                yield from _item_end(index, item)
        why: Body = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
        output = [item.whole() for _, item in sorted(self._items.items())]
        more: Body = {"output": output, "demur": demur_field(end, denial)}
        yield {"type": "response.incomplete", "response": {**start, **why, **more}}


def _item_end(index: int, item: _SentItem) -> Iterator[Body]:
    """Yield the events that close an item."""
    head: Body = {"item_id": item.head.get("id") or "", "output_index": index}
    for (within, number), part in sorted(item.parts.items(), key=itemgetter(0)):
        place = {**head, **({"content_index" if within == "content" else "summary_index": number} if within else {})}
        if part.stem and not part.text_done:
            more: Body = {"logprobs": []} if part.stem == "response.output_text" else {}
            more |= {} if within else {"name": item.head.get("name") or ""}
            name = _PLACES[part.stem][2]
            yield {"type": f"{part.stem}.done", name: "".join(part.pieces), **more, **place}
        if within and part.head and not part.done:
            yield {"type": f"{_PART_STEMS[within]}.done", "part": part.whole(), **place}
    yield {"type": "response.output_item.done", "output_index": index, "item": item.whole()}


ENDINGS: Mapping[Shape, Callable[[], Ending]] = {
    Shape.OPENAI_CHAT: ChatEnding,
    Shape.AZURE: ChatEnding,
    Shape.OPENAI_RESPONSES: ResponsesEnding,
    Shape.ANTHROPIC: MessageEnding,
}
"""How the streams of each format end; a format that is not here has no guard."""
