"""Gemini's generateContent: requests, responses, blocked prompts and errors.

Names may come in snake_case, as Python dumps have them, and leave in camelCase. `model` is the role of the assistant; every
part is one part. A request's body names no model (the URL does), a response's body names it `modelVersion`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.model.exchange import (
    NAMELESS_CALL,
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
    kind_of_input,
)
from demur.wire.blocks import finish_of_word
from demur.wire.fields import (
    Field,
    arguments_of,
    decode,
    extra_inputs,
    finish_word,
    input_of,
    opaque,
    present,
    put,
    root,
    unread_beside,
    usage_of,
)
from demur.wire.gemini.stream import ContentStream, content_events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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

_SNAKE = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")

# Objects whose names the API defines, by the field that holds them; a list stands for each of its items.
_Places = dict[str, Any]
_CONTENT: _Places = {
    "parts": {
        "codeExecutionResult": {},
        "executableCode": {},
        "fileData": {},
        "functionCall": {},
        "functionResponse": {},
        "inlineData": {},
    }
}
_REQUEST: _Places = {"contents": _CONTENT, "generationConfig": {}, "systemInstruction": _CONTENT}
_RESPONSE: _Places = {
    "candidates": {"citationMetadata": {}, "content": _CONTENT, "safetyRatings": {}},
    "promptFeedback": {"safetyRatings": {}},
    "usageMetadata": {},
}
_WORDS = {
    "STOP": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "SAFETY": Finish.CONTENT_FILTER,
    "PROHIBITED_CONTENT": Finish.CONTENT_FILTER,
    "BLOCKLIST": Finish.CONTENT_FILTER,
    "SPII": Finish.CONTENT_FILTER,
    "IMAGE_SAFETY": Finish.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": Finish.CONTENT_FILTER,
    "MODEL_ARMOR": Finish.CONTENT_FILTER,
}
# Dumps of the SDKs that are built on protocol buffers have the numbers of the enums. Vertex AI's `Candidate.FinishReason` and that of
# the Gemini API (`google.ai.generativelanguage`) are the same up to 5 only.
_FINISHES = ("FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
_VERTEX_FINISHES = (
    *(*_FINISHES, "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR", "IMAGE_SAFETY"),
    *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "UNEXPECTED_TOOL_CALL", "NO_IMAGE"),
)
_GEMINI_FINISHES = (
    *(*_FINISHES, "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY"),
)
_BLOCKS = ("BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT")
# What the format has no word for becomes the nearest one that keeps a refusal visible.
_DEFAULTS = {
    Finish.STOP: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.TOOL: "STOP",
    Finish.CONTENT_FILTER: "SAFETY",
    Finish.REFUSAL: "SAFETY",
    Finish.ERROR: "OTHER",
    Finish.UNKNOWN: "OTHER",
}
_STOP_SIGNALS = {Finish.CONTENT_FILTER: SignalKind.FILTER_STOP, Finish.REFUSAL: SignalKind.REFUSAL_STOP}
_READ_CANDIDATE = frozenset(
    {
        *("content", "finishReason", "finishMessage", "index", "safetyRatings", "citationMetadata", "tokenCount"),
        *("groundingMetadata", "groundingAttributions", "avgLogprobs", "logprobsResult", "urlContextMetadata"),
    }
)
_READ_ROLES = {"model": "assistant", "function": "tool"}


def reads_request(body: JsonObject) -> bool:
    """Return whether the body is a request to `:generateContent`."""
    contents = body.get("contents")
    return isinstance(contents, list) and all(isinstance(item, dict) and "parts" in item for item in contents)


def read_request(body: JsonObject) -> Request:
    """Return the request; its `model` is empty unless the body names one after all."""
    body = _camel(root(body).object(), _REQUEST)
    if isinstance(body.get("systemInstruction"), str):
        # The SDKs' short form of an instruction is mere text.
        body["systemInstruction"] = {"parts": [{"text": body["systemInstruction"]}]}
    top = root(body)
    messages = []
    for content in top.need("contents"):
        role = content.text_at("role") or "user"
        messages.append(Message(_READ_ROLES.get(role, role), _read_parts(content)))
    system = _read_parts(top.get("systemInstruction"))
    config = top.get("generationConfig")
    return Request(
        model=top.text_at("model") or "",
        messages=(*([Message("system", system)] if system else []), *messages),
        n=1 if config is None else config.integer_at("candidateCount") or 1,
        extra_inputs=extra_inputs(body, own="contents"),
    )


def reads_response(body: JsonObject) -> bool:
    """Return whether the body is a generateContent response, a fragment of one, or an error of this API."""
    error = body.get("error")
    if isinstance(error, dict):
        return isinstance(error.get("status"), str) and isinstance(error.get("code"), int)
    return isinstance(body.get("candidates"), list) or any(
        isinstance(body.get(name), dict)
        for name in ("promptFeedback", "prompt_feedback", "usageMetadata", "usage_metadata")
    )


def read_response(body: JsonObject, *, status: int = 200) -> Response:
    """Return the candidates, the block or the error as a response."""
    top = root(camel_response(body))
    error = top.get("error")
    if error is not None:
        code, kind = error.integer_at("code"), error.text_at("status")
        said = None if code is None else str(code)
        return Response(
            model="",
            signals=(Signal(SignalKind.ERROR, "error.status" if kind else "error.code", kind or said or "error"),),
            error=ProviderError(error.text_at("message") or "", code=said, kind=kind),
            status=status,
        )
    signals = list(_prompt_signals(top.get("promptFeedback")))
    choices = []
    for position, candidate in enumerate(top.each("candidates")):
        choice = _read_choice(candidate, position)
        choices.append(choice)
        if choice.finish in _STOP_SIGNALS and choice.finish_raw is not None:
            path, detail = f"{candidate.path}.finishReason", candidate.text_at("finishMessage")
            signals.append(Signal(_STOP_SIGNALS[choice.finish], path, choice.finish_raw, choice.index, detail=detail))
        signals += _flags(candidate, choice.index)
    return Response(
        model=top.text_at("modelVersion") or "",
        choices=tuple(choices),
        signals=tuple(signals),
        usage=usage_of(top.get("usageMetadata"), asked="promptTokenCount", answered="candidatesTokenCount"),
        id=top.text_at("responseId") or None,
        created_s=_epoch_s(top.tag_at("createTime")),
        status=status,
    )


def write_response(response: Response) -> JsonObject:
    """Return the body that `:generateContent` would have answered."""
    if response.error is not None:
        return _status_error(response)
    usage, created_s = response.usage, response.created_s
    body = present(
        candidates=[_write_candidate(choice) for choice in response.choices] or None,
        usageMetadata=None
        if usage is None
        else {
            "promptTokenCount": usage.input_tokens,
            "candidatesTokenCount": usage.output_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        },
        modelVersion=response.model or None,
        responseId=response.id,
        createTime=None
        if created_s is None
        else datetime.fromtimestamp(created_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    positions = {choice.index: at for at, choice in enumerate(response.choices)}
    for signal in response.signals:
        _write_signal(body, signal, positions=positions)
    return body


def open_stream() -> StreamReader:
    """Return a reader for one streamed response."""
    return ContentStream(read_response, camel_response)


def write_stream(response: Response, *, piece_chars: int = 0) -> Iterator[ServerEvent]:
    """Yield fragments of the response; the last one says why each candidate ended."""
    error = None if response.error is None else _status_error(response)
    if error is not None and not response.choices:
        return content_events(None, error=error, piece_chars=piece_chars)
    return content_events(write_response(replace(response, error=None)), error=error, piece_chars=piece_chars)


def camel_response(body: JsonObject) -> JsonObject:
    """Return the response, or a fragment of one, with the API's own names in camelCase."""
    response: JsonObject = _camel(root(body).object(), _RESPONSE)
    candidates, feedback = response.get("candidates"), response.get("promptFeedback")
    for candidate in candidates if isinstance(candidates, list) else ():
        if isinstance(candidate, dict):
            # Only the Gemini API counts tokens for each candidate.
            _name_number(candidate, "finishReason", _GEMINI_FINISHES if "tokenCount" in candidate else _VERTEX_FINISHES)
            _name_ratings(candidate)
    if isinstance(feedback, dict):
        _name_number(feedback, "blockReason", _BLOCKS)
        _name_ratings(feedback)
    return response


