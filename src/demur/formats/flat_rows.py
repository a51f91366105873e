"""Rows of plain columns, from CSV, Parquet or JSON lines: a prompt, a response, and whatever else people note.

`flat_layout` declares which column is what; every reader of such rows follows it: `FlatLayout.row` for decoded JSON, the engines' SQL
for tables (`runs.flat_tables`). Where a row may say more than its layout, `open_reader` reads it in full, and gives the same values for
every row that the layout can read. The columns are those of `wire.flat`; they have no specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.formats.fields import HOLDERS, MAX_LABEL_CHARS, fields_of, label_of, other_spellings, request_of
from demur.formats.interface import stateless
from demur.model.exchange import Response, Signal, SignalKind
from demur.model.run import Skipped, Traced
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS, read_flat, reads_flat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "FlatLayout", "PlainRow", "flat_layout", "open_reader", "sniffs"]

NAME = "flat"
IDS, SESSIONS = ("id", "custom_id"), ("session_id", "conversation_id")
_STOPS = ("finish_reason", "stop_reason")
_ORDINARY_STOPS = frozenset({None, "stop", "end_turn", "length", "max_tokens", "stop_sequence"})
_TRUE = frozenset({"true", "1", "1.0", "yes", "y"})
_FALSE = frozenset({"0", "0.0", "no", "n"})
"""What a CSV writes for a truth value; a text in `refusal` that is none of them is the refusal itself."""
# Columns that can change what the response is judged to be, or whether it is a response at all.
_SAYS_MORE = frozenset({"refusal", "is_refusal", "messages", "done_reason"})
_NO_LABELS = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS, *IDS, *SESSIONS})
_SKIP = _NO_LABELS | {"messages"}
# `fields_of` keeps 64 fields of a row; below this number of columns none can be cut off.
_MAX_NAMES = 48

PlainRow = tuple[str | None, str | None, str | None, str, tuple[str | None, ...]]
"""Id, prompt, session, response, and the fields that were asked for."""


def sniffs(record: JsonObject) -> bool:
    """Return whether a record has a column for the response that is text or null."""
    return reads_flat(record)


def _read_columns(record: JsonObject) -> Iterator[Traced | Skipped]:
    answered = any(name in record for name in RESPONSE_FIELDS)
    if not answered and record.get("error"):
        # Some logs leave the response out of a row that failed.
        record = {**record, "response": None}
    if answered and not reads_flat(record):
        yield Skipped("a row whose answer is no text")
        return
    # A false `refusal` says nothing: the text is still judged.
    read = read_flat({name: value for name, value in record.items() if name != "refusal" or not _says(value, _FALSE)})
    response, request = read.response, read.request
    if flags := tuple(_refusal_flags(record)):
        response = replace(response or Response(""), signals=(response.signals if response else ()) + flags)
    if request is None:
        # The prompt may be a list of messages.
        model = record.get("model")
        asked = next((record[name] for name in ("messages", *PROMPT_FIELDS) if record.get(name) is not None), None)
        request = request_of(asked, model if isinstance(model, str) else "")
    yield Traced(replace(read, response=response, request=request), fields_of(record, skip=_SKIP))


open_reader = stateless(_read_columns)


def _refusal_flags(record: JsonObject) -> Iterator[Signal]:
    if _says(record.get("is_refusal"), _TRUE):
        yield Signal(SignalKind.REFUSAL_FIELD, "is_refusal", "true")
    # Most columns called `label` hold words for something else, so only a truth value counts.
    if record.get("label") is True:
        yield Signal(SignalKind.REFUSAL_FIELD, "label", "true")


def _says(value: object, words: frozenset[str]) -> bool:
    """Return whether a truth value, a number or a text is one of these words."""
    return isinstance(value, bool | int | float | str) and str(value)[:8].strip().lower() in words


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """Which column of a row is what: the names that are there, in the order in which they count.

    `fields` has a column for each field that was asked for, None where the rows have none.
    """

    response: str
    prompts: tuple[str, ...]
    ids: tuple[str, ...]
    sessions: tuple[str, ...]
    stops: tuple[str, ...]
    error: str | None
    fields: tuple[str | None, ...]

    def row(self, record: JsonObject) -> PlainRow | None:
        """Return what a record with these columns says, None where only the full reader can tell."""
        text = record[self.response]
        if type(text) is not str or not text or text.isspace():
            return None
        prompt = record[self.prompts[0]] if self.prompts else None
        if self.prompts and type(prompt) is not str:
            return None
        for name in self.stops:
            stop = record[name]
            if (stop is not None and type(stop) is not str) or stop not in _ORDINARY_STOPS:
                return None
        if self.error is not None and record[self.error]:
            return None
        keys: list[str | None] = []
        for names in (self.ids, self.sessions):
            found = None
            for name in names:
                key = record[name]
                # A number is a key too, but the full reader says how it is written.
                if key is not None and type(key) is not str:
                    return None
                if key:
                    found = key
                    break
            keys.append(found)
        labels = tuple([None if name is None else label_of(record[name]) for name in self.fields])
        return keys[0], prompt, keys[1], text, labels


@lru_cache(maxsize=256)
def flat_layout(
    names: tuple[str, ...], fields: tuple[str, ...], *, scalar: AbstractSet[str] = frozenset()
) -> FlatLayout | None:
    """Return the layout of rows with these columns, None where a row may say more than the layout can express.

    `scalar` are the columns whose every cell is known to be a text or a whole number.
    """
    have = frozenset(names)
    response = next((name for name in RESPONSE_FIELDS if name in have), None)
    if response is None or have & _SAYS_MORE or ("label" in have and "label" not in scalar):
        return None
    if len(names) > _MAX_NAMES or max(map(len, names)) > MAX_LABEL_CHARS:
        return None
    # A field that is kept under another name, or inside an object, is the full reader's to find.
    nested = have.intersection(HOLDERS) - scalar
    if any(have & other_spellings(field) or nested - {field} for field in fields):
        return None
    kept = have - _NO_LABELS
    prompts, ids, sessions, stops = (
        tuple(name for name in known if name in have) for known in (PROMPT_FIELDS, IDS, SESSIONS, _STOPS)
    )
    wanted = tuple(name if name in kept else None for name in fields)
    return FlatLayout(response, prompts, ids, sessions, stops, "error" if "error" in have else None, wanted)
