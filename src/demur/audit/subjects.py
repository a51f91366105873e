"""What is an auditor's method handed: a request, a response, or whatever came over HTTP, as one kind of mapping?

In the request phase `prompt`, `messages`, `model`, `metadata`; in the response phase `content`, `thinking`, `refusal`,
`finish_reason`, `tool_calls`, `choices`, `signals`, `error`, `model`, `prompt`, `metadata`; in the other phases what was sent.
Laws: `prompt`, `content` and `thinking` are always text, empty where there is none, and hold all that was asked (see `asked_words`)
and all choices;
what the model thought aloud is heard by the client too, so it is handed over, but apart: it is not the answer; `input` and `output` are
read alike from a text, such a mapping, or a provider's whole body; a mapping that was written here is read back to the
same signals, so that an auditor behind HTTP judges what one in the process would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from demur.audit.prompt_text import asked_words, words_of_turn
from demur.detect.signals import refusal_text
from demur.errors import ShapeError
from demur.model.audit import Subject
from demur.model.claim import Phase
from demur.model.exchange import (
    Choice,
    Finish,
    Message,
    ProviderError,
    RefusalPart,
    Request,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from demur.model.verdict import Signal
from demur.wire.flat import read_flat
from demur.wire.shapes import read_asked, read_exchange, shape_of_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.model.exchange import Part

__all__ = ["Handed", "handed_to", "read_subject", "subject_of_request", "subject_of_response"]

_FINISHES = {finish.value: finish for finish in Finish}
_REQUEST, _RESPONSE = Phase.REQUEST, Phase.RESPONSE
_METADATA = ("model_id", "session_id", "user_id")


class Handed(dict[str, object]):
    """The mapping that a method is handed, and the value that it was made of, for auditors that know our own."""

    __slots__ = ("source",)
    source: Request | Response | None


def subject_of_request(request: Request, *, metadata: Mapping[str, str] | None = None, trace: str = "") -> Subject:
    """Return what auditors of the request phase are asked about."""
    return Subject(_REQUEST, _request_fields(request), None, metadata or {}, trace, request)


def subject_of_response(
    response: Response, request: Request | None = None, *, metadata: Mapping[str, str] | None = None, trace: str = ""
) -> Subject:
    """Return what auditors of the response phase are asked about."""
    asked = None if request is None else _request_fields(request)
    return Subject(_RESPONSE, asked, _response_fields(response), metadata or {}, trace, request, response)


def handed_to(subject: Subject) -> Handed:
    """Return the mapping for one method: its own copy, so that no auditor writes into another's."""
    phase = subject.phase
    handed = Handed(metadata={**subject.metadata}, claims={**subject.claims})
    if phase is _REQUEST:
        handed.source = subject.asked
        handed.update(subject.input or {"prompt": ""})
    elif phase is _RESPONSE:
        handed.source = subject.answered
        handed["prompt"] = (subject.input or {}).get("prompt", "")
        handed.update(subject.output or {"content": ""})
    else:
        handed.source = None
        handed.update(subject.input or {})
        handed.update(subject.output or {})
    return handed


def read_subject(phase: Phase, data: Mapping[str, Any], *, trace: str = "") -> Subject:
    """Return the subject in the `data` of an HTTP request; raise `ShapeError` where it has none."""
    given = {} if data.get("metadata") is None else data["metadata"]
    if not isinstance(given, dict):
        raise ShapeError("`data.metadata`: expected an object")
    metadata = {str(key): str(value) for key, value in given.items() if isinstance(value, str | int | float)}
    asked, answered = data.get("input"), data.get("output")
    if phase is Phase.REQUEST:
        return subject_of_request(_read_request(asked, metadata), metadata=metadata, trace=trace)
    if phase is Phase.RESPONSE:
        request = None if asked is None else _read_request(asked, metadata)
        return subject_of_response(_read_response(answered), request, metadata=metadata, trace=trace)
    if asked is None and answered is None:
        raise ShapeError("`data`: expected an `input` or an `output`")
    return Subject(phase, _as_fields(asked), _as_fields(answered), metadata, trace)


def _request_fields(request: Request) -> dict[str, object]:
    turns = [(message, words_of_turn(message)) for message in request.messages]
    messages = [{"role": message.role, "content": _turn_text(message, said)} for message, said in turns]
    return {"prompt": asked_words(request, turns), "messages": messages, "model": request.model}


def _turn_text(message: Message, said: str) -> str:
    return "\n".join(filter(None, (message.text, said))) if message.role == "assistant" else said


def _response_fields(response: Response) -> dict[str, object]:
    choices = [_choice_fields(choice) for choice in response.choices]
    first = choices[0] if choices else {}
    return {
        "content": _of_all(choices, "content"),
        "thinking": _of_all(choices, "thinking"),
        "refusal": _of_all(choices, "refusal") or None,
        "finish_reason": first.get("finish_reason"),
        "finish_raw": first.get("finish_raw"),
        "tool_calls": [call for choice in response.choices for call in _calls(choice)],
        "choices": choices,
        "signals": [msgspec.to_builtins(signal) for signal in response.signals],
        "error": None if response.error is None else msgspec.to_builtins(response.error),
        "model": response.model,
        "complete": response.complete,
    }