def _name_number(holder: JsonObject, field: str, names: tuple[str, ...]) -> None:
    """Write the name of an enum's value for its number; one that we do not know stays the number, as text."""
    number = holder.get(field)
    if isinstance(number, int) and not isinstance(number, bool):
        holder[field] = names[number] if 0 <= number < len(names) else str(number)


def _name_ratings(holder: JsonObject) -> None:
    ratings = holder.get("safetyRatings")
    for rating in ratings if isinstance(ratings, list) else ():
        if isinstance(rating, dict):
            _name_number(rating, "category", ())
            _name_number(rating, "probability", ())


def _camel(value: Any, places: _Places) -> Any:
    """Return the value with its names in camelCase, as deep as the API defines them.

    Names inside a tool's arguments or a schema are the user's own, and stay as they are.
    """
    if isinstance(value, list):
        return [_camel(item, places) for item in value]
    if not isinstance(value, dict):
        return value
    # Most bodies are in camelCase already: the search costs more than the look.
    named = ((_SNAKE.sub(lambda m: m[1].upper(), name) if "_" in name else name, item) for name, item in value.items())
    return {name: _camel(item, places[name]) if name in places else item for name, item in named}


def _epoch_s(time: str) -> int | None:
    """Return an RFC 3339 time as whole seconds since 1970, None where it is none; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _read_parts(content: Field | None) -> tuple[Part, ...]:
    return () if content is None else tuple([read for part in content.each("parts") for read in _read_part(part)])


def _read_part(part: Field) -> Iterator[Part]:
    """Yield the part, and the text that stands beside a call in it; media, code and kinds from the future are opaque."""
    call, result, text = part.get("functionCall"), part.get("functionResponse"), part.text_at("text")
    if call is not None:
        # The Gemini API sends calls without an id: such a call goes by its name, and so does its result.
        name = call.text_at("name") or ""
        yield (
            ToolCallPart(call.text_at("id") or name, name, arguments_of(call.get("args")))
            if name
            else opaque(part, NAMELESS_CALL)
        )
    elif result is not None:
        response = result.get("response")
        match None if response is None else response.value:
            # A lone `output` is what our writer makes of a text; any other response is kept as JSON.
            case {"output": str(output), **more} if not more and _write_result(output) == {"output": output}:
                said = output
            case _:
                said = arguments_of(response)
        yield ToolResultPart(result.text_at("id") or result.text_at("name") or "", said)
    if text is not None:
        yield ThinkingPart(text) if part.flag_at("thought") else TextPart(text)
    elif call is None and result is None:
        yield opaque(part, kind_of_input(next((name for name, field in part.fields() if field.is_object), "unknown")))


def _write_part(part: Part, names: Mapping[str, str]) -> JsonObject:
    """Return the part as JSON; `names` says which tool a call's id belongs to."""
    match part:
        case TextPart(text) | RefusalPart(text):
            return {"text": text}
        case ThinkingPart(text):
            return {"text": text, "thought": True}
        case ToolCallPart(id=call, name=name, arguments=arguments):
            own_id = {} if call == name else {"id": call}
            return {"functionCall": {**own_id, "name": name, "args": input_of(arguments)}}
        case ToolResultPart(call_id=call, text=text):
            known = names.get(call)
            matched = present(id=None if known == call else call, name=known)
            return {"functionResponse": {**matched, "response": _write_result(text)}}
        case OpaquePart(body=body):
            return root(decode(body)).object()


