"""Shadow's `.agentlog`: a response names its request by `parent`; all else that it logs is no exchange.

A response whose request is not in the file is an exchange without one. Ids are not checked on reading, since Shadow's own
examples carry made-up ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, parts_of, request_of, text_at
from demur.formats.responses import failure_of, response_of_parts
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced
from demur.wire.fields import root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.formats.interface import TraceReader
    from demur.model.exchange import Request, Response
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "agentlog"
_OTHERS = {
    "metadata": "a metadata record",
    "tool_call": "a tool call",
    "tool_result": "a tool result",
    "replay_summary": "a replay summary",
    "chunk": "a chunk of a stream",
    "harness_event": "a harness event",
    "blob_ref": "a blob reference",
}
_KINDS = frozenset({"chat_request", "chat_response", "error", *_OTHERS})
_SKIP = frozenset({"version", "id", "kind", "parent"})


def sniffs(record: JsonObject) -> bool:
    """Return whether a record has the envelope of an `.agentlog`."""
    kind = record.get("kind")
    return "version" in record and isinstance(record.get("payload"), dict) and isinstance(kind, str) and kind in _KINDS


def open_reader() -> TraceReader:
    """Return a reader for one file."""
    return _AgentlogReader()


@dataclass(slots=True)
class _Asked:
    """A request that was read, the record it stood in, and whether anything has answered it."""

    request: Request | None
    record: JsonObject
    answered: bool = False


class _AgentlogReader:
    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        top = root(record)
        kind = top.tag_at("kind")
        if kind in _OTHERS:
            yield Skipped(_OTHERS[kind])
        elif kind == "chat_request":
            self._asked[top.need("id").text()] = _Asked(request_of(top.need("payload").object()), record)
        elif kind == "chat_response":
            payload = top.need("payload").object()
            parts = parts_of(payload.get("content"))
            stop, model = payload.get("stop_reason"), text_at(payload, "model") or ""
            answer = response_of_parts(parts, model=model, stop=stop, path="payload.stop_reason")
            yield self._answered(record, answer)
        elif kind == "error":
            payload = object_at(record, "payload")
            if (text_at(record, "parent") or "") not in self._asked and text_at(payload, "source") != "llm":
                # An error of a tool or of the recorder ends no exchange.
                yield Skipped("an error that answers no request")
            else:
                yield self._answered(record, failure_of(payload, path="payload"))
        else:
            raise ShapeError(
                f"`kind`: unknown kind of record `{kind}`", hint=f"expected one of {', '.join(sorted(_KINDS))}"
            )

    def close(self) -> Iterator[Traced | Skipped]:
        # A request that nothing answers has failed.
        for asked in self._asked.values():
            if not asked.answered:
                yield _log_row(asked.record, None, asked.request)

    def _answered(self, record: JsonObject, answer: Response) -> Traced:
        asked = self._asked.get(text_at(record, "parent") or "")
        if asked is not None:
            asked.answered = True
        return _log_row(record, answer, None if asked is None else asked.request)


def _log_row(record: JsonObject, answer: Response | None, request: Request | None) -> Traced:
    meta = object_at(record, "meta")
    model = (answer.model if answer else "") or (request.model if request else "")
    payload = object_at(record, "payload")
    usage = object_at(payload, "usage")
    measured = {"latency_ms": payload.get("latency_ms")}
    measured |= {name: usage.get(name) for name in ("input_tokens", "output_tokens")}
    fields = fields_of({**record, "model": model, "payload": None, **measured}, skip=_SKIP)
    # Shadow pairs two files by position; without an id here, equal prompts pair wherever they stand.
    return Traced(Exchange(None, answer, request, session=text_at(meta, "session_tag", "trace_id")), fields)
