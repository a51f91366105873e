"""CSV and Parquet with a response column, read by DuckDB and judged by our batch function as an Arrow function of its SQL.

Laws: columns go by the names that flat rows have; every cell is read as text, an empty or null response being a missing
answer; a table without a response column is left to the exact reader, which says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.adapters.sources import Kind, head_of
from demur.adapters.sql import literal, quoted
from demur.errors import InputError
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import duckdb
    import pyarrow as pa

    from demur.adapters.sources import Source

__all__ = ["FlatColumns", "flat_columns"]

_IDS = ("id", "custom_id")
_SESSIONS = ("session_id", "conversation_id")
_STOPS = ("finish_reason", "stop_reason")
_REFUSALS = ("refusal", "is_refusal")
_ASKED = ("response", "prompt", "finish_reason", "refusal", "error")
_RESULT = "STRUCT(prompt BIGINT, outcome VARCHAR, score DOUBLE, reason VARCHAR, cause VARCHAR)"


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Which columns of a table are what; None where it has none."""

    names: tuple[str, ...]
    response: str
    prompt: str | None
    id: str | None
    session: str | None
    stop: str | None
    refusal: str | None
    error: str | None

    def register(
        self, connection: duckdb.DuckDBPyConnection, name: str, judge: Callable[[pa.RecordBatch], pa.StructArray]
    ) -> list[InputError]:
        """Make the judge a function of SQL; what it raises of ours is kept in the list that comes back."""
        import pyarrow as pa
        from duckdb.func import FunctionNullHandling, PythonUDFType

        raised: list[InputError] = []

        def verdict(*columns: pa.ChunkedArray) -> pa.Array:
            arrays = [column.combine_chunks() for column in columns]
            try:
                return judge(pa.RecordBatch.from_arrays(arrays, names=list(_ASKED)))
            except InputError as exc:
                raised.append(exc)
                raise

        connection.create_function(
            name,
            verdict,
            ["VARCHAR"] * len(_ASKED),
            _RESULT,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        return raised

    def query(self, source: Source, function: str, *, number: int, fields: Sequence[str]) -> str:
        """Return the SELECT that reads a source and judges it."""
        asked = [self.response, self.prompt, self.stop, self.refusal, self.error]
        call = ", ".join(map(_text, asked))
        kept = "".join(f", {_text(name if name in self.names else None)}" for name in fields)
        keys = f"{number}::INTEGER, NULL::BIGINT, {_text(self.id)}, v.prompt, {_text(self.session)}"
        verdict = "v.score, v.outcome, v.reason, v.cause"
        inner = f"SELECT *, {function}({call}) AS v FROM {_table(source)}"
        return f"SELECT {keys}, {verdict}{kept} FROM ({inner})"


def flat_columns(source: Source) -> FlatColumns | None:
    """Return the columns of a CSV or Parquet file, None where DuckDB is not to read it."""
    names = _column_names(source)
    response = _first_of(RESPONSE_FIELDS, names)
    if response is None:
        return None
    error = "error" if "error" in names else None
    prompt, key, session, stop, refusal = (
        _first_of(wanted, names) for wanted in (PROMPT_FIELDS, _IDS, _SESSIONS, _STOPS, _REFUSALS)
    )
    return FlatColumns(names, response, prompt, key, session, stop, refusal, error)


def _column_names(source: Source) -> tuple[str, ...]:
    """Return the names of columns that hold text or numbers."""
    if source.kind is Kind.PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            schema = pq.read_schema(source.path)
        except (pa.ArrowException, OSError):
            return ()
        return tuple(f.name for f in schema if not pa.types.is_nested(f.type) and not pa.types.is_binary(f.type))
    if source.kind is Kind.CSV:
        import csv

        head = head_of(source).decode("utf-8", "replace").splitlines()
        return tuple(next(csv.reader(head[:1], delimiter=source.delimiter), []))
    return ()


def _first_of(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in names), None)


def _text(name: str | None) -> str:
    return "NULL::VARCHAR" if name is None else f"{quoted(name)}::VARCHAR"


def _table(source: Source) -> str:
    path = literal(str(source.path))
    if source.kind is Kind.PARQUET:
        return f"read_parquet({path})"
    compression = source.compression or "none"
    return (
        f"read_csv({path}, header=true, all_varchar=true, delim='{source.delimiter}', quote='\"', escape='\"', "
        f"compression='{compression}', auto_detect=false, columns={_csv_columns(source)}, strict_mode=true)"
    )


def _csv_columns(source: Source) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in _column_names(source))
    return "{" + columns + "}"
