"""A run that is in memory already → a file that the engine reads like any other.

Laws: a text is a row whose id is its place, and so is a provider's object that is no dict; rows that are dicts, and Arrow
tables, go in as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import EmptyInputError, UsageError
from demur.wire.document import plain

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["spool_rows"]


def spool_rows(rows: object, path: Path) -> Path:
    """Return the file that rows were written to, by the stem of `path`."""
    table = _arrow_table(rows)
    if table is not None:
        import pyarrow.parquet as pq

        target = path.with_suffix(".parquet")
        pq.write_table(table, target)
        return target
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UsageError("a run is neither a path nor rows", hint="pass a path, a list of rows or texts, or a table")
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, str) and _names_a_file(row) for row in rows):
        raise UsageError(f"`{rows[0][:60]}` is a file, taken for an answer", hint="pass paths as pathlib.Path")
    target = path.with_suffix(".jsonl")
    with target.open("wb") as out:
        count = 0
        for count, row in enumerate(rows, 1):
            out.write(_encoded(_spooled_row(row, count), count) + b"\n")
    if not count:
        raise EmptyInputError("no rows in the run", hint="an empty run is never a pass")
    return target


def _names_a_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):
        return False


def _arrow_table(rows: object) -> pa.Table | None:
    import pyarrow as pa

    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    # A data frame gives the names of its columns when it is iterated, and itself only as Arrow.
    return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else None


def _encoded(row: object, number: int) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:
        return json.dumps(row).encode()
    except (TypeError, ValueError, OverflowError) as exc:
        hint = "rows hold texts, numbers, lists and dicts"
        raise UsageError(f"row {number} is no JSON ({str(exc)[:80].lower()})", hint=hint) from exc


def _spooled_row(row: object, number: int) -> object:
    if isinstance(row, str) or row is None:
        return {"id": str(number), "response": row}
    if isinstance(row, Mapping):
        return dict(row)
    return {"id": str(number), "response": plain(row)}
