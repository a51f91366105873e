"""Text of others inside HTML and SVG.

Laws: no text can open a tag or leave an attribute; control characters, and halves of a surrogate pair, are replaced.
"""

from __future__ import annotations

from html import escape

__all__ = ["escaped"]


def escaped(text: str) -> str:
    """Return text as it may stand in a page; line ends and tabs are kept."""
    return escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text))
