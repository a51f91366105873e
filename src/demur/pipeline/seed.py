"""The seed's functions with the seed's semantics: Shadow's `is_abstention`.

Laws: an abstention is the stop reason `content_filter`, to the letter, or a lower-cased substring of the text parts
joined by a space; nothing is normalised and no other signal counts. For better answers use `check`.
"""

from __future__ import annotations

from collections.abc import Iterable

from demur.detect.pack import Target, builtin_pack
from demur.detect.substring import contains_any
from demur.errors import ShapeError, UsageError
from demur.model.exchange import Exchange, Response, TextPart
from demur.wire.agentlog import is_payload, payload_stop, payload_text
from demur.wire.plain import plain
from demur.wire.shapes import read_exchange

__all__ = ["is_abstention", "is_abstention_with"]


def is_abstention(response: object) -> bool:
    """Return whether a response is an abstention by the seed's default phrases."""
    return is_abstention_with(response, (phrase for phrase, _ in builtin_pack("shadow").phrases(Target.RESPONSE)))


def is_abstention_with(response: object, patterns: Iterable[str]) -> bool:
    """Return whether a response is an abstention by the caller's phrases.

    `response` is a text, an `.agentlog` payload or record, or any provider's response. A phrase is compared with the
    lower-cased text and taken as it is: write it in lower case.
    """
    phrases = _phrases(patterns)
    if phrases is None:
        raise UsageError("patterns are not a list of texts", hint="pass a list of phrases in lower case")
    text, stop = _text_and_stop(response)
    return stop in builtin_pack("shadow").stops or contains_any(text, phrases)


def _phrases(patterns: object) -> tuple[str, ...] | None:
    """Return the caller's phrases, None where they are no list of texts; one string would be read letter by letter."""
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        return None
    phrases = tuple(patterns)
    return phrases if all(isinstance(phrase, str) for phrase in phrases) else None


def _text_and_stop(response: object) -> tuple[str, str | None]:
    if isinstance(response, str):
        return response, None
    if isinstance(response, Exchange | Response):
        return _of_value(response)
    body = plain(response)
    if not isinstance(body, dict):
        raise ShapeError("expected a response", hint="pass a text, an object or a dict")
    record = body.get("payload")
    body = record if isinstance(record, dict) else body
    if is_payload(body):
        return payload_text(body), payload_stop(body)
    return _of_value(read_exchange(body))


def _of_value(value: Exchange | Response) -> tuple[str, str | None]:
    response = value.response if isinstance(value, Exchange) else value
    if response is None or not response.choices:
        return "", None
    choice = response.choices[0]
    return " ".join(p.text for p in choice.parts if isinstance(p, TextPart)), choice.finish_raw
