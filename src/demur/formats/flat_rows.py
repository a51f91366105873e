"""Rows of plain columns, from CSV, Parquet or JSON lines: a prompt, a response, and whatever else people note.

`flat_layout` declares which column is what; every reader of such rows follows it: `FlatLayout.row` for decoded JSON, the engines' SQL
for tables (`runs.flat_tables`). Where a row may say more than its layout, `open_reader` reads it in full, and gives the same values for
every row that the layout can read. The columns are those of `wire.flat`, which have no specification, or those that the user named.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.formats.fields import (
    HOLDERS,
    MAX_LABEL_CHARS,
    fields_of,
    label_of,
    message_of,
    other_spellings,
    request_of,
    unwrapped_json,
)
from demur.formats.interface import stateless
from demur.formats.responses import not_stored, response_in, response_in_text, response_of_parts
from demur.model.columns import MISSING, NO_COLUMNS, column_at
from demur.model.evaluation import Label
from demur.model.exchange import Choice, OpaquePart, Response, Signal, SignalKind, ToolCallPart
from demur.model.run import Skipped, Traced
from demur.model.verdict import Outcome
from demur.wire.fields import encode
from demur.wire.flat import (
    ID_FIELDS,
    MISSING_WORDS,
    PROMPT_FIELDS,
    RESPONSE_FIELDS,
    SESSION_FIELDS,
    STOP_FIELDS,
    read_flat,
    reads_flat,
    response_column,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.formats.interface import TraceReader
    from demur.model.columns import Columns
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "FlatLayout", "PlainRow", "flat_layout", "is_plain", "open_named_reader", "open_reader", "sniffs"]

NAME = "flat"
_ROLES = {
    "response_field": RESPONSE_FIELDS,
    "prompt_field": PROMPT_FIELDS,
    "id_field": ID_FIELDS,
    "session_field": SESSION_FIELDS,
}
"""The columns that a user can name, and the names by which they are found otherwise; a named one goes by the first of these."""
_OUTCOMES = {Label.REFUSAL: Outcome.REFUSED, Label.PARTIAL: Outcome.PARTIAL, Label.COMPLIANCE: Outcome.COMPLIED}
_STOPS = ("finish_reason", "stop_reason")
_ORDINARY_STOPS = frozenset({None, "stop", "end_turn", "length", "max_tokens", "stop_sequence"})
_TRUE = frozenset({"true", "1", "1.0", "yes", "y"})
_FALSE = frozenset({"0", "0.0", "no", "n"})
"""What a CSV writes for a truth value; a text in `refusal` that is none of them is the refusal itself."""
# Columns that can change what the response is judged to be, or whether it is a response at all.
_SAYS_MORE = frozenset({"refusal", "is_refusal", "messages", "tool_calls", *STOP_FIELDS}) - frozenset(_STOPS)
# `session` and `thread_id` are fields too, since people also group by them.
_NO_LABELS = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS, *ID_FIELDS, "session_id", "conversation_id"})
_SKIP = _NO_LABELS | {"messages"}
# `fields_of` keeps 64 fields of a row; below this number of columns none can be cut off.
_MAX_NAMES = 48
_NAMES_SHOWN = 12

PlainRow = tuple[str | None, str | None, str | None, str, tuple[str | None, ...]]
"""Id, prompt, session, response, and the fields that were asked for."""


def sniffs(record: JsonObject) -> bool:
    """Return whether a record has a column for the response, or only the error of a call that failed."""
    return any(name in record for name in RESPONSE_FIELDS) or bool(record.get("error"))


def _read_columns(record: JsonObject) -> Iterator[Traced | Skipped]:
    column = response_column(record)
    if column is None and record.get("error"):
        # Some logs leave the response out of a row that failed.
        record = {**record, "response": None}
    held = None if column is None else record[column]
    if column is not None and not reads_flat(record):
        record = {**record, column: None}
    # A false `refusal` says nothing: the text is still judged.
    read = read_flat({name: value for name, value in record.items() if name != "refusal" or not _says(value, _FALSE)})
    response, request = read.response, read.request
    if column is not None and held is not None and not (isinstance(held, str) and is_plain(held)):
        response = _held_response(held, column, response)
    response = _with_calls(response, record.get("tool_calls"))
    if flags := tuple(_refusal_flags(record)):
        response = replace(response or Response(""), signals=(response.signals if response else ()) + flags)
    if request is None:
        # The prompt may be a list of messages.
        model = record.get("model")
        asked = next((record[name] for name in ("messages", *PROMPT_FIELDS) if record.get(name) is not None), None)
        request = request_of(asked, model if isinstance(model, str) else "")
    yield Traced(replace(read, response=response, request=request), fields_of(record, skip=_SKIP))


open_reader = stateless(_read_columns)


def open_named_reader(columns: Columns) -> TraceReader:
    """Return a reader of rows whose columns the user named."""

    def read(record: JsonObject) -> Iterator[Traced | Skipped]:
        known = _under_known_names(record, columns)
        if columns.response_field is not None and "response" not in known and not known.get("error"):
            there = ", ".join(f"`{name}`" for name in list(record)[:_NAMES_SHOWN]) or "none"
            raise ShapeError(f"no column `{columns.response_field}`", hint=f"the row has {there}")
        label, word = _label_in(record, columns)
        if word is not None and label is None:
            yield Skipped(f"a row labelled {word}")
            return
        for item in _read_columns(known):
            if label is None or isinstance(item, Skipped):
                yield item
                continue
            response = item.exchange.response or Response("")
            labelled = replace(response, signals=(*response.signals, label))
            yield Traced(replace(item.exchange, response=labelled), item.fields)

    return stateless(read)()


def _under_known_names(record: JsonObject, columns: Columns) -> JsonObject:
    """Return a record whose named columns stand under the names of flat rows, and in which nothing else is taken for them."""
    found = {}
    for role, known in _ROLES.items():
        name = getattr(columns, role)
        value = MISSING if name is None else column_at(record, name)
        if value is not MISSING:
            found[known[0]] = value
    replaced = _replaced(columns)
    return {name: value for name, value in record.items() if name not in replaced} | found


@lru_cache(maxsize=64)
def _replaced(columns: Columns) -> frozenset[str]:
    """Return the columns that are not what their names say once others are named for it."""
    names = {name for role, known in _ROLES.items() if getattr(columns, role) is not None for name in known}
    if columns.prompt_field is not None:
        names.add("messages")
    # Texts are no fields to cut a run by; a session or an id may be.
    return frozenset({*names, *filter(None, (columns.response_field, columns.prompt_field))})


def _label_in(record: JsonObject, columns: Columns) -> tuple[Signal | None, str | None]:
    """Return what a person says of a row's response, and the word for it; None twice where nobody said anything."""
    name = columns.label_column
    value = None if name is None else column_at(record, name)
    # NaN, which is how a table of numbers leaves a cell empty, is the only value that differs from itself.
    if name is None or value is MISSING or value is None or value == "" or value != value:  # noqa: PLR0124
        return None, None
    label, word = columns.read_label(value)
    if label is None:
        return None, word
    if label not in _OUTCOMES:
        hint = f"expected one of {', '.join(_OUTCOMES)}, other"
        raise ShapeError(f"label `{word}` is of a prompt, not of a response", hint=hint)
    return Signal(SignalKind.LABEL, name, str(value)[:MAX_LABEL_CHARS], category=str(_OUTCOMES[label])), word


