"""The verdict on an answer that is still being written.

Laws: whatever the pieces, `verdict` is that of the text they make together; `feed` takes time for its piece alone, and says
only whether a closer look is worth it by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.detect.check import judge_text
from demur.detect.judges import LearnedJudge, default_judge
from demur.text.view import view

if TYPE_CHECKING:
    from demur.model.verdict import Verdict

__all__ = ["TextStream"]

_CARRIED = 400
"""Characters kept for the next look: longer than any phrase, with room for what folding drops."""


class TextStream:
    """Takes an answer piece by piece."""

    def __init__(self, judge: LearnedJudge | None = None) -> None:
        self._judge = judge or default_judge()
        self._pieces: list[str] = []
        self._carried = ""
        self._may_decline = False

    def feed(self, piece: str) -> bool:
        """Take the next piece; return whether the text so far may hold a phrase that declines."""
        self._pieces.append(piece)
        if not self._may_decline:
            window = self._carried + piece
            self._may_decline = self._judge.detector.pack.screen.passes(view(window).replace("\n", " "))
            self._carried = window[-_CARRIED:]
        return self._may_decline

    def verdict(self) -> Verdict:
        """Return the verdict on the text so far."""
        return judge_text("".join(self._pieces), self._judge)
