"""The providers' batch files: OpenAI's (chat and Responses; Azure's are the same) and Anthropic's.

A row is named by its `custom_id`, since the order of the files is not kept. The prompts are in the file that was sent
(`read_request_row`), never in these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.errors import ShapeError
from demur.formats.fields import fields_of, key_of, object_at, request_of
from demur.formats.interface import Kind, stateless
from demur.model.exchange import Exchange, ProviderError, Response, Shape, Signal, SignalKind
from demur.model.run import Skipped, Traced
from demur.wire import anthropic
from demur.wire.fields import root
from demur.wire.shapes import CODECS, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Request
    from demur.wire.fields import JsonObject

__all__ = ["ANTHROPIC_BATCH", "OPENAI_BATCH", "OPENAI_RESPONSES_BATCH", "read_request_row"]

_OPENAI_SHAPES = (Shape.AZURE, Shape.OPENAI_RESPONSES, Shape.OPENAI_CHAT)
_ENDINGS = frozenset({"succeeded", "errored", "canceled", "expired"})
_SKIP = frozenset({"id", "custom_id"})
"""`id` is the batch's own, `custom_id` the pair key: neither is something to cut a run by."""
_OK = 200


def read_request_row(record: JsonObject) -> tuple[str, Request] | None:
    """Return the `custom_id` and the request of a row that was sent to a batch; None where it is no such row."""
    label = key_of(record.get("custom_id"))
    asked = next((record[name] for name in ("body", "params") if isinstance(record.get(name), dict)), None)
    request = None if asked is None else request_of(asked)
    return None if label is None or request is None else (label, request)


def _sniffs_openai(record: JsonObject) -> bool:
    if not isinstance(record.get("custom_id"), str) or "response" not in record or _sniffs_responses(record):
        return False
    body = object_at(record, "response").get("body")
    # A row that never reached the model has no body, and says so in `error`.
    return (
        isinstance(body, dict)
        or isinstance(record.get("error"), dict)
        or "status_code" in object_at(record, "response")
    )


def _sniffs_responses(record: JsonObject) -> bool:
    body = object_at(object_at(record, "response"), "body")
    return isinstance(record.get("custom_id"), str) and _is_responses_body(body)


def _sniffs_anthropic(record: JsonObject) -> bool:
    ending = object_at(record, "result").get("type")
    return isinstance(record.get("custom_id"), str) and isinstance(ending, str) and ending in _ENDINGS


def _is_responses_body(body: JsonObject) -> bool:
    return body.get("object") == "response" or isinstance(body.get("output"), list)


def _read_openai_row(record: JsonObject) -> Iterator[Traced | Skipped]:
    top = root(record)
    label = _custom_id(record)
    answer, error = top.get("response"), top.get("error")
    if answer is None:
        response = None if error is None else CODECS[Shape.OPENAI_CHAT].read_response({"error": error.value})
        yield _traced_row(record, Exchange(Shape.OPENAI_CHAT, response, id=label))
        return
    status = answer.integer_at("status_code")
    status = _OK if status is None else status
    body = answer.get("body")
    if body is None or body.object() == {}:
        yield _traced_row(record, Exchange(Shape.OPENAI_CHAT, _failed("response.status_code", str(status)), id=label))
    elif body.tag_at("object") == "list":
        # Embeddings and the like.
        yield Skipped("a batch answer without text")
    else:
        known = shape_of_response(body.object())
        shape = known if known in _OPENAI_SHAPES else Shape.OPENAI_CHAT
        shape = Shape.OPENAI_RESPONSES if _is_responses_body(body.object()) else shape
        yield _traced_row(record, Exchange(shape, CODECS[shape].read_response(body.object(), status=status), id=label))


def _read_anthropic_row(record: JsonObject) -> Iterator[Traced | Skipped]:
    result = root(record).need("result")
    label, ending = _custom_id(record), result.tag_at("type")
    if ending == "succeeded":
        response = anthropic.read_response(result.need("message").object())
    elif ending == "errored":
        # The error comes as the API words it, or as the inner object alone.
        error = object_at(result.object(), "error")
        wrapped = error if isinstance(error.get("error"), dict) else {"type": "error", "error": error}
        response = anthropic.read_response(wrapped)
    elif ending in _ENDINGS:
        response = _failed("result.type", ending)
    else:
        raise ShapeError(
            f"`result.type`: unknown ending `{ending}`", hint=f"expected one of {', '.join(sorted(_ENDINGS))}"
        )
    yield _traced_row(record, Exchange(Shape.ANTHROPIC, response, id=label))


def _custom_id(record: JsonObject) -> str:
    label = key_of(record.get("custom_id"))
    if label is None:
        raise ShapeError("`custom_id`: expected a name, got nothing", hint="a row of a batch is known by it")
    return label


def _failed(path: str, value: str) -> Response:
    """Return the response of a row that has no answer, with what it says in place of one."""
    return Response("", (), (Signal(SignalKind.ERROR, path, value),), ProviderError("", code=value))


def _traced_row(record: JsonObject, exchange: Exchange) -> Traced:
    response = exchange.response
    known = {} if response is None else {"model": response.model, "created": response.created_s}
    return Traced(exchange, fields_of({**known, **record}, skip=_SKIP))


OPENAI_BATCH = Kind("openai-batch", _sniffs_openai, open_reader=stateless(_read_openai_row))
OPENAI_RESPONSES_BATCH = Kind("openai-responses-batch", _sniffs_responses, open_reader=stateless(_read_openai_row))
ANTHROPIC_BATCH = Kind("anthropic-batch", _sniffs_anthropic, open_reader=stateless(_read_anthropic_row))
