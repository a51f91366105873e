"""Which classes of phrases a text contains, and where.

A frame is a sequence of slots with little between them: a verb of ignoring, a word for "previous", a word for
"instructions". It covers thousands of sentences in a dozen languages that a list would have to spell out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from demur.detect.prompts.pack import Frame, LinearModel, PromptPack

__all__ = ["Evidence", "PromptScore", "Spans", "class_features", "find_evidence", "score"]

Spans = list[tuple[int, int]]

_CLOSE = 50  # a frame with wider gaps may span sentences
_MAX_SPANS = 200  # of one frame: bounds the work on a text that repeats itself, whose other spans say nothing new
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
    # Frames are made from these hits alone: the text is scanned once.
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
            if start - end > gap or (gap < _CLOSE and any(stop in view[end:start] for stop in _ENDS)):
                break
            joined.append((first, last))
            if len(joined) > _MAX_SPANS:
                return joined
    return joined


_EXTREME = 30.0  # beyond this a probability is 0 or 1 to thirteen digits, and `exp` stays in range
_OFTEN = 3


class PromptScore(msgspec.Struct, frozen=True):
    """How far a text is above the threshold, the probability, and the weight of every feature that is there."""

    margin: float
    probability: float
    weights: Mapping[str, float]

    @property
    def flagged(self) -> bool:
        """Whether the text is above the threshold."""
        return self.margin > 0


def score(features: Iterable[str], model: LinearModel) -> PromptScore:
    """Return the score of a set of features; one that the model does not know weighs nothing."""
    weights = {name: model.weights.get(name, 0.0) for name in features}
    margin = model.bias + sum(weights.values()) - model.threshold
    bent = max(-_EXTREME, min(_EXTREME, model.slope * margin + model.offset))
    return PromptScore(margin, 1.0 / (1.0 + math.exp(-bent)), weights)


def class_features(found: Mapping[str, Spans], pack: PromptPack) -> list[str]:
    """Return the name of every class that is there, and the name with a `+` where it is in three places or more."""
    names = list(found)
    for name, spans in found.items():
        if len(spans) >= _OFTEN and pack.classes[name].family != "benign" and len({s for s, _ in spans}) >= _OFTEN:
            names.append(f"{name}+")
    return names
