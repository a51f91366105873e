"""How else may a disguised text be read?

A reading is the whole text with one disguise, or several in turn, taken off, normalised, and mapped back to what the user
wrote. It is no verdict: it costs one more scan, so ordinary text must yield none, and soon. One pass that turns the
text into classes of characters rules out most disguises before any pattern is tried.

Laws: `Reading.normal.original` is the text that was given; no two readings have the same text, and none has that of the
plain text; count, depth, length and total work stay within `Limits`; beyond `Limits.length` the text is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demur.model.text import NormalText, Reading
from demur.text.disguises import disguises
from demur.text.normalise import fold, normalise
from demur.text.offsets import compose, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Limits", "unmask"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far `unmask` goes: characters looked at, disguises on top of each other, readings, characters read in all."""

    length: int = 100_000
    depth: int = 3
    readings: int = 12
    work: int = 1_000_000


_DEFAULT = Limits()


def unmask(text: str, *, limits: Limits = _DEFAULT) -> tuple[Reading, ...]:
    """Return the readings of the text, the least undressed first; none where nothing looks disguised."""
    seen = text if len(text) <= limits.length else text[: limits.length]
    layers = [("", NormalText(text, seen))]
    if not seen.isascii() and (clear := normalise(seen)).text != seen.casefold():
        layers.append(("", NormalText(text, clear.text, clear.starts, clear.ends)))
    found: dict[str, Reading] = {}
    plain = ""
    work = 0
    for _ in range(limits.depth):
        below: list[tuple[str, NormalText]] = []
        for method, layer in layers:
            for step, deeper in _undressed(layer):
                plain = plain or fold(seen)
                work += len(deeper.text)
                if len(found) >= limits.readings or work > limits.work:
                    return tuple(found.values())
                name = f"{method}+{step}" if method else step
                normal = compose(deeper, normalise(deeper.text))
                if normal.text != plain and normal.text not in found:
                    found[normal.text] = Reading(name, normal)
                    below.append((name, deeper))
        layers = below
    return tuple(found.values())


def _undressed(layer: NormalText) -> Iterator[tuple[str, NormalText]]:
    for method, edits in disguises(layer.text):
        done = rewrite(layer.text, edits)
        yield method, compose(layer, NormalText(layer.text, done.text, done.starts, done.ends))