def _write_result(text: str) -> JsonObject:
    value = input_of(text) if text else text
    return value if isinstance(value, dict) else {"output": text}


def _read_choice(candidate: Field, position: int) -> Choice:
    parts = _read_parts(candidate.get("content"))
    said = candidate.get("output") if not parts else None
    if said is not None and said.is_text:
        # PaLM's candidates are texts.
        parts = (TextPart(said.text()),)
    elif not parts and (beside := unread_beside(candidate.object(), _READ_CANDIDATE)) is not None:
        parts = (beside,)
    index = candidate.integer_at("index")
    raw = candidate.text_at("finishReason")
    # RECITATION, LANGUAGE, OTHER and MALFORMED_* are no refusals, and have no word of ours.
    finish = None if raw is None else _WORDS.get(raw) or finish_of_word(raw)
    if finish is Finish.STOP and any(isinstance(part, ToolCallPart) for part in parts):
        finish = Finish.TOOL
    return Choice(position if index is None else index, parts, finish, raw)


def _prompt_signals(feedback: Field | None) -> Iterator[Signal]:
    if feedback is None:
        return
    reason = feedback.text_at("blockReason")
    # The zero value of the enum says that nothing was blocked.
    if reason is not None and not reason.endswith("_UNSPECIFIED"):
        detail = feedback.text_at("blockReasonMessage")
        yield Signal(SignalKind.PROMPT_BLOCK, "promptFeedback.blockReason", reason, detail=detail)
    yield from _flags(feedback, None)


