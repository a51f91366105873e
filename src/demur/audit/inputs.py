"""What auditors are asked about: an exchange's typed values, and the mapping that methods are handed by default.

`prompt`, `content` and `thinking` are always text, empty where there is none, and cover every turn and every choice.
The mapping of the request phase has `prompt`, `messages`, `model`; that of the response phase `content`, `thinking`,
`refusal`, `finish_reason`, `tool_calls`, `choices`, `signals`, `error`, `model`, `prompt`; each also `metadata` and `claims`.
"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from demur.model.claim import ClaimValue, Phase
from demur.model.exchange import (
    Message,
    OpaquePart,
    RefusalPart,
    Request,
    Response,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from demur.wire.fields import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from demur.model.exchange import Choice

__all__ = ["AuditorInput", "prompt_of", "request_input", "response_input"]

_T = TypeVar("_T")
_OPERATOR = frozenset({"system", "developer"})
_MODEL = "assistant"
# Names of fields that hold no words.
_SILENT = frozenset(
    {
        *("b64_json", "cache_control", "call_id", "created_by", "detail", "encrypted_content", "file_id", "format"),
        *("id", "index", "media_type", "mime_type", "role", "signature", "status", "tool_use_id", "type"),
    }
)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_=-]{60,}\r?\n)*[A-Za-z0-9+/_=-]*")
_TEXT_URL = re.compile(r"data:(?:text/|application/json)[^,]{0,80};base64,", re.IGNORECASE)
_DATA_URL = re.compile(r"data:[^,]{0,200},|https?://\S*$", re.IGNORECASE)
_MAX_WORD_CHARS = 64
_WORDS = (TextPart, RefusalPart, ToolResultPart)


class AuditorInput(msgspec.Struct, frozen=True):
    """One phase of an exchange, as auditors see it.

    `given_input` and `given_output` are the mappings of the artifact and execution phases, which have no typed values.
    `claims` are those that auditors of earlier stages stated, by flat name.
    """

    phase: Phase
    request: Request | None = None
    response: Response | None = None
    metadata: Mapping[str, str] = {}
    trace: str = ""
    claims: Mapping[str, ClaimValue] = {}
    given_input: Mapping[str, object] | None = None
    given_output: Mapping[str, object] | None = None
    _results: dict[Callable[..., object], object] = msgspec.field(default_factory=dict)

    def shared(self, compute: Callable[[AuditorInput], _T]) -> _T:
        """Return `compute(self)`, worked out by whoever asks first: several auditors need the same verdict."""
        # `structs.replace` keeps this dict, so that auditors of later stages share it too. Two threads may both compute;
        # the results are equal, since every input to them is frozen.
        if compute not in self._results:
            self._results[compute] = compute(self)
        return cast("_T", self._results[compute])

    @property
    def prompt(self) -> str:
        """All words of the request that neither the operator nor the model wrote."""
        return self.shared(_prompt)

    @property
    def content(self) -> str:
        """The text of the response, that of all its choices."""
        return self.shared(_content)

    @property
    def input(self) -> Mapping[str, object] | None:
        """The request as a mapping, as it travels over HTTP."""
        return self.given_input if self.request is None else self.shared(_request_fields)

    @property
    def output(self) -> Mapping[str, object] | None:
        """The response as a mapping, as it travels over HTTP."""
        return self.given_output if self.response is None else self.shared(_response_fields)

    def mapping(self) -> dict[str, object]:
        """Return the mapping for one method: a new one for each, so that no auditor writes into another's."""
        made: dict[str, object] = {"metadata": {**self.metadata}, "claims": {**self.claims}}
        if self.phase is Phase.REQUEST:
            made.update(self.input or {"prompt": ""})
        elif self.phase is Phase.RESPONSE:
            made["prompt"] = (self.input or {}).get("prompt", "")
            made.update(self.output or {"content": ""})
        else:
            made.update(self.input or {})
            made.update(self.output or {})
        return made


def request_input(request: Request, *, metadata: Mapping[str, str] | None = None, trace: str = "") -> AuditorInput:
    """Return what auditors of the request phase are asked about."""
    return AuditorInput(Phase.REQUEST, request, None, metadata or {}, trace)


def response_input(
    response: Response, request: Request | None = None, *, metadata: Mapping[str, str] | None = None, trace: str = ""
) -> AuditorInput:
    """Return what auditors of the response phase are asked about."""
    return AuditorInput(Phase.RESPONSE, request, response, metadata or {}, trace)


def prompt_of(request: Request, turns: Iterable[tuple[Message, str]] | None = None) -> str:
    """Return all words of a request that auditors must see, one turn or part per line; `turns` have the words of each.

    User turns, what tools returned, documents, parts of an unknown kind, the values of a prompt template: an attack works
    from any of them.
    """
    said = [words for message, words in turns or _turns(request) if message.role not in _OPERATOR]
    for part in request.extra_inputs:
        said += _strings_in(parse_json(part.body))
    return "\n".join(filter(None, said))


