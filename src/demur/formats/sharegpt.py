"""Conversations in ShareGPT's shape: `conversations` of `from` and `value`.

Laws: those of `messages`, whose reading this shares; `gpt`, `assistant` and the like are the assistant, `human` and `user`
the user. The shape has no specification; `from` and `value` under `conversations`, and `role` and `content` there as
well, are what Hugging Face's TRL takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from demur.formats.interface import stateless
from demur.formats.messages import read_conversation
from demur.wire.fields import root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.run import Skipped, Traced
    from demur.wire.interface import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "sharegpt"


def sniffs(record: JsonObject) -> bool:
    """Return whether a record is a list of turns, each with a speaker and a text."""
    turns = record.get("conversations")
    return isinstance(turns, list) and bool(turns) and all(_is_turn(turn) for turn in turns)


def _read_sharegpt(record: JsonObject) -> Iterator[Traced | Skipped]:
    read = read_conversation(record, root(record).need("conversations").list())
    # What was cut from one long conversation shares its id.
    yield replace(
        read, exchange=msgspec.structs.replace(read.exchange, session=read.exchange.session or read.exchange.id)
    )


open_reader = stateless(_read_sharegpt)


def _is_turn(turn: object) -> bool:
    return isinstance(turn, dict) and any(
        isinstance(turn.get(speaker), str) and said in turn
        for speaker, said in (("from", "value"), ("role", "content"))
    )
