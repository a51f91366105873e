"""Tables with a response column (CSV, Parquet, Spark's frames), read by the engines' own SQL and judged a batch of columns at a time.

An engine reads a table itself only where that gives the rows that the exact reader (`formats.flat_rows`) gives; where it might not (a
column that says more, a cell of another type, a field under another name) the exact reader takes the table.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from demur.errors import InputError
from demur.formats.fields import MAX_LABEL_CHARS
from demur.formats.flat_rows import flat_layout
from demur.io.sources import Kind, head_of
from demur.model.columns import NO_COLUMNS
from demur.runs.sql import DUCKDB, literal
from demur.wire.flat import RESPONSE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import duckdb
    import pyarrow as pa

    from demur.formats.flat_rows import FlatLayout
    from demur.io.sources import Source
    from demur.model.columns import Columns
    from demur.runs.sql import Dialect

__all__ = ["JUDGED_COLUMNS", "FlatTable", "flat_table"]

JUDGED_COLUMNS = ("response", "prompt", "finish_reason", "error")
"""What the batch judge is given of each row."""
# The prompt comes back as its hash: DuckDB keeps no text.
_RESULT = "STRUCT(prompt BIGINT, outcome VARCHAR, score DOUBLE, reason VARCHAR, cause VARCHAR)"
_VERDICT = DUCKDB.name("demur:verdict")
_MAX_COLUMNS = 1000
_NULL = "CAST(NULL AS STRING)"


class _Cell(Enum):
    """What the cells of a column hold, as far as both readers write it as the same text."""

    TEXT = auto()
    WHOLE = auto()
    TRUTH = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class FlatTable:
    """The columns of a table, in their order, and which of them is what."""

    names: tuple[str, ...]
    layout: FlatLayout
    fields: tuple[str, ...]

    def select(self, dialect: Dialect, *, blank: bool = False) -> dict[str, str]:
        """Return the SQL for what is judged of a row and kept with it; where `blank`, an empty cell is null."""

        def text(name: str | None) -> str:
            return _NULL if name is None else f"CAST({dialect.name(name)} AS STRING)"

        def cell(name: str | None) -> str:
            return f"nullif({text(name)}, '')" if blank and name is not None else text(name)

        def first(columns: Sequence[str]) -> str:
            return f"coalesce({', '.join(columns)}, {_NULL})" if columns else _NULL

        layout = self.layout
        # A label is a text of 1 to 200 characters: the rule of `label_of`.
        labels = {
            f"field:{field}": f"CASE WHEN length({text(name)}) BETWEEN 1 AND {MAX_LABEL_CHARS} THEN {text(name)} END"
            for field, name in zip(self.fields, layout.fields, strict=True)
        }
        return {
            "response": cell(layout.response),
            "prompt": first([cell(name) for name in layout.prompts]),
            "finish_reason": cell(layout.stops[0] if layout.stops else None),
            "error": cell(layout.error),
            "id": first([f"nullif({text(name)}, '')" for name in layout.ids]),
            "session": first([f"nullif({text(name)}, '')" for name in layout.sessions]),
            **labels,
        }

    def duckdb_query(self, source: Source, function: str, *, number: int) -> str:
        """Return DuckDB's SELECT that reads a source and judges it by a function that was registered."""
        chosen = self.select(DUCKDB, blank=source.kind is Kind.CSV)
        call = f"{function}({', '.join(chosen[name] for name in JUDGED_COLUMNS)})"
        verdict = ", ".join(f"{_VERDICT}.{part}" for part in ("score", "outcome", "reason", "cause"))
        labels = "".join(f", {chosen[f'field:{field}']}" for field in self.fields)
        keys = f"{number}::INTEGER, NULL::BIGINT, {chosen['id']}, {_VERDICT}.prompt, {chosen['session']}"
        path = literal(str(source.path.absolute()))
        if source.kind is Kind.CSV:
            columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.names)
            table = (
                f"read_csv({path}, header=true, all_varchar=true, delim='{source.delimiter}', quote='\"', escape='\"', "
                f"compression='{source.compression or 'none'}', auto_detect=false, columns={{{columns}}}, "
                "strict_mode=true, hive_partitioning=false)"
            )
        else:
            # With Hive's partitioning a folder called `model=x` would become a column of the file.
            table = f"read_parquet({path}, hive_partitioning=false)"
        return f"SELECT {keys}, {verdict}{labels} FROM (SELECT *, {call} AS {_VERDICT} FROM {table})"


