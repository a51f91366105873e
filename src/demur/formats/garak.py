"""garak's reports (`*.report.jsonl`): attempts among entries that say how a run was set up and what detectors made of it.

garak writes an attempt when its outputs have come (status 1) and again when detectors have looked at them (status 2): it is one
attempt. Each output is an exchange of its own; those of one attempt are a cluster. The field names are those of
`garak.attempt.Attempt.as_dict` (0.13); before 0.11 prompts and outputs were bare texts.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, request_of, text_at
from demur.formats.responses import describe_kind, response_of_parts, response_of_text
from demur.model.exchange import Exchange, OpaquePart
from demur.model.run import Skipped, Traced
from demur.wire.fields import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Request, Response
    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "garak"
_ENTRIES = frozenset({"start_run setup", "init", "attempt", "eval", "completion", "digest", "config", "plugin_cache"})
_MODELS = ("plugins.target_name", "plugins.model_name", "plugins.target_type", "plugins.model_type")
_ATTEMPT_NEW, _ATTEMPT_STARTED = 0, 1


def sniffs(record: JsonObject) -> bool:
    """Return whether this is an entry of a report."""
    kind = record.get("entry_type")
    return isinstance(kind, str) and (kind in _ENTRIES or "probe_classname" in record)


def open_reader() -> _Report:
    """Return a reader for one report."""
    return _Report()


class _Report:
    """Reads attempts by the set-up that came before them, each once."""

    def __init__(self) -> None:
        self._model = ""
        self._started: object = None
        self._seen: Counter[str] = Counter()

    def feed(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        """Yield the outputs of an attempt."""
        kind = record.get("entry_type")
        if not isinstance(kind, str):
            raise ShapeError("`entry_type`: expected a kind of entry, got something else")
        if kind == "attempt":
            yield from self._read_attempt(record)
            return
        if kind == "start_run setup":
            self._model = text_at(record, *_MODELS) or ""
            self._started = record.get("transient.starttime_iso")
        yield Skipped(describe_kind(kind, "entry"))

    def close(self) -> Iterator[Traced | Skipped]:
        """Yield nothing: an attempt is read where it is first told of."""
        return iter(())

    def _read_attempt(self, record: JsonObject) -> Iterator[Traced | Skipped]:
        status, outputs = record.get("status"), record.get("outputs")
        if status == _ATTEMPT_NEW:
            yield Skipped("an attempt that was not sent")
            return
        if not isinstance(outputs, list):
            raise ShapeError("`outputs`: expected a list of outputs, got something else")
        key = text_at(record, "uuid") or _digest(record)
        if status == _ATTEMPT_STARTED:
            self._seen[key] += 1
        elif self._seen[key]:
            self._seen[key] -= 1
            yield Skipped("an attempt that was told of before")
            return
        request = _asked(record, self._model)
        about = {
            "model": self._model,
            "start_time": self._started,
            "probe": record.get("probe_classname"),
            "goal": record.get("goal"),
            "intent": record.get("intent"),
        }
        fields = fields_of(about, skip={"start_time"})
        for output in outputs:
            yield Traced(Exchange(None, _answer(output, self._model), request, None, text_at(record, "uuid")), fields)


def _digest(record: JsonObject) -> str:
    """Return what tells attempts without an id apart."""
    told = [record.get(name) for name in ("probe_classname", "seq", "prompt", "outputs")]
    return blake2b(encode(told), digest_size=16).hexdigest()


def _asked(record: JsonObject, model: str) -> Request | None:
    prompt: Any = record.get("prompt")
    if isinstance(prompt, dict) and isinstance(prompt.get("turns"), list):
        prompt = [
            {**turn, "content": object_at(turn, "content").get("text", turn.get("content"))}
            for turn in prompt["turns"]
            if isinstance(turn, dict)
        ]
    elif isinstance(prompt, dict):
        prompt = prompt.get("text")
    return request_of(prompt, model)


def _answer(output: object, model: str) -> Response | None:
    """Return one output; None where the model gave none."""
    if output is None or isinstance(output, str):
        return None if output is None else response_of_text(output, model=model)
    text = output.get("text") if isinstance(output, dict) else None
    if isinstance(text, str):
        return response_of_text(text, model=model)
    return response_of_parts((OpaquePart("unread.not_text", encode(output)),), model=model)
