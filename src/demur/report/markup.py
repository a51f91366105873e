"""Untrusted text inside HTML, SVG, XML and Markdown.

`visible` removes what could hide or reorder text, `escaped` makes it safe as element content and as an attribute, `marked` cuts it into
pieces with the evidence told apart. Templates escape by themselves; they need `visible` and `marked` only.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.verdict import Span

__all__ = ["escaped", "marked", "visible"]

# Not printable by Python's rule, yet harmless: line ends, spaces, and what joins letters and emoji.
_KEPT = "\n\t\u00a0\u200c\u200d\u3000"
_OPENING_SHOWN = 400
_CONTEXT_SHOWN = 160


def visible(text: str) -> str:
    """Return text with control characters, lone surrogates and bidirectional controls replaced by U+FFFD."""
    # Bidirectional controls can make a page show something else than it contains (Unicode TR 36, section 2.10).
    return text if text.isprintable() else "".join(c if c.isprintable() or c in _KEPT else "\ufffd" for c in text)


def escaped(text: str) -> str:
    """Return text that is safe in markup; line ends and tabs are kept."""
    return escape(visible(text))


def marked(text: str, spans: Sequence[Span], *, limit: int = 6_000) -> list[tuple[str, bool]]:
    """Return the opening and the surroundings of the evidence as pieces, each with whether it is evidence.

    At most `limit` characters of the text are kept; `[…]` stands for what is left out.
    """
    size = len(text)
    evidence, kept = bytearray(size), bytearray(size)
    kept[:_OPENING_SHOWN] = b"\x01" * min(_OPENING_SHOWN, size)
    for start, end in ((min(span.start, size), min(span.end, size)) for span in spans):
        evidence[start:end] = b"\x01" * max(0, end - start)
        low, high = max(0, start - _CONTEXT_SHOWN), min(size, end + _CONTEXT_SHOWN)
        kept[low:high] = b"\x01" * max(0, high - low)
    pieces: list[tuple[str, bool]] = []
    cut = (" […]", False)
    start, left = 0, limit
    for at in range(1, size + 1):
        if at < size and (kept[at], evidence[at]) == (kept[start], evidence[start]):
            continue
        if kept[start] and left > 0:
            pieces.append((text[start : min(at, start + left)], bool(evidence[start])))
            left -= at - start
            pieces += [cut] if left < 0 else []
        elif not pieces or pieces[-1] != cut:
            pieces.append((" […] ", False))
        start = at
    return pieces
