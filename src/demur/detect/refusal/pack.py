"""The learned lexicon of refusals: classes of phrases, the weight of each class in each zone, and the cues.

The pack is written by `demur_train.refusals`; docs/model_card.md says what it was trained on and how good it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from importlib import resources

import msgspec

from demur.detect.matcher import Phrase, Screen
from demur.detect.refusal.lexicon import Frame, Lexicon

__all__ = ["CUES", "LexiconClass", "PartialHead", "RefusalPack", "Zone", "load_refusal_pack", "parse_refusal_pack"]


class Zone(IntEnum):
    """Where a phrase is; the weights of all zones that hold add up."""

    ANY = 0
    OPENING = 1
    AFTER_TURN = 2
    QUOTED = 3


# What is read off the form of a response rather than off its phrases; `detect/refusal/cues.py` defines each.
CUES = (
    "speakers>=2",
    "refused_before",
    "chars<60",
    "chars<150",
    "chars<300",
    "chars<600",
    "chars<1200",
    "chars>=1200",
    "sentences<=3",
    "list>=2",
    "list>=4",
    "code",
    "asks_back",
    "nothing_refusing",
    "refusing>=.25",
    "declining>=.5",
    "declining_share",
    "declining_sentences>=2",
    "declining_sentences>=4",
    "ends_refusing",
    "ends_helping",
    "moral_opening",
    "content<150",
    "content>300",
    "content>800",
    "log_content",
    "content_after_refusal>200",
    "list_after_refusal",
    "turn_after_refusal",
    "turn_near",
    "content_after_turn>100",
    "content_after_turn>300",
    "strong_opening&list",
    "strong_late",
    "strong_short",
    "cannot_short",
    "cannot_very_short",
    "incapable_short",
    "disclaimed",
    "disclaimed_short",
    "disclaimed_then_turn",
    "disclaimed_moral",
    "alternative_without_refusal",
    "alternative_list",
)


class LexiconClass(msgspec.Struct, frozen=True):
    """Phrases that mean the same: their reason, the roles they play, and their weights by zone."""

    # Phrases of all languages share a class and its weights, so what is learned in English holds in the others.

    name: str
    reason: str
    roles: tuple[str, ...]
    weights: tuple[float, float, float, float]


class _Phrases(msgspec.Struct, frozen=True):
    group: int
    lang: str
    edges: int
    texts: str


class PartialHead(msgspec.Struct, frozen=True):
    """Separates a partial response from a refused or a complied one."""

    bias: float
    features: dict[str, float]
    bands: tuple[float, float, float, float, float]
    instead_of_refused: float
    instead_of_complied: float


class _PackFile(msgspec.Struct, frozen=True):
    format: int
    trained_on: dict[str, str]
    bias: float
    calibration: tuple[float, float]
    classes: tuple[LexiconClass, ...]
    cues: dict[str, float]
    partial: PartialHead
    screen: str
    groups: tuple[int, ...]
    frames: tuple[tuple[int, int, int], ...]
    phrases: tuple[_Phrases, ...]


@dataclass(frozen=True)
class RefusalPack:
    """A loaded pack: feature k < 4·classes is (class k // 4, zone k % 4), and the cues follow."""

    bias: float
    calibration: tuple[float, float]
    classes: tuple[LexiconClass, ...]
    cue_weights: tuple[float, ...]
    partial: PartialHead
    screen_phrases: tuple[str, ...]
    lexicon: Lexicon

    @cached_property
    def screen(self) -> Screen:
        """Says which texts are worth a closer look."""
        return Screen(self.screen_phrases)

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """The weight of each feature."""
        return (*(w for c in self.classes for w in c.weights), *self.cue_weights)

    @cached_property
    def partial_weights(self) -> tuple[float, ...]:
        """The weight of each feature in the head for partial responses."""
        return tuple(self.partial.features.get(name, 0.0) for name in self.feature_names)

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature, as training and the partial head write it."""
        zoned = (f"{c.name}|{zone.name.lower()}" for c in self.classes for zone in Zone)
        return (*zoned, *(f"#{cue}" for cue in CUES))

    def having(self, role: str) -> tuple[bool, ...]:
        """Return for each class whether it plays a role."""
        return tuple(role in c.roles for c in self.classes)

    def index(self, name: str) -> int:
        """Return the index of a class."""
        return next(i for i, c in enumerate(self.classes) if c.name == name)


def parse_refusal_pack(data: bytes) -> RefusalPack:
    """Return the pack in its JSON form."""
    read = msgspec.json.decode(data, type=_PackFile)
    phrases: list[Phrase] = []
    groups: list[int] = []
    for some in read.phrases:
        texts = some.texts.split("\n")
        phrases += [Phrase(text, left=bool(some.edges & 1), right=bool(some.edges & 2)) for text in texts]
        groups += [some.group] * len(texts)
    cues = tuple(read.cues.get(cue, 0.0) for cue in CUES)
    return RefusalPack(
        bias=read.bias,
        calibration=read.calibration,
        classes=read.classes,
        cue_weights=cues,
        partial=read.partial,
        screen_phrases=tuple(read.screen.split("\n")),
        lexicon=Lexicon(tuple(phrases), tuple(groups), read.groups, tuple(Frame(*frame) for frame in read.frames)),
    )


# Not at import: a process that judges no text should not wait for it.
@cache
def load_refusal_pack() -> RefusalPack:
    """Return the pack that ships with Demur."""
    return parse_refusal_pack(resources.files("demur.detect.packs").joinpath("refusals.json").read_bytes())