def _turns(request: Request) -> list[tuple[Message, str]]:
    return [(message, _words_of_turn(message)) for message in request.messages]


def _turns_of(given: AuditorInput) -> list[tuple[Message, str]]:
    return [] if given.request is None else _turns(given.request)


def _prompt(given: AuditorInput) -> str:
    if given.request is None:
        return _text_in(given.given_input, "prompt")
    return prompt_of(given.request, given.shared(_turns_of))


def _content(given: AuditorInput) -> str:
    if given.response is None:
        return _text_in(given.given_output, "content")
    # As the mapping joins them, without making it: most responses have one choice.
    return _joined([choice.text for choice in given.response.choices])


def _text_in(fields: Mapping[str, object] | None, name: str) -> str:
    text = (fields or {}).get(name)
    return text if isinstance(text, str) else ""


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else "\n\n".join(filter(None, texts))


def _request_fields(given: AuditorInput) -> dict[str, object]:
    messages = []
    for message, said in given.shared(_turns_of):
        # The model's own words are in the turns, though not in the prompt.
        content = "\n".join(filter(None, (message.text, said))) if message.role == _MODEL else said
        messages.append({"role": message.role, "content": content})
    return {"prompt": given.prompt, "messages": messages, "model": given.request.model if given.request else ""}


def _words_of_turn(message: Message) -> str:
    """Return what one turn brings; of the model's own turns only items that it did not write."""
    # Exactly these roles: a role that no provider defines vouches for nothing.
    if message.role in _OPERATOR:
        return message.text
    # Of the model's own turns only items count that another role wrote: what the model said is no attack on it.
    if message.role == _MODEL:
        items = [parse_json(part.body) for part in message.parts if isinstance(part, OpaquePart)]
        others = (item for item in items if not isinstance(item, dict) or item.get("role") != _MODEL)
        return "\n".join(word for item in others for word in _strings_in(item))
    if len(message.parts) == 1 and isinstance(message.parts[0], _WORDS):
        return message.parts[0].text
    pieces = [part.text for part in message.parts if isinstance(part, _WORDS) and part.text]
    texts = [part.text for part in message.parts if isinstance(part, TextPart) and part.text]
    if any(a[-1].isalnum() and b[0].isalnum() for a, b in pairwise(texts)):
        # A part ends in the middle of a word: a provider may join the parts with nothing between them.
        pieces.append("".join(texts))
    for part in message.parts:
        if isinstance(part, OpaquePart):
            pieces += _strings_in(parse_json(part.body))
    return "\n".join(pieces)


def _strings_in(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            stack += [item for key, item in reversed(found.items()) if key not in _SILENT]
        elif isinstance(found, list):
            stack += reversed(found)
        elif isinstance(found, str):
            word = _as_words(found)
            if word:
                yield word


def _as_words(text: str) -> str:
    """Return the words in a string, none where it holds a picture, a sound or an address."""
    inside = _TEXT_URL.match(text)
    if inside is not None:
        # Text files travel as base64 too, and the model reads them.
        try:
            return base64.b64decode(text[inside.end() :], validate=False).decode("utf-8", errors="replace")
        except (binascii.Error, ValueError):
            return text
    if _DATA_URL.match(text) is not None:
        return ""
    return "" if len(text) > _MAX_WORD_CHARS and _BASE64.fullmatch(text) is not None else text


def _response_fields(given: AuditorInput) -> dict[str, object]:
    response = given.response or Response("")
    choices = [_choice_fields(choice) for choice in response.choices]
    first = choices[0] if choices else {}
    return {
        "content": given.content,
        # What the model thought aloud reaches the client too, but it is not the response.
        "thinking": _joined([choice["thinking"] for choice in choices]),
        "refusal": _joined([choice["refusal"] or "" for choice in choices]) or None,
        "finish_reason": first.get("finish_reason"),
        "finish_raw": first.get("finish_raw"),
        "tool_calls": [call for choice in choices for call in choice["tool_calls"]],
        "choices": choices,
        "signals": [msgspec.to_builtins(signal) for signal in response.signals],
        "error": None if response.error is None else msgspec.to_builtins(response.error),
        "model": response.model,
        "complete": response.complete,
    }


def _choice_fields(choice: Choice) -> dict[str, Any]:
    return {
        "index": choice.index,
        "content": choice.text,
        "thinking": "\n".join([part.text for part in choice.parts if isinstance(part, ThinkingPart)]),
        "refusal": choice.refusal or None,
        "finish_reason": str(choice.finish) if choice.finish else choice.finish_raw,
        "finish_raw": choice.finish_raw,
        "tool_calls": [
            {"id": part.id, "name": part.name, "arguments": part.arguments}
            for part in choice.parts
            if isinstance(part, ToolCallPart)
        ],
    }
