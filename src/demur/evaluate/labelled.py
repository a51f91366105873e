"""Labelled sets, read row by row: JSON lines or CSV.

A row has `label`; the text in `response`, `text`, `completion`, `output` or `answer` (labels of responses), or in
`prompt` or `text` (labels of prompts); optionally `id`, `source`, and `lang`, `model`, `category`, `trap`, `reason`,
each in the row or in its `meta`. Label, text and id may stand in columns that the user named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from demur.errors import EmptyInputError, InputError, JsonError, ShapeError
from demur.io.files import csv_rows, json_rows, open_source
from demur.model.columns import MISSING, NO_COLUMNS, column_at
from demur.model.evaluation import Dimension, Label, LabelledText, Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from demur.io.files import InputLimits
    from demur.model.columns import Columns

__all__ = ["LeftOut", "read_labelled", "source_name"]

_TEXT_KEYS = {Side.RESPONSE: ("response", "text", "completion", "output", "answer"), Side.PROMPT: ("prompt", "text")}
_FACET_KEYS = {
    Dimension.LANGUAGE: ("lang", "language"),
    Dimension.MODEL: ("model",),
    Dimension.CATEGORY: ("category", "cat", "cats", "type", "method", "system"),
    Dimension.TRAP: ("trap",),
    Dimension.REASON: ("reason",),
}

_Row = tuple[int, "Mapping[str, Any] | InputError"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A sound row that has no say, and why."""

    why: str


def read_labelled(
    name: str, limits: InputLimits, columns: Columns = NO_COLUMNS
) -> Iterator[LabelledText | LeftOut | InputError]:
    """Yield the rows of a labelled set, or of standard input (JSON lines) where `name` is `-`.

    Where no row has one of the `columns` that the user named, that is one error.
    """
    source = source_name(name)
    count = 0
    try:
        with open_source(name) as stream:
            is_table = Path(name).suffix.lower() == ".csv"
            rows = _table_rows(stream, limits, columns) if is_table else json_rows(stream, limits)
            for line, row in _with_columns(rows, columns, source):
                count += 1
                try:
                    # An unusable row is an error in its place, and the next one is read all the same.
                    yield row.at(source, line) if isinstance(row, InputError) else _labelled(row, source, line, columns)
                except InputError as exc:
                    yield exc.at(source, line)
    except OSError as exc:
        yield InputError((exc.strerror or "cannot be read").lower(), source=source, hint="check the path")
    except InputError as exc:
        yield exc.at(source, exc.line)
    else:
        if not count:
            yield EmptyInputError("no rows in it", source=source, hint="expected one labelled text a line")


def source_name(name: str) -> str:
    """Return what a file is called in a report: always text that can be written, whatever bytes its name holds."""
    return "<stdin>" if name == "-" else name.encode("utf-8", "replace").decode("utf-8")


def _table_rows(stream: IO[bytes], limits: InputLimits, columns: Columns) -> Iterator[_Row]:
    """Yield the rows of a CSV by the lower-case names of its columns; a column that the user named keeps its own."""
    named = {name for _, name in columns.named()}
    for line, row in csv_rows(stream, limits):
        if isinstance(row, InputError):
            yield line, row
            continue
        cells = {name if name in named else name.lower(): cell for name, cell in row.items()}
        if columns.label_column is None and "label" not in cells:
            hint = f"there are {', '.join(f'`{name}`' for name in row)}; name the column of labels with --label-field"
            raise ShapeError("no `label` in the header", hint=hint)
        yield line, cells


def _with_columns(rows: Iterable[_Row], columns: Columns, source: str) -> Iterator[_Row]:
    """Yield rows; those before one that has the columns that the user named are kept back till it comes, or raise."""
    wanted = {name for _, name in columns.named()}
    waiting: list[_Row] = []
    for line, row in rows:
        waiting.append((line, row))
        if not isinstance(row, InputError):
            wanted = {name for name in wanted if column_at(row, name) is MISSING}
        if not wanted:
            yield from waiting
            waiting = []
    if any(not isinstance(row, InputError) for _, row in waiting):
        columns.check_records((row for _, row in waiting), rows=f"no row of `{source}` has")
    yield from waiting


def _value_at(row: Mapping[str, Any], named: str | None, keys: tuple[str, ...]) -> object:
    """Return what stands in the column that the user named, or else in the first of these that is not empty."""
    value = (
        next((row[key] for key in keys if row.get(key) is not None), None) if named is None else column_at(row, named)
    )
    return None if value is MISSING else value


def _labelled(row: Mapping[str, Any], source: str, line: int, columns: Columns) -> LabelledText | LeftOut:
    label, plain = columns.read_label(_value_at(row, columns.label_column, ("label",)))
    # Not an error: the set's own authors could not decide.
    if label is None:
        return LeftOut(f"labelled {plain}")
    # The label says which side of the exchange is judged, whatever else the row holds.
    named = columns.response_field if label.side is Side.RESPONSE else columns.prompt_field
    keys = (named,) if named else _TEXT_KEYS[label.side]
    text = _value_at(row, named, keys)
    if not isinstance(text, str):
        raise ShapeError(f"no text for a {label.side} label", hint=f"expected a string in {' or '.join(keys)}")
    stem = "stdin" if source == "<stdin>" else Path(source).stem
    key = _value_at(row, columns.id_field, ("id",))
    facets = ((Dimension.SET, _word(row.get("source")) or stem), *_facets(row, plain, label))
    try:
        "".join([text, _word(key), *(value for _, value in facets)]).encode()
    except UnicodeEncodeError as exc:
        # JSON can spell half of a surrogate pair, but no report could be written with it.
        raise JsonError("not JSON (half of a surrogate pair)", hint="expected one JSON object a line") from exc
    return LabelledText(_word(key) or f"{stem}:{line}", text, label, source, line, facets)


def _facets(row: Mapping[str, Any], word: str, label: Label) -> Iterator[tuple[Dimension, str]]:
    meta = row.get("meta")
    places = (row, meta) if isinstance(meta, dict) else (row,)
    for dimension, keys in _FACET_KEYS.items():
        found = next((place[key] for key in keys for place in places if place.get(key) not in (None, "")), None)
        # The spelling of an attack's label says what kind it is: `injection`, `jailbreak`, `extraction`.
        if found is None and dimension is Dimension.CATEGORY and label is Label.ATTACK:
            found = word
        for value in found if isinstance(found, list) else [found]:
            if shown := _word(value):
                yield dimension, shown


def _word(value: object) -> str:
    """Return a name as it can be grouped by: a string or a number, or nothing."""
    return str(value).strip() if isinstance(value, str | int | float) else ""
