"""What does the shape of an answer say? Phrases and passage in, one row of features out.

A *refusing* sentence holds a phrase by which a model declines, a *declining* one that or moralising; what is neither is
content. A *turn* is "but here is…". An idiom ("can't wait") cancels the negation inside it, a kind apology ("sorry to hear")
an apology, an opinion disclaimer ("I can't have opinions") the negation that introduces it: it is counted as `disclaimed`.

Laws: a feature depends on the passage and the hits alone; quoted phrases count in the zone `quoted` only; this file and
`refusal_columns.py` compute the same features, and a test holds them to it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from demur.detect.passage import ITEM, MIN_SENTENCE, QUOTATION, SENTENCE_END, quotation_limit
from demur.detect.refusal_pack import CUES, Zone

if TYPE_CHECKING:
    from demur.detect.matcher import Hit
    from demur.detect.passage import Passage
    from demur.detect.refusal_pack import RefusalPack

__all__ = ["LENGTHS", "OPENING_CHARS", "OPINION_REACH", "Features", "Reader", "far_label"]

OPENING_CHARS = 250
OPENING_SENTENCES = 2
OPINION_REACH = 40
LABEL_FROM = 40
LENGTHS = (60, 150, 300, 600, 1200)
_CUE = {name: i for i, name in enumerate(CUES)}


def far_label(start: int) -> bool:
    """Return whether a speaker's label is far enough in to be a turn of its own."""
    return start > LABEL_FROM


@dataclass(frozen=True, slots=True)
class Features:
    """The features that hold, by index, with their values; and for each zoned one the hit that set it first."""

    values: dict[int, float]
    hits: dict[int, Hit]


@dataclass(frozen=True)
class Reader:
    """Reads features off a passage by the classes of one pack."""

    pack: RefusalPack

    def read(self, passage: Passage) -> Features:
        """Return the features of a passage."""
        return _Reading(self, passage).features()

    def strong_in(self, text: str) -> bool:
        """Return whether a phrase that refuses by itself stands in a text."""
        class_of, strong = self.pack.class_of, self.roles["strong"]
        return any(strong[class_of[hit[0]]] for hit in self.pack.matcher.find(text.replace("\n", " ")))

    @cached_property
    def roles(self) -> dict[str, tuple[bool, ...]]:
        """Which classes play each role."""
        names = {role for c in self.pack.classes for role in c.roles}
        return {role: self.pack.having(role) for role in names}


