"""How does a stream that may not go on end so that the provider's own client reads it as withheld, and not as broken?

An ending follows what the client has been sent (`sent`), and takes ids and models from whatever came (`came`), sent
or not. Chat: a chunk with `content_filter` for every choice still open, the sentence as its refusal, then `[DONE]`.
Anthropic: the open blocks stop, `message_delta` with `refusal` and its details, `message_stop`. The Responses API has
an ending of its own file.

Laws: an ending is whole events only; with what was sent before, it is a stream that the provider could have sent; what
has ended does not end again; the field `demur` says who ended it and why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from demur.gateway.guard.text import index_in
from demur.wire.sse import ServerEvent, encode

if TYPE_CHECKING:
    from demur.gateway.guard.text import Body
    from demur.gateway.guard.values import Denial, GuardEnd

__all__ = ["ChatEnding", "Ending", "MessageEnding", "demur_field", "ending_event"]


class Ending(Protocol):
    """Follows one stream of one shape, and can end it at any event."""

    def came(self, body: Body) -> None:
        """Take note of an event as it arrives."""

    def sent(self, body: Body) -> None:
        """Take note of an event that the client gets."""

    def write(self, end: GuardEnd, denial: Denial) -> bytes:
        """Return the events that end the stream."""


def demur_field(end: GuardEnd, denial: Denial) -> Body:
    """Return what the field `demur` says; clients of the provider ignore it."""
    return {"end": end.value, "reason": denial.reason, "message": denial.message, "rules": list(denial.rules)}


def ending_event(body: Body, name: str | None = None) -> bytes:
    """Return an event as it stands on the wire; in ASCII, so that half a surrogate pair in a text can be written too."""
    return encode(ServerEvent(json.dumps(body, separators=(",", ":")), name))


class ChatEnding:
    """Ends a chat completion, or a legacy completion, which says `text` where chat says `delta`."""

    def __init__(self) -> None:
        self._head: Body = {}
        self._open: dict[int, bool] = {}
        """The choices that came and whether the client may still expect something of them."""
        self._refused: set[int] = set()
        self._opened: set[int] = set()

    def came(self, body: Body) -> None:
        """Keep the head of the first chunk that has one, and the number of each choice."""
        if not self._head.get("id"):
            self._head = {key: body.get(key) for key in ("id", "object", "created", "model")}
        choices = body.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._open.setdefault(index_in(choice), True)

    def sent(self, body: Body) -> None:
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
        return b"".join([*events, encode(ServerEvent("[DONE]"))])

    def _chunk(self, index: int, end: GuardEnd, denial: Denial) -> bytes:
        legacy = self._head.get("object") == "text_completion"
        choice: Body = {"index": index, "finish_reason": "content_filter", "logprobs": None}
        choice |= {"text": ""} if legacy else {"delta": self._delta(index, denial)}
        head: Body = {
            "id": self._head.get("id") or "chatcmpl-demur",
            "object": "text_completion" if legacy else "chat.completion.chunk",
            "created": self._head.get("created") or 0,
            "model": self._head.get("model") or "",
        }
        return ending_event({**head, "choices": [choice], "demur": demur_field(end, denial)})

    def _delta(self, index: int, denial: Denial) -> Body:
        role: Body = {} if index in self._opened else {"role": "assistant"}
        # A refusal of the model's own that has begun is not spliced with our sentence.
        return role if index in self._refused else {**role, "refusal": denial.message}


class MessageEnding:
    """Ends an Anthropic message."""

    def __init__(self) -> None:
        self._message: Body = {}
        self._blocks: set[int] = set()
        self._output_tokens = 0
        self._begun = self._stopping = False

    def came(self, body: Body) -> None:
        """Keep the message's head and its count of tokens."""
        message = body.get("message")
        if isinstance(message, dict) and body.get("type") == "message_start":
            self._message = message
            self._count(message)
        elif body.get("type") == "message_delta":
            self._count(body)

    def sent(self, body: Body) -> None:
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
        events = [] if self._begun else [self._start()]
        events += [{"type": "content_block_stop", "index": index} for index in sorted(self._blocks)]
        if not self._stopping:
            details = {"type": "refusal", "category": None, "explanation": denial.message}
            delta = {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
            usage = {"output_tokens": self._output_tokens}
            field = demur_field(end, denial)
            events.append({"type": "message_delta", "delta": delta, "usage": usage, "demur": field})
        events.append({"type": "message_stop"})
        return b"".join(ending_event(event, str(event["type"])) for event in events)

    def _start(self) -> Body:
        head: Body = {"id": "msg_demur", "type": "message", "role": "assistant", "model": ""}
        bare: Body = {"content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": 0, "output_tokens": self._output_tokens}
        return {"type": "message_start", "message": {**head, "usage": usage, **self._message, **bare}}

    def _count(self, holder: Body) -> None:
        usage = holder.get("usage")
        if isinstance(usage, dict):
            self._output_tokens = index_in(usage, "output_tokens")
