"""What comes beside the files of a run: rows in memory, and the requests of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from demur.errors import EmptyInputError, ShapeError, UsageError
from demur.io.records import named_rows
from demur.wire.fields import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from demur.io.files import InputLimits
    from demur.model.exchange import Request

__all__ = ["prompts_of", "read_requests", "spool_rows"]


def spool_rows(rows: object, path: Path) -> Path:
    """Return the file that rows were written to, by the stem of `path`."""
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    # A data frame gives the names of its columns when it is iterated, and itself only as Arrow.
    elif not isinstance(rows, pa.Table) and hasattr(rows, "__arrow_c_stream__"):
        rows = pa.table(rows)
    if isinstance(rows, pa.Table):
        import pyarrow.parquet as pq

        target = path.with_suffix(".parquet")
        pq.write_table(rows, target)
        return target
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UsageError("a run is neither a path nor rows", hint="pass a path, a list of rows or texts, or a table")
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, str) and _names_a_file(row) for row in rows):
        raise UsageError(f"`{rows[0][:60]}` is a file, taken for an answer", hint="pass paths as pathlib.Path")
    target = path.with_suffix(".jsonl")
    with target.open("wb") as out:
        count = 0
        for count, row in enumerate(rows, 1):
            out.write(_encoded_row(row, count) + b"\n")
    if not count:
        raise EmptyInputError("no rows in the run", hint="an empty run is never a pass")
    return target


def _names_a_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):
        return False


def _encoded_row(row: object, number: int) -> bytes:
    """Return a row as a line of JSON; a text, and a provider's object that is no dict, is a row whose id is its number."""
    if not isinstance(row, Mapping):
        row = {"id": str(number), "response": row if isinstance(row, str) or row is None else plain(row)}
    try:
        return msgspec.json.encode(dict(row))
    except UnicodeEncodeError:
        # msgspec does not write half of a surrogate pair; `json` escapes it.
        return json.dumps(dict(row)).encode()
    except (TypeError, ValueError, OverflowError) as exc:
        hint = "rows hold texts, numbers, lists and dicts"
        raise UsageError(f"row {number} is no JSON ({str(exc)[:80].lower()})", hint=hint) from exc


def read_requests(names: Sequence[str], spool: Path, limits: InputLimits) -> Iterator[tuple[str, Request]]:
    """Yield the requests that were sent to a batch, each with its `custom_id`; a row that is none is an error."""
    from demur.formats.batch import read_request_row

    for source, line, record in named_rows(names, spool, limits):
        row = read_request_row(record)
        if row is None:
            hint = "expected `custom_id` with `body` or `params`, as sent to the batch"
            raise ShapeError("no request of a batch", source=source, line=line, hint=hint)
        yield row


def prompts_of(
    names: Sequence[str], spool: Path, wanted: AbstractSet[str], *, limits: InputLimits
) -> Mapping[str, str]:
    """Return the prompts of these ids, read again from the requests: texts are kept nowhere in between."""
    if not wanted or not names:
        return {}
    return {label: request.prompt for label, request in read_requests(names, spool, limits) if label in wanted}
