"""A row that somebody wrote by hand: a prompt field and a response field, each plain text.

The field names are those that people use. A null response is a row whose response is missing, not an empty response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, Message, Request, Response, Signal, SignalKind, TextPart
from demur.wire.blocks import FILTER_WORDS, error_text, is_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["ID_FIELDS", "PROMPT_FIELDS", "RESPONSE_FIELDS", "SESSION_FIELDS", "read_flat", "read_prompt", "reads_flat"]

PROMPT_FIELDS = ("prompt", "instruction", "question", "input")
RESPONSE_FIELDS = ("response", "output", "completion", "answer", "text")
ID_FIELDS = ("id", "custom_id")
SESSION_FIELDS = ("session_id", "conversation_id", "session", "thread_id")
_STOP_FIELDS = ("finish_reason", "stop_reason", "done_reason")
_NOTHING = frozenset({"", "null", "none", "nan", "false", "0", "0.0", "no", "n"})
"""What tools write into a text column where there is nothing."""
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
    text, signals, stop = body[answer], tuple(_row_signals(body)), _stop(body)
    response = None
    if text is not None or signals:
        choice = Choice(0, (TextPart(text),) if text else (), finish_raw=stop[1] if stop else None)
        response = Response(_label(body, "model") or "", (choice,), signals)
    key, session = (
        next((label for name in names if (label := _label(body, name))), None) for names in (ID_FIELDS, SESSION_FIELDS)
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


def _row_signals(body: JsonObject) -> Iterator[Signal]:
    stop, refusal, error = _stop(body), body.get("refusal"), body.get("error")
    # `FinishReason.SAFETY` is how an SDK's enum prints.
    word = stop[1].strip().lower().rpartition(".")[2] if stop else ""
    kind = _STOP_KINDS.get(word, SignalKind.FILTER_STOP if word in FILTER_WORDS else None)
    if stop and kind:
        yield Signal(kind, stop[0], stop[1], 0)
    if refusal is True or (isinstance(refusal, str) and refusal.strip().lower() not in _NOTHING):
        yield Signal(SignalKind.REFUSAL_FIELD, "refusal", str(refusal), 0)
    if error and str(error).strip().lower() not in _NOTHING:
        kind = SignalKind.PROMPT_BLOCK if is_block(error) else SignalKind.ERROR
        yield Signal(kind, "error", error_text(error), 0)


def _stop(body: JsonObject) -> tuple[str, str] | None:
    """Return the field that says why the response ended, and what it says."""
    return next(((name, body[name]) for name in _STOP_FIELDS if isinstance(body.get(name), str)), None)


def _first(body: JsonObject, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in body), None)


def _label(body: JsonObject, name: str) -> str | None:
    value = body.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
