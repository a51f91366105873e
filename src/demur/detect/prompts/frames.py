"""Which classes of phrases stand in a text, and where?

A frame is a sequence of slots in order, with little between them: a verb of ignoring, a word for "previous", a word for
"instructions". It stands for thousands of sentences in a dozen languages that a list would have to spell out.

Laws: frames are made from hits alone, the text is scanned once; a close frame never goes across the end of a sentence; the
work for one frame is bounded, whatever the text repeats.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.detect.prompts.pack import Frame, PromptPack

__all__ = ["Evidence", "Spans", "find_evidence"]

Spans = list[tuple[int, int]]

_CLOSE = 50
"""A frame with wider gaps may go across sentences."""
_MOST = 200
"""Spans of one frame that are followed up: the rest would say the same again."""
_ENDS = (". ", "? ", "! ", "\n")
_NONE: Spans = []


class Evidence(msgspec.Struct, frozen=True):
    """A view, the text behind it, and what the pack finds there: spans by group, and by class of either domain."""

    view: str
    raw: str
    groups: Mapping[int, Spans]
    attack: Mapping[str, Spans]
    harm: Mapping[str, Spans]

    def group(self, index: int | None) -> Spans:
        """Return the spans of a group, in the order of their ends."""
        return _NONE if index is None else self.groups.get(index, _NONE)


def find_evidence(view: str, raw: str, pack: PromptPack) -> Evidence:
    """Return the classes in a view; `raw` is the text that the view was made from."""
    groups: dict[int, Spans] = {}
    members = pack.members
    for phrase, start, end in pack.matcher.find(view):
        for group in members[phrase]:
            if group in groups:
                groups[group].append((start, end))
            else:
                groups[group] = [(start, end)]
    found = {name: spans for group, spans in groups.items() if (name := pack.simple.get(group))}
    for group in groups:
        for frame in pack.frames.get(group, ()):
            if frame.slots[-1] in groups and (spans := _follow(frame, groups, view)):
                found[frame.name] = found[frame.name] + spans if frame.name in found else spans
    attack: dict[str, Spans] = {}
    harm: dict[str, Spans] = {}
    for name, spans in found.items():
        (attack if pack.classes[name].domain == "attack" else harm)[name] = spans
    return Evidence(view, raw, groups, attack, harm)


def _follow(frame: Frame, groups: Mapping[int, Spans], view: str) -> Spans:
    """Return where the slots of a frame follow each other."""
    found = groups[frame.slots[0]]
    for slot in frame.slots[1:]:
        found = _step(found, sorted(groups.get(slot, _NONE)), view=view, gap=frame.gap)
        if not found:
            break
    return found


def _step(before: Spans, after: Spans, *, view: str, gap: int) -> Spans:
    """Return the spans from one of `before` to the end of one of `after` that follows it within the gap."""
    starts = [start for start, _ in after]
    joined: Spans = []
    for first, end in before:
        for index in range(bisect_left(starts, end), len(after)):
            start, last = after[index]
            if start - end > gap or (gap < _CLOSE and _crosses(view[end:start])):
                break
            joined.append((first, last))
            if len(joined) > _MOST:
                return joined
    return joined


def _crosses(between: str) -> bool:
    """Return whether a sentence ends in the stretch."""
    return any(end in between for end in _ENDS)
