"""What a model responded, where a tool has kept it in a spelling of its own.

Tools log a provider's whole response, its list of choices, one message, a list of parts, or bare text, and often each of
them as a JSON string. Nothing recorded is no response (None), while a message without content is an empty one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from demur.errors import ShapeError
from demur.formats.fields import message_of, object_at, role_of, text_at, unwrapped_json
from demur.model.exchange import (
    Choice,
    Finish,
    OpaquePart,
    RefusalPart,
    Response,
    Shape,
    Signal,
    SignalKind,
    TextPart,
    ThinkingPart,
)
from demur.model.run import Skipped
from demur.wire.blocks import FILTER_WORDS, error_text, is_block
from demur.wire.fields import encode, unread_beside
from demur.wire.shapes import CODECS, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from demur.model.exchange import Part
    from demur.model.run import Traced
    from demur.wire.fields import JsonObject

__all__ = [
    "NOT_STORED",
    "describe_kind",
    "failure_of",
    "finish_of",
    "not_stored",
    "parts_and_stop",
    "read_each",
    "response_in",
    "response_in_text",
    "response_of_choices",
    "response_of_parts",
    "response_of_text",
]

_FINISHES = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token"), Finish.STOP),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), Finish.LENGTH),
    "model_context_window_exceeded": Finish.LENGTH,
    **dict.fromkeys(("tool", "tool_use", "tool_call", "tool_calls", "function_call"), Finish.TOOL),
    **dict.fromkeys((word.replace("-", "_") for word in FILTER_WORDS), Finish.CONTENT_FILTER),
    **dict.fromkeys(("refusal", "refused"), Finish.REFUSAL),
    "error": Finish.ERROR,
}
_STOPS = {
    Finish.CONTENT_FILTER: SignalKind.FILTER_STOP,
    Finish.REFUSAL: SignalKind.REFUSAL_STOP,
    Finish.ERROR: SignalKind.ERROR,
}
NOT_STORED = OpaquePart("unread.not_stored", b"{}")
"""What stands for an answer that was given and that the tool did not keep."""
_READ_MESSAGE = frozenset(
    {
        *("content", "role", "parts", "kwargs", "tool_calls", "refusal", "value", "text", "from", "name", "id", "type"),
        *("additional_kwargs", "response_metadata", "usage_metadata", "usage", "annotations", "model", "lc", "example"),
        *("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks", "metadata", "error"),
        *("provider_specific_fields", "invalid_tool_calls", "finish_reason", "stop_reason", "timestamp", "createdAt"),
        *("error_message", "errorMessage", "usageMetadata", "groundingMetadata", "grounding_metadata", "audio"),
        *(
            "safetyRatings",
            "safety_ratings",
            "citationMetadata",
            "citation_metadata",
            "finish_message",
            "finishMessage",
        ),
    }
)
"""What a message has beside its words, and thoughts, which nobody judges."""
_MESSAGE_KEYS = frozenset({"content", "role", "parts", "kwargs", "tool_calls", "refusal"})
_WRAPPERS = ("message", "messages", "output", "response", "completion", "answer", "text", "result")
"""Where frameworks put the answer in an object of their own, in the order asked."""
_GEMINI_KEYS = frozenset({"candidates", "promptFeedback", "prompt_feedback", "error"})
_STRUCTURED = ("parsed", "structured_response")
"""Where LangChain and OpenAI's client put an answer that was asked for as an object: its JSON is what the model wrote."""
_PART_KINDS = frozenset(
    {"text", "output_text", "refusal", "thinking", "redacted_thinking", "tool_use", "tool_call", "image_url"}
)
"""The types of part by which a list in JSON is known to be an answer's, and not a list that a model wrote."""
_MAX_WRAPPERS = 4
_MAX_KIND_CHARS = 40
_STOP_NAMES = ("finish_reason", "stop_reason", "finishReason", "stopReason")


def response_in(output: object, *, model: str = "", stop: object = None, path: str = "output") -> Response | None:
    """Return the answer in what a tool logged as output; None where nothing was.

    `stop` is why it ended, where the tool keeps that beside the output; `path` is where signals are said to stand.
    """
    read = _read_output(output, path, _MAX_WRAPPERS)
    if read is None:
        # A filter's stop without any output is all there is to know, and enough.
        finish = finish_of(stop)
        return response_of_parts((), model=model, stop=stop) if finish in _STOPS else None
    read = replace(read, model=read.model or model)
    if finish_of(stop) is None or not read.choices or any(choice.finish for choice in read.choices):
        return read
    # A stop word that stood beside the output is the first choice's, unless the choices say their own.
    beside = response_of_parts((), stop=stop)
    first = replace(read.choices[0], finish=beside.choices[0].finish, finish_raw=beside.choices[0].finish_raw)
    return replace(read, choices=(first, *read.choices[1:]), signals=read.signals + beside.signals)


