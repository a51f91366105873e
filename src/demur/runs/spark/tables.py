"""A Spark table of plain columns → the columns that the batch judge asks for, by the rules of the embedded engine.

Laws: those of `flat_tables`, which decides whether a table is plain: keys are the first that is not empty, an empty label or
one too long is none, prompts are the first that is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.runs.spark.rows import ASKED, FILE, LINE, START
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from demur.runs.flat_tables import FlatColumns

__all__ = ["plain_frame", "ticked"]

_IDS = ("id", "custom_id")
_SESSIONS = ("session_id", "conversation_id")
_NO_FIELDS = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS, *_IDS, *_SESSIONS})
_MAX_LABEL_CHARS = 200


def ticked(name: str) -> str:
    """Return a name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def plain_frame(raw: DataFrame, flat: FlatColumns, fields: Sequence[str]) -> DataFrame:
    """Return the columns of a plain table under the names that they are judged by."""
    prompts = [_as_text(name, flat) for name in PROMPT_FIELDS if name in flat.columns]
    prompt = f"coalesce({', '.join(prompts)})" if prompts else _as_text(None, flat)
    said = (flat.response, None, flat.stop, None, flat.error)
    asked = {name: _as_text(column, flat) for name, column in zip(ASKED, said, strict=True)} | {"prompt": prompt}
    keys = {"id": _first_key(_IDS, flat), "session": _first_key(_SESSIONS, flat)}
    labels = {f"field:{name}": _label(name, flat) for name in fields}
    chosen = [f"{query} AS {ticked(name)}" for name, query in (asked | keys | labels).items()]
    return raw.selectExpr(*chosen, *(ticked(name) for name in (FILE, START, LINE)))


def _as_text(name: str | None, flat: FlatColumns) -> str:
    return f"CAST({ticked(name)} AS STRING)" if name is not None and name in flat.columns else "CAST(NULL AS STRING)"


def _first_key(names: tuple[str, str], flat: FlatColumns) -> str:
    first, second = (_as_text(name, flat) for name in names)
    return f"coalesce(nullif({first}, ''), nullif({second}, ''))"


def _label(name: str, flat: FlatColumns) -> str:
    column = _as_text(None if name in _NO_FIELDS else name, flat)
    return f"CASE WHEN char_length({column}) BETWEEN 1 AND {_MAX_LABEL_CHARS} THEN {column} END"
