"""Conversations as training and evaluation sets keep them: `messages`, `prompt` and `completion`, or ShareGPT's `conversations`.

The last message of the assistant is the response, what stands before it the request. `role` and `content` are what Hugging
Face's TRL calls the conversational format; ShareGPT's `from` and `value` have no specification, and are read as TRL does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from demur.errors import ShapeError
from demur.formats.fields import fields_of, key_of, message_of, request_of, role_of, text_at
from demur.formats.interface import Kind, stateless
from demur.formats.responses import failure_of, response_of_parts
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced
from demur.wire.fields import root
from demur.wire.flat import RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "SHAREGPT", "open_reader", "sniffs"]

NAME = "messages"
_ANSWERS = frozenset(RESPONSE_FIELDS) - {"text"}
"""A row with one of these keeps the answer there; `text` is often the conversation once more, as one string."""
_SESSIONS = ("session_id", "conversation_id", "session", "thread_id")
_SKIP = frozenset({"id", "custom_id", *_SESSIONS})


def sniffs(record: JsonObject) -> bool:
    """Return whether a record is a list of messages with the answer among them."""
    turns, said = record.get("messages"), record.get("completion")
    if _are_turns(record.get("prompt")) and _are_turns(said):
        return True
    return _are_turns(turns) and _ANSWERS.isdisjoint(record)


def _read_conversation(record: JsonObject, turns: list[Any]) -> Traced:
    """Return the exchange in a conversation: the assistant's last turn, and all before it."""
    spoken = [turn for turn in turns if isinstance(turn, dict)]
    last = next((at for at in reversed(range(len(spoken))) if role_of(spoken[at]) == "assistant"), None)
    model = text_at(record, "model") or ""
    request = request_of(spoken if last is None else spoken[:last], model)
    parts = () if last is None else message_of(spoken[last]).parts
    stop = text_at(record, "finish_reason", "stop_reason")
    # An assistant's turn whose content is null was never recorded.
    names = ("content", "value", "text", "parts")
    recorded = bool(parts) or (last is not None and any(spoken[last].get(name) is not None for name in names))
    error = record.get("error")
    unanswered = failure_of(error, model=model) if error else None
    answer = response_of_parts(parts, model=model, stop=stop) if recorded else unanswered
    label = key_of(record.get("id")) or key_of(record.get("custom_id"))
    session = next((found for name in _SESSIONS if (found := key_of(record.get(name)))), None)
    return Traced(Exchange(None, answer, request, label, session), fields_of(record, skip=_SKIP))


def _read_messages(record: JsonObject) -> Iterator[Traced | Skipped]:
    turns, asked, said = record.get("messages"), record.get("prompt"), record.get("completion")
    if isinstance(turns, list) and turns:
        yield _read_conversation(record, turns)
    elif isinstance(asked, list) and isinstance(said, list):
        yield _read_conversation(record, asked + said)
    else:
        raise ShapeError("`messages`: expected a list of messages, got nothing")


open_reader = stateless(_read_messages)


def _are_turns(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(turn, dict) and isinstance(turn.get("role"), str) and "content" in turn for turn in value)
    )


def _sniffs_sharegpt(record: JsonObject) -> bool:
    """Return whether a record is a list of turns, each with a speaker and a text."""
    turns = record.get("conversations")
    spellings = (("from", "value"), ("role", "content"))
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(
            isinstance(turn, dict) and any(isinstance(turn.get(who), str) and said in turn for who, said in spellings)
            for turn in turns
        )
    )


def _read_sharegpt(record: JsonObject) -> Iterator[Traced | Skipped]:
    read = _read_conversation(record, root(record).need("conversations").list())
    # What was cut from one long conversation shares its id.
    yield replace(
        read, exchange=msgspec.structs.replace(read.exchange, session=read.exchange.session or read.exchange.id)
    )


SHAREGPT = Kind("sharegpt", _sniffs_sharegpt, stateless(_read_sharegpt))
