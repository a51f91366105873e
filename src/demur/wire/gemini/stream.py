"""Gemini's streams: fragments joined into one response, and a response cut into fragments.

Each event is a whole response that holds a little more of the text; texts of the same kind that follow each other are one
part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.model.exchange import Channel, Delta
from demur.wire.fields import Field, arguments_of, cut, event_body, event_of, root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demur.model.exchange import Response
    from demur.wire.fields import JsonObject, ServerEvent

__all__ = ["ContentStream", "content_events"]


@dataclass(slots=True)
class _Growing:
    """A part that may still grow; pieces are joined once, so that long responses take linear time."""

    body: JsonObject
    pieces: list[str]

    def takes(self, part: JsonObject) -> bool:
        mine, theirs = bool(self.body.get("thought")), bool(part.get("thought"))
        return isinstance(part.get("text"), str) and bool(self.pieces) and mine == theirs

    def whole(self) -> JsonObject:
        return {**self.body, "text": "".join(self.pieces)} if self.pieces else self.body


@dataclass(slots=True)
class _Candidate:
    """A candidate as far as it has arrived."""

    body: JsonObject = field(default_factory=dict)
    content: JsonObject | None = None
    parts: list[_Growing] = field(default_factory=list)

    def add(self, part: JsonObject) -> None:
        text = part.get("text")
        if self.parts and self.parts[-1].takes(part):
            self.parts[-1].pieces.append(part["text"])
            self.parts[-1].body.update(part)
        # The last fragment often has an empty text, to carry its finish reason: that is no part.
        elif text != "" or len(part) > 1 or not self.parts:
            self.parts.append(_Growing(dict(part), [text] if isinstance(text, str) else []))

    def whole(self) -> JsonObject:
        if self.content is None:
            return self.body
        parts = {"parts": [part.whole() for part in self.parts]} if self.parts else {}
        return {**self.body, "content": {**self.content, **parts}}


class ContentStream:
    """Reads one streamed response; `read` turns the finished body into a response, `camel` spells a fragment's names."""

    def __init__(self, read: Callable[[JsonObject], Response], camel: Callable[[JsonObject], JsonObject]) -> None:
        self._read = read
        self._camel = camel
        self._top: JsonObject = {}
        self._candidates: dict[int, _Candidate] = {}
        self._error: JsonObject | None = None

    def feed(self, event: ServerEvent) -> tuple[Delta, ...]:
        """Take one event; return the pieces of the response in it."""
        body = root(self._camel(event_body(event).object()))
        if body.get("error") is not None:
            self._error = body.object()
            return ()
        self._top.update((name, item.value) for name, item in body.fields() if name != "candidates")
        return tuple(
            delta
            for position, candidate in enumerate(body.each("candidates"))
            for delta in self._grow(candidate, position)
        )

    def close(self) -> Response:
        """Return the response as far as it arrived, with the error that ended it, if any."""
        failure = None if self._error is None else self._read(self._error)
        if failure is not None and not self._candidates:
            return failure
        body = dict(self._top)
        if self._candidates:
            body["candidates"] = [self._candidates[index].whole() for index in sorted(self._candidates)]
        response = self._read(body)
        if failure is not None:
            return replace(response, error=failure.error, signals=response.signals + failure.signals, complete=False)
        # The stream has no end mark: it is complete where every candidate says why it ended, or the prompt was blocked.
        feedback = self._top.get("promptFeedback")
        blocked = isinstance(feedback, dict) and feedback.get("blockReason") is not None
        ended = bool(self._candidates) and all("finishReason" in c.body for c in self._candidates.values())
        return replace(response, complete=blocked or ended)

    def _grow(self, fragment: Field, position: int) -> Iterator[Delta]:
        index = fragment.integer_at("index")
        index = position if index is None else index
        candidate = self._candidates.setdefault(index, _Candidate())
        for name, item in fragment.fields():
            if name == "content":
                candidate.content = {**(candidate.content or {}), **item.object()}
                for part in item.each("parts"):
                    candidate.add(part.object())
                    text, call = part.text_at("text"), part.get("functionCall")
                    if text:
                        yield Delta(index, Channel.THINKING if part.flag_at("thought") else Channel.TEXT, text)
                    if call is not None:
                        yield Delta(index, Channel.TOOL, arguments_of(call.get("args")))
            # Later fragments rate again: a rating that blocked is never replaced by one that did not.
            elif name != "safetyRatings" or _any_blocked(item.value) or not _any_blocked(candidate.body.get(name)):
                candidate.body[name] = item.value


def content_events(body: JsonObject | None, *, error: JsonObject | None, piece_chars: int) -> Iterator[ServerEvent]:
    """Yield the fragments of a response; the last one holds all but the parts, an error comes after it."""
    if body is not None:
        always: JsonObject = {name: body[name] for name in ("modelVersion", "responseId") if name in body}
        for candidate in body.get("candidates", ()):
            content = candidate.get("content", {})
            for part in _fragments(content.get("parts") or [], piece_chars):
                fragment = {"content": {**content, "parts": [part]}, "index": candidate["index"]}
                yield event_of({"candidates": [fragment], **always})
        bare = [
            {k: v for k, v in c.items() if k != "content" or not v.get("parts")} for c in body.get("candidates", ())
        ]
        yield event_of({**body, **({"candidates": bare} if bare else {})})
    if error is not None:
        yield event_of(error)


def _fragments(parts: list[JsonObject], piece_chars: int) -> Iterator[JsonObject]:
    for part in parts:
        text = part.get("text")
        pieces = list(cut(text, piece_chars)) if isinstance(text, str) else []
        head = {name: value for name, value in part.items() if name in ("text", "thought")}
        for piece in pieces[:-1]:
            yield {**head, "text": piece}
        # What else the part says comes with its last piece, where the API puts a thought's signature.
        yield {**part, "text": pieces[-1]} if pieces else part


def _any_blocked(ratings: Any) -> bool:
    return isinstance(ratings, list) and any(isinstance(rating, dict) and rating.get("blocked") for rating in ratings)
