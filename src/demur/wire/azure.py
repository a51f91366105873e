"""Azure OpenAI: the chat format with the annotations of Azure's content filters.

Every category that a filter annotates is a `FILTER_FLAG` signal, after the signals of the chat format, in the order prompt,
choices, error. `blocked` is Azure's `filtered`; fields beyond `filtered`, `detected` and `severity` (citations, blocklist
ids, the code of a filter that could not run) are JSON in `detail`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.exchange import Signal, SignalKind
from demur.wire.fields import ServerEvent, decode, encode, root
from demur.wire.openai import chat as openai_chat
from demur.wire.openai.chat import ChatStream, stream_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Request, Response
    from demur.wire.fields import Field, JsonObject, StreamReader

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

_RESULTS = "content_filter_results"
_PROMPT = "prompt_filter_results"
_INNER = ("content_filter_result", "content_filter_results")
_HARMS = ("hate", "self_harm", "sexual", "violence")
_SAFE = {"filtered": False, "severity": "safe"}
_FILTER_CODE = "content_filter"
_READ = frozenset({"filtered", "detected", "severity"})
_PLACE = re.compile(
    r"(?:prompt_filter_results\[(?P<prompt>\d{1,6})\]\.content_filter_results"
    r"|choices\[(?P<choice>\d{1,6})\]\.content_filter_results"
    r"|error\.innererror\.(?P<inner>content_filter_results?))\."
)


def reads_request(body: JsonObject) -> bool:
    """Whether this is a chat request with Azure's own data; without it, it is a plain chat request."""
    return "data_sources" in body and openai_chat.reads_request(body)


def read_request(body: JsonObject) -> Request:
    """Return the request; the deployment in the URL stands for the model."""
    return openai_chat.read_request(body)


def reads_response(body: JsonObject) -> bool:
    """Whether this is a chat response with filter annotations, or an error that a filter made."""
    if not openai_chat.reads_response(body):
        return False
    error, choices = body.get("error"), body.get("choices")
    if isinstance(error, dict) and ("innererror" in error or error.get("code") == _FILTER_CODE):
        return True
    annotated = isinstance(choices, list) and any(isinstance(c, dict) and _RESULTS in c for c in choices)
    return annotated or _PROMPT in body


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the response with the flags of every filter."""
    top = root(body)
    response = openai_chat.read_response(body, status=status)
    flags: list[Signal] = []
    for prompt in top.each(_PROMPT):
        flags += _category_flags(prompt.get(_RESULTS), None)
    for position, choice in enumerate(top.each("choices")):
        index = choice.integer_at("index")
        flags += _category_flags(choice.get(_RESULTS), position if index is None else index)
    error = top.get("error")
    inner = error.get("innererror") if error is not None and error.is_object else None
    if inner is not None and inner.is_object:
        # Azure spells the field in the singular, some of its API versions in the plural.
        for name in _INNER:
            flags += _category_flags(inner.get(name), None)
    return replace(response, signals=(*response.signals, *flags)) if flags else response


def write_response(response: Response) -> JsonObject:
    """Return the body with its annotations."""
    body = openai_chat.write_response(response)
    flags = [(place, s) for s in response.signals if s.category and (place := _PLACE.match(s.path)) is not None]
    if "choices" in body:
        prompts = [(int(p["prompt"]), s) for p, s in flags if p["prompt"]]
        body[_PROMPT] = [
            {"prompt_index": index, _RESULTS: _write_flags([flag for at, flag in prompts if at == index])}
            for index in range(1 + max((index for index, _ in prompts), default=0))
        ]
        for position, choice in enumerate(body["choices"]):
            said = [s for p, s in flags if p["choice"] and int(p["choice"]) == position]
            choice[_RESULTS] = _write_flags(said)
    inner = [(p["inner"], s) for p, s in flags if p["inner"]]
    if "error" in body and (inner or body["error"].get("code") == _FILTER_CODE):
        name = inner[0][0] if inner else _INNER[0]
        body["error"].setdefault("innererror", {})[name] = _write_flags([s for _, s in inner])
        body["error"] |= {"param": "prompt", "status": response.status}
    return body


def open_stream() -> StreamReader:
    """Return a reader for the chunks of one response, frames without choices included."""
    return ChatStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the response in chunks: the prompt's annotations first, a choice's with its finish reason."""
    return stream_events(write_response(response), response, piece_chars=piece_chars)


def _category_flags(results: Field | None, choice: int | None) -> Iterator[Signal]:
    for category, found in () if results is None else results.fields():
        if not found.is_object:
            continue
        filtered, detected = found.flag_at("filtered") or False, found.flag_at("detected") or False
        severity = found.text_at("severity")
        # A category that was neither filtered nor detected and is `safe` says nothing; a filter that could not run does.
        if filtered or detected or category == "error" or severity not in (None, "safe"):
            left = {key: value for key, value in found.value.items() if key not in _READ and value is not None}
            yield Signal(
                SignalKind.FILTER_FLAG,
                found.path,
                severity or ("detected" if detected else "filtered" if filtered else "failed"),
                choice,
                category=category,
                severity=severity,
                detail=encode(left).decode() if left else None,
                blocked=filtered,
            )


def _write_flags(flags: list[Signal]) -> JsonObject:
    # Harmless categories are annotated too: that is what makes the body Azure's.
    results: JsonObject = {category: dict(_SAFE) for category in _HARMS}
    for flag in flags:
        result: JsonObject = {"filtered": flag.blocked}
        if flag.severity is not None:
            result["severity"] = flag.severity
        elif flag.value == "detected":
            result["detected"] = True
        results[flag.category or ""] = result | (decode(flag.detail) if flag.detail else {})
    return results
