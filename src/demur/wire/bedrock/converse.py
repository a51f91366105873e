"""How does Bedrock's Converse API spell a request, an answer, a guardrail's intervention and an error?

Laws: every content block is one part; text inside `guardContent` and `citationsContent` is text. A filter is the
`stopReason` guardrail_intervened or content_filtered; what the guardrail found is summarised from `trace.guardrail`,
one flag a topic, filter or entity, never the words that matched. The model and the request's id are no part of a body
(they are in the URL and in a header); what boto3 adds about HTTP is read for the id and not written.
The shape cannot leave out `usage` and `metrics`: what is unknown is written as zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.exchange import Choice, Finish, Message, ProviderError, Request, Response, Signal, SignalKind
from demur.wire.bedrock.blocks import read_blocks, write_block
from demur.wire.bedrock.guardrail import guardrail_flags, write_flag
from demur.wire.bedrock.stream import ConverseStream, converse_events
from demur.wire.blocks import extra_inputs, finish_word, only_choice, present, usage_of
from demur.wire.fields import Field, put, root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.wire.interface import JsonObject, StreamReader
    from demur.wire.sse import ServerEvent

__all__ = [
    "open_stream",
    "read_request",
    "read_response",
    "reads_request",
    "reads_response",
    "write_response",
    "write_stream",
]

_WORDS = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL,
    "guardrail_intervened": Finish.CONTENT_FILTER,
    "content_filtered": Finish.CONTENT_FILTER,
}
# What the shape has no word for becomes the nearest one that keeps a refusal visible.
_DEFAULTS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL: "tool_use",
    Finish.CONTENT_FILTER: "content_filtered",
    Finish.REFUSAL: "content_filtered",
    Finish.ERROR: "malformed_model_output",
    Finish.UNKNOWN: "malformed_model_output",
}
_OWN_FIELDS = frozenset({"modelId", "inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields"})
_ERROR_FIELDS = frozenset(
    {
        "__type",
        "message",
        "Message",
        "originalMessage",
        "originalStatusCode",
        "resourceName",
        "Error",
        "ResponseMetadata",
    }
)
_NO_METRICS = {"latencyMs": 0}


def reads_request(body: JsonObject) -> bool:
    """Return whether the body is a request to `/converse`: its blocks have a name and no `type`."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return False
    contents = [message.get("content") if isinstance(message, dict) else None for message in messages]
    if not all(isinstance(content, list) for content in contents):
        return False
    blocks = [block for content in contents if content is not None for block in content]
    if any(not isinstance(block, dict) or "type" in block for block in blocks):
        return False
    return bool(blocks) or not _OWN_FIELDS.isdisjoint(body)


def read_request(body: JsonObject) -> Request:
    """Return the request; its `model` is empty unless the body names one after all."""
    top = root(body)
    messages = tuple(
        Message(field.need("role").text(), read_blocks(field.get("content"))) for field in top.each("messages")
    )
    system = read_blocks(top.get("system"))
    leading = (Message("system", system),) if system else ()
    model = top.text_at("modelId") or ""
    return Request(model, leading + messages, extra_inputs=extra_inputs(body, own="messages"))


def reads_response(body: JsonObject) -> bool:
    """Return whether the body is a Converse response or an error of this API."""
    output = body.get("output")
    if isinstance(output, dict):
        return isinstance(output.get("message"), dict) or isinstance(body.get("stopReason"), str)
    if not _ERROR_FIELDS.issuperset(body):
        return False
    return isinstance(body.get("Error"), dict) or any(isinstance(body.get(n), str) for n in ("__type", "message"))


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the message, or the error, as a response."""
    top = root(body)
    return _read_exception(top, status) if top.get("output") is None else _read_message(top, status)


def write_response(response: Response) -> JsonObject:
    """Return the body that `/converse` would have answered."""
    if response.error is not None:
        return _exception(response)
    body = _message_body(response)
    usage = body.setdefault("usage", {"inputTokens": 0, "outputTokens": 0})
    usage.setdefault("totalTokens", usage["inputTokens"] + usage["outputTokens"])
    body.setdefault("metrics", dict(_NO_METRICS))
    return body


def open_stream() -> StreamReader:
    """Return a reader for one streamed response."""
    return ConverseStream(read_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield the response as ConverseStream events; one that is not complete stops short of its end."""
    error = None if response.error is None else _exception(response)
    if error is not None and not response.choices:
        return converse_events(None, error=error, piece_chars=piece_chars, complete=False)
    body = write_response(replace(response, error=None))
    return converse_events(body, error=error, piece_chars=piece_chars, complete=response.complete)


def _read_message(top: Field, status: int) -> Response:
    message = top.need("output").get("message") or Field({}, "output.message")
    raw = top.text_at("stopReason")
    finish = None if raw is None else _WORDS.get(raw, Finish.UNKNOWN)
    return Response(
        model="",
        choices=(Choice(0, read_blocks(message.get("content")), finish, raw),),
        signals=_signals(top, raw, finish=finish),
        usage=usage_of(top.get("usage"), asked="inputTokens", answered="outputTokens"),
        id=_request_id(top),
        status=status,
    )


def _signals(top: Field, raw: str | None, *, finish: Finish | None) -> tuple[Signal, ...]:
    trace = top.get("trace")
    guardrail = None if trace is None else trace.get("guardrail")
    flags = () if guardrail is None else tuple(guardrail_flags(guardrail))
    if raw is None or finish is not Finish.CONTENT_FILTER:
        return flags
    detail = None if guardrail is None else guardrail.text_at("actionReason")
    return (Signal(SignalKind.FILTER_STOP, "stopReason", raw, choice=0, detail=detail), *flags)


def _read_exception(top: Field, status: int) -> Response:
    boto = top.get("Error") or Field({}, "Error")
    message = top.text_at("message") or top.text_at("Message") or boto.text_at("Message")
    kind = top.text_at("__type") or boto.text_at("Code")
    # A type may come with its namespace before `#` and a URL after `:`.
    kind = None if kind is None else kind.rpartition("#")[2].partition(":")[0]
    if message is None and kind is None:
        top.need("output")
    signal = Signal(SignalKind.ERROR, "__type", kind) if kind else Signal(SignalKind.ERROR, "message", message or "")
    error = ProviderError(message or "", kind=kind)
    return Response(model="", signals=(signal,), error=error, id=_request_id(top), status=status)


def _message_body(response: Response) -> JsonObject:
    choice = only_choice(response)
    usage = response.usage
    body = present(
        output={"message": {"role": "assistant", "content": [write_block(part) for part in choice.parts]}},
        stopReason=finish_word(choice, _WORDS, defaults=_DEFAULTS),
        usage=None if usage is None else {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens},
    )
    for signal in response.signals:
        if signal.kind is SignalKind.FILTER_FLAG:
            write_flag(body, signal)
        elif signal.kind is SignalKind.FILTER_STOP and signal.path == "stopReason" and signal.detail is not None:
            put(body, "trace.guardrail.actionReason", value=signal.detail)
    return body


def _exception(response: Response) -> JsonObject:
    error = response.error or ProviderError("")
    return present(__type=error.kind or error.code, message=error.message)


def _request_id(top: Field) -> str | None:
    metadata = top.get("ResponseMetadata")
    return None if metadata is None else metadata.text_at("RequestId")
