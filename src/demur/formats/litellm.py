"""LiteLLM's standard logging payload, and the rows of its proxy's table of spend logs.

The field names are those of `litellm.types.utils.StandardLoggingPayload` (1.106). The table keeps objects as JSON strings and,
unless it was told to, no texts. A call that failed is a block where its class or code is a content policy's or a guardrail stopped it, an error otherwise. A
text that was not stored is unread, not empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.formats.fields import fields_of, object_at, pair_key_in, request_of, text_at, unwrapped_json
from demur.formats.interface import stateless
from demur.formats.responses import NOT_STORED, finish_of, not_stored, response_of_text
from demur.model.exchange import Choice, Exchange, Finish, ProviderError, Response, Signal, SignalKind
from demur.model.run import Skipped, Traced
from demur.wire.blocks import is_block
from demur.wire.shapes import CODECS, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.fields import JsonObject

__all__ = ["NAME", "open_reader", "sniffs"]

NAME = "litellm"
_OWN = frozenset({"litellm_call_id", "model_map_information", "hidden_params"})
_SPEND = frozenset({"request_id", "spend"})
"""What a row of the spend logs has, whatever the version."""
_JSON_COLUMNS = ("messages", "response", "metadata", "proxy_server_request")
_SILENT = ("embedding", "image", "moderation", "transcription", "speech", "rerank", "search", "batch", "file")
"""Words in the names of the call types that answer no prompt with text."""
_POLICY_CLASSES = frozenset({"ContentPolicyViolationError", "GuardrailRaisedException", "BlockedPiiEntityError"})
_STOPPED = frozenset({"guardrail_intervened", "blocked"})
_FLAGGED = _STOPPED | {"guardrail_flagged"}
_STOP_KINDS = {Finish.CONTENT_FILTER: SignalKind.FILTER_STOP, Finish.REFUSAL: SignalKind.REFUSAL_STOP}
_REDACTED = "redacted-by-litellm"
_MORE_FILTERS = frozenset({"sensitive"})
"""The filter of Zhipu, that other formats do not write."""
_SKIP = frozenset({"id", "litellm_call_id", "trace_id", "session_id", "messages", "response", "error_str", "cache_key"})


def sniffs(record: JsonObject) -> bool:
    """Return whether a record is a standard logging payload or a row of the spend logs."""
    known = not _OWN.isdisjoint(record) or record.keys() >= _SPEND
    return isinstance(record.get("call_type"), str) and known


def _read_payload(record: JsonObject) -> Iterator[Traced | Skipped]:
    call = text_at(record, "call_type") or ""
    if any(word in call for word in _SILENT):
        yield Skipped("a call without a text answer")
        return
    record = {**record, **{name: unwrapped_json(record[name]) for name in _JSON_COLUMNS if name in record}}
    model = text_at(record, "model") or ""
    about = object_at(record, "metadata")
    failed = "failure" in (record.get("status"), about.get("status"))
    response = _failed_call(record, about) if failed else _answered_call(record, model)
    # What the caller of the proxy sent along stands one level further down.
    told = (about, object_at(about, "requester_metadata"), object_at(about, "spend_logs_metadata"))
    # `id` is the response's own, new with every call: no pair key.
    label = next((key for holder in told if (key := pair_key_in(holder))), None)
    fields = fields_of({**record, "meta": {**told[2], **told[1]}}, skip=_SKIP)
    session = text_at(record, "session_id", "trace_id")
    # The proxy keeps the client's request as it came where it keeps texts, and LiteLLM's messages not always.
    asked = request_of(record.get("messages"), model) or request_of(record.get("proxy_server_request"), model)
    yield Traced(Exchange(None, response, asked, label, session), fields)


open_reader = stateless(_read_payload)


def _answered_call(record: JsonObject, model: str) -> Response:
    answer = record.get("response")
    if answer is None or answer in ({}, _REDACTED):
        return not_stored(model)
    if isinstance(answer, str):
        return response_of_text(answer, model=model)
    shape = shape_of_response(answer) if isinstance(answer, dict) else None
    if shape is None:
        raise ShapeError("`response`: expected a provider's response, got something else")
    read = CODECS[shape].read_response(answer)
    choices, signals = _with_native_words(read, answer.get("choices"))
    # A logger that was told to keep no texts writes a word of its own in their place.
    choices = tuple(replace(c, parts=(NOT_STORED,)) if c.text == _REDACTED else c for c in choices)
    # Guardrails that let a call through masked or noted something, and did not block.
    flags = [
        Signal(SignalKind.FILTER_FLAG, "guardrail_information", status, category=name, blocked=False)
        for status, name in _guardrails(record)
        if status in _FLAGGED
    ]
    return replace(read, choices=choices, signals=(*signals, *flags))


def _with_native_words(read: Response, listed: object) -> tuple[tuple[Choice, ...], list[Signal]]:
    """Return the choices and signals of a response, by the providers' own finish words where LiteLLM kept them.

    LiteLLM writes `content_filter` for refusals, filters and a good deal that is neither (RECITATION, LANGUAGE, OTHER).
    Where the provider's word is kept it decides; where it is not, `content_filter` is a filter, which may over-count.
    """
    choices = list(read.choices)
    signals = list(read.signals)
    for at, raw in enumerate(listed[: len(choices)] if isinstance(listed, list) else ()):
        native = text_at(object_at(raw, "provider_specific_fields"), "native_finish_reason")
        if native is None:
            continue
        if choices[at].finish is Finish.CONTENT_FILTER:
            finish = Finish.CONTENT_FILTER if native.lower() in _MORE_FILTERS else finish_of(native)
            choices[at] = replace(choices[at], finish=finish, finish_raw=native)
        choice = choices[at]
        signals = [s for s in signals if s.kind is not SignalKind.FILTER_STOP or s.choice != choice.index]
        kind = _STOP_KINDS.get(choice.finish) if choice.finish else None
        if kind is not None:
            path = f"response.choices[{at}].provider_specific_fields.native_finish_reason"
            signals.append(Signal(kind, path, native, choice.index))
    return tuple(choices), signals


def _failed_call(record: JsonObject, metadata: JsonObject) -> Response:
    # The spend logs have no column for errors.
    about = object_at(record, "error_information") or object_at(metadata, "error_information")
    name, code = text_at(about, "error_class") or "", text_at(about, "error_code")
    message = text_at(about, "error_message") or text_at(record, "error_str") or ""
    stopped = any(status in _STOPPED for status, _ in _guardrails(record))
    blocked = stopped or name in _POLICY_CLASSES or is_block({"code": code, "message": message})
    kind = SignalKind.PROMPT_BLOCK if blocked else SignalKind.ERROR
    signal = Signal(kind, "error_information.error_class", name or "failure", detail=message[:200] or None)
    error = ProviderError(message, code=code, kind=name or None)
    return Response(text_at(record, "model") or "", (), (signal,), error)


def _guardrails(record: JsonObject) -> Iterator[tuple[str, str | None]]:
    found = record.get("guardrail_information")
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, dict):
            yield text_at(item, "guardrail_status") or "", text_at(item, "guardrail_name")
