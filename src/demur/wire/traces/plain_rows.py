"""The plainest rows (an id, a prompt, an answer, some labels), read without building an exchange: most rows of most runs.

Laws: whatever is read here is what `flat_rows` reads of the same record; a record with anything that might say more (a
refusal column, an error, a nested object, an odd type) is None, and the full reader takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS
from demur.wire.traces.scalars import NAMES_OF_NORMAL_FIELDS, label_of

if TYPE_CHECKING:
    from demur.wire.interface import JsonObject

__all__ = ["PlainRow", "plain_row"]

PlainRow = tuple[str | None, str | None, str | None, str, tuple[str | None, ...]]
"""Id, prompt, session, answer, and the fields asked for."""

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
    keys = [_first_key(record, names) for names in (plan.ids, plan.sessions)]
    if False in keys:
        return None
    labels = tuple(None if name is None else label_of(record[name]) for name in plan.fields)
    return keys[0] or None, prompt, keys[1] or None, text, labels


def _first_key(record: JsonObject, names: tuple[str, ...]) -> str | bool | None:
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
    if response is None or have & _SAYS_MORE or have & NAMES_OF_NORMAL_FIELDS or len(names) > _MAX_NAMES:
        return None
    prompt = next((name for name in PROMPT_FIELDS if name in have), None)
    ids, sessions = (tuple(name for name in pair if name in have) for pair in (_KEYS[:2], _KEYS[2:]))
    kept = have - {*PROMPT_FIELDS, *RESPONSE_FIELDS, *_KEYS}
    wanted = tuple(name if name in kept else None for name in fields)
    return _Plan(response, prompt, ids, sessions, tuple(name for name in _STOPS if name in have), wanted)