class _Reading:
    """One passage on its way to features; each method adds what the next ones need."""

    def __init__(self, reader: Reader, passage: Passage) -> None:
        self.pack, self.roles, self.passage = reader.pack, reader.roles, passage
        self.text = passage.text
        self.chars = len(self.text)
        self.values: dict[int, float] = {}
        self.set_by: dict[int, Hit] = {}
        self.cue_base = 4 * len(self.pack.classes)
        if passage.before and reader.strong_in(passage.before):
            self._cue("refused_before", holds=True)

    def features(self) -> Features:
        """Return the features of the passage."""
        self._sentences()
        self._guard(self.pack.matcher.find(self.text.replace("\n", " ")))
        self._zones()
        self._alternatives()
        self._cues()
        return Features(self.values, self.set_by)

    def _cue(self, name: str, *, holds: bool) -> None:
        if holds:
            self.values[self.cue_base + _CUE[name]] = 1.0

    def _sentences(self) -> None:
        """Find where sentences start and how long they are."""
        starts, last = [0], 0
        for found in SENTENCE_END.finditer(self.text):
            end = found.end()
            if end - last >= MIN_SENTENCE and end < self.chars:
                starts.append(end)
            last = end
        self.starts = starts
        self.lengths = [b - a for a, b in zip(starts, [*starts[1:], self.chars], strict=True)]

    def _guard(self, found: list[Hit]) -> None:
        """Keep the hits that mean what they say."""
        class_of, roles = self.pack.class_of, self.roles
        classes = [class_of[hit[0]] for hit in found]
        core = any(roles["core"][c] for c in classes)
        idioms, kindly = self._intervals(found, classes, "idiom"), self._intervals(found, classes, "kindly")
        opinions = sorted(hit[1] for hit, c in zip(found, classes, strict=True) if roles["opinion"][c])
        self.disclaimed = False
        self.hits: list[tuple[Hit, int]] = []
        for hit, c in zip(found, classes, strict=True):
            if (roles["gated"][c] and not core) or (roles["apology"][c] and _overlaps(kindly, hit)):
                continue
            if roles["guarded"][c]:
                if _overlaps(idioms, hit):
                    continue
                at = bisect_left(opinions, hit[1])
                if at < len(opinions) and opinions[at] <= hit[2] + OPINION_REACH:
                    self.disclaimed = True
                    continue
            self.hits.append((hit, c))

    def _intervals(self, found: list[Hit], classes: list[int], role: str) -> list[tuple[int, int]]:
        has = self.roles[role]
        return sorted((hit[1], hit[2]) for hit, c in zip(found, classes, strict=True) if has[c])

    def _sentence_of(self, start: int) -> int:
        return bisect_right(self.starts, start) - 1

    def _zones(self) -> None:
        """Set the zoned features, and what each sentence is."""
        roles, limit = self.roles, quotation_limit(self.passage)
        quoted = [q.span() for q in QUOTATION.finditer(self.text) if q.end() - q.start() < limit]
        turns = [h[1] for h, c in self.hits if roles["turn"][c] or (roles["label"][c] and far_label(h[1]))]
        self.turn = min(turns, default=self.chars + 1)
        count = len(self.starts)
        self.refusing, self.strong, self.direct = [False] * count, [False] * count, [False] * count
        self.moral, self.helping = [False] * count, [False] * count
        self.first_refusal = self.chars
        for hit, c in self.hits:
            start = hit[1]
            if any(a <= start < b for a, b in quoted):
                self._zone(c, Zone.QUOTED, hit)
                continue
            sentence = self._sentence_of(start)
            self._zone(c, Zone.ANY, hit)
            if start < OPENING_CHARS and sentence < OPENING_SENTENCES:
                self._zone(c, Zone.OPENING, hit)
            if start > self.turn:
                self._zone(c, Zone.AFTER_TURN, hit)
            self._mark(sentence, c, start)

    def _zone(self, c: int, zone: Zone, hit: Hit) -> None:
        feature = 4 * c + zone
        if feature not in self.values:
            self.values[feature] = 1.0
            self.set_by[feature] = hit

    def _mark(self, sentence: int, c: int, start: int) -> None:
        roles = self.roles
        if roles["refusing"][c]:
            self.refusing[sentence] = True
            self.first_refusal = min(self.first_refusal, start)
        self.strong[sentence] |= roles["strong"][c]
        self.direct[sentence] |= roles["direct"][c]
        self.moral[sentence] |= roles["moral"][c]
        self.helping[sentence] |= roles["helping"][c]

    def _alternatives(self) -> None:
        """See what "instead, …" stands for: after a refusing opening, what follows it is no help with the request."""
        instead = [self._sentence_of(hit[1]) for hit, c in self.hits if self.roles["instead"][c]]
        self.strong_opening = any(self.strong[:OPENING_SENTENCES])
        self.moral_opening = any(self.moral[:OPENING_SENTENCES])
        self.alternative = bool(instead) and (self.strong_opening or self.moral_opening)
        if instead and self.strong_opening:
            first = min(instead)
            self.moral[first:] = [True] * (len(self.moral) - first)
        self.declining = [r or m for r, m in zip(self.refusing, self.moral, strict=True)]

    def _content(self, from_sentence: int) -> float:
        pairs = zip(self.lengths[from_sentence:], self.declining[from_sentence:], strict=True)
        return sum(size for size, declining in pairs if not declining) * self.passage.density

    def _cues(self) -> None:
        items = [found.start() for found in ITEM.finditer(self.text)]
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
        refusing = sum(n for n, r in zip(self.lengths, self.refusing, strict=True) if r) / total
        declining = sum(n for n, d in zip(self.lengths, self.declining, strict=True) if d) / total
        count = sum(self.declining)
        self.share, self.content = declining, self._content(0)
        self._cue("nothing_refusing", holds=not count)
        self._cue("refusing>=.25", holds=refusing >= 0.25)  # noqa: PLR2004
        self._cue("declining>=.5", holds=declining >= 0.5)  # noqa: PLR2004
        self.values[self.cue_base + _CUE["declining_share"]] = declining
        self._cue("declining_sentences>=2", holds=count >= 2)  # noqa: PLR2004
        self._cue("declining_sentences>=4", holds=count >= 4)  # noqa: PLR2004
        self._cue("ends_refusing", holds=self.refusing[-1])
        self._cue("ends_helping", holds=self.helping[-1])
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
        turn = min((h[1] for h, c in self.hits if self.roles["turn"][c] and h[1] > self.first_refusal), default=None)
        if turn is not None:
            sentence = self._sentence_of(turn)
            self._cue("turn_near", holds=sentence <= 2)  # noqa: PLR2004
            after = self._content(sentence)
            self._cue("content_after_turn>100", holds=after > 100)  # noqa: PLR2004
            self._cue("content_after_turn>300", holds=after > 300)  # noqa: PLR2004
        self._cue("strong_opening&list", holds=self.strong_opening and len(items) >= 2)  # noqa: PLR2004
        self._cue("strong_late", holds=any(self.direct[-2:]) and not self.strong_opening)
        self._cue("alternative_without_refusal", holds=self.alternative and not self.strong_opening)
        self._cue("alternative_list", holds=self.alternative and len(items) >= 2)  # noqa: PLR2004

    def _cues_of_short(self, items: int) -> None:
        """A short answer without a sign of help in it."""
        size = self.chars * self.passage.density
        helped = any(self._has(role, Zone.ANY) for role in ("unplain",)) or any(
            self._has(role, Zone.OPENING) for role in ("unplain_opening",)
        )
        plain = items < 2 and not helped  # noqa: PLR2004
        cannot = self._has("cannot", Zone.ANY)
        self._cue("strong_short", holds=plain and size < 200 and self.strong_opening)  # noqa: PLR2004
        self._cue("cannot_short", holds=plain and size < 260 and cannot)  # noqa: PLR2004
        self._cue("cannot_very_short", holds=plain and size < 130 and cannot)  # noqa: PLR2004
        incapable = self._has("incapable", Zone.OPENING) and not self._has("need_input", Zone.ANY)
        self._cue("incapable_short", holds=plain and size < 220 and incapable and self.turn > self.chars)  # noqa: PLR2004

    def _has(self, role: str, zone: Zone) -> bool:
        return any(has and 4 * c + zone in self.values for c, has in enumerate(self.roles[role]))

    def _cues_of_disclaimer(self) -> None:
        if self.disclaimed:
            without_turn = self.turn > self.chars
            self._cue("disclaimed", holds=without_turn)
            self._cue("disclaimed_short", holds=without_turn and self.content < 250)  # noqa: PLR2004
            self._cue("disclaimed_then_turn", holds=not without_turn)
            self._cue("disclaimed_moral", holds=self.share >= 0.4)  # noqa: PLR2004


def _overlaps(intervals: list[tuple[int, int]], hit: Hit) -> bool:
    """Return whether the last of the sorted intervals that start before the hit's end reaches into the hit."""
    at = bisect_left(intervals, (hit[2], 0)) - 1
    return at >= 0 and intervals[at][1] > hit[1]
