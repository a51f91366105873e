"""The texts of many pairs that a judge is yet to see: in a file, so that memory holds none of them.

Laws: what is read at a place is what was kept there, half a surrogate pair included; a place that was not kept has empty texts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from demur.model.comparison import ShownTexts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from demur.model.comparison import Places

__all__ = ["SideTexts"]


class SideTexts:
    """The texts of one side, a line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts: dict[int, int] = {}

    def keep(self, places: Places, texts: Sequence[ShownTexts]) -> None:
        """Keep the texts at some places."""
        with self._path.open("ab") as file:
            for place, shown in zip(places.tolist(), texts, strict=True):
                self._starts[place] = file.tell()
                # Escaped by `json`: texts may hold what UTF-8 does not.
                file.write(json.dumps([shown.prompt, shown.answer]).encode() + b"\n")

    def read(self, place: int) -> ShownTexts:
        """Return the texts at a place."""
        start = self._starts.get(place)
        if start is None:
            return ShownTexts("", "")
        with self._path.open("rb") as file:
            file.seek(start)
            prompt, answer = json.loads(file.readline())
        return ShownTexts(prompt, answer)
