"""The payload of a Shadow `.agentlog` record, read as the seed reads it and named as the seed names it.

Laws: text is that of the `text` parts of a *list* `content`, joined by a space; a content that is a plain string has no
text for the seed; the stop reason is compared to the letter. A record is named after its payload: `sha256:` and the
digest of the payload's canonical JSON, in which strings and keys are in Unicode's NFC, keys are sorted by their UTF-8
bytes, no white space stands between tokens, only what must be escaped is, and numbers are in their shortest form
without an exponent (`1.0` is `1`, `-0.0` is `0`); see the seed's SPEC, sections 5 and 6.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from decimal import Decimal
from typing import Any

from demur.errors import ShapeError

__all__ = ["is_payload", "payload_stop", "payload_text", "record_id"]

_INTEGERS = range(-(2**63), 2**64)
"""Beyond these the seed keeps a number as a double."""


def is_payload(body: dict[str, Any]) -> bool:
    """Return whether a body is an `.agentlog` payload and not a provider's own message."""
    return "content" in body and "stop_reason" in body and body.get("type") != "message"


def payload_text(body: dict[str, Any]) -> str:
    """Return the text parts joined by a space; empty where there are none."""
    content = body.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str))


def payload_stop(body: dict[str, Any]) -> str | None:
    """Return the stop reason, None where there is none."""
    stop = body.get("stop_reason")
    return stop if isinstance(stop, str) else None


def record_id(payload: object) -> str:
    """Return the name of a record with this payload, as in `sha256:93a2…`."""
    try:
        canonical = _canonical_json(payload).encode()
    except (OverflowError, RecursionError, TypeError, UnicodeEncodeError) as exc:
        raise ShapeError("`payload`: expected plain JSON, got something that cannot be written", hint=str(exc)) from exc
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def _canonical_json(value: Any) -> str:
    match value:
        case dict():
            pairs = [(unicodedata.normalize("NFC", key), item) for key, item in value.items()]
            # The order of code points is the order of UTF-8 bytes. Keys that NFC makes equal keep their order.
            pairs.sort(key=lambda pair: pair[0])
            return "{" + ",".join(f"{_canonical_json(key)}:{_canonical_json(item)}" for key, item in pairs) + "}"
        case list():
            return "[" + ",".join(map(_canonical_json, value)) + "]"
        case str():
            return json.dumps(unicodedata.normalize("NFC", value), ensure_ascii=False)
        case int() if not isinstance(value, bool) and value not in _INTEGERS:
            return _canonical_double(float(value))
        case float():
            return _canonical_double(value)
        case _:
            return json.dumps(value)


def _canonical_double(value: float) -> str:
    digits = format(Decimal(repr(value)), "f")
    shortest = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if value == 0 else shortest
