"""The questions of a batch, which stand in another file than its answers, joined on `custom_id`.

Laws: a row that is no request is an error that names it; texts are looked up again when they are to be shown, and kept
nowhere in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import EmptyInputError, ShapeError
from demur.formats.batch import read_request_row
from demur.io.records import named_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from demur.io.config import InputLimits
    from demur.model.exchange import Request
    from demur.runs.engine import Engine, LoadedRun

__all__ = ["join_requests", "prompts_of"]

_ROWS_AT_ONCE = 20_000


def join_requests(
    engine: Engine,
    run: LoadedRun,
    names: Sequence[str],
    *,
    limits: InputLimits,
    key: Callable[[str | None], int | None],
) -> None:
    """Give the rows of a run that have no prompt of their own the key of what their request asked.

    Where there are such rows and no request is of any of them, the wrong file was named, and that is an error.
    """
    import pyarrow as pa

    engine.ask("CREATE OR REPLACE TEMP TABLE requests (id VARCHAR, prompt BIGINT, model VARCHAR)")
    rows: list[tuple[str, int | None, str | None]] = []
    schema = pa.schema([("id", pa.string()), ("prompt", pa.int64()), ("model", pa.string())])

    def flush() -> None:
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        engine.insert("requests", pa.RecordBatch.from_arrays(arrays, schema=schema))
        rows.clear()

    for label, request in _requests(engine, names, limits):
        rows.append((label, key(request.prompt), request.model or None))
        if len(rows) >= _ROWS_AT_ONCE:
            flush()
    flush()
    lacking, found = engine.ask(
        f"SELECT count(*), count(*) FILTER (id IN (SELECT id FROM requests)) FROM {run.table} WHERE prompt IS NULL"
    )[0]
    if lacking and not found:
        raise EmptyInputError(
            f"no request is of a row in `{run.name}`",
            source=" ".join(names),
            hint="name the file that was sent to the batch: its `custom_id` pairs with the answers'",
        )
    engine.ask(
        f"UPDATE {run.table} SET prompt = r.prompt FROM requests r WHERE {run.table}.id = r.id AND {run.table}.prompt IS NULL"
    )


def prompts_of(
    engine: Engine, names: Sequence[str], wanted: AbstractSet[str], *, limits: InputLimits
) -> Mapping[str, str]:
    """Return the prompts of these ids, read again from the requests."""
    if not wanted or not names:
        return {}
    return {label: request.prompt for label, request in _requests(engine, names, limits) if label in wanted}


def _requests(engine: Engine, names: Sequence[str], limits: InputLimits) -> Iterator[tuple[str, Request]]:
    for source, line, record in named_rows(names, engine.folder, limits):
        row = read_request_row(record)
        if row is None:
            hint = "expected `custom_id` with `body` or `params`, as sent to the batch"
            raise ShapeError("no request of a batch", source=source, line=line, hint=hint)
        yield row
