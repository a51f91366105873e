"""The payload of a Shadow `.agentlog` chat response, read as the seed reads it.

Laws: text is that of the `text` parts of a *list* `content`, joined by a space; a content that is a plain string has no
text for the seed; the stop reason is compared to the letter.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_payload", "payload_stop", "payload_text"]


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
