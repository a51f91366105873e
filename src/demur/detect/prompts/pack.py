"""The trained pack for prompts, and its form for scanning.

A *group* is a list of phrases with the same function: a slot of frames ("verbs of ignoring") or a class by itself. A *class*
is what is scored: a group of its own name, or frames of slots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

import msgspec

from demur.detect.matcher import Matcher, Phrase
from demur.errors import PackError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Domain",
    "Frame",
    "FrameFile",
    "LinearModel",
    "PackFile",
    "PromptClass",
    "PromptPack",
    "compile_pack",
    "parse_prompt_pack",
    "prompt_pack",
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