def _flags(rated: Field, choice: int | None) -> Iterator[Signal]:
    for rating in rated.each("safetyRatings"):
        # Ratings are sent for harmless content too; only one that blocked is a flag.
        if rating.flag_at("blocked"):
            category, severity = rating.text_at("category"), rating.text_at("probability")
            path = f"{rating.path}.blocked"
            yield Signal(SignalKind.FILTER_FLAG, path, "true", choice=choice, category=category, severity=severity)


def _write_candidate(choice: Choice) -> JsonObject:
    names = {part.id: part.name for part in choice.parts if isinstance(part, ToolCallPart)}
    # The API says STOP after a function call as well; `tool` is our reading of it.
    spoken = replace(choice, finish=Finish.STOP) if choice.finish is Finish.TOOL else choice
    return present(
        content={"role": "model", "parts": [_write_part(p, names) for p in choice.parts]} if choice.parts else None,
        finishReason=finish_word(spoken, _WORDS, defaults=_DEFAULTS),
        index=choice.index,
    )


def _write_signal(body: JsonObject, signal: Signal, *, positions: dict[int, int]) -> None:
    """Write what a signal says where the format has a place for it; signals of other formats have none."""
    rated = "promptFeedback" if signal.choice is None else f"candidates[{positions.get(signal.choice)}]"
    match signal.kind:
        case SignalKind.PROMPT_BLOCK if signal.path == "promptFeedback.blockReason":
            put(body, signal.path, value=signal.value)
            if signal.detail is not None:
                put(body, "promptFeedback.blockReasonMessage", value=signal.detail)
        case SignalKind.FILTER_STOP if signal.choice in positions and signal.detail is not None:
            body["candidates"][positions[signal.choice]]["finishMessage"] = signal.detail
        case SignalKind.FILTER_FLAG if signal.path.startswith(f"{rated}.safetyRatings["):
            rating = signal.path.removesuffix(".blocked")
            for name, value in present(category=signal.category, probability=signal.severity, blocked=True).items():
                put(body, f"{rating}.{name}", value=value)
        case _:
            pass


def _status_error(response: Response) -> JsonObject:
    error = response.error or ProviderError("")
    code = int(error.code) if error.code is not None and error.code.isdecimal() else response.status
    return {"error": present(code=code, message=error.message, status=error.kind or error.code)}
