"""What does a request say to the model in words that neither the operator nor the model wrote?

The prompt that auditors are handed is all of it: user turns, what tools brought back, documents and parts of a kind that is
not known, the values of a prompt template. An attack does its work from any of them.

Laws: only turns of the operator (`system`, `developer`) and of the model (`assistant`) are left out, and by exactly these
roles: whoever else speaks is not vouched for; pictures, sounds and files as base64 hold no words that could be read here,
but texts as base64 do; parts that break a word in two are read with and without the seam.
"""

from __future__ import annotations

import base64
import binascii
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from demur.model.exchange import OpaquePart, RefusalPart, TextPart, ToolResultPart
from demur.wire.document import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.exchange import Message, Request

__all__ = ["asked_words", "words_of_turn"]

_OPERATOR = frozenset({"system", "developer"})
_MODEL = "assistant"
_SILENT = frozenset(
    {
        *("b64_json", "cache_control", "call_id", "created_by", "detail", "encrypted_content", "file_id", "format"),
        *("id", "index", "media_type", "mime_type", "role", "signature", "status", "tool_use_id", "type"),
    }
)
"""Names of fields that hold no words."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_=-]{60,}\r?\n)*[A-Za-z0-9+/_=-]*")
_TEXT_URL = re.compile(r"data:(?:text/|application/json)[^,]{0,80};base64,", re.IGNORECASE)
_DATA_URL = re.compile(r"data:[^,]{0,200},|https?://\S*$", re.IGNORECASE)
_LONGEST_WORD = 64
_WORDS = (TextPart, RefusalPart, ToolResultPart)


def asked_words(request: Request, turns: Sequence[tuple[Message, str]] | None = None) -> str:
    """Return all words of a request that auditors must see, turns and parts one a line; `turns` have the words of each."""
    if turns is None:
        turns = [(message, words_of_turn(message)) for message in request.messages]
    said = [words for message, words in turns if message.role not in _OPERATOR]
    for part in request.extra_inputs:
        said += _words_in(part.body)
    return "\n".join(filter(None, said))


def words_of_turn(message: Message) -> str:
    """Return what one turn brings; of the model's own only what stands in items that it did not write."""
    if message.role in _OPERATOR:
        return message.text
    if message.role == _MODEL:
        return "\n".join(
            word for part in message.parts if isinstance(part, OpaquePart) for word in _words_of_item(part)
        )
    if len(message.parts) == 1 and isinstance(message.parts[0], _WORDS):
        return message.parts[0].text
    pieces = [part.text for part in message.parts if isinstance(part, _WORDS) and part.text]
    pieces += _without_seams(message)
    pieces += (word for part in message.parts if isinstance(part, OpaquePart) for word in _words_in(part.body))
    return "\n".join(pieces)


def _without_seams(message: Message) -> list[str]:
    """Return the texts of a turn as one, where a part ends in the middle of a word: that is how a provider may join them."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart) and part.text]
    breaks = any(a[-1].isalnum() and b[0].isalnum() for a, b in pairwise(texts))
    return ["".join(texts)] if breaks else []


def _words_of_item(part: OpaquePart) -> Iterator[str]:
    """Yield the words of an item whose kind is not known; the model's own have its role."""
    item = parse_json(part.body)
    if not isinstance(item, dict) or item.get("role") != _MODEL:
        yield from _strings_in(item)


def _words_in(body: bytes) -> Iterator[str]:
    yield from _strings_in(parse_json(body))


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
        try:
            return base64.b64decode(text[inside.end() :], validate=False).decode("utf-8", errors="replace")
        except (binascii.Error, ValueError):
            return text
    if _DATA_URL.match(text) is not None:
        return ""
    return "" if len(text) > _LONGEST_WORD and _BASE64.fullmatch(text) is not None else text
