"""Text as the detectors see it, and the way back to the characters that the user wrote.

Laws: a `Span` always counts code points of the *original* text; `NormalText.span` maps any stretch of the
normalised text to the smallest original stretch that produced it; the map is monotone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NormalText", "Reading", "Span"]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open stretch of the original text, in code points."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the stretch itself."""
        return text[self.start : self.end]


class NormalText(msgspec.Struct, frozen=True):
    """A normalised text with the original offsets of each of its characters.

    `starts[i]` and `ends[i]` bound the original characters behind `text[i]`. Both are None where the two texts have
    the same length and every character stands where it stood (the fast path for ASCII).
    """

    original: str
    text: str
    starts: Sequence[int] | None = None
    ends: Sequence[int] | None = None

    def span(self, start: int, end: int) -> Span:
        """Return the original stretch behind `text[start:end]`; an empty stretch maps to an empty one."""
        if self.starts is None or self.ends is None:
            return Span(start, end)
        # An empty stretch has no characters behind it; it maps to the place before the next one.
        if start >= end:
            at = int(self.starts[start]) if start < len(self.starts) else len(self.original)
            return Span(at, at)
        return Span(int(self.starts[start]), int(self.ends[end - 1]))


@dataclass(frozen=True, slots=True)
class Reading:
    """Another way to read a text that may have been disguised.

    `method` names the disguise that was taken off (`leet`, `spacing`, `base64`, `rot13`, `escapes`, or several joined
    by `+`). The `NormalText` inside maps back to the text that the user wrote, as coarsely as the disguise demands:
    every character of a decoded base64 run maps to the whole run.
    """

    method: str
    normal: NormalText