def is_plain(text: str) -> bool:
    """Return whether a cell is the text that it holds, and no JSON of a response, nor a word for nothing."""
    start = text if not text[:1].isspace() else text.strip()
    return start[:1] not in _MARKS or (start[:1] in _WORD_MARKS and text.strip() not in MISSING_WORDS)


_WORD_MARKS = frozenset(word[0] for word in MISSING_WORDS)
_MARKS = frozenset({"{", "["}) | _WORD_MARKS
_NOT_STORED = frozenset({"{}", "[]", "[object Object]", "[REDACTED]", "[redacted]"})
"""What is written in place of a text: the shell of an object, or a mark that it was taken out."""


def _held_response(held: object, column: str, said: Response | None) -> Response | None:
    """Return the response in a column that holds no plain text, with what the row says beside it."""
    if isinstance(held, str):
        text = held.strip()
        read = not_stored() if text in _NOT_STORED else response_in_text(text, path=column)
        if read is None:
            return said
    else:
        # A number may be an answer, or a score, a token, an index: nobody has said.
        read = response_in(held, path=column) if isinstance(held, dict | list) else None
    response = read or response_of_parts((OpaquePart("unread.not_text", encode(held)),))
    beside = said or Response("")
    return replace(response, model=response.model or beside.model, signals=response.signals + beside.signals)


def _with_calls(response: Response | None, held: object) -> Response | None:
    """Return the response with the calls that its row keeps beside it, as objects or as their JSON; a response that has calls keeps them."""
    calls = unwrapped_json(held) if isinstance(held, str) else held
    if not isinstance(calls, list) or not calls:
        return response
    made = message_of({"role": "assistant", "tool_calls": calls}).parts
    said = response or Response("")
    first, *others = said.choices or (Choice(0, ()),)
    if any(isinstance(part, ToolCallPart) for part in first.parts):
        return response
    return replace(said, choices=(replace(first, parts=(*first.parts, *made)), *others))


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
        if type(text) is not str or not text or text.isspace() or not is_plain(text):
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
    names: tuple[str, ...],
    fields: tuple[str, ...],
    columns: Columns = NO_COLUMNS,
    *,
    scalar: AbstractSet[str] = frozenset(),
) -> FlatLayout | None:
    """Return the layout of rows with these columns, None where a row may say more than the layout can express.

    `columns` are those that the user named, `scalar` those whose every cell is known to be a text or a whole number.
    """
    chosen = _chosen(names, columns)
    if chosen is None:
        return None
    (response, *_), prompts, ids, sessions = chosen
    have = frozenset(names) - _replaced(columns)
    if have & _SAYS_MORE or ("label" in have and "label" not in scalar):
        return None
    if len(names) > _MAX_NAMES or max(map(len, names)) > MAX_LABEL_CHARS:
        return None
    # A field that is kept under another name, or inside an object, is the full reader's to find.
    nested = have.intersection(HOLDERS) - scalar
    if any(have & other_spellings(field) or nested - {field} for field in fields):
        return None
    kept = have - _NO_LABELS
    stops = tuple(name for name in _STOPS if name in have)
    wanted = tuple(name if name in kept else None for name in fields)
    return FlatLayout(response, prompts, ids, sessions, stops, "error" if "error" in have else None, wanted)


def _chosen(names: tuple[str, ...], columns: Columns) -> list[tuple[str, ...]] | None:
    """Return the columns of response, prompt, id and session that are there, None where only the full reader finds them."""
    if columns.label_column is not None:
        return None
    free = frozenset(names) - _replaced(columns)
    chosen = []
    for role, known in _ROLES.items():
        named = getattr(columns, role)
        if named is None:
            chosen.append(tuple(name for name in known if name in free))
        elif named in names or "." not in named:
            chosen.append((named,) if named in names else ())
        else:
            return None
    return chosen if chosen[0] else None