def register_judge(
    connection: duckdb.DuckDBPyConnection, name: str, judge: Callable[[pa.RecordBatch], pa.StructArray]
) -> list[InputError]:
    """Make the judge a function of DuckDB's SQL; what it raises of ours is kept in the list that comes back."""
    import pyarrow as pa
    from duckdb.func import FunctionNullHandling, PythonUDFType

    raised: list[InputError] = []

    # DuckDB counts the parameters of a function and evaluates their annotations, which must not name late imports.
    def verdict(response: Any, prompt: Any, stop: Any, error: Any) -> Any:  # noqa: ANN401 — Arrow arrays
        arrays = [column.combine_chunks() for column in (response, prompt, stop, error)]
        try:
            return judge(pa.RecordBatch.from_arrays(arrays, names=list(JUDGED_COLUMNS)))
        except InputError as exc:
            raised.append(exc)
            raise

    connection.create_function(
        name,
        verdict,
        ["VARCHAR"] * len(JUDGED_COLUMNS),
        _RESULT,
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )
    return raised


def flat_table(source: Source, fields: tuple[str, ...], columns: Columns = NO_COLUMNS) -> FlatTable | None:
    """Return the columns of a CSV or Parquet file, None where the exact reader must take it; `columns` are those the user named."""
    cells = _cells(source)
    # DuckDB takes a path with wildcards for a pattern, and names that differ in case for the same; in a CSV of one column a blank
    # line is a row to one reader and none to the other.
    ambiguous = len({name.casefold() for name in cells}) < len(cells) or len(cells) < 2  # noqa: PLR2004
    if ambiguous or glob.has_magic(str(source.path.absolute())):
        return None
    scalar = frozenset(name for name, cell in cells.items() if cell in (_Cell.TEXT, _Cell.WHOLE))
    layout = flat_layout(tuple(cells), fields, columns, scalar=scalar)
    if layout is None or len(layout.stops) > 1 or len(cells) > _MAX_COLUMNS:
        return None
    # Of several columns for the response a row's own is the first that holds something: the exact reader looks.
    if columns.response_field is None and len(cells.keys() & set(RESPONSE_FIELDS)) > 1:
        return None
    texts = {layout.response, *layout.prompts, *layout.stops, *([layout.error] if layout.error else ())}
    allowed: list[tuple[tuple[str | None, ...] | set[str], tuple[_Cell, ...]]] = [
        (texts, (_Cell.TEXT,)),
        (layout.ids + layout.sessions, (_Cell.TEXT, _Cell.WHOLE)),
        (layout.fields, (_Cell.TEXT, _Cell.WHOLE, _Cell.TRUTH)),
    ]
    if any(name is not None and cells[name] not in kinds for names, kinds in allowed for name in names):
        return None
    return FlatTable(tuple(cells), layout, fields)


def _cells(source: Source) -> Mapping[str, _Cell]:
    """Return the columns of a table and what their cells hold, none where a name is used twice or the file is no table."""
    if source.kind is Kind.CSV:
        import csv

        lines = head_of(source).decode("utf-8", "replace").splitlines(keepends=True)
        names = [name.strip() for name in next(csv.reader(lines, delimiter=source.delimiter), [])]
        return dict.fromkeys(names, _Cell.TEXT) if len(set(names)) == len(names) and all(names) else {}
    if source.kind is not Kind.PARQUET:
        return {}
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(source.path)
    except (pa.ArrowException, OSError):
        # The exact reader says what is wrong with the file.
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
