"""CSV and Parquet with a response column, read by DuckDB and judged by our batch function as an Arrow function of its SQL.

Laws: DuckDB reads a table only where it gives the rows that the exact reader gives; where it might not (a column that says
more, a cell of another type, a field that goes by another name, a path that would be a pattern) the exact reader takes the
table. An empty cell of a CSV is null, and a null response a missing answer.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from demur.errors import InputError
from demur.formats.scalars import fields_of, other_homes
from demur.io.sources import Kind, head_of
from demur.io.sql import literal, quoted
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from demur.io.sources import Source

__all__ = ["FlatColumns", "flat_columns"]

_IDS = ("id", "custom_id")
_SESSIONS = ("session_id", "conversation_id")
_STOPS = ("finish_reason", "stop_reason")
_SAYS_MORE = frozenset({"refusal", "is_refusal", "messages", "done_reason"})
_NO_FIELDS = frozenset({*PROMPT_FIELDS, *RESPONSE_FIELDS, *_IDS, *_SESSIONS})
_ASKED = ("response", "prompt", "finish_reason", "refusal", "error")
_RESULT = "STRUCT(prompt BIGINT, outcome VARCHAR, score DOUBLE, reason VARCHAR, cause VARCHAR)"
_VERDICT = quoted("demur:verdict")
_MAX_NAMES = 48
_MAX_LABEL_CHARS = 200


class _Cell(Enum):
    """What the cells of a column hold, as far as their text is the same everywhere."""

    TEXT = auto()
    WHOLE = auto()
    TRUTH = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class FlatColumns:
    """Which columns of a table are what, the first of those that are there; None, or nothing, where it has none."""

    columns: Mapping[str, _Cell]
    response: str
    stop: str | None
    error: str | None

    def register(
        self, connection: duckdb.DuckDBPyConnection, name: str, judge: Callable[[pa.RecordBatch], pa.StructArray]
    ) -> list[InputError]:
        """Make the judge a function of SQL; what it raises of ours is kept in the list that comes back."""
        import pyarrow as pa
        from duckdb.func import FunctionNullHandling, PythonUDFType

        raised: list[InputError] = []

        # DuckDB counts the parameters of a function and evaluates their annotations, which must not name late imports.
        def verdict(response: Any, prompt: Any, stop: Any, refusal: Any, error: Any) -> Any:  # noqa: ANN401 — Arrow arrays
            arrays = [column.combine_chunks() for column in (response, prompt, stop, refusal, error)]
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
        blank = source.kind is Kind.CSV
        prompts = [_text(name, blank=blank) for name in PROMPT_FIELDS if name in self.columns]
        prompt = f"coalesce({', '.join(prompts)})" if prompts else "NULL::VARCHAR"
        response, stop, error = (_text(name, blank=blank) for name in (self.response, self.stop, self.error))
        keys = f"{number}::INTEGER, NULL::BIGINT, {self._key(_IDS)}, {_VERDICT}.prompt, {self._key(_SESSIONS)}"
        verdict = ", ".join(f"{_VERDICT}.{part}" for part in ("score", "outcome", "reason", "cause"))
        kept = "".join(f", {self._label(name)}" for name in fields)
        call = f"{function}({response}, {prompt}, {stop}, NULL::VARCHAR, {error})"
        table = _csv_table(source, tuple(self.columns)) if blank else _parquet_table(source)
        return f"SELECT {keys}, {verdict}{kept} FROM (SELECT *, {call} AS {_VERDICT} FROM {table})"

    def _key(self, names: tuple[str, str]) -> str:
        """Return the first key that is not empty."""
        first, second = (_text(name if name in self.columns else None) for name in names)
        return f"coalesce(nullif({first}, ''), nullif({second}, ''))"

    def _label(self, name: str) -> str:
        """Return a field to cut by: an empty cell, or one too long to be a label, is none."""
        column = _text(name if name in self.columns and name not in _NO_FIELDS else None)
        return f"CASE WHEN length({column}) BETWEEN 1 AND {_MAX_LABEL_CHARS} THEN {column} END"


def flat_columns(source: Source, fields: Sequence[str]) -> FlatColumns | None:
    """Return the columns of a CSV or Parquet file, None where DuckDB is not to read it."""
    columns = _columns(source)
    response = next((name for name in RESPONSE_FIELDS if name in columns), None)
    stops = [name for name in _STOPS if name in columns]
    if response is None or len(stops) > 1 or not _is_plain(source, columns) or not _are_direct(columns, fields):
        return None
    texts = {response, *stops, "error", *PROMPT_FIELDS}
    keys = {*_IDS, *_SESSIONS}
    if any(
        cell is not _Cell.TEXT and (name in texts or (name in keys and cell is not _Cell.WHOLE))
        for name, cell in columns.items()
    ):
        return None
    return FlatColumns(columns, response, stops[0] if stops else None, "error" if "error" in columns else None)


def _is_plain(source: Source, columns: Mapping[str, _Cell]) -> bool:
    """Return whether every row says what it says in the columns that DuckDB is asked for."""
    # DuckDB takes a path for a pattern, and names that differ in case for the same.
    return (
        not glob.has_magic(str(source.path.absolute()))
        and len({name.casefold() for name in columns}) == len(columns)
        and 1 < len(columns) <= _MAX_NAMES
        and max(map(len, columns)) <= _MAX_LABEL_CHARS
        and not columns.keys() & _SAYS_MORE
        and columns.get("label") is not _Cell.TRUTH
    )


def _are_direct(columns: Mapping[str, _Cell], fields: Sequence[str]) -> bool:
    """Return whether the fields are columns themselves, none of them also found under another name or in another form."""
    for field in fields:
        others = dict.fromkeys((name for name in columns if name != field or field == "day"), "2024-01-01")
        homes = {field, *other_homes(field)}
        if any(columns.get(name) is _Cell.OTHER for name in homes) or field in dict(fields_of(others)):
            return False
    return True


def _columns(source: Source) -> dict[str, _Cell]:
    if source.kind is Kind.PARQUET:
        return _parquet_columns(source)
    if source.kind is not Kind.CSV:
        return {}
    import csv

    lines = head_of(source).decode("utf-8", "replace").splitlines(keepends=True)
    names = [name.strip() for name in next(csv.reader(lines, delimiter=source.delimiter), [])]
    return dict.fromkeys(names, _Cell.TEXT) if len(set(names)) == len(names) and all(names) else {}


def _parquet_columns(source: Source) -> dict[str, _Cell]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(source.path)
    except (pa.ArrowException, OSError):
        return {}
    return {field.name: _cell_kind(field.type) for field in schema} if len(set(schema.names)) == len(schema) else {}


def _cell_kind(kind: pa.DataType) -> _Cell:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _Cell.TEXT
    if pa.types.is_integer(kind):
        return _Cell.WHOLE
    return _Cell.TRUTH if pa.types.is_boolean(kind) else _Cell.OTHER


def _text(name: str | None, *, blank: bool = False) -> str:
    """Return a column as text; where `blank`, an empty one is null."""
    if name is None:
        return "NULL::VARCHAR"
    return f"nullif({quoted(name)}, '')" if blank else f"{quoted(name)}::VARCHAR"


def _parquet_table(source: Source) -> str:
    # Folders like `model=x` would otherwise stand for a column of the file.
    return f"read_parquet({literal(str(source.path.absolute()))}, hive_partitioning=false)"


def _csv_table(source: Source, names: Sequence[str]) -> str:
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({literal(str(source.path.absolute()))}, header=true, all_varchar=true, delim='{source.delimiter}', "
        f"quote='\"', escape='\"', compression='{source.compression or 'none'}', auto_detect=false, "
        f"columns={{{columns}}}, strict_mode=true, hive_partitioning=false)"
    )
