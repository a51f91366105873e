"""The features of one passage: which phrases it contains where, and what the form of the response says.

A *refusing* sentence contains a phrase by which a model declines, a *declining* one that or moralising; the rest is content.
A *turn* is "but here is…". `cues` is the one table of cues: it is evaluated on numbers here and on arrays in `columns.py`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from demur.detect.refusal.pack import CUES, Zone
from demur.detect.refusal.passage import items as list_items
from demur.detect.refusal.passage import quotation_limit, quotations, sentence_starts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from demur.detect.refusal.pack import ClassHit, RefusalPack
    from demur.detect.refusal.passage import Passage

__all__ = ["LABEL_FROM", "NEVER", "OPENING_CHARS", "OPENING_SENTENCES", "OPINION_REACH", "Features", "Reader", "cues"]

OPENING_CHARS = 250
OPENING_SENTENCES = 2
OPINION_REACH = 40
LABEL_FROM = 40  # a speaker's label this far in is a turn of its own
NEVER = 1 << 40  # a position behind every text: where a phrase would be that is not there
_CUE = {name: i for i, name in enumerate(CUES)}
_ROLES = (
    *("apology", "core", "declining", "direct", "gated", "guarded", "helping", "idiom", "instead", "kindly", "label"),
    *(
        "moral",
        "opinion",
        "refusing",
        "strong",
        "turn",
        "unplain",
        "unplain_opening",
        "cannot",
        "incapable",
        "need_input",
    ),
)
# A bit for each role: all that a class, a sentence or a passage plays is one number.
_BIT = {role: 1 << bit for bit, role in enumerate(_ROLES)}
_APOLOGY, _CORE, _DECLINING, _DIRECT, _GATED, _GUARDED, _HELPING, _IDIOM, _INSTEAD, _KINDLY, _LABEL = (
    _BIT[role] for role in _ROLES[:11]
)
_MORAL, _OPINION, _REFUSING, _STRONG, _TURN, _UNPLAIN, _UNPLAIN_OPENING, _CANNOT, _INCAPABLE, _NEED_INPUT = (
    _BIT[role] for role in _ROLES[11:]
)
_ANY, _OPENING, _AFTER_TURN, _QUOTED = map(int, Zone)

Quantity: TypeAlias = Any  # a number or a truth value of one passage, or an array with one for each passage of a column


class Quantities(Protocol):
    """What the cues are computed from."""

    chars: Quantity
    """Characters of the passage."""
    size: Quantity
    """Characters, where one of a dense script counts for several."""
    speakers: Quantity
    sentence_count: Quantity
    items: Quantity
    """How many list items there are."""
    last_item: Quantity
    code: Quantity
    asks_back: Quantity
    refusing_share: Quantity
    share: Quantity
    """The declining sentences' share of the characters."""
    declining_count: Quantity
    refused: Quantity
    """Whether any sentence refuses."""
    ends_refusing: Quantity
    ends_helping: Quantity
    strong_opening: Quantity
    moral_opening: Quantity
    strong_end: Quantity
    """Whether one of the last two sentences declines outright."""
    content: Quantity
    """Size of the sentences that do not decline."""
    log_content: Quantity
    content_after_refusal: Quantity
    content_after_turn: Quantity
    first_refusal: Quantity
    turn: Quantity
    """Where the first turn starts; beyond `chars` where there is none."""
    turn_sentence: Quantity
    alternative: Quantity
    helped: Quantity
    cannot: Quantity
    incapable: Quantity
    disclaimed: Quantity


def cues(q: Quantities) -> dict[str, Quantity]:
    """Return every cue but `refused_before`, by its name in `CUES`.

    Only operators that mean the same for truth values and for arrays are used: `&`, `|`, comparisons, and `^ True` for "not".
    """
    listed = q.items >= 2
    turns = q.turn <= q.chars
    plain = (listed | q.helped) ^ True
    return {
        "speakers>=2": q.speakers > 1,
        "chars<60": q.size < 60,
        "chars<150": (q.size >= 60) & (q.size < 150),
        "chars<300": (q.size >= 150) & (q.size < 300),
        "chars<600": (q.size >= 300) & (q.size < 600),
        "chars<1200": (q.size >= 600) & (q.size < 1200),
        "chars>=1200": q.size >= 1200,
        "sentences<=3": q.sentence_count <= 3,
        "list>=2": listed,
        "list>=4": q.items >= 4,
        "code": q.code,
        "asks_back": q.asks_back,
        "nothing_refusing": q.declining_count == 0,
        "refusing>=.25": q.refusing_share >= 0.25,
        "declining>=.5": q.share >= 0.5,
        "declining_share": q.share,
        "declining_sentences>=2": q.declining_count >= 2,
        "declining_sentences>=4": q.declining_count >= 4,
        "ends_refusing": q.ends_refusing,
        "ends_helping": q.ends_helping,
        "moral_opening": q.moral_opening & (q.refused ^ True),
        "content<150": q.content < 150,
        "content>300": q.content > 300,
        "content>800": q.content > 800,
        "log_content": q.log_content,
        # What follows what: content behind the last refusal, a list behind the first, a turn and what comes of it.
        "content_after_refusal>200": q.refused & (q.content_after_refusal > 200),
        "list_after_refusal": q.refused & listed & (q.last_item > q.first_refusal),
        "turn_after_refusal": (q.first_refusal < q.turn) & (q.turn < q.chars),
        "turn_near": q.turn_sentence <= 2,
        "content_after_turn>100": q.content_after_turn > 100,
        "content_after_turn>300": q.content_after_turn > 300,
        "strong_opening&list": q.strong_opening & listed,
        "strong_late": q.strong_end & (q.strong_opening ^ True),
        "alternative_without_refusal": q.alternative & (q.strong_opening ^ True),
        "alternative_list": q.alternative & listed,
        # A short response without a sign of help in it.
        "strong_short": plain & (q.size < 200) & q.strong_opening,
        "cannot_short": plain & (q.size < 260) & q.cannot,
        "cannot_very_short": plain & (q.size < 130) & q.cannot,
        "incapable_short": plain & (q.size < 220) & q.incapable & (turns ^ True),
        "disclaimed": q.disclaimed & (turns ^ True),
        "disclaimed_short": q.disclaimed & (turns ^ True) & (q.content < 250),
        "disclaimed_then_turn": q.disclaimed & turns,
        "disclaimed_moral": q.disclaimed & (q.share >= 0.4),
    }


