"""Logs of a provider's own responses, one per line: OpenAI, Azure, Anthropic, Gemini and Bedrock.

A row is the response itself, with the caller's fields beside its own, or an object that holds it under `response`. The
request is the caller's, where the caller logged it; a row whose response is null has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, key_of, object_at, pair_key_in, request_of
from demur.formats.interface import Kind, stateless
from demur.formats.responses import failure_of
from demur.model.exchange import Exchange, Shape
from demur.model.run import Skipped, Traced
from demur.wire.flat import PROMPT_FIELDS, RESPONSE_FIELDS
from demur.wire.shapes import CODECS, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Request
    from demur.wire.fields import JsonObject

__all__ = ["ANTHROPIC", "AZURE", "BEDROCK", "GEMINI", "OPENAI_CHAT"]

_HOLDERS = ("response", "body", "result", "completion", "response_body")
_ASKED = ("request", "messages", "contents", *PROMPT_FIELDS)
_REQUEST_FIELDS = frozenset({"messages", "contents", "system", "systemInstruction", "system_instruction", "input"})
_SESSIONS = ("session_id", "conversation_id", "session", "thread_id")
_RESPONSE_IDS = ("chatcmpl-", "msg_", "resp_", "gen-")
"""How providers begin the ids that they give their responses."""
_MARKS = {
    Shape.OPENAI_CHAT: ("choices", "output", "error"),
    Shape.AZURE: ("choices", "error"),
    Shape.ANTHROPIC: ("content", "error"),
    Shape.GEMINI: ("candidates", "promptFeedback", "prompt_feedback", "error"),
    Shape.BEDROCK: ("output", "Error"),
}
"""The fields that a row must have one of to be taken for a shape's response; codecs, asked alone, are more generous."""
_NAMES = {
    Shape.OPENAI_CHAT: "openai-chat",
    Shape.AZURE: "azure",
    Shape.ANTHROPIC: "anthropic",
    Shape.GEMINI: "gemini",
    Shape.BEDROCK: "bedrock",
}
_SKIP = frozenset({"id", "custom_id", "object", "type", "role", "system_fingerprint", *PROMPT_FIELDS, *_SESSIONS})
_OK, _FAILED = 200, 400


def _log_kind(shape: Shape) -> Kind:
    def sniffs(record: JsonObject) -> bool:
        body = _body_in(record)
        found = None if body is None else _log_shape(body)
        return body is not None and found is shape and any(body.get(mark) is not None for mark in _MARKS[shape])

    return Kind(_NAMES[shape], sniffs, open_reader=stateless(lambda record: _read_log_row(record, shape)))


def _check_one_response(record: JsonObject) -> None:
    """Raise where a row has the responses of two providers: which of them is the answer, nobody has said."""
    found = [name for name in ("choices", "candidates") if isinstance(record.get(name), list)]
    found += ["output"] if isinstance(record.get("output"), dict) and "stopReason" in record else []
    found += ["content"] if isinstance(record.get("content"), list) and record.get("type") == "message" else []
    if len(found) > 1:
        names = " and ".join(f"`{name}`" for name in found)
        raise ShapeError(f"the responses of two providers in one row ({names})", hint="keep one response in each row")


def _body_in(record: JsonObject) -> JsonObject | None:
    """Return the provider's response in a row: the row itself, or what it holds; None where there is none."""
    # A row that has the response as plain text is no provider's: an `error` in it is only a note.
    holds_text = "choices" not in record and any(isinstance(record.get(name), str) for name in RESPONSE_FIELDS)
    if not holds_text and _log_shape(record) is not None:
        return record
    held = next((record[name] for name in _HOLDERS if isinstance(record.get(name), dict)), None)
    if held is not None and _log_shape(held) is None and isinstance(held.get("body"), dict):
        held = held["body"]
    return None if held is None or _log_shape(held) is None else held


def _log_shape(body: JsonObject) -> Shape | None:
    """Return whose response this is; the Responses API's are in the logs of OpenAI's clients as well."""
    shape = shape_of_response(body)
    if shape is Shape.OPENAI_CHAT and "choices" not in body:
        # Many tools have a field `error`: only one with a message and a type or code is OpenAI's.
        error = object_at(body, "error")
        if not isinstance(error.get("message"), str) or not ("type" in error or "code" in error):
            return None
    if shape is Shape.ANTHROPIC and body.get("type") == "message" and body.get("role", "assistant") != "assistant":
        return None
    return Shape.OPENAI_CHAT if shape is Shape.OPENAI_RESPONSES else shape


def _read_log_row(record: JsonObject, home: Shape) -> Iterator[Traced | Skipped]:
    _check_one_response(record)
    body = _body_in(record)
    if body is None:
        yield _unanswered(record, home)
        return
    # The shape of the file decides whose error an error is: several providers' look alike.
    shape = home if CODECS[home].reads_response(body) else shape_of_response(body) or home
    status = record.get("status_code", record.get("status"))
    if not isinstance(status, int) or isinstance(status, bool):
        status = _FAILED if record.get("error") else _OK
    response = CODECS[shape].read_response(body, status=status)
    yield _logged(record, Exchange(shape, response), bare=body is record)


def _unanswered(record: JsonObject, home: Shape) -> Traced | Skipped:
    """Return a row without a response: its call failed, or it was never answered."""
    error = record.get("error")
    held = [record[name] for name in _HOLDERS if name in record]
    if error:
        response = failure_of(error)
    elif (held and not any(held)) or (not held and _asked_of(record) is not None):
        response = None
    else:
        raise ShapeError(
            f"no response of {home}", hint=f"expected one as the row itself or under {', '.join(_HOLDERS)}"
        )
    return _logged(record, Exchange(home, response), bare=False)


def _logged(record: JsonObject, exchange: Exchange, *, bare: bool) -> Traced:
    """Return the exchange with the caller's fields; `bare` is a row that is the response itself, its `id` with it."""
    about = object_at(record, "metadata")
    # The provider's id of its response is new with every call, so it is no pair key.
    own = None if bare else key_of(record.get("id"))
    own = None if own is None or own.startswith(_RESPONSE_IDS) else own
    label = key_of(record.get("custom_id")) or own or pair_key_in(record) or pair_key_in(about)
    session = next((found for at in (record, about) for name in _SESSIONS if (found := key_of(at.get(name)))), None)
    whole = Exchange(exchange.shape, exchange.response, _asked_of(record), label, session)
    # Model and time are the row's own, and the response's where the row does not say.
    response = exchange.response
    known: JsonObject = {} if response is None else {"model": response.model, "created": response.created_s}
    known |= {name: value for name, value in record.items() if value is not None}
    return Traced(whole, fields_of(known, skip=_SKIP))


def _asked_of(record: JsonObject) -> Request | None:
    """Return the caller's request: under a field of its own, or with its fields spread over the row."""
    asked = next((name for name in _ASKED if record.get(name) is not None), None)
    if asked is None:
        return None
    model = record.get("model") or record.get("modelId")
    spread = {name: record[name] for name in _REQUEST_FIELDS & record.keys()}
    return request_of(
        record[asked] if asked not in _REQUEST_FIELDS else spread, model if isinstance(model, str) else ""
    )


OPENAI_CHAT = _log_kind(Shape.OPENAI_CHAT)
AZURE = _log_kind(Shape.AZURE)
ANTHROPIC = _log_kind(Shape.ANTHROPIC)
GEMINI = _log_kind(Shape.GEMINI)
BEDROCK = _log_kind(Shape.BEDROCK)
