"""promptfoo's results: a whole `results.json`, or one result per line.

`isRefusal` is the provider's refusal, a flagged guardrail without it a filter.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.formats.fields import fields_of, label_of, object_at, request_of, text_at, unwrapped_json
from demur.formats.interface import stateless
from demur.formats.responses import failure_of, read_each, response_in, response_of_parts, response_of_text
from demur.model.exchange import Exchange, Signal, SignalKind
from demur.model.run import Traced
from demur.wire.fields import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Response
    from demur.model.run import Skipped
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "promptfoo"
_FIELDS = ("success", "score", "failureReason", "promptIdx", "testIdx", "latencyMs", "timestamp")


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a file of results, the summary in one, or one result."""
    return _summary(record) is not None or _is_result(record)


def _read_results(record: JsonObject) -> Iterator[Traced | Skipped]:
    summary = _summary(record)
    if summary is not None:
        # Only the summary has a time; each result is dated by it.
        time = {"timestamp": summary.get("timestamp")}
        rows = ({**time, **row} if isinstance(row, dict) else row for row in summary["results"])
        yield from read_each(rows, _read_result)
    elif _is_result(record):
        yield from _read_result(record)
    else:
        raise ShapeError(
            "expected results, got something else", hint="a result has `promptIdx`, `testIdx` and `prompt`"
        )


def _summary(record: JsonObject) -> JsonObject | None:
    """Return the object whose `results` are the results: the record itself, or its own `results`."""
    inner = record.get("results")
    if isinstance(inner, dict) and isinstance(inner.get("results"), list):
        return inner
    ours = isinstance(inner, list) and "stats" in record and record.keys() & {"prompts", "table"}
    return record if ours else None


def _is_result(record: JsonObject) -> bool:
    placed = isinstance(record.get("prompt"), dict) and "vars" in record
    return placed and bool(record.keys() & {"promptIdx", "testIdx", "failureReason", "namedScores"})


def _read_result(row: JsonObject) -> Iterator[Traced | Skipped]:
    provider = row.get("provider")
    about = provider if isinstance(provider, dict) else {"id": provider}
    model = text_at(about, "label", "id") or ""
    places = [label_of(row.get(name)) for name in ("testIdx", "promptIdx")]
    key = "/".join(place for place in places if place) if all(places) else None
    asked = object_at(row, "vars")
    # Repeats of one test have the same variables, and are one cluster.
    session = blake2b(canonical(asked), digest_size=8).hexdigest() if asked else None
    fields = {
        **{name: row.get(name) for name in _FIELDS},
        "model": model,
        "vars": asked,
        "metadata": {**object_at(object_at(row, "testCase"), "metadata"), **object_at(row, "metadata")},
    }
    rendered = object_at(row, "response").get("prompt") or object_at(row, "prompt").get("raw")
    request = request_of(unwrapped_json(rendered), model) or request_of(rendered, model)
    exchange = Exchange(None, _result_response(row, model), request, key, session)
    yield Traced(exchange, fields_of(fields, skip={"timestamp"}))


def _result_response(row: JsonObject, model: str) -> Response | None:
    response = object_at(row, "response")
    output, stop = response.get("output"), response.get("finishReason")
    guardrails, signals = object_at(response, "guardrails"), tuple[Signal, ...]()
    why = text_at(guardrails, "reason")
    if response.get("isRefusal") is True:
        signals = (Signal(SignalKind.REFUSAL_FIELD, "response.isRefusal", "true", 0, detail=why),)
    elif guardrails.get("flagged") is True:
        signals = (Signal(SignalKind.FILTER_FLAG, "response.guardrails.flagged", "true", 0, detail=why),)
    if isinstance(output, str):
        answer = response_of_text(output, model=model, stop=stop, path="response.finishReason")
    else:
        read = response_in(output, model=model, stop=stop, path="response.output")
        # `error` is also where promptfoo writes why an assertion failed, so it counts only without any output.
        error = response.get("error") or row.get("error")
        if read is None and not signals:
            return failure_of(error, model=model) if error else None
        answer = read or response_of_parts((), model=model)
    return replace(answer, signals=answer.signals + signals)


open_reader = stateless(_read_results)
