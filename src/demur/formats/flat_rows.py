"""Rows of plain columns, from CSV, Parquet or JSON lines: a prompt, an answer, and whatever else people note.

Laws: the columns are those of `wire.flat`; a column `is_refusal` says that the answer is a refusal where it is true, as a
truth value or as the word a CSV has for it, a column `label` only where it is a truth value (most labels are words for
something else); a false one says nothing, so that the text is still read. Columns like these have no specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.formats.interface import stateless
from demur.formats.scalars import fields_of, request_of
from demur.model.exchange import Response
from demur.model.run import Skipped, Traced
from demur.model.verdict import Signal, SignalKind
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS, read_flat, reads_flat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Request
    from demur.wire.interface import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "flat"
_TRUE = frozenset({"true", "1", "1.0", "yes", "y"})
_FALSE = frozenset({"0", "0.0", "no", "n"})
"""What a CSV writes for a truth value; a text in `refusal` that is none of them is the refusal itself."""
_SKIP = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS, "messages", "id", "custom_id", "session_id", "conversation_id"})


def sniffs(record: JsonObject) -> bool:
    """Return whether a record has a column for the answer that is text or null."""
    return reads_flat(record)


def _read_columns(record: JsonObject) -> Iterator[Traced | Skipped]:
    if not any(name in record for name in RESPONSE_FIELDS) and record.get("error"):
        # Some logs leave the answer out of a row that failed.
        record = {**record, "response": None}
    if not reads_flat(record) and any(name in record for name in RESPONSE_FIELDS):
        yield Skipped("a row whose answer is no text")
        return
    read = read_flat({name: value for name, value in record.items() if name != "refusal" or not _says(value, _FALSE)})
    flags = tuple(_refusal_flags(record))
    response = (
        replace(read.response or Response(""), signals=_signals_with(read.response, flags)) if flags else read.response
    )
    yield Traced(
        replace(read, response=response, request=read.request or _asked_in(record)), fields_of(record, skip=_SKIP)
    )


open_reader = stateless(_read_columns)


def _asked_in(record: JsonObject) -> Request | None:
    """Return the request where it is no plain text: a list of messages."""
    model = record.get("model")
    asked = next((record[name] for name in ("messages", *PROMPT_FIELDS) if record.get(name) is not None), None)
    return request_of(asked, model if isinstance(model, str) else "")


def _refusal_flags(record: JsonObject) -> Iterator[Signal]:
    if _says(record.get("is_refusal"), _TRUE):
        yield Signal(SignalKind.REFUSAL_FIELD, "is_refusal", "true")
    if record.get("label") is True:
        yield Signal(SignalKind.REFUSAL_FIELD, "label", "true")


def _signals_with(response: Response | None, flags: tuple[Signal, ...]) -> tuple[Signal, ...]:
    return flags if response is None else response.signals + flags


def _says(value: object, words: frozenset[str]) -> bool:
    """Return whether a truth value, a number or a text is one of these words."""
    return isinstance(value, bool | int | float | str) and str(value)[:8].strip().lower() in words
