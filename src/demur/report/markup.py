"""Text of others inside HTML, SVG and XML.

Laws: no text can open a tag or leave an attribute; control characters, halves of a surrogate pair and signs that turn the direction
of the text are replaced; evidence is marked where it stands, and what is left out is shown as `[…]`.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.text import Span

__all__ = ["escaped", "marked"]

_KEPT = "\n\t\u00a0\u200c\u200d\u3000"
"""Not printable by Python's rule, yet harmless: line ends, spaces, and what joins letters and emoji."""
_OPENING_SHOWN = 400
_CONTEXT_SHOWN = 160


def escaped(text: str) -> str:
    """Return text as it may stand in a page; line ends and tabs are kept."""
    return escape("".join(c if c.isprintable() or c in _KEPT else "\ufffd" for c in text))


def marked(text: str, spans: Sequence[Span], *, most: int = 6_000, tag: str = "mark") -> str:
    """Return the opening and what stands around the evidence, which is marked: at most `most` characters of the text."""
    size = len(text)
    evidence, kept = bytearray(size), bytearray(size)
    kept[:_OPENING_SHOWN] = b"\x01" * min(_OPENING_SHOWN, size)
    for start, end in ((min(span.start, size), min(span.end, size)) for span in spans):
        evidence[start:end] = b"\x01" * max(0, end - start)
        low, high = max(0, start - _CONTEXT_SHOWN), min(size, end + _CONTEXT_SHOWN)
        kept[low:high] = b"\x01" * max(0, high - low)
    parts, start, left = [], 0, most
    for at in range(1, size + 1):
        if at < size and (kept[at], evidence[at]) == (kept[start], evidence[start]):
            continue
        if kept[start] and left > 0:
            shown = escaped(text[start : min(at, start + left)])
            parts.append(f"<{tag}>{shown}</{tag}>" if evidence[start] else shown)
            left -= at - start
            parts += [" […]"] if left < 0 else []
        elif not parts or not parts[-1].endswith("[…]"):
            parts.append(" […] ")
        start = at
    return "".join(parts)