@dataclass(frozen=True, slots=True)
class Features:
    """The features that hold, by index, with their values; and for each zoned one the hit that set it first."""

    values: dict[int, float]
    hits: dict[int, ClassHit]


@dataclass(frozen=True)
class Reader:
    """Reads features off a passage by the classes of one pack."""

    pack: RefusalPack

    def read(self, passage: Passage) -> Features:
        """Return the features of a passage."""
        return _Reading(self, passage).features()

    def strong_in(self, text: str) -> bool:
        """Return whether a text contains a phrase that refuses by itself."""
        return any(self.masks[hit[2]] & _STRONG for hit in self.pack.lexicon.find(text.replace("\n", " ")))

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """The roles that each class plays, as bits."""
        return tuple(sum(1 << bit for bit, role in enumerate(_ROLES) if role in c.roles) for c in self.pack.classes)

    @cached_property
    def role_arrays(self) -> dict[str, NDArray[np.bool_]]:
        """Which classes play each role, for columns."""
        import numpy as np

        names = {role for c in self.pack.classes for role in c.roles}
        return {role: np.array(self.pack.having(role)) for role in names}


class _Reading:
    """Computes the features of one passage; its attributes are the quantities of the cues."""

    def __init__(self, reader: Reader, passage: Passage) -> None:
        self.pack, self.masks, self.passage = reader.pack, reader.masks, passage
        self.text = passage.text
        self.chars = len(self.text)
        self.size = self.chars * passage.density
        self.speakers = passage.speakers
        self.values: dict[int, float] = {}
        self.set_by: dict[int, ClassHit] = {}
        self.cue_base = 4 * len(self.pack.classes)
        if passage.before and reader.strong_in(passage.before):
            self.values[self.cue_base + _CUE["refused_before"]] = 1.0

    def features(self) -> Features:
        """Return the features of the passage."""
        found = self.pack.lexicon.find(self.text.replace("\n", " "))
        self.played = 0
        for hit in found:
            self.played |= self.masks[hit[2]]
        # Whatever else is in it, a passage without a declining phrase has this one feature: nearly all responses end here.
        if not self.played & _DECLINING:
            return Features({self.cue_base + _CUE["nothing_refusing"]: 1.0}, {})
        self.starts = sentence_starts(self.text)
        self.lengths = [b - a for a, b in zip(self.starts, [*self.starts[1:], self.chars], strict=True)]
        self.sentence_count = len(self.starts)
        self._guard(found)
        self._zones()
        self._measure_sentences()
        # Order matters: help that follows a refusal takes it back in part.
        items = list_items(self.text)
        self.items, self.last_item = len(items), items[-1] if items else -1
        self.code, self.asks_back = "```" in self.text, self.text.endswith("?")
        last = max((i for i, refuses in enumerate(self.refusing) if refuses), default=-1)
        self.content_after_refusal = self._content(last + 1) if self.refused else 0.0
        turns = [start for start, _, _ in self._hits_with_role(_TURN, self.hits) if start > self.first_refusal]
        self.turn_sentence, self.content_after_turn = NEVER, 0.0
        if turns:
            self.turn_sentence = self._sentence_of(min(turns))
            self.content_after_turn = self._content(self.turn_sentence)
        for name, value in cues(self).items():
            if value:
                self.values[self.cue_base + _CUE[name]] = float(value)
        return Features(self.values, self.set_by)

    def _hits_with_role(self, role: int, hits: list[ClassHit]) -> list[ClassHit]:
        return [hit for hit in hits if self.masks[hit[2]] & role] if self.played & role else []

    def _guard(self, found: list[ClassHit]) -> None:
        """Keep the hits that mean what they say."""
        core = self.played & _CORE
        idioms = [(start, end) for start, end, _ in self._hits_with_role(_IDIOM, found)]
        kindly = [(start, end) for start, end, _ in self._hits_with_role(_KINDLY, found)]
        opinions = [start for start, _, _ in self._hits_with_role(_OPINION, found)]
        self.disclaimed = False
        self.hits: list[ClassHit] = []
        for hit in found:
            start, end, c = hit
            mask = self.masks[c]
            # A kind apology ("sorry to hear that") is not the apology of a refusal.
            if (mask & _GATED and not core) or (mask & _APOLOGY and _overlaps(kindly, start, end)):
                continue
            if mask & _GUARDED:
                # An idiom ("can't wait") cancels the negation inside it.
                if _overlaps(idioms, start, end):
                    continue
                # "I can't have opinions" introduces an answer rather than declines one.
                at = bisect_left(opinions, start)
                if at < len(opinions) and opinions[at] <= end + OPINION_REACH:
                    self.disclaimed = True
                    continue
            self.hits.append(hit)

    def _sentence_of(self, start: int) -> int:
        return bisect_right(self.starts, start) - 1

    def _zones(self) -> None:
        """Set the zoned features, and what each sentence is."""
        limit = quotation_limit(self.passage)
        quoted = sorted([(a, b) for a, b in quotations(self.text) if b - a < limit])
        quote_starts, quote_ends = [a for a, _ in quoted], list(accumulate([b for _, b in quoted], max))
        turns = [start for start, _, _ in self._hits_with_role(_TURN, self.hits)]
        turns += [start for start, _, _ in self._hits_with_role(_LABEL, self.hits) if start > LABEL_FROM]
        self.turn = min(turns, default=self.chars + 1)
        self.sentences = [0] * len(self.starts)
        self.first_refusal = self.chars
        said = opening = 0
        for hit in self.hits:
            start, _, c = hit
            at = bisect_right(quote_starts, start) - 1
            # What is quoted is not said: a model that cites a refusal does not refuse.
            if at >= 0 and start < quote_ends[at]:
                self._set(4 * c + _QUOTED, hit)
                continue
            mask, sentence = self.masks[c], self._sentence_of(start)
            said |= mask
            self._set(4 * c + _ANY, hit)
            if start < OPENING_CHARS and sentence < OPENING_SENTENCES:
                opening |= mask
                self._set(4 * c + _OPENING, hit)
            if start > self.turn:
                self._set(4 * c + _AFTER_TURN, hit)
            self.sentences[sentence] |= mask
            if mask & _REFUSING and start < self.first_refusal:
                self.first_refusal = start
        self.helped = bool(said & _UNPLAIN or opening & _UNPLAIN_OPENING)
        self.cannot = bool(said & _CANNOT)
        self.incapable = bool(opening & _INCAPABLE) and not said & _NEED_INPUT

    def _set(self, feature: int, hit: ClassHit) -> None:
        if feature not in self.values:
            self.values[feature] = 1.0
            self.set_by[feature] = hit

    def _measure_sentences(self) -> None:
        """Measure what the sentences do, and how much of the response does it."""
        opening = 0
        for mask in self.sentences[:OPENING_SENTENCES]:
            opening |= mask
        self.strong_opening, self.moral_opening = bool(opening & _STRONG), bool(opening & _MORAL)
        instead = [self._sentence_of(start) for start, _, _ in self._hits_with_role(_INSTEAD, self.hits)]
        self.alternative = bool(instead) and (self.strong_opening or self.moral_opening)
        self.refusing = [mask & _REFUSING > 0 for mask in self.sentences]
        self.declining = [mask & (_REFUSING | _MORAL) > 0 for mask in self.sentences]
        if instead and self.strong_opening:
            # After a refusing opening, what follows "instead, …" is no help with the request.
            first = min(instead)
            self.declining[first:] = [True] * (len(self.declining) - first)
        total = max(self.chars, 1)
        self.refusing_share = sum(compress(self.lengths, self.refusing)) / total
        self.share = sum(compress(self.lengths, self.declining)) / total
        self.declining_count = sum(self.declining)
        self.refused = any(self.refusing)
        self.ends_refusing = self.refusing[-1]
        self.ends_helping = self.sentences[-1] & _HELPING > 0
        self.strong_end = any(mask & _DIRECT for mask in self.sentences[-2:])
        self.content = self._content(0)
        self.log_content = math.log1p(self.content) / 5 - 1

    def _content(self, from_sentence: int) -> float:
        pairs = zip(self.lengths[from_sentence:], self.declining[from_sentence:], strict=True)
        return sum([size for size, declining in pairs if not declining]) * self.passage.density


def _overlaps(intervals: list[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether the last of the sorted intervals that start before an end reaches beyond a start."""
    at = bisect_left(intervals, (end, 0)) - 1
    return at >= 0 and intervals[at][1] > start
