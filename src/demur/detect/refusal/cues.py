"""What does the shape of an answer say? Phrases and passage in, one row of features out.

A *refusing* sentence holds a phrase by which a model declines, a *declining* one that or moralising; what is neither is
content. A *turn* is "but here is…". An idiom ("can't wait") cancels the negation inside it, a kind apology ("sorry to hear")
an apology, an opinion disclaimer ("I can't have opinions") the negation that introduces it: it is counted as `disclaimed`.

Laws: a passage without a single declining phrase has one feature, `nothing_refusing`, whatever else is in it;
a feature depends on the passage and the hits alone; quoted phrases count in the zone `quoted` only; this file and
`refusal_columns.py` compute the same features, and a test holds them to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, compress
from typing import TYPE_CHECKING

from demur.detect.refusal.pack import CUES, Zone
from demur.detect.refusal.passage import items as list_items
from demur.detect.refusal.passage import quotation_limit, quotations, sentence_starts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from demur.detect.refusal.lexicon import ClassHit
    from demur.detect.refusal.pack import RefusalPack
    from demur.detect.refusal.passage import Passage

__all__ = ["LABEL_FROM", "LENGTHS", "OPENING_CHARS", "OPENING_SENTENCES", "OPINION_REACH", "Features", "Reader"]

OPENING_CHARS = 250
OPENING_SENTENCES = 2
OPINION_REACH = 40
LABEL_FROM = 40
"""A speaker's label this far in is a turn of its own."""
LENGTHS = (60, 150, 300, 600, 1200)
_CUE = {name: i for i, name in enumerate(CUES)}
_ROLES = (
    *("apology", "core", "declining", "direct", "gated", "guarded", "helping", "idiom"),
    *("instead", "kindly", "label", "moral", "opinion", "refusing", "strong", "turn"),
)
_APOLOGY, _CORE, _DECLINING, _DIRECT, _GATED, _GUARDED, _HELPING, _IDIOM = (1 << bit for bit in range(8))
_INSTEAD, _KINDLY, _LABEL, _MORAL, _OPINION, _REFUSING, _STRONG, _TURN = (1 << bit for bit in range(8, 16))
_ANY, _OPENING, _AFTER_TURN, _QUOTED = map(int, Zone)
"""A bit for each role, in the order of `_ROLES`: all that a class, a sentence or a passage plays is one number."""


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
        """Return whether a phrase that refuses by itself stands in a text."""
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

    @cached_property
    def members(self) -> dict[str, tuple[int, ...]]:
        """The first feature of each class that plays a role."""
        names = {role for c in self.pack.classes for role in c.roles}
        return {role: tuple(4 * i for i, has in enumerate(self.pack.having(role)) if has) for role in names}


