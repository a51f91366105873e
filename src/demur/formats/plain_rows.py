"""The plainest rows (an id, a prompt, an answer, some labels), read without building an exchange: most rows of most runs.

Laws: whatever is read here is what `flat_rows` reads of the same record; a record with anything that might say more (a
refusal column, an error, a nested object, an odd type) is None, and the full reader takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from demur.formats.scalars import label_of, other_homes
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.wire.interface import JsonObject

__all__ = ["PlainColumns", "PlainRow", "plain_columns", "plain_row"]

PlainRow = tuple[str | None, str | None, str | None, str, tuple[str | None, ...]]
"""Id, prompt, session, answer, and the fields asked for."""

PlainColumns = tuple[list[str | None], list[str | None], list[str | None], list[str], tuple[list[str | None], ...]]
"""The same, column by column."""

_KEYS = ("id", "custom_id", "session_id", "conversation_id")
_STOPS = ("finish_reason", "stop_reason")
_SAYS_MORE = frozenset({"refusal", "is_refusal", "label", "error", "messages", "done_reason"})
_ORDINARY = frozenset({None, "stop", "end_turn", "length", "max_tokens", "stop_sequence"})
_MAX_NAMES = 48


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where things stand in records with one set of names."""

    response: str
    prompt: str | None
    ids: tuple[str, ...]
    sessions: tuple[str, ...]
    stops: tuple[str, ...]
    fields: tuple[str | None, ...]


def plain_row(record: JsonObject, fields: tuple[str, ...]) -> PlainRow | None:
    """Return a record's row, None where the full reader must take it."""
    plan = _plan(tuple(record), fields)
    if plan is None:
        return None
    text = record[plan.response]
    if not isinstance(text, str) or not text.strip():
        return None
    prompt = record[plan.prompt] if plan.prompt else None
    if plan.prompt and not isinstance(prompt, str):
        return None
    if any(not isinstance(stop := record[name], str | None) or stop not in _ORDINARY for name in plan.stops):
        return None
    key, session = (_first_key(record, names) for names in (plan.ids, plan.sessions))
    if isinstance(key, bool) or isinstance(session, bool):
        return None
    labels = tuple(None if name is None else label_of(record[name]) for name in plan.fields)
    return key, prompt, session, text, labels


def plain_columns(records: Sequence[JsonObject], fields: tuple[str, ...]) -> PlainColumns | None:
    """Return the rows of records that all have the same names, None where one of them is not as plain as that."""
    names = tuple(records[0]) if records else ()
    plan = _plan(names, fields)
    if plan is None or any(tuple(record) != names for record in records):
        return None
    texts = [record[plan.response] for record in records]
    prompts = [record[plan.prompt] for record in records] if plan.prompt else [None] * len(records)
    ends = {record[name] if isinstance(record[name], str | None) else "" for name in plan.stops for record in records}
    ids, sessions = (_key_column(records, names) for names in (plan.ids, plan.sessions))
    if not (set(map(type, texts)) == {str} and all(map(str.strip, texts)) and ends <= _ORDINARY):
        return None
    if (plan.prompt and set(map(type, prompts)) != {str}) or ids is None or sessions is None:
        return None
    labels = tuple([None if name is None else label_of(r[name]) for r in records] for name in plan.fields)
    return ids, prompts, sessions, texts, labels


def _key_column(records: Sequence[JsonObject], names: tuple[str, ...]) -> list[str | None] | None:
    """Return the first key of each record, None where one is neither text nor null."""
    keys: list[str | None] = []
    for record in records:
        key = _first_key(record, names)
        if key is False:
            return None
        keys.append(key)
    return keys


def _first_key(record: JsonObject, names: tuple[str, ...]) -> str | Literal[False] | None:
    """Return the first key that is there; False where it is neither text nor null."""
    for name in names:
        value = record[name]
        if value is not None and not isinstance(value, str):
            return False
        if value:
            return value
    return None


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...], fields: tuple[str, ...]) -> _Plan | None:
    have = frozenset(names)
    response = next((name for name in RESPONSE_FIELDS if name in have), None)
    if response is None or have & _SAYS_MORE or len(names) > _MAX_NAMES or "day" in fields:
        return None
    if any(have & other_homes(field) for field in fields):
        return None
    prompt = next((name for name in PROMPT_FIELDS if name in have), None)
    ids, sessions = (tuple(name for name in pair if name in have) for pair in (_KEYS[:2], _KEYS[2:]))
    kept = have - {*PROMPT_FIELDS, *RESPONSE_FIELDS, *_KEYS}
    wanted = tuple(name if name in kept else None for name in fields)
    return _Plan(response, prompt, ids, sessions, tuple(name for name in _STOPS if name in have), wanted)
