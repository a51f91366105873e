"""Bedrock's Converse API: requests, responses, a guardrail's intervention and errors.

Every content block is one part. A filter is the `stopReason` guardrail_intervened or content_filtered; what the guardrail
found becomes flags, never with the words that matched. The model and the request's id are not in a body: they are in the
URL and in a header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    OpaquePart,
    ProviderError,
    RefusalPart,
    Request,
    Response,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    kind_of_input,
)
from demur.wire.bedrock.stream import ConverseStream, converse_events
from demur.wire.blocks import finish_of_word
from demur.wire.fields import (
    Field,
    arguments_of,
    decode,
    extra_inputs,
    finish_word,
    input_of,
    join_path,
    only_choice,
    opaque,
    present,
    put,
    root,
    unread_beside,
    usage_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.model.exchange import Part
    from demur.wire.fields import JsonObject, ServerEvent, StreamReader

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
# What the format has no word for becomes the nearest one that keeps a refusal visible.
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
# Policy → its lists → the field that names what was found; a custom word has no name but itself, so it has none here.
_POLICIES: dict[str, dict[str, str | None]] = {
    "topicPolicy": {"topics": "name"},
    "contentPolicy": {"filters": "type"},
    "wordPolicy": {"customWords": None, "managedWordLists": "type"},
    "sensitiveInformationPolicy": {"piiEntities": "type", "regexes": "name"},
    "contextualGroundingPolicy": {"filters": "type"},
}
_STOP_SIGNALS = {Finish.CONTENT_FILTER: SignalKind.FILTER_STOP, Finish.REFUSAL: SignalKind.REFUSAL_STOP}
_MARKS = frozenset({"cachePoint", "reasoningContent"})
_TRACE = "trace.guardrail."


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
        Message(field.need("role").text(), _read_blocks(field.get("content"))) for field in top.each("messages")
    )
    system = _read_blocks(top.get("system"))
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
    # What boto3 adds about HTTP has the request's id; the body itself has none.
    metadata = top.get("ResponseMetadata")
    request_id = None if metadata is None else metadata.text_at("RequestId")
    output = top.get("output")
    if output is None:
        error = _read_exception(top)
        path, value = ("__type", error.kind) if error.kind else ("message", error.message)
        return Response("", signals=(Signal(SignalKind.ERROR, path, value),), error=error, id=request_id, status=status)
    message = output.get("message") or Field({}, "output.message")
    raw = top.text_at("stopReason")
    finish = None if raw is None else _WORDS.get(raw) or finish_of_word(raw)
    trace = top.get("trace")
    guardrail = None if trace is None else trace.get("guardrail")
    signals = [] if guardrail is None else list(_guardrail_flags(guardrail))
    if raw is not None and finish in _STOP_SIGNALS:
        detail = None if guardrail is None else guardrail.text_at("actionReason")
        signals.insert(0, Signal(_STOP_SIGNALS[finish], "stopReason", raw, choice=0, detail=detail))
    blocks = _read_blocks(message.get("content"))
    said = output.get("text") if not blocks else None
    if said is not None and said.is_text:
        blocks = (TextPart(said.text()),)
    elif not blocks and (beside := unread_beside(output.object(), frozenset({"message"}))) is not None:
        blocks = (beside,)
    return Response(
        model="",
        choices=(Choice(0, blocks, finish, raw),),
        signals=tuple(signals),
        usage=usage_of(top.get("usage"), asked="inputTokens", answered="outputTokens"),
        id=request_id,
        status=status,
    )


def write_response(response: Response) -> JsonObject:
    """Return the body that `/converse` would have answered."""
    if response.error is not None:
        return _exception(response)
    choice, usage = only_choice(response), response.usage or Usage(0, 0)
    body = present(
        output={"message": {"role": "assistant", "content": [_write_block(part) for part in choice.parts]}},
        stopReason=finish_word(choice, _WORDS, defaults=_DEFAULTS),
        # The service's response requires `usage` and `metrics`: what is unknown is zero.
        usage={
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": usage.input_tokens + usage.output_tokens,
        },
    )
    for signal in response.signals:
        if signal.kind is SignalKind.FILTER_FLAG:
            _write_flag(body, signal)
        elif signal.kind is SignalKind.FILTER_STOP and signal.path == "stopReason" and signal.detail is not None:
            put(body, "trace.guardrail.actionReason", value=signal.detail)
    body["metrics"] = {"latencyMs": 0}
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


def _read_blocks(content: Field | None) -> tuple[Part, ...]:
    return () if content is None else tuple([_read_block(block) for block in content])


def _read_block(block: Field) -> Part:
    """Return the part that a block is; a block is an object with one field, which names its kind."""
    text = block.text_at("text")
    guarded, cited = block.get("guardContent"), block.get("citationsContent")
    thought = block.get("reasoningContent")
    thought = None if thought is None else thought.get("reasoningText")
    call, result = block.get("toolUse"), block.get("toolResult")
    # Text that is marked for a guardrail, or has citations, is wrapped, and is text all the same.
    if text is None and guarded is not None:
        inner = guarded.get("text")
        text = None if inner is None else inner.text_at("text")
    elif text is None and cited is not None:
        pieces = [item.text_at("text") for item in cited.each("content")]
        # A citation without a text is of a kind that we do not know.
        text = None if None in pieces else "".join(filter(None, pieces))
    if text is not None:
        return TextPart(text)
    if thought is not None:
        return ThinkingPart(thought.text_at("text") or "")
    if call is not None:
        arguments = arguments_of(call.get("input"))
        return ToolCallPart(call.need("toolUseId").text(), call.need("name").text(), arguments)
    if result is not None:
        said = "\n".join(
            arguments_of(item.get("json")) if item.get("json") is not None else item.text_at("text") or ""
            for item in result.each("content")
            if item.get("json") is not None or item.get("text") is not None
        )
        return ToolResultPart(result.need("toolUseId").text(), said)
    names = [name for name, _ in block.fields()]
    # A block is of one kind: what stands beside a mark that says nothing is not silent.
    named = names[:1] if len(names) == 1 else [name for name in names if name not in _MARKS]
    kind = next(iter(named), "unknown")
    return opaque(block, kind if kind in _MARKS else kind_of_input(kind))


def _write_block(part: Part) -> JsonObject:
    """Return the part as a block."""
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ThinkingPart(text):
            return {"reasoningContent": {"reasoningText": {"text": text}}}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            return {"toolUse": {"toolUseId": call, "name": name, "input": input_of(arguments)}}
        case ToolResultPart(call_id=call, text=text):
            return {"toolResult": {"toolUseId": call, "content": [{"text": text}] if text else []}}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def _guardrail_flags(guardrail: Field) -> Iterator[Signal]:
    """Yield a flag for everything that the guardrail did or detected, on the way in and on the way out."""
    asked, answered = guardrail.get("inputAssessment"), guardrail.get("outputAssessments")
    if asked is not None:
        for name, assessment in asked.fields():
            yield from _assessment_flags(assessment, join_path(asked.path, name), choice=None)
    if answered is not None:
        for name, assessments in answered.fields():
            for index, assessment in enumerate(assessments):
                yield from _assessment_flags(assessment, join_path(join_path(answered.path, name), index), choice=0)


def _assessment_flags(assessment: Field, path: str, *, choice: int | None) -> Iterator[Signal]:
    for policy, lists in _POLICIES.items():
        found = assessment.get(policy) or Field({}, policy)
        for name, label in lists.items():
            for index, item in enumerate(found.each(name)):
                action = item.text_at("action") or "NONE"
                if action == "NONE" and not item.flag_at("detected"):
                    continue
                # The words that matched stay in the trace: a flag names the policy and its item only.
                yield Signal(
                    SignalKind.FILTER_FLAG,
                    f"{path}.{policy}.{name}[{index}].action",
                    action,
                    choice=choice,
                    category=name if label is None else item.text_at(label),
                    severity=item.text_at("confidence"),
                    detail=policy,
                    blocked=action == "BLOCKED",
                )


def _write_flag(body: JsonObject, signal: Signal) -> None:
    """Write a flag into the body's trace, at its path; flags of other formats have no place there."""
    if not (signal.path.startswith(_TRACE) and signal.path.endswith("].action")):
        return
    item = signal.path.removesuffix(".action")
    found_in = item.rpartition(".")[2].partition("[")[0]
    label = _POLICIES.get(signal.detail or "", {}).get(found_in)
    if label is not None and signal.category is not None:
        put(body, f"{item}.{label}", value=signal.category)
    if signal.severity is not None:
        put(body, f"{item}.confidence", value=signal.severity)
    put(body, signal.path, value=signal.value)
    if signal.value == "NONE":
        put(body, f"{item}.detected", value=True)


def _read_exception(top: Field) -> ProviderError:
    boto = top.get("Error") or Field({}, "Error")
    message = top.text_at("message") or top.text_at("Message") or boto.text_at("Message")
    kind = top.text_at("__type") or boto.text_at("Code")
    if message is None and kind is None:
        # Neither a response nor an error: say so as for a response.
        top.need("output")
    # AWS's JSON protocols allow a namespace before `#` in the type, and a URL after `:`.
    return ProviderError(message or "", kind=None if kind is None else kind.rpartition("#")[2].partition(":")[0])


def _exception(response: Response) -> JsonObject:
    error = response.error or ProviderError("")
    return present(__type=error.kind or error.code, message=error.message)