class _Reading:
    """One passage on its way to features; each method adds what the next ones need."""

    def __init__(self, reader: Reader, passage: Passage) -> None:
        self.pack, self.masks, self.members, self.passage = reader.pack, reader.masks, reader.members, passage
        self.text = passage.text
        self.chars = len(self.text)
        self.values: dict[int, float] = {}
        self.set_by: dict[int, ClassHit] = {}
        self.cue_base = 4 * len(self.pack.classes)
        if passage.before and reader.strong_in(passage.before):
            self._cue("refused_before", holds=True)

    def features(self) -> Features:
        """Return the features of the passage."""
        found = self.pack.lexicon.find(self.text.replace("\n", " "))
        self.played = 0
        for hit in found:
            self.played |= self.masks[hit[2]]
        if not self.played & _DECLINING:
            return Features({self.cue_base + _CUE["nothing_refusing"]: 1.0}, {})
        self._sentences()
        self._guard(found)
        self._zones()
        self._alternatives()
        self._cues()
        return Features(self.values, self.set_by)

    def _cue(self, name: str, *, holds: bool) -> None:
        if holds:
            self.values[self.cue_base + _CUE[name]] = 1.0

    def _sentences(self) -> None:
        """Find where sentences start and how long they are."""
        starts = sentence_starts(self.text)
        self.starts = starts
        self.lengths = [b - a for a, b in zip(starts, [*starts[1:], self.chars], strict=True)]

    def _playing(self, role: int, hits: list[ClassHit]) -> list[ClassHit]:
        """Return the hits of the classes that play a role."""
        return [hit for hit in hits if self.masks[hit[2]] & role] if self.played & role else []

    def _guard(self, found: list[ClassHit]) -> None:
        """Keep the hits that mean what they say."""
        core = self.played & _CORE
        idioms = [(start, end) for start, end, _ in self._playing(_IDIOM, found)]
        kindly = [(start, end) for start, end, _ in self._playing(_KINDLY, found)]
        opinions = [start for start, _, _ in self._playing(_OPINION, found)]
        self.disclaimed = False
        self.hits: list[ClassHit] = []
        for hit in found:
            start, end, c = hit
            mask = self.masks[c]
            if (mask & _GATED and not core) or (mask & _APOLOGY and _overlaps(kindly, start, end)):
                continue
            if mask & _GUARDED:
                if _overlaps(idioms, start, end):
                    continue
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
        turns = [start for start, _, _ in self._playing(_TURN, self.hits)]
        turns += [start for start, _, _ in self._playing(_LABEL, self.hits) if start > LABEL_FROM]
        self.turn = min(turns, default=self.chars + 1)
        self.sentences = [0] * len(self.starts)
        self.first_refusal = self.chars
        for hit in self.hits:
            start, _, c = hit
            at = bisect_right(quote_starts, start) - 1
            if at >= 0 and start < quote_ends[at]:
                self._set(4 * c + _QUOTED, hit)
                continue
            sentence = self._sentence_of(start)
            self._set(4 * c + _ANY, hit)
            if start < OPENING_CHARS and sentence < OPENING_SENTENCES:
                self._set(4 * c + _OPENING, hit)
            if start > self.turn:
                self._set(4 * c + _AFTER_TURN, hit)
            self.sentences[sentence] |= self.masks[c]
            if self.masks[c] & _REFUSING and start < self.first_refusal:
                self.first_refusal = start

    def _set(self, feature: int, hit: ClassHit) -> None:
        if feature not in self.values:
            self.values[feature] = 1.0
            self.set_by[feature] = hit

    def _alternatives(self) -> None:
        """See what "instead, …" stands for: after a refusing opening, what follows it is no help with the request."""
        opening = 0
        for mask in self.sentences[:OPENING_SENTENCES]:
            opening |= mask
        self.strong_opening, self.moral_opening = bool(opening & _STRONG), bool(opening & _MORAL)
        instead = [self._sentence_of(start) for start, _, _ in self._playing(_INSTEAD, self.hits)]
        self.alternative = bool(instead) and (self.strong_opening or self.moral_opening)
        self.refusing = [mask & _REFUSING > 0 for mask in self.sentences]
        self.declining = [mask & (_REFUSING | _MORAL) > 0 for mask in self.sentences]
        if instead and self.strong_opening:
            first = min(instead)
            self.declining[first:] = [True] * (len(self.declining) - first)

    def _content(self, from_sentence: int) -> float:
        pairs = zip(self.lengths[from_sentence:], self.declining[from_sentence:], strict=True)
        return sum([size for size, declining in pairs if not declining]) * self.passage.density

    def _cues(self) -> None:
        items = list_items(self.text)
        self._cue("speakers>=2", holds=self.passage.speakers > 1)
        self._cues_of_length(len(items))
        self._cues_of_sentences()
        self._cues_of_order(items)
        self._cues_of_short(len(items))
        self._cues_of_disclaimer()

    def _cues_of_length(self, items: int) -> None:
        size = self.chars * self.passage.density
        bucket = bisect_right(LENGTHS, size)
        self.values[self.cue_base + _CUE["chars<60"] + bucket] = 1.0
        self._cue("sentences<=3", holds=len(self.starts) <= 3)  # noqa: PLR2004 — the number in the cue's name, as below
        self._cue("list>=2", holds=items >= 2)  # noqa: PLR2004
        self._cue("list>=4", holds=items >= 4)  # noqa: PLR2004
        self._cue("code", holds="```" in self.text)
        self._cue("asks_back", holds=self.text.endswith("?"))

    def _cues_of_sentences(self) -> None:
        total = max(self.chars, 1)
        refusing = sum(compress(self.lengths, self.refusing)) / total
        declining = sum(compress(self.lengths, self.declining)) / total
        count = sum(self.declining)
        self.share, self.content = declining, self._content(0)
        self._cue("nothing_refusing", holds=not count)
        self._cue("refusing>=.25", holds=refusing >= 0.25)  # noqa: PLR2004
        self._cue("declining>=.5", holds=declining >= 0.5)  # noqa: PLR2004
        self.values[self.cue_base + _CUE["declining_share"]] = declining
        self._cue("declining_sentences>=2", holds=count >= 2)  # noqa: PLR2004
        self._cue("declining_sentences>=4", holds=count >= 4)  # noqa: PLR2004
        self._cue("ends_refusing", holds=self.refusing[-1])
        self._cue("ends_helping", holds=self.sentences[-1] & _HELPING > 0)
        self._cue("moral_opening", holds=self.moral_opening and not any(self.refusing))
        self._cue("content<150", holds=self.content < 150)  # noqa: PLR2004
        self._cue("content>300", holds=self.content > 300)  # noqa: PLR2004
        self._cue("content>800", holds=self.content > 800)  # noqa: PLR2004
        self.values[self.cue_base + _CUE["log_content"]] = math.log1p(self.content) / 5 - 1

    def _cues_of_order(self, items: list[int]) -> None:
        """What follows what: content behind the last refusal, a list behind the first, a turn and what comes of it."""
        refused = any(self.refusing)
        last = max((i for i, r in enumerate(self.refusing) if r), default=-1)
        self._cue("content_after_refusal>200", holds=refused and self._content(last + 1) > 200)  # noqa: PLR2004
        self._cue("list_after_refusal", holds=refused and len(items) >= 2 and items[-1] > self.first_refusal)  # noqa: PLR2004
        self._cue("turn_after_refusal", holds=self.first_refusal < self.turn < self.chars)
        turns = [start for start, _, _ in self._playing(_TURN, self.hits) if start > self.first_refusal]
        turn = min(turns, default=None)
        if turn is not None:
            sentence = self._sentence_of(turn)
            self._cue("turn_near", holds=sentence <= 2)  # noqa: PLR2004
            after = self._content(sentence)
            self._cue("content_after_turn>100", holds=after > 100)  # noqa: PLR2004
            self._cue("content_after_turn>300", holds=after > 300)  # noqa: PLR2004
        self._cue("strong_opening&list", holds=self.strong_opening and len(items) >= 2)  # noqa: PLR2004
        late = any(mask & _DIRECT for mask in self.sentences[-2:])
        self._cue("strong_late", holds=late and not self.strong_opening)
        self._cue("alternative_without_refusal", holds=self.alternative and not self.strong_opening)
        self._cue("alternative_list", holds=self.alternative and len(items) >= 2)  # noqa: PLR2004

    def _cues_of_short(self, items: int) -> None:
        """A short answer without a sign of help in it."""
        size = self.chars * self.passage.density
        if size >= 260 or items >= 2:  # noqa: PLR2004 — the longest of the cues
            return
        if self._has("unplain", _ANY) or self._has("unplain_opening", _OPENING):
            return
        cannot = self._has("cannot", _ANY)
        self._cue("strong_short", holds=size < 200 and self.strong_opening)  # noqa: PLR2004
        self._cue("cannot_short", holds=cannot)
        self._cue("cannot_very_short", holds=size < 130 and cannot)  # noqa: PLR2004
        incapable = self._has("incapable", _OPENING) and not self._has("need_input", _ANY)
        self._cue("incapable_short", holds=size < 220 and incapable and self.turn > self.chars)  # noqa: PLR2004

    def _has(self, role: str, zone: int) -> bool:
        return any(feature + zone in self.values for feature in self.members[role])

    def _cues_of_disclaimer(self) -> None:
        if self.disclaimed:
            without_turn = self.turn > self.chars
            self._cue("disclaimed", holds=without_turn)
            self._cue("disclaimed_short", holds=without_turn and self.content < 250)  # noqa: PLR2004
            self._cue("disclaimed_then_turn", holds=not without_turn)
            self._cue("disclaimed_moral", holds=self.share >= 0.4)  # noqa: PLR2004


def _overlaps(intervals: list[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether the last of the sorted intervals that start before an end reaches beyond a start."""
    at = bisect_left(intervals, (end, 0)) - 1
    return at >= 0 and intervals[at][1] > start
