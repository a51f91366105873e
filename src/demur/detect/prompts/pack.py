"""The trained pack for prompts, and its form for scanning.

A *group* is a list of phrases with the same function: a slot of frames ("verbs of ignoring") or a class by itself. A *class*
is what is scored: a group of its own name, or frames of slots.

Which classes of phrases a text contains, and where.

A frame is a sequence of slots with little between them: a verb of ignoring, a word for "previous", a word for
"instructions". It covers thousands of sentences in a dozen languages that a list would have to spell out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec

from demur.detect.matcher import Matcher, Phrase
from demur.errors import PackError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Domain",
    "Evidence",
    "Frame",
    "FrameFile",
    "LinearModel",
    "PackFile",
    "PromptClass",
    "PromptPack",
    "PromptScore",
    "Spans",
    "class_features",
    "compile_pack",
    "find_evidence",
    "parse_prompt_pack",
    "prompt_pack",
    "score",
]

Domain = Literal["attack", "harm"]


class PromptClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scored class: what it is about, its family, the weight set by hand, and whether it is an attack by itself."""

    domain: Domain
    family: str
    prior: float
    strong: bool = False


class LinearModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The learned weights by feature, and what turns a score into a probability."""

    bias: float
    threshold: float
    slope: float
    offset: float
    weights: dict[str, float]

    def at(self, probability: float) -> LinearModel:
        """Return the model that flags from this probability on, 0 and 1 excluded; its probabilities are the same."""
        # Threshold and offset move together, so that the probabilities that are reported stay the same.
        odds = math.log(probability / (1.0 - probability))
        return msgspec.structs.replace(self, threshold=self.threshold + (odds - self.offset) / self.slope, offset=odds)


class FrameFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sequence of groups that makes a class, with at most `gap` characters between neighbours."""

    name: str
    slots: tuple[str, ...]
    gap: int


class PackFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pack as it is written."""

    trained_on: dict[str, str]
    groups: dict[str, tuple[str, ...]]
    classes: dict[str, PromptClass]
    frames: tuple[FrameFile, ...]
    attack: LinearModel
    harm: LinearModel


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its slots as indexes of groups."""

    name: str
    slots: tuple[int, ...]
    gap: int


@dataclass(frozen=True, slots=True)
class PromptPack:
    """The pack, ready for scanning: `members[p]` are the groups of phrase `p`, `frames[g]` those that start with group `g`."""

    matcher: Matcher
    members: tuple[tuple[int, ...], ...]
    groups: Mapping[str, int]
    classes: Mapping[str, PromptClass]
    simple: Mapping[int, str]
    frames: Mapping[int, tuple[Frame, ...]]
    attack: LinearModel
    harm: LinearModel


def compile_pack(read: PackFile) -> PromptPack:
    """Return the pack ready for scanning; raise `PackError` where a frame names what is not there."""
    groups = {name: index for index, name in enumerate(read.groups)}
    # Attack and harm classes share one automaton, so that a text is scanned once for both.
    members: dict[Phrase, list[int]] = {}
    for name, phrases in read.groups.items():
        for written in phrases:
            # A `*` says that the word may continue there.
            text = written.strip("*")
            phrase = Phrase(text, left=not written.startswith("*"), right=not written.endswith("*"))
            members.setdefault(phrase, []).append(groups[name])
    frames: dict[int, tuple[Frame, ...]] = {}
    for frame in read.frames:
        missing = [name for name in frame.slots if name not in groups]
        if missing or not frame.slots:
            raise PackError(
                f"frame `{frame.name}` of the pack has a slot that is no group: {', '.join(missing) or 'none at all'}"
            )
        made = Frame(frame.name, tuple(groups[name] for name in frame.slots), frame.gap)
        frames[made.slots[0]] = (*frames.get(made.slots[0], ()), made)
    return PromptPack(
        matcher=Matcher(tuple(members)),
        members=tuple(tuple(found) for found in members.values()),
        groups=groups,
        classes=read.classes,
        simple={groups[name]: name for name in read.classes if name in groups},
        frames=frames,
        attack=read.attack,
        harm=read.harm,
    )


@cache
def prompt_pack() -> PromptPack:
    """Return the pack that ships with Demur."""
    data = resources.files("demur.detect.packs").joinpath("prompts.json").read_bytes()
    return compile_pack(parse_prompt_pack(data))


def parse_prompt_pack(data: bytes) -> PackFile:
    """Return the pack in a JSON text; raise `PackError` where it is not sound."""
    try:
        return msgspec.json.decode(data, type=PackFile)
    except msgspec.DecodeError as exc:
        raise PackError(f"the pack for prompts cannot be read: {str(exc).lower()}") from exc


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
