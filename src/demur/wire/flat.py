"""A row that somebody wrote by hand: a prompt field and a response field, each plain text.

The field names are those that people use. A null response is a row whose response is missing, not an empty response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.model.exchange import Choice, Exchange, Finish, Message, Request, Response, Signal, SignalKind, TextPart
from demur.wire.blocks import error_text, finish_of_word, is_block
from demur.wire.fields import says_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = [
    "ID_FIELDS",
    "MISSING_WORDS",
    "PROMPT_FIELDS",
    "RESPONSE_FIELDS",
    "SESSION_FIELDS",
    "STOP_FIELDS",
    "read_flat",
    "read_prompt",
    "reads_flat",
    "response_column",
]

PROMPT_FIELDS = ("prompt", "instruction", "question", "input")
RESPONSE_FIELDS = ("response", "output", "completion", "answer", "text")
ID_FIELDS = ("id", "custom_id")
SESSION_FIELDS = ("session_id", "conversation_id", "session", "thread_id")
STOP_FIELDS = ("finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason")
_NOTHING = frozenset({"", "null", "none", "nan", "false", "0", "0.0", "no", "n"})
"""What tools write into a text column where there is nothing."""
_STOP_KINDS = {Finish.REFUSAL: SignalKind.REFUSAL_STOP, Finish.CONTENT_FILTER: SignalKind.FILTER_STOP}
MISSING_WORDS = frozenset({"null", "NULL", "NA", "<NA>", "NaN", "nan", "None"})
"""What tables write into a cell where there is nothing."""


def reads_flat(body: JsonObject) -> bool:
    """Return whether a row has a response field that is text or null."""
    field = response_column(body)
    return field is not None and (body[field] is None or isinstance(body[field], str))


def read_flat(body: JsonObject) -> Exchange:
    """Return the exchange in a flat row; `id` and `session_id` are kept where they are text or numbers."""
    answer = response_column(body)
    if answer is None:
        raise ShapeError("no response field", hint=f"name it one of {', '.join(RESPONSE_FIELDS)}")
    text, signals, stop = body[answer], tuple(_row_signals(body)), next(_stops(body), None)
    text = None if isinstance(text, str) and text.strip() in MISSING_WORDS else text
    response = None
    if text is not None or signals:
        choice = Choice(0, (TextPart(text),) if text else (), finish_raw=stop[1] if stop else None)
        response = Response(_label(body, "model") or "", (choice,), signals)
    key, session = (
        next((label for name in names if (label := _label(body, name))), None) for names in (ID_FIELDS, SESSION_FIELDS)
    )
    return Exchange(None, response, read_prompt(body), key, session)


def response_column(body: JsonObject) -> str | None:
    """Return the field of the response: the first that holds anything, else the first that is there."""
    there = [name for name in RESPONSE_FIELDS if name in body]
    return next((name for name in there if not _is_blank(body[name])), there[0] if there else None)


def _is_blank(value: object) -> bool:
    return value is None or value in ([], {}) or (isinstance(value, str) and not value.strip())


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
    refusal, error = body.get("refusal"), body.get("error")
    # Every field is asked: a gateway's word may say more than the provider's beside it.
    for name, word in _stops(body):
        ended = word.strip().lower().rpartition(".")[2] == "error"
        kind = SignalKind.ERROR if ended else _STOP_KINDS.get(finish_of_word(word))
        if kind:
            yield Signal(kind, name, word, 0)
    if _is_refusal(refusal):
        yield Signal(SignalKind.REFUSAL_FIELD, "refusal", error_text(refusal) if says_words(refusal) else "true", 0)
    if error and str(error).strip().lower() not in _NOTHING:
        kind = SignalKind.PROMPT_BLOCK if is_block(error) else SignalKind.ERROR
        yield Signal(kind, "error", error_text(error), 0)


def _is_refusal(value: object) -> bool:
    """Return whether a refusal column says that there was one: a truth value, or the words."""
    if isinstance(value, str):
        return value.strip().lower() not in _NOTHING
    return value == 1 if isinstance(value, bool | int | float) else says_words(value)


def _stops(body: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the fields that say why the response ended, and what they say."""
    for name in STOP_FIELDS:
        value = body.get(name)
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str):
                yield name, word


def _first(body: JsonObject, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in body), None)


def _label(body: JsonObject, name: str) -> str | None:
    value = body.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
