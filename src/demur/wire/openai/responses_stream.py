"""The typed events of OpenAI's Responses API: joined into one response, and written for one.

The last event holds the whole response, and is what is read; of a stream that was cut off before it, the items that have
arrived are read, with the status `in_progress`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.exchange import Channel, Delta
from demur.wire.fields import cut, decode, root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Response
    from demur.wire.fields import Field, JsonObject, ReadBody, ServerEvent

__all__ = ["ResponsesStream", "events"]

_EMPTY: JsonObject = {"content": [], "summary": [], "arguments": ""}
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, slots=True)
class _Strand:
    """Where the pieces of one kind of event belong: the list in the item, its index in the event, the field."""

    channel: Channel
    field: str
    within: str | None = None
    index: str = ""
    part: str = ""


_STRANDS = {
    "response.output_text": _Strand(Channel.TEXT, "text", "content", "content_index", "output_text"),
    "response.refusal": _Strand(Channel.REFUSAL, "refusal", "content", "content_index", "refusal"),
    "response.reasoning_text": _Strand(Channel.THINKING, "text", "content", "content_index", "reasoning_text"),
    "response.reasoning_summary_text": _Strand(Channel.THINKING, "text", "summary", "summary_index", "summary_text"),
    "response.function_call_arguments": _Strand(Channel.TOOL, "arguments"),
}


@dataclass(slots=True)
class _Item:
    """One item while it arrives: its head, and the pieces of every strand by the strand and its index."""

    head: JsonObject = field(default_factory=dict)
    parts: dict[tuple[str, int], JsonObject] = field(default_factory=dict)
    pieces: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    done: bool = False


class ResponsesStream:
    """Events in, deltas out; `close` reads the response that they add up to."""

    def __init__(self, read: ReadBody) -> None:
        self._read = read
        self._body: JsonObject | None = None
        self._items: dict[int, _Item] = {}
        self._error: JsonObject | None = None
        self._done = False

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Return the pieces of the response in one event."""
        if event.data.strip() in ("", "[DONE]"):
            return ()
        told = root(decode(event.data))
        kind = told.tag_at("type") or event.event or ""
        if kind == "error" or (not kind and told.get("error") is not None):
            inner = told.get("error")
            own = {key: value for key, value in told.value.items() if key not in ("type", "sequence_number")}
            self._error = inner.object() if inner is not None and inner.is_object else own
            # Read now, here and below, so that what is malformed is an error at its event and not at the end.
            self._read({"error": self._error})
        elif told.get("response") is not None:
            body = dict(told.need("response").object())
            self._read({"object": "response", **body})
            self._body, self._done = body, self._done or kind in _LAST
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = self._items.setdefault(told.integer_at("output_index") or 0, _Item())
            item.head, item.done = dict(told.need("item").object()), kind.endswith("done")
            self._read({"object": "response", "output": [item.head]})
        elif kind in ("response.content_part.added", "response.reasoning_summary_part.added"):
            within = "content" if "content_part" in kind else "summary"
            item = self._items.setdefault(told.integer_at("output_index") or 0, _Item())
            item.parts[within, told.integer_at(f"{within}_index") or 0] = dict(told.need("part").object())
        else:
            return self._take_piece(told, kind)
        return ()

    def close(self) -> Response:
        """Return what has arrived."""
        if self._body is None and not self._items and self._error is not None:
            return self._read({"error": self._error})
        body: JsonObject = {"object": "response", "status": "in_progress", "output": [], **(self._body or {})}
        if not body.get("output"):
            body["output"] = [_whole(item) for _, item in sorted(self._items.items())]
        if self._error is not None:
            body["error"] = self._error
        return replace(self._read(body), complete=self._done)

    def _take_piece(self, told: Field, kind: str) -> tuple[Delta, ...]:
        name, _, step = kind.rpartition(".")
        strand = _STRANDS.get(name)
        if strand is None or step not in ("delta", "done"):
            return ()
        item = self._items.setdefault(told.integer_at("output_index") or 0, _Item())
        index = (told.integer_at(strand.index) or 0) if strand.within else 0
        place = (strand.within or strand.field, index)
        pieces = item.pieces.setdefault(place, [])
        if strand.within:
            item.parts.setdefault(place, {"type": strand.part})
        # A text that is done was mostly told before; only a server that sends no deltas has it new.
        source = "delta" if step == "delta" else strand.field
        text = told.text_at(source) if step == "delta" or not pieces else None
        if not text:
            return ()
        pieces.append(text)
        return (Delta(0, strand.channel, text),)


