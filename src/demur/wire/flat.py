"""A row that somebody wrote by hand: a prompt field and a response field, each plain text.

Laws: the field names are those that people use; a null response is a row whose answer is missing, not an empty answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, Message, Request, Response, Signal, SignalKind, TextPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = [
    "FILTER_WORDS",
    "MAX_ERROR_CHARS",
    "POLICY_ERROR",
    "PROMPT_FIELDS",
    "RESPONSE_FIELDS",
    "read_flat",
    "read_prompt",
    "reads_flat",
]

PROMPT_FIELDS = ("prompt", "instruction", "question", "input")
RESPONSE_FIELDS = ("response", "output", "completion", "answer", "text")
_STOP_FIELDS = ("finish_reason", "stop_reason", "done_reason")
_NOTHING = frozenset({"", "null", "none", "nan", "false", "0", "0.0", "no", "n"})
"""What tools write into a text column where there is nothing."""
FILTER_WORDS = frozenset(
    {
        "content_filter",
        "content-filter",
        "content_filtered",
        "guardrail_intervened",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
        "image_safety",
        "jailbreak",
        "model_armor",
        "error_toxic",
    }
)
"""What providers call a stop by a filter, in lower case, where a row does not say whose word it is."""
POLICY_ERROR = re.compile(
    r"ResponsibleAIPolicyViolation|content_policy_violation|ContentPolicyViolationError"
    r"|[\"']code[\"']:\s*[\"'](?:content_filter|moderation_blocked)[\"']"
)
"""The codes by which providers refuse a prompt, as SDKs print them in an error's text."""
MAX_ERROR_CHARS = 4000
_CODES = ("code", "type", "reason")
_STOP_KINDS = {"refusal": SignalKind.REFUSAL_STOP, "error": SignalKind.ERROR}


def reads_flat(body: JsonObject) -> bool:
    """Return whether a row has a response field that is text or null."""
    field = _first(body, RESPONSE_FIELDS)
    return field is not None and (body[field] is None or isinstance(body[field], str))


def read_flat(body: JsonObject) -> Exchange:
    """Return the exchange in a flat row; `id` and `session_id` are kept where they are text or numbers."""
    answer = _first(body, RESPONSE_FIELDS)
    if answer is None:
        raise ShapeError("no response field", hint=f"name it one of {', '.join(RESPONSE_FIELDS)}")
    text = body[answer]
    response = _response(text, body)
    key, session = (
        next((label for name in names if (label := _label(body, name))), None)
        for names in (("id", "custom_id"), ("session_id", "conversation_id"))
    )
    return Exchange(None, response, read_prompt(body), key, session)


def read_prompt(body: JsonObject) -> Request | None:
    """Return the request in a row's prompt field, None where it has none that is text."""
    asked = _first(body, PROMPT_FIELDS)
    prompt = body[asked] if asked else None
    return (
        Request(_label(body, "model") or "", (Message("user", (TextPart(prompt),)),))
        if isinstance(prompt, str)
        else None
    )


def _response(text: str | None, body: JsonObject) -> Response | None:
    """Return the answer of a row and what its provider said of it; None where there is neither."""
    signals = tuple(_stop_signals(body))
    if text is None and not signals:
        return None
    parts = (TextPart(text),) if text else ()
    stop = _stop(body)
    return Response(_label(body, "model") or "", (Choice(0, parts, finish_raw=stop[1] if stop else None),), signals)


def _stop_signals(body: JsonObject) -> Iterator[Signal]:
    stop, refusal, error = _stop(body), body.get("refusal"), body.get("error")
    # `FinishReason.SAFETY` is how an SDK's enum prints.
    word = stop[1].strip().lower().rpartition(".")[2] if stop else ""
    kind = _STOP_KINDS.get(word, SignalKind.FILTER_STOP if word in FILTER_WORDS else None)
    if stop and kind:
        yield Signal(kind, stop[0], stop[1], 0)
    if refusal is True or (isinstance(refusal, str) and refusal.strip().lower() not in _NOTHING):
        yield Signal(SignalKind.REFUSAL_FIELD, "refusal", str(refusal), 0)
    if error and str(error).strip().lower() not in _NOTHING:
        yield Signal(_error_kind(error), "error", _error_text(error), 0)


def _error_kind(error: object) -> SignalKind:
    """Return whether an error is a filter's block, by its own word or by the code that it carries, or a failure."""
    codes = [error] if isinstance(error, str) else [error.get(n) for n in _CODES] if isinstance(error, dict) else []
    said = any(isinstance(code, str) and code.strip().lower() in FILTER_WORDS for code in codes)
    return SignalKind.PROMPT_BLOCK if said or POLICY_ERROR.search(_error_text(error)) else SignalKind.ERROR


def _error_text(error: object) -> str:
    text = error if isinstance(error, str) else msgspec.json.encode(error).decode()
    return text[:MAX_ERROR_CHARS]


def _stop(body: JsonObject) -> tuple[str, str] | None:
    """Return the field that says why the answer ended, and what it says."""
    return next(((name, body[name]) for name in _STOP_FIELDS if isinstance(body.get(name), str)), None)


def _first(body: JsonObject, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in body), None)


def _label(body: JsonObject, name: str) -> str | None:
    value = body.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
