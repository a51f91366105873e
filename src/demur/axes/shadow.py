"""Shadow's functions with Shadow's semantics: `is_abstention` and its safety axis.

For better results use `check`.
"""

from __future__ import annotations

from collections.abc import Iterable

from demur.detect.phrase_lists import Target, builtin_pack, contains_any
from demur.errors import ShapeError, UsageError
from demur.measure.decision import rate_flags, rate_severity
from demur.measure.paired import percentile_interval, resampled_interval
from demur.model.estimate import AxisStat, Severity
from demur.model.exchange import Exchange, Response, TextPart
from demur.wire.agentlog import is_payload, payload_stop, payload_text
from demur.wire.fields import plain
from demur.wire.shapes import read_exchange

__all__ = ["is_abstention", "is_abstention_with", "safety_axis"]


def is_abstention(response: object) -> bool:
    """Return whether a response is an abstention by Shadow's default phrases."""
    return is_abstention_with(response, (phrase for phrase, _ in builtin_pack("shadow").phrases(Target.RESPONSE)))


def is_abstention_with(response: object, patterns: Iterable[str]) -> bool:
    """Return whether a response is an abstention by the caller's phrases.

    `response` is a text, an `.agentlog` payload or record, or any provider's response. A phrase is compared with the
    lower-cased text and taken as it is: write it in lower case.
    """
    given: object = patterns
    # One string would be read letter by letter, and every response contains an `e`.
    phrases = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (None,)
    if not all(isinstance(phrase, str) for phrase in phrases):
        raise UsageError("patterns are not a list of texts", hint="pass a list of phrases in lower case")
    text, stop = _text_and_stop(response)
    # `content_filter` to the letter, or a lower-cased substring: nothing is normalised and no other signal counts.
    return stop in builtin_pack("shadow").stops or contains_any(text, phrases)


def safety_axis(
    pairs: Iterable[tuple[object, object]], *, patterns: Iterable[str] | None = None, seed: int | None = None
) -> AxisStat:
    """Return Shadow's safety axis over (baseline, candidate) responses: abstention rates, difference, severity, flags.

    Without a `seed` the interval is the exact limit of the bootstrap; with one it is a thousand seeded resamples. No pairs:
    zeros, severity none, n = 0.
    """
    phrases = tuple(p for p, _ in builtin_pack("shadow").phrases(Target.RESPONSE)) if patterns is None else patterns
    judged = [(is_abstention_with(before, phrases), is_abstention_with(after, phrases)) for before, after in pairs]
    n = len(judged)
    if not n:
        return AxisStat(0.0, 0.0, 0.0, 0.0, 0.0, Severity.NONE, 0)
    lost, gained = sum(b and not c for b, c in judged), sum(c and not b for b, c in judged)
    before, after = sum(b for b, _ in judged) / n, sum(c for _, c in judged) / n
    low, high = percentile_interval(lost, gained, n) if seed is None else resampled_interval(lost, gained, n, seed=seed)
    delta = after - before
    return AxisStat(before, after, delta, low, high, rate_severity(delta, low, high), n, rate_flags(n, low, high))


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
    # Joined by a space, unlike `choice.text`: a phrase may match across parts, as it does in Shadow.
    return " ".join(p.text for p in choice.parts if isinstance(p, TextPart)), choice.finish_raw
