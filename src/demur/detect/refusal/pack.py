"""The learned lexicon of refusals: classes of phrases, the weight of each class in each zone, and the cues.

The pack is written by `demur_train.refusals`; docs/model_card.md says what it was trained on and how good it is.

Which classes of phrases a text contains: phrases by themselves, and pairs of them side by side.

A class has phrases of its own, and frames: any phrase of one group directly before any of another ("i cannot" before "help").
Hits are sorted and unique; one text gives the same hits alone and inside a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from demur.detect.matcher import Matcher, Phrase, Screen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = [
    "CUES",
    "ClassHit",
    "Frame",
    "Lexicon",
    "LexiconClass",
    "PartialHead",
    "RefusalPack",
    "Zone",
    "load_refusal_pack",
    "parse_refusal_pack",
]

_LENGTH_BITS, _START_BITS = 10, 26
_CLASS_MASK, _LENGTH_MASK = (1 << _LENGTH_BITS) - 1, (1 << (_START_BITS - _LENGTH_BITS)) - 1

ClassHit = tuple[int, int, int]  # where a phrase or pair starts and ends, and the index of its class


@dataclass(frozen=True, slots=True)
class Frame:
    """A phrase of the left group and, directly after it, one of the right group: together they belong to a class."""

    left: int
    right: int
    of: int


@dataclass(frozen=True)
class Lexicon:
    """Phrases in groups, the class that each group stands for by itself (-1: none), and the frames."""

    phrases: tuple[Phrase, ...]
    group_of: tuple[int, ...]
    class_of_group: tuple[int, ...]
    # A thousand combinations cost two short lists, in the pack and in the automaton.
    frames: tuple[Frame, ...]

    def find(self, view: str) -> list[ClassHit]:
        """Return the hits in a view, in characters, in the order of the text."""
        found: set[ClassHit] = set()
        lefts: dict[int, list[tuple[int, int]]] = {}
        group_of, class_of, is_left, by_right = self.group_of, self.class_of_group, self._is_left, self._by_right
        # Hits come in the order of their ends, so a left half has been seen when the right one behind it is.
        for index, start, end in self.matcher.find(view):
            group = group_of[index]
            if class_of[group] >= 0:
                found.add((start, end, class_of[group]))
            if is_left[group]:
                lefts.setdefault(end, []).append((group, start))
            # Halves must touch: the space between two words is part of the right one.
            if start in lefts and (makes := by_right[group]):
                for left, left_start in lefts[start]:
                    if left in makes:
                        found.update([(left_start, end, of) for of in makes[left]])
        return sorted(found)

    def find_in_buffer(self, buffer: bytes) -> tuple[Ints, Ints, Ints]:
        """Return starts, ends and classes of the hits in a buffer of views, in bytes, in its order."""
        import numpy as np

        ids, starts, ends = self.matcher.find_in_buffer(buffer)
        groups = self._arrays[0][ids]
        of = self._arrays[1][groups]
        own = of >= 0
        # Pairs: right halves joined to the left ones that end where they start, then pairs of groups to classes.
        left, right = self._arrays[2][groups], self._arrays[3][groups]
        order = np.argsort(ends[left], kind="stable")
        left_ends, left_starts, left_groups = ends[left][order], starts[left][order], groups[left][order]
        wanted = starts[right]
        low, high = np.searchsorted(left_ends, wanted, "left"), np.searchsorted(left_ends, wanted, "right")
        at, which = _spread(low, high - low)
        first, classes, count = self._table
        pair = left_groups[at] * len(self.class_of_group) + groups[right][which]
        entry, hit = _spread(first[pair], count[pair])
        pairs = left_starts[at][hit], ends[right][which][hit], classes[entry]
        pieces = [(starts[own], ends[own], of[own]), pairs]
        start, end, kind = (np.concatenate(column) for column in zip(*pieces, strict=True))
        # One number per hit, so that sorting and removing duplicates is one pass.
        keys = np.unique((start << _START_BITS) | ((end - start) << _LENGTH_BITS) | kind)
        start = keys >> _START_BITS
        return start, start + ((keys >> _LENGTH_BITS) & _LENGTH_MASK), keys & _CLASS_MASK

    @cached_property
    def matcher(self) -> Matcher:
        """The automaton over all phrases."""
        return Matcher(self.phrases)

    @cached_property
    def _is_left(self) -> list[bool]:
        lefts = {frame.left for frame in self.frames}
        return [group in lefts for group in range(len(self.class_of_group))]

    @cached_property
    def _by_right(self) -> list[dict[int, list[int]]]:
        """For each group, the classes that each left group makes with it."""
        found: list[dict[int, list[int]]] = [{} for _ in self.class_of_group]
        for frame in self.frames:
            found[frame.right].setdefault(frame.left, []).append(frame.of)
        return found

    @cached_property
    def _arrays(self) -> tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.bool_]]:
        import numpy as np

        return (
            np.array(self.group_of, dtype=np.int64),
            np.array(self.class_of_group, dtype=np.int64),
            np.array(self._is_left),
            np.array([bool(lefts) for lefts in self._by_right]),
        )

    @cached_property
    def _table(self) -> tuple[Ints, Ints, Ints]:
        """The classes of every (left, right): where they start in one list, the list, and how many there are."""
        import numpy as np

        size = len(self.class_of_group)
        pairs = np.array([frame.left * size + frame.right for frame in self.frames], dtype=np.int64)
        classes = np.array([frame.of for frame in self.frames], dtype=np.int64)
        order = np.argsort(pairs, kind="stable")
        count = np.bincount(pairs, minlength=size * size)
        return np.cumsum(count) - count, classes[order], count


def _spread(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return first, first + 1, … for each count, and the index that each of these came from."""
    import numpy as np

    which = np.repeat(np.arange(len(count)), count)
    return np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which], which


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
