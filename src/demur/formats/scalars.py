"""What can a run be cut by? The small values of a trace row, as text; and the door to a row's messages (`turns`).

Laws: nothing here raises, whatever the JSON; a value too long to be a label, or not finite, is no field; `model`, `day`,
`category` and `language` come first, under these names, wherever the row keeps them, so that the limit of 64 never cuts
them off.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from demur.formats.turns import request_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from demur.wire.interface import JsonObject

__all__ = [
    "HOLDERS",
    "MAX_LABEL_CHARS",
    "day_of",
    "fields_of",
    "key_of",
    "label_of",
    "other_spellings",
    "request_of",
    "text_of",
]

_MAX_FIELDS = 64
MAX_LABEL_CHARS = 200
_MAX_INTEGER = 2**64
HOLDERS = ("metadata", "meta", "tags", "attributes", "labels", "properties", "extra", "info", "vars")
"""Objects whose own scalars are the row's, one level down."""
_NORMAL = {
    "model": ("model", "model_name", "modelId", "model_id", "modelVersion"),
    "category": ("category",),
    "language": ("language", "lang"),
}
_TIMES = (
    *("day", "date", "timestamp", "ts", "time", "created", "created_at", "createdAt", "createTime"),
    *("startTime", "start_time", "started_at", "startTimeUnixNano", "start_time_unix_nano"),
)


_UNITS = ((10**17, 10**9), (10**14, 10**6), (10**11, 10**3), (10**8, 1))
"""From which size on an epoch counts in ns, µs, ms and s; what is smaller (before March 1973) is some other number."""
_DAY_CHARS = 8
"""`20240131` is a day and not an epoch."""
_MAX_TIME_CHARS = 40


def fields_of(record: JsonObject, *, skip: AbstractSet[str] = frozenset()) -> tuple[tuple[str, str], ...]:
    """Return the scalars of a row and of its one-level holders as text, the normal names first; at most 64."""
    found: dict[str, str] = {}
    for name, value in _scalars(record, skip):
        label = label_of(value)
        if label is not None:
            found.setdefault(name, label)
    fields = dict(_normal_fields(record, found))
    for name, label in found.items():
        fields.setdefault(name, label)
    return tuple(fields.items())[:_MAX_FIELDS]


def other_spellings(field: str) -> frozenset[str]:
    """Return the names under which a row may keep a field, besides its own; a day is computed from its own column too."""
    return frozenset(_TIMES) if field == "day" else frozenset(_NORMAL.get(field, ())) - {field}


def label_of(value: object) -> str | None:
    """Return a scalar as text, None where it is none, empty, not finite, or too long to be a label."""
    match value:
        case str():
            return value if 0 < len(value) <= MAX_LABEL_CHARS else None
        case bool():
            return "true" if value else "false"
        case int():
            # Python refuses to print very large integers; nobody cuts a run by them.
            return str(value) if abs(value) < _MAX_INTEGER else None
        case float():
            return repr(value) if math.isfinite(value) else None
        case _:
            return None


def key_of(value: object) -> str | None:
    """Return an identity as text, however long; None where it is empty, or neither text nor a whole number."""
    if isinstance(value, str):
        return value or None
    return None if isinstance(value, bool) or not isinstance(value, int) else label_of(value)


def day_of(value: object) -> str | None:
    """Return the ISO date (UTC) of an epoch in s, ms, µs or ns, or of an ISO time; None where it is neither."""
    if isinstance(value, str):
        text = value.strip()[:_MAX_TIME_CHARS]
        if not (text.isascii() and text.isdecimal() and len(text) > _DAY_CHARS):
            return _iso_day(text)
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_INTEGER:
        return None
    unit = next((unit for least, unit in _UNITS if value >= least), None)
    return None if unit is None else datetime.fromtimestamp(value / unit, UTC).date().isoformat()


def _scalars(record: JsonObject, skip: AbstractSet[str]) -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if name in skip or len(name) > MAX_LABEL_CHARS:
            continue
        if name in HOLDERS and isinstance(value, dict):
            yield from ((f"{name}.{key}", item) for key, item in value.items() if len(key) <= MAX_LABEL_CHARS)
        else:
            yield name, value


def _normal_fields(record: JsonObject, found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what has a name of its own wherever it stands: at the top first, then in the holders in their order."""
    for name, spellings in _NORMAL.items():
        places = (*spellings, *(f"{holder}.{spelling}" for holder in HOLDERS for spelling in spellings))
        yield from ((name, found[place]) for place in [next((p for p in places if p in found), None)] if place)
    holders = [record, *(record[name] for name in HOLDERS if isinstance(record.get(name), dict))]
    day = next((day for holder in holders for name in _TIMES if (day := day_of(holder.get(name)))), None)
    yield from (("day", day),) if day else ()


def _iso_day(text: str) -> str | None:
    try:
        time = datetime.fromisoformat(text)
        return (time.astimezone(UTC) if time.tzinfo else time).date().isoformat()
    except (OverflowError, ValueError):
        return None
