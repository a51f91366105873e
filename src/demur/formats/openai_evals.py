"""Event logs of OpenAI's evals library.

Only events of the type `sampling` are calls; a sample's events are one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, label_of, object_at, request_of, text_at
from demur.formats.responses import response_in, response_of_choices, response_of_text
from demur.model.exchange import Exchange, TextPart
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Response
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "openai-evals"


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a run's specification, its report, or one of its events."""
    if isinstance(record.get("spec"), dict) and "eval_name" in record["spec"]:
        return True
    if "final_report" in record and "run_id" in record:
        return True
    return {"event_id", "sample_id", "type"} <= record.keys() and isinstance(record.get("data"), dict)


def open_reader() -> _Events:
    """Return a reader for one log."""
    return _Events()


class _Events:
    """Reads events by the specification that came before them."""

    def __init__(self) -> None:
        self._model = ""

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the call that an event tells of."""
        spec = record.get("spec")
        if isinstance(spec, dict):
            models = spec.get("completion_fns")
            first = models[0] if isinstance(models, list) and models else None
            self._model = first if isinstance(first, str) else ""
            yield Skipped("the specification of the run")
        elif "final_report" in record:
            yield Skipped("the report of the run")
        elif not isinstance(record.get("type"), str):
            raise ShapeError("`type`: expected a string, got something else", hint="an event has `type` and `data`")
        elif record["type"] != "sampling":
            yield Skipped(f"a `{record['type'][:40]}` event")
        else:
            data = object_at(record, "data")
            model = text_at(data, "model") or self._model
            key = label_of(record.get("sample_id"))
            row = {"model": model, "created_at": record.get("created_at"), "run_id": record.get("run_id")}
            exchange = Exchange(None, _sampled(data, model), request_of(data.get("prompt"), model), key, key)
            yield Traced(exchange, fields_of({**row, "metadata": data.get("metadata")}, skip={"created_at"}))

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield nothing: an event stands for itself."""
        return iter(())


def _sampled(data: JsonObject, model: str) -> Response | None:
    sampled = data.get("sampled")
    if isinstance(sampled, str):
        return response_of_text(sampled, model=model)
    if isinstance(sampled, list) and sampled and all(isinstance(text, str) for text in sampled):
        return response_of_choices([((TextPart(text),) if text else (), None) for text in sampled], model=model)
    # An empty list is a call that brought nothing back.
    return response_in(sampled or None, model=model, path="data.sampled")