def response_in_text(text: str, *, path: str = "output") -> Response | None:
    """Return the answer in a text that is a provider's response, a message or its parts as JSON; None where the text is the model's own."""
    value = unwrapped_json(text)
    if isinstance(value, dict) and (_is_body(value) or _is_answer(value)):
        return _read_output(value, path, 0)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        return None
    # A model may have written JSON of its own: only what has the marks of an answer is one.
    answers = all(isinstance(item.get("message"), dict) or _is_answer(item) for item in value)
    return _read_output(value, path, 0) if answers or _are_parts(value) else None


def _is_body(value: JsonObject) -> bool:
    """Return whether an object has what only a provider's response has."""
    error = value.get("error")
    if isinstance(error, dict):
        return isinstance(error.get("message"), str) and not error.keys().isdisjoint({"type", "code", "status"})
    if shape_of_response(value) is None:
        return False
    held = [value.get(name) for name in ("choices", "candidates")]
    output = value.get("output")
    return (
        any(isinstance(items, list) and all(isinstance(item, dict) for item in items) for items in held)
        or value.get("type") == "message"
        or value.get("object") == "response"
        or isinstance(value.get("promptFeedback"), dict)
        or (isinstance(output, list) and all(isinstance(item, dict) for item in output))
        or (isinstance(output, dict) and isinstance(output.get("message"), dict))
        or isinstance(value.get("message"), dict)
    )


def _is_answer(value: JsonObject) -> bool:
    """Return whether an object is a message of the assistant, or LangChain's spelling of one."""
    if isinstance(value.get("kwargs"), dict) and "lc" in value:
        return True
    return role_of(value) == "assistant" and not _MESSAGE_KEYS.isdisjoint(value.keys() - {"role"})


def _are_parts(value: list[Any]) -> bool:
    kinds = [item.get("type") for item in value]
    return all(isinstance(kind, str) for kind in kinds) and not _PART_KINDS.isdisjoint(kinds)


def response_of_parts(
    parts: tuple[Part, ...], *, model: str = "", stop: object = None, path: str = "finish_reason"
) -> Response:
    """Return the response with one choice of these parts; refusals among them and the stop word are its signals."""
    return response_of_choices([(parts, stop)], model=model, path=path)


def response_of_choices(
    choices: Sequence[tuple[tuple[Part, ...], object]], *, model: str = "", path: str = "finish_reason"
) -> Response:
    """Return the response with these choices, each its parts and its stop word."""
    held, signals = [], []
    for index, (parts, stop) in enumerate(choices):
        finish = finish_of(stop)
        raw = stop if isinstance(stop, str) and finish else None
        held.append(Choice(index, parts, finish, raw))
        refusals = (part.text for part in parts if isinstance(part, RefusalPart))
        signals += [Signal(SignalKind.REFUSAL_FIELD, "refusal", text, index) for text in refusals]
        kind = _STOPS.get(finish) if finish else None
        if kind and raw:
            signals.append(Signal(kind, path, raw, index))
    return Response(model, tuple(held), tuple(signals))


def response_of_text(text: str, *, model: str = "", stop: object = None, path: str = "finish_reason") -> Response:
    """Return the response with one choice of this text, taken as it is."""
    return response_of_parts((TextPart(text),) if text else (), model=model, stop=stop, path=path)


def not_stored(model: str = "", stop: object = None) -> Response:
    """Return the response of a call that was answered and whose answer the tool did not keep; its stop word may be known."""
    return response_of_parts((NOT_STORED,), model=model, stop=stop)


def failure_of(error: object, *, model: str = "", path: str = "error") -> Response:
    """Return the response of a call that failed with this error: a filter's block where it says so."""
    kind = SignalKind.PROMPT_BLOCK if is_block(error) else SignalKind.ERROR
    return Response(model, (), (Signal(kind, path, error_text(error)),))


def describe_kind(kind: object, noun: str) -> str:
    """Return why a row of this kind is no call, as in `a tool span`."""
    name = " ".join(kind.lower()[:_MAX_KIND_CHARS].split()) if isinstance(kind, str) else ""
    name = name or "nameless"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name} {noun}"


def finish_of(stop: object) -> Finish | None:
    """Return what a stop word of any provider or tool means; None where there is none."""
    if not isinstance(stop, str) or not stop.strip():
        return None
    # `FinishReason.SAFETY` is how an SDK's enum prints.
    word = stop.strip().lower().rpartition(".")[2].replace("-", "_").replace(" ", "_")
    return _FINISHES.get(word, Finish.UNKNOWN)


