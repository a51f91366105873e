"""Rows of a Braintrust export.

A span of the type `llm` is a call; scorers, tools and functions are skipped. A call is paired by the record of the dataset
that it came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, pair_key_in, request_of, text_at
from demur.formats.responses import describe_kind, failure_of, response_in
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "braintrust"
_FIELDS = ("created", "experiment_id", "project_id")
_ROOTS = frozenset({"eval", "task"})


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a row of an experiment or of a project's logs."""
    return "root_span_id" in record and bool(record.keys() & {"span_attributes", "span_parents", "is_root", "_xact_id"})


def open_reader() -> _Traces:
    """Return a reader for one export."""
    return _Traces()


class _Traces:
    """Reads calls as they come, and keeps roots back until it is known whether their trace has any."""

    def __init__(self) -> None:
        self._called: set[str] = set()
        self._waiting: list[tuple[str, Traced]] = []

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the call that a row tells of."""
        if not sniffs(record):
            raise ShapeError("`root_span_id`: expected a row of an export, got something else")
        about = object_at(record, "span_attributes")
        kind, trace = text_at(about, "type"), text_at(record, "root_span_id") or ""
        if text_at(about, "purpose") == "scorer" or kind == "score":
            yield Skipped("a scorer's span")
        elif kind == "llm":
            self._called.add(trace)
            yield _logged(record)
        # The root of an experiment's row repeats the output of its calls: it is read only where its trace has none, which
        # is not known before the end of the file.
        elif kind is None or (kind in _ROOTS and not record.get("span_parents")):
            self._waiting.append((trace, _logged(record)))
        else:
            yield Skipped(describe_kind(kind, "span"))

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield the roots whose trace has no call of its own."""
        for trace, row in self._waiting:
            yield Skipped("the root of a trace, whose calls are read") if trace in self._called else row
        self._waiting = []


def _logged(row: JsonObject) -> Traced:
    metadata, origin = object_at(row, "metadata"), object_at(row, "origin")
    model = text_at(metadata, "model") or ""
    response = response_in(row.get("output"), model=model)
    if response is None and row.get("error"):
        response = failure_of(row["error"], model=model)
    dataset = text_at(origin, "id") if origin.get("object_type") == "dataset" else None
    key = dataset or text_at(row, "dataset_record_id") or pair_key_in(metadata)
    fields = fields_of({"model": model, "metadata": metadata, **{name: row.get(name) for name in _FIELDS}})
    asked = request_of(row.get("input"), model)
    return Traced(Exchange(None, response, asked, key, text_at(row, "root_span_id")), fields)
