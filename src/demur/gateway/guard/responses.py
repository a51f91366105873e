"""How does a stream of the Responses API end before its time?

As the API itself ends an answer that its filter stops: what is open is done with the text that the client got, its
items are `incomplete`, and `response.incomplete` gives `content_filter` as the reason.

Laws: those of `guard_endings`; the output of the last event is what the client was sent, and not a character more;
sequence numbers go on from the last that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demur.gateway.guard.endings import demur_field, ending_event
from demur.gateway.guard.text import index_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.gateway.guard.text import Body
    from demur.gateway.guard.values import Denial, GuardEnd

__all__ = ["ResponsesEnding"]

# The stem of a strand's events → the list of the item that holds it, the event's index into that list, the text's field.
_PLACES = {
    "response.output_text": ("content", "content_index", "text"),
    "response.refusal": ("content", "content_index", "refusal"),
    "response.reasoning_text": ("content", "content_index", "text"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text"),
    "response.function_call_arguments": ("", "", "arguments"),
}
_PART_HEADS: dict[str, Body] = {
    "response.output_text": {"type": "output_text", "annotations": []},
    "response.refusal": {"type": "refusal"},
    "response.reasoning_text": {"type": "reasoning_text"},
    "response.reasoning_summary_text": {"type": "summary_text"},
}
"""What a part is where a server never announced it."""
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
            found = [part.whole() for (where, _), part in sorted(self.parts.items(), key=_part_key) if where == within]
            item |= {within: found} if found else {}
        call = self.parts.get(("", 0))
        return item | call.whole() if call is not None else item


def _part_key(entry: tuple[tuple[str, int], _SentPart]) -> tuple[str, int]:
    return entry[0]


class ResponsesEnding:
    """Ends a response."""

    def __init__(self) -> None:
        self._response: Body = {}
        self._items: dict[int, _SentItem] = {}
        self._number = -1
        self._begun = False

    def came(self, body: Body) -> None:
        """Keep the response as it began."""
        response = body.get("response")
        if not self._response and isinstance(response, dict):
            # A first event that already ends the response says more than its head; that is not ours to repeat.
            starts = body.get("type") in _STARTS
            self._response = {key: value for key, value in response.items() if starts or key in _HEAD}

    def sent(self, body: Body) -> None:
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
        numbered = ({**event, "sequence_number": self._number + 1 + n} for n, event in enumerate(events))
        return b"".join(ending_event(event, str(event["type"])) for event in numbered)

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
        field = demur_field(end, denial)
        yield {"type": "response.incomplete", "response": {**start, **why, "output": output, "demur": field}}


def _item_end(index: int, item: _SentItem) -> Iterator[Body]:
    """Yield the events that close an item."""
    head: Body = {"item_id": item.head.get("id") or "", "output_index": index}
    for (within, number), part in sorted(item.parts.items(), key=_part_key):
        place = {**head, **({"content_index" if within == "content" else "summary_index": number} if within else {})}
        if part.stem and not part.text_done:
            more: Body = {"logprobs": []} if part.stem == "response.output_text" else {}
            more |= {} if within else {"name": item.head.get("name") or ""}
            name = _PLACES[part.stem][2]
            yield {"type": f"{part.stem}.done", name: "".join(part.pieces), **more, **place}
        if within and part.head and not part.done:
            yield {"type": f"{_PART_STEMS[within]}.done", "part": part.whole(), **place}
    yield {"type": "response.output_item.done", "output_index": index, "item": item.whole()}