def events(body: JsonObject, *, piece_chars: int, complete: bool) -> Iterator[JsonObject]:
    """Yield the events of a body as `write_response` makes it, without their numbers."""
    if "output" not in body:
        yield _error_event(body["error"])
        return
    start = {**body, "status": "in_progress", "output": [], "incomplete_details": None, "error": None, "usage": None}
    yield {"type": "response.created", "response": start}
    yield {"type": "response.in_progress", "response": start}
    for index, item in enumerate(body["output"]):
        place = {"item_id": item.get("id", ""), "output_index": index}
        started = item
        # An item that we do not read starts whole.
        if item.get("type") in ("message", "reasoning", "function_call"):
            started = {key: _EMPTY.get(key, value) for key, value in item.items()} | {"status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": started}
        for event in _item_events(item, piece_chars):
            yield {**event, **place}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    if complete:
        status = body["status"] if f"response.{body['status']}" in _LAST else "completed"
        yield {"type": f"response.{status}", "response": body}
    elif body.get("error"):
        yield _error_event(body["error"])


def _item_events(item: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    if item.get("type") == "function_call":
        yield from _strand_events("response.function_call_arguments", item, piece_chars)
    for within, prefix in (("content", "response.content_part"), ("summary", "response.reasoning_summary_part")):
        parts = item.get(within)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            place = {f"{within}_index": index}
            strand = next((name for name, s in _STRANDS.items() if s.within and s.part == part.get("type")), None)
            empty = {key: "" if strand and key == _STRANDS[strand].field else value for key, value in part.items()}
            yield {"type": f"{prefix}.added", "part": empty, **place}
            for event in () if strand is None else _strand_events(strand, part, piece_chars):
                yield {**event, **place}
            yield {"type": f"{prefix}.done", "part": part, **place}


def _strand_events(name: str, holder: JsonObject, piece_chars: int) -> Iterator[JsonObject]:
    key = _STRANDS[name].field
    extra: JsonObject = {"logprobs": []} if name == "response.output_text" else {}
    for piece in cut(holder[key], piece_chars):
        yield {"type": f"{name}.delta", "delta": piece, **extra}
    done = {"name": holder["name"]} if name == "response.function_call_arguments" else extra
    yield {"type": f"{name}.done", key: holder[key], **done}


def _error_event(error: JsonObject) -> JsonObject:
    """Return the event of an error; the documented flat one has no field for the error's own type, so that one nests."""
    if error.get("type"):
        return {"type": "error", "error": error}
    return {"code": None, "param": None, **error, "type": "error"}


def _whole(item: _Item) -> JsonObject:
    """Return the item with what has arrived of it."""
    if item.done:
        return item.head
    kinds = {"content": "message", "summary": "reasoning", "arguments": "function_call"}
    guess = next((kinds[within] for within, _ in (*item.parts, *item.pieces)), "unknown")
    whole: JsonObject = {"type": guess, **item.head}
    if ("arguments", 0) in item.pieces:
        whole["arguments"] = "".join(item.pieces["arguments", 0])
    for within in ("content", "summary"):
        found = sorted((index, part) for (name, index), part in item.parts.items() if name == within)
        if found:
            # What has arrived in parts stands for whatever the item's head had.
            whole[within] = []
        for index, part in found:
            strand = next((s for s in _STRANDS.values() if s.part and s.part == part.get("type")), None)
            pieces = item.pieces.get((within, index))
            said = {} if strand is None else {strand.field: "".join(pieces or [part.get(strand.field) or ""])}
            whole[within].append({**part, **said})
    return whole
