"""LangSmith's runs, also those nested as `child_runs`, and the batches in which SDKs send them: `post` begins a run, `patch` ends it.

Only runs of the type `llm` are calls; the example that a run came from is its pair key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, pair_key_in, request_of, text_at
from demur.formats.interface import stateless
from demur.formats.responses import (
    describe_kind,
    failure_of,
    parts_and_stop,
    read_each,
    response_in,
    response_of_choices,
)
from demur.model.exchange import Exchange
from demur.model.run import Skipped, Traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part, Response
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "langsmith"
_THREADS = ("session_id", "thread_id", "conversation_id")
_FIELDS = ("name", "start_time", "status")
_MAX_RUNS = 100_000


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a run, or a batch of them."""
    if _is_batch(record):
        return True
    known = {"trace_id", "dotted_order", "session_id", "parent_run_id", "child_runs", "reference_example_id"}
    return isinstance(record.get("run_type"), str) and "inputs" in record and bool(record.keys() & known)


def _is_batch(record: JsonObject) -> bool:
    listed = [record[name] for name in ("post", "patch") if name in record]
    runs = [run for runs in listed if isinstance(runs, list) for run in runs]
    return bool(runs) and all(isinstance(run, dict) and "id" in run and "dotted_order" in run for run in runs)


def _read_batch(record: JsonObject) -> Iterator[Traced | Skipped]:
    """Yield the runs of a batch, each with what its `post` and its `patch` say."""
    made: dict[str, JsonObject] = {}
    for run in (*(record.get("post") or ()), *(record.get("patch") or ())):
        # What a `patch` leaves empty stays as the `post` said it.
        said = {name: value for name, value in run.items() if value not in (None, {}, [])}
        label = str(run["id"])
        made[label] = {**made.get(label, {}), **said}
    for run in made.values():
        # A patch whose post was sent in a batch before does not say what kind of run it ends.
        if "run_type" not in run:
            yield Skipped("the end of a run whose beginning is in another batch")
        else:
            yield from read_each([run], _read_run)


def _read_runs(record: JsonObject) -> Iterator[Traced | Skipped]:
    if _is_batch(record):
        yield from _read_batch(record)
        return
    if not isinstance(record.get("run_type"), str):
        raise ShapeError("`run_type`: expected a string, got something else")
    yield from _read_run(record)
    yield from read_each(_descendants(record), _read_run)


def _descendants(record: JsonObject) -> Iterator[JsonObject]:
    """Yield the runs within a run, parents before children, each before its younger siblings."""
    waiting = [record]
    for _ in range(_MAX_RUNS):
        if not waiting:
            return
        run = waiting.pop()
        if run is not record:
            yield run
        children = run.get("child_runs")
        held = [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []
        waiting += reversed(held)


def _read_run(run: JsonObject) -> Iterator[Traced | Skipped]:
    kind = run.get("run_type")
    if kind != "llm":
        yield Skipped(describe_kind(kind, "run"))
        return
    extra = object_at(run, "extra")
    metadata, settings = object_at(extra, "metadata"), object_at(extra, "invocation_params")
    model = text_at(metadata, "ls_model_name") or text_at(settings, "model", "model_name") or ""
    key = text_at(run, "reference_example_id") or pair_key_in(metadata)
    # `session_id` of a run is the project, so the cluster is the thread in the metadata, else the trace.
    session = text_at(metadata, *_THREADS) or text_at(run, "trace_id")
    response = _run_response(run, model)
    model = model or (response.model if response else "")
    inputs = object_at(run, "inputs")
    prompts = inputs.get("prompts")
    asked = request_of(prompts[:1] if isinstance(prompts, list) else inputs, model)
    fields = fields_of({"model": model, "metadata": metadata, **{name: run.get(name) for name in _FIELDS}})
    yield Traced(Exchange(None, response, asked, key, session), fields)


def _run_response(run: JsonObject, model: str) -> Response | None:
    outputs = object_at(run, "outputs")
    batches = outputs.get("generations")
    # The first of a batch is the response to the first of the prompts.
    first = batches[0] if isinstance(batches, list) and batches else None
    generations = first if isinstance(first, list) else batches
    if isinstance(generations, list) and generations:
        told: list[tuple[tuple[Part, ...], Any]] = []
        for item in generations:
            if isinstance(item, dict):
                # LangChain keeps a refusal and the stop word in objects of its own.
                parts, stop = parts_and_stop(object_at(item, "message") or {"content": item.get("text")})
                about = object_at(item, "generation_info")
                told.append((parts, text_at(about, "finish_reason", "stop_reason", "finishReason") or stop))
        name = text_at(object_at(outputs, "llm_output"), "model_name") or model
        return response_of_choices(told, model=name, path="generation_info.finish_reason")
    if outputs:
        return response_in(outputs, model=model, path="outputs")
    return failure_of(run["error"], model=model) if run.get("error") else None


open_reader = stateless(_read_runs)
