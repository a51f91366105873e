"""Inspect's logs: a whole `.json` document, or the header and samples of an `.eval` archive one by one.

A sample is one exchange; its epochs share its id, which is both the pair key and the cluster. A sample that failed before
any response is missing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from demur.errors import ShapeError
from demur.formats.fields import fields_of, label_of, message_of, object_at, request_of, text_at
from demur.formats.responses import failure_of, read_each, response_of_choices
from demur.model.exchange import Exchange, Finish, SignalKind
from demur.model.run import Skipped, Traced
from demur.wire.blocks import says_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Response, Signal
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "inspect"


def sniffs(record: JsonObject) -> bool:
    """Return whether this is a log, the header of one, or a sample."""
    return _is_header(record) or _is_sample(record)


def open_reader() -> _Samples:
    """Return a reader for one log."""
    return _Samples()


class _Samples:
    """Reads samples by the header that came before them."""

    def __init__(self) -> None:
        self._header: JsonObject = {}

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the samples of a document, or the one that the record is."""
        if _is_header(record):
            self._header = object_at(record, "eval")
            samples = record.get("samples")
            if isinstance(samples, list):
                yield from read_each(samples, self._read_sample)
            else:
                yield Skipped("the header of a log")
        elif _is_sample(record):
            yield from self._read_sample(record)
        else:
            raise ShapeError("expected a log or a sample, got something else", hint="a sample has `epoch` and `input`")

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield nothing: a sample stands for itself."""
        return iter(())

    def _read_sample(self, sample: JsonObject) -> Iterator[Traced | Skipped]:
        output = object_at(sample, "output")
        model = text_at(output, "model") or text_at(self._header, "model") or ""
        key = label_of(sample.get("id"))
        request = request_of(sample.get("input"), text_at(self._header, "model") or model)
        row = {
            "model": model,
            "task": self._header.get("task"),
            "epoch": sample.get("epoch"),
            "started_at": sample.get("started_at") or self._header.get("created"),
            "metadata": sample.get("metadata"),
        }
        exchange = Exchange(None, _sampled(sample, output, model), request, key, key)
        yield Traced(exchange, fields_of(row, skip={"started_at"}))


def _is_header(record: JsonObject) -> bool:
    header = record.get("eval")
    return isinstance(header, dict) and bool(header.keys() & {"eval_id", "run_id", "task", "task_id"})


def _is_sample(record: JsonObject) -> bool:
    return {"id", "epoch", "input"} <= record.keys() and isinstance(record.get("output"), dict)


def _sampled(sample: JsonObject, output: JsonObject, model: str) -> Response | None:
    listed = output.get("choices")
    choices = [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []
    if choices:
        told = []
        for choice in choices:
            message = object_at(choice, "message")
            content = message.get("content")
            items = [_refusal_part(item) for item in content] if isinstance(content, list) else content
            parts = message_of({**message, "role": "assistant", "content": items}).parts
            told.append((parts, choice.get("stop_reason")))
        response = response_of_choices(told, model=model, path="stop_reason")
        return msgspec.structs.replace(
            response, signals=tuple(_detailed(signal, choices) for signal in response.signals)
        )
    # An error is an object with `message`; what a user's own code wrote may be anything.
    error = sample.get("error") or output.get("error")
    if not error:
        return None
    return failure_of(text_at(error, "message") or error if isinstance(error, dict) else error, model=model)


def _refusal_part(item: Any) -> Any:
    """Return a text that Inspect marks as a refusal as the refusal part it was."""
    # Inspect marks the sentence of a provider's 400 too, which no model wrote: the stop reason says that a filter did it.
    if not isinstance(item, dict) or item.get("refusal") is not True or says_block(text_at(item, "text") or ""):
        return item
    return {"type": "refusal", "refusal": text_at(item, "text") or ""}


def _detailed(signal: Signal, choices: list[JsonObject]) -> Signal:
    """Return a stop's signal with what `stop_details` adds to it."""
    # Inspect writes a provider's refusal as the stop reason `content_filter`; only `stop_details` tells them apart.
    if signal.kind is not SignalKind.FILTER_STOP or signal.choice is None:
        return signal
    details = object_at(choices[signal.choice], "stop_details")
    kind = SignalKind.REFUSAL_STOP if text_at(details, "type") == Finish.REFUSAL else signal.kind
    return replace(signal, kind=kind, category=text_at(details, "category"), detail=text_at(details, "explanation"))