def read_each(
    rows: Iterable[object], read: Callable[[JsonObject], Iterator[Traced | Skipped]]
) -> Iterator[Traced | Skipped]:
    """Yield what is read of each row of a document; one that cannot be read is skipped, and the next is not lost."""
    for row in rows:
        if not isinstance(row, dict):
            yield Skipped("unreadable: a row that is no object")
            continue
        try:
            found = list(read(row))
        except ShapeError as exc:
            found = [Skipped(f"unreadable: {exc.what}")]
        yield from found


def _read_output(output: object, path: str, wrappers: int) -> Response | None:
    value = unwrapped_json(output)
    if isinstance(value, dict):
        read = _read_object_output(value, path, wrappers)
    elif isinstance(value, list):
        read = _read_list_output(value, path)
    else:
        text = value if isinstance(value, str) else encode(value).decode()
        return None if value is None else response_of_text(text)
    if read is not None:
        return read
    # A JSON string that is no message is the response as the model wrote it. An object that is none may hold anything, and
    # where in it the words are that decline, if any, nobody has said.
    if isinstance(output, str):
        return response_of_text(output)
    return response_of_parts((OpaquePart("unread.not_text", encode(value)),)) if value else not_stored()


def _read_object_output(value: JsonObject, path: str, wrappers: int) -> Response | None:
    """Return the answer in a provider's response, a message, or an object around one; None where it is neither."""
    shape = shape_of_response(value)
    # Google's Agent Development Kit writes a candidate's content with the response's token counts beside it.
    is_candidate = shape is Shape.GEMINI and _GEMINI_KEYS.isdisjoint(value)
    if shape is not None and not is_candidate:
        # By its codec, so that its signals are not lost.
        return CODECS[shape].read_response(value)
    if value.get("error_code") and value.get("content") is None:
        # The same kit writes the finish or block reason as an error where there is no content.
        return failure_of(value, path=f"{path}.error_code")
    if is_candidate or _MESSAGE_KEYS & value.keys():
        return _of_message(value, path)
    declared = next((value[name] for name in _STRUCTURED if value.get(name) is not None), None)
    if declared is not None:
        return response_of_text(declared if isinstance(declared, str) else encode(declared).decode())
    inner = next((name for name in _WRAPPERS if value.get(name) is not None), None)
    return None if inner is None or not wrappers else _read_output(value[inner], f"{path}.{inner}", wrappers - 1)


def _read_list_output(value: list[Any], path: str) -> Response | None:
    objects = [item for item in value if isinstance(item, dict)]
    if objects and all(isinstance(item.get("message"), dict) for item in objects):
        shape = shape_of_response({"choices": objects})
        return None if shape is None else CODECS[shape].read_response({"choices": objects})
    spoken = [item for item in objects if "role" in item or "kwargs" in item]
    if len(spoken) > 1 and all(item.get("role") == "assistant" for item in value if isinstance(item, dict)):
        # Several answers in a row are the choices of one response.
        return response_of_choices([parts_and_stop(item) for item in spoken], path=f"{path}.finish_reason")
    if spoken:
        return _of_message(spoken[-1], path)
    known = {"text", "type", "toolName"}
    are_parts = all(isinstance(item, str) or (isinstance(item, dict) and known & item.keys()) for item in value)
    return _of_message({"content": value}, path) if are_parts else None


def _of_message(message: JsonObject, path: str) -> Response:
    parts, stop = parts_and_stop(message)
    about = object_at(object_at(message, "kwargs") or message, "response_metadata")
    model = text_at(about, "model_name", "model") or ""
    return response_of_parts(parts, model=model, stop=stop, path=f"{path}.finish_reason")


def parts_and_stop(message: JsonObject) -> tuple[tuple[Part, ...], str | None]:
    """Return the parts of an answer's message and the stop word that it carries, if any."""
    body = object_at(message, "kwargs") or message
    parts = message_of({**body, "role": "assistant"}).parts
    # LangChain moves the provider's refusal and stop word into objects of its own.
    refusal = text_at(object_at(body, "additional_kwargs"), "refusal")
    if not any(not isinstance(part, ThinkingPart) for part in parts) and not refusal:
        beside = unread_beside(body, _READ_MESSAGE)
        parts += () if beside is None else (beside,)
    stop = text_at(body, *_STOP_NAMES) or text_at(object_at(body, "response_metadata"), *_STOP_NAMES)
    return ((*parts, RefusalPart(refusal)) if refusal else parts), stop
