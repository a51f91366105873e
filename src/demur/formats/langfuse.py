"""Langfuse's observations, as its API, the download of a trace, its export to blob storage and what SDKs send to it give them.

Only generations are calls; one without an output that did not fail is unread, since nobody stored what was answered. Langfuse's OpenAI integration keeps a message's role, content and tool calls but not its refusal,
so a message without content is an empty response, not a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, pair_key_in, request_of, text_at, unwrapped_json
from demur.formats.interface import Kind, stateless
from demur.formats.responses import describe_kind, failure_of, not_stored, read_each, response_in
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["LANGFUSE_EXPORT", "NAME", "open_reader", "sniffs"]

NAME = "langfuse"
_KINDS = frozenset(
    {"GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"}
)
_NO_FIELDS = frozenset({"input", "output", "statusMessage", "status_message", "body"})


def sniffs(record: JsonObject) -> bool:
    """Return whether this is an observation, a page of them, a trace that holds them, or a batch of events that make them."""
    if _is_batch(record):
        return True
    listed = record.get("observations", record.get("data"))
    first = listed[0] if isinstance(listed, list) and listed else record
    return isinstance(first, dict) and "traceId" in first and _kind_of_observation(first) in _KINDS


def _read_observation(row: JsonObject) -> Iterator[Traced | Skipped]:
    """Yield the call that an observation tells of, in camel case or in snake case."""
    kind = _kind_of_observation(row)
    if kind is None:
        score = row.keys() & {"value", "stringValue", "string_value"} and row.keys() & {"dataType", "data_type"}
        if not score:
            raise ShapeError("`type`: expected a kind of observation, got nothing", hint="scores and traces have none")
        yield Skipped("a score")
    elif kind != "GENERATION":
        yield Skipped(describe_kind(kind, "observation"))
    else:
        metadata = unwrapped_json(row.get("metadata"))
        about: JsonObject = metadata if isinstance(metadata, dict) else {}
        model = text_at(row, "model", "provided_model_name", "providedModelName") or ""
        request = request_of(unwrapped_json(row.get("input")), model)
        session = text_at(row, "sessionId", "session_id") or text_at(row, "traceId", "trace_id")
        # The integration notes why a streamed response ended in the metadata, and nowhere else.
        response = response_in(row.get("output"), model=model, stop=text_at(about, "finish_reason"))
        # A level says how a row is shown, not that a model declined: `ERROR` matters only where there is no output.
        if response is None and row.get("level") == "ERROR":
            why = text_at(row, "statusMessage", "status_message") or "error"
            response = failure_of(why, model=model, path="statusMessage")
        response = response or not_stored(model)
        fields = fields_of({**row, "model": model, "metadata": about}, skip=_NO_FIELDS)
        yield Traced(Exchange(None, response, request, pair_key_in(about), session), fields)


_EVENTS = {"generation": "GENERATION", "span": "SPAN", "event": "EVENT", "observation": None}
"""What an event of the ingestion API makes, by the word before `-create` or `-update`; an observation says its kind itself."""


def _is_batch(record: JsonObject) -> bool:
    batch = record.get("batch")
    return (
        isinstance(batch, list)
        and bool(batch)
        and all(
            isinstance(e, dict) and isinstance(e.get("type"), str) and isinstance(e.get("body"), dict) for e in batch
        )
    )


def _read_batch(batch: list[JsonObject]) -> Iterator[Traced | Skipped]:
    """Yield the observations that the events of a batch make, each with all that was said about it."""
    made: dict[str, JsonObject] = {}
    for at, event in enumerate(batch):
        word, _, verb = event["type"].rpartition("-")
        if word not in _EVENTS or verb not in ("create", "update"):
            yield Skipped(describe_kind(event["type"], "event"))
            continue
        # An update names only what is new, so that what it leaves out stays as it was.
        said = {name: value for name, value in event["body"].items() if value is not None}
        kind = _EVENTS[word]
        label = text_at(said, "id") or f"event {at}"
        made[label] = {**made.get(label, {}), **({"type": kind} if kind else {}), **said}
    yield from read_each(made.values(), _read_observation)


def _read_langfuse(record: JsonObject) -> Iterator[Traced | Skipped]:
    if _is_batch(record):
        yield from _read_batch(record["batch"])
        return
    listed = record.get("observations", record.get("data"))
    if not isinstance(listed, list):
        if "observations" in record or (_kind_of_observation(record) is None and "htmlPath" in record):
            yield Skipped("a trace without observations")
        else:
            yield from _read_observation(record)
        return
    above = {name: record[name] for name in ("sessionId", "userId", "release") if record.get(name) is not None}
    shared = object_at(record, "metadata")
    rows = (
        {**above, **row, "metadata": {**shared, **object_at(row, "metadata")}} if isinstance(row, dict) else row
        for row in listed
    )
    yield from read_each(rows, _read_observation)


def _kind_of_observation(row: JsonObject) -> str | None:
    kind = row.get("type")
    return kind.upper() if isinstance(kind, str) and kind else None


open_reader = stateless(_read_langfuse)


def _sniffs_export(record: JsonObject) -> bool:
    """Return whether this is an exported observation."""
    kind = record.get("type")
    ours = record.keys() & {"start_time", "status_message", "provided_model_name", "parent_observation_id"}
    return isinstance(kind, str) and kind.upper() in _KINDS and "trace_id" in record and bool(ours)


LANGFUSE_EXPORT = Kind("langfuse-export", _sniffs_export, stateless(_read_observation))
"""The export to blob storage: observations in snake case, whose input, output and metadata may be JSON strings."""