def _of_all(choices: list[dict[str, object]], field: str) -> str:
    if len(choices) == 1:
        return str(choices[0][field] or "")
    return "\n\n".join([str(choice[field]) for choice in choices if choice[field]])


def _choice_fields(choice: Choice) -> dict[str, object]:
    parts = choice.parts
    # What most answers are is said without a walk through the parts.
    only = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else None
    return {
        "index": choice.index,
        "content": choice.text if only is None else only,
        "thinking": _thinking_of(choice) if only is None else "",
        "refusal": None if only is not None else refusal_text(choice) or None,
        "finish_reason": str(choice.finish) if choice.finish else choice.finish_raw,
        "finish_raw": choice.finish_raw,
        "tool_calls": _calls(choice),
    }


def _thinking_of(choice: Choice) -> str:
    return "\n".join([part.text for part in choice.parts if isinstance(part, ThinkingPart)])


def _calls(choice: Choice) -> list[dict[str, str]]:
    return [
        {"id": part.id, "name": part.name, "arguments": part.arguments}
        for part in choice.parts
        if isinstance(part, ToolCallPart)
    ]


def _as_fields(given: object) -> dict[str, object] | None:
    return given if given is None or isinstance(given, dict) else {"content": given}


def _read_request(given: object, metadata: Mapping[str, str]) -> Request:
    """Return the request in `data.input`."""
    model = metadata.get(_METADATA[0], "")
    if isinstance(given, str):
        return Request(model, (_user(given),))
    if isinstance(given, list):
        given = {"messages": given}
    if not isinstance(given, dict):
        raise ShapeError("`data.input`: expected a text, a mapping with a `prompt`, or a provider's request")
    prompt = given.get("prompt")
    if isinstance(prompt, str):
        return Request(str(given.get("model") or model), _messages(given.get("messages"), prompt))
    request = read_asked(given).request
    if request is None:
        raise ShapeError("`data.input`: expected a request")
    return request


def _messages(given: object, prompt: str) -> tuple[Message, ...]:
    """Return the turns of a mapping, if they say the same as its prompt; the prompt alone otherwise."""
    if isinstance(given, list) and given and all(map(_is_plain_turn, given)):
        messages = tuple(Message(turn["role"], (TextPart(turn["content"]),)) for turn in given)
        if asked_words(Request("", messages)) == prompt:
            return messages
    return (_user(prompt),)


def _is_plain_turn(turn: object) -> bool:
    return isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)


def _user(prompt: str) -> Message:
    return Message("user", (TextPart(prompt),))


def _read_response(given: object) -> Response:
    """Return the response in `data.output`."""
    if isinstance(given, str):
        return Response("", (Choice(0, (TextPart(given),)),))
    if not isinstance(given, dict):
        raise ShapeError("`data.output`: expected a text, a mapping with `content`, or a provider's response")
    if isinstance(given.get("signals"), list) and "content" in given:
        return _own_response(given)
    if "content" in given and isinstance(given["content"], str | None) and shape_of_response(given) is None:
        response = read_flat({**given, "response": given["content"] or ""}).response
    else:
        response = read_exchange(given).response
    if response is None:
        raise ShapeError("`data.output`: expected a response")
    return response


def _own_response(given: dict[str, Any]) -> Response:
    """Return the response that a mapping of our own making was written from."""
    rows = given.get("choices") or [given]
    try:
        signals = msgspec.convert(given["signals"], tuple[Signal, ...])
        error = msgspec.convert(given.get("error"), ProviderError | None)
        choices = tuple(_own_choice(msgspec.convert(row, _ChoiceRow), at) for at, row in enumerate(rows))
        return Response(
            str(given.get("model") or ""), choices, signals, error, complete=given.get("complete") is not False
        )
    except (msgspec.ValidationError, TypeError) as exc:
        raise ShapeError(f"`data.output`: {str(exc)[:1].lower()}{str(exc)[1:]}") from exc


class _ChoiceRow(msgspec.Struct, frozen=True):
    content: str | None = None
    thinking: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    finish_raw: str | None = None
    tool_calls: tuple[ToolCallPart, ...] = ()
    index: int | None = None


def _own_choice(row: _ChoiceRow, at: int) -> Choice:
    parts: list[Part] = [ThinkingPart(row.thinking)] if row.thinking else []
    parts += [TextPart(row.content)] if row.content else []
    parts += [RefusalPart(row.refusal)] if row.refusal else []
    finish = _FINISHES.get(row.finish_reason or "")
    return Choice(at if row.index is None else row.index, (*parts, *row.tool_calls), finish, row.finish_raw)
