"""The features of a whole column of passages at once: one automaton call, then arrays.

Row i of the result is what `Reader.read` finds in passage i; both use one table of cues, and a test compares the quantities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from demur.detect.refusal.cues import LABEL_FROM, NEVER, OPENING_CHARS, OPENING_SENTENCES, OPINION_REACH, cues
from demur.detect.refusal.pack import CUES, Zone
from demur.detect.refusal.passage import MIN_SENTENCE, quotation_limit, quotations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from demur.detect.refusal.cues import Reader
    from demur.detect.refusal.passage import Passage

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

__all__ = ["read_columns"]

_FIRST_BYTE = -64  # bytes 0x80 to 0xbf, which continue a character in UTF-8, are below this as signed numbers
_CUE = {name: i for i, name in enumerate(CUES)}
_MARK, _AFTER_STOP, _DIGIT = (np.zeros(256, dtype=np.bool_) for _ in range(3))
_MARK[[ord(c) for c in "!?\n."]] = True
_AFTER_STOP[[ord(c) for c in " \n\"')]"]] = True
_DIGIT[ord("0") : ord("9") + 1] = True


def read_columns(reader: Reader, passages: Sequence[Passage]) -> Floats:
    """Return one row of features per passage."""
    base = 4 * len(reader.pack.classes)
    values = np.zeros((len(passages), len(reader.pack.feature_names)))
    values[:, base + _CUE["nothing_refusing"]] = 1.0
    if passages:
        rows = _Rows(passages)
        starts, ends, kinds = rows.hits(reader)
        row = rows.of(starts)
        kept = np.unique(row[reader.role_arrays["declining"][kinds]])
        if len(kept):
            # Passages without a declining phrase are done; the others move together, and their hits with them.
            few = _Rows([passages[i] for i in kept.tolist()])
            to = np.full(len(passages), -1)
            to[kept] = np.arange(len(kept))
            mine = to[row] >= 0
            shift = few.starts[to[row[mine]]] - rows.starts[row[mine]]
            values[kept] = _Columns(reader, few, (starts[mine] + shift, ends[mine] + shift, kinds[mine])).features()
    return values


class _Rows:
    """Passages in one string: where each one is, and what is known of it as a whole."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        # Separated by NUL, which no view contains; the margin lets array look-ups read beyond the last character.
        self.joined = "\0" + "\0".join([p.text for p in passages]) + "\0\0\0\0"
        self.chars = np.array([len(p.text) for p in passages], dtype=np.int64)
        self.starts = np.cumsum(self.chars + 1) - self.chars
        self.ends = self.starts + self.chars
        self.density = np.array([p.density for p in passages])
        self.buffer = self.joined.encode()
        self.bytes = np.frombuffer(self.buffer, dtype=np.uint8)
        # Positions are counted in characters, so the bytes that continue one are left out.
        multiple = len(self.buffer) > len(self.joined)
        self._continuing = np.flatnonzero(self.bytes.view(np.int8) < _FIRST_BYTE) if multiple else None

    def of(self, positions: Ints) -> Ints:
        """Return the row of each position."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def chars_of(self, positions: Ints) -> Ints:
        """Return positions in characters for positions in bytes."""
        return positions if self._continuing is None else positions - np.searchsorted(self._continuing, positions)

    def hits(self, reader: Reader) -> tuple[Ints, Ints, Ints]:
        """Return starts, ends and classes of all phrases, in characters."""
        starts, ends, kinds = reader.pack.lexicon.find_in_buffer(self.buffer.replace(b"\n", b" "))
        return self.chars_of(starts), self.chars_of(ends), kinds


class _Columns:
    """Computes the features of a column; the steps are those of one reading, in the same order."""

    def __init__(self, reader: Reader, rows: _Rows, hits: tuple[Ints, Ints, Ints]) -> None:
        self.pack, self.passages, self.rows = reader.pack, rows.passages, rows
        self.roles, self.chars, self.found = reader.role_arrays, rows.chars, hits
        self.count = len(rows.passages)
        self.values = np.zeros((self.count, len(self.pack.feature_names)))
        self.cue_base = 4 * len(self.pack.classes)
        self.size = rows.chars * rows.density
        self.speakers = np.array([p.speakers for p in rows.passages])
        self.asks_back = np.array([p.text.endswith("?") for p in rows.passages])
        before = [bool(p.before) and reader.strong_in(p.before) for p in rows.passages]
        self.values[:, self.cue_base + _CUE["refused_before"]] = before

    def features(self) -> Floats:
        """Return the features, one row per passage."""
        self._sentences()
        self._guard()
        self._zones()
        self._measure_sentences()
        self._find_items()
        # As in `_Reading.features`: order matters, since help that follows a refusal takes it back in part.
        last = np.full(self.count, -1)
        last[self.row_of[self.refusing]] = self.within[self.refusing]
        self.content_after_refusal = self._content(last + 1)
        turns = self.roles["turn"][self.kinds] & (self.local > self.first_refusal[self.row])
        self.turn_sentence = self._least(self.row[turns], self.within[self.sentence[turns]], NEVER)
        self.content_after_turn = self._content(self.turn_sentence)
        for name, holds in cues(self).items():
            self.values[:, self.cue_base + _CUE[name]] = holds
        return self.values

    def _sentences(self) -> None:
        """Find the starts, rows and lengths of all sentences."""
        data = self.rows.bytes
        marks = np.flatnonzero(_MARK[data])
        kinds = data[marks]
        stops = (kinds != ord(".")) | (_AFTER_STOP[data[marks + 1]] & ~_DIGIT[data[marks - 1]])
        self.breaks = marks[kinds == ord("\n")]
        found = self.rows.chars_of(marks[stops]) + 1
        row = self.rows.of(found - 1)
        before = np.concatenate([[0], found[:-1]])
        since = found - np.maximum(before, self.rows.starts[row])
        kept = found[(since >= MIN_SENTENCE) & (found < self.rows.ends[row])]
        self.starts = np.sort(np.concatenate([self.rows.starts, kept]))
        self.row_of = self.rows.of(self.starts)
        self.first = np.searchsorted(self.starts, self.rows.starts)
        self.within = np.arange(len(self.starts)) - self.first[self.row_of]
        self.sentence_count = np.diff(np.append(self.first, len(self.starts)))
        self.last = self.first + self.sentence_count - 1
        ends = np.append(self.starts[1:], 0)
        ends[self.last] = self.rows.ends
        self.lengths = ends - self.starts

    def _guard(self) -> None:
        """Keep the hits that mean what they say."""
        starts, ends, kinds = self.found
        row, roles = self.rows.of(starts), self.roles
        core = self._any_row(row[roles["core"][kinds]])
        gone = roles["gated"][kinds] & ~core[row]
        gone |= roles["apology"][kinds] & _overlap(starts, ends, roles["kindly"][kinds])
        guarded = roles["guarded"][kinds] & ~gone
        # An idiom ("can't wait") cancels the negation inside it; the order of the guards is that of `_Reading._guard`.
        in_idiom = guarded & _overlap(starts, ends, roles["idiom"][kinds])
        # NEVER at the end spares a test for hits behind the last opinion.
        opinions = np.append(np.sort(starts[roles["opinion"][kinds]]), NEVER)
        nearest = opinions[np.searchsorted(opinions, starts)]
        near = (nearest <= ends + OPINION_REACH) & (nearest < self.rows.ends[row])
        disclaimed = guarded & ~in_idiom & near
        self.disclaimed = self._any_row(row[disclaimed])
        kept = ~(gone | in_idiom | disclaimed)
        self.kinds, self.at_start, self.row = kinds[kept], starts[kept], row[kept]
        self.local = self.at_start - self.rows.starts[self.row]
        self.sentence = np.searchsorted(self.starts, self.at_start, side="right") - 1

    def _any_row(self, rows: Ints) -> Bools:
        found = np.zeros(self.count, dtype=np.bool_)
        found[rows] = True
        return found

    def _least(self, rows: Ints, values: Ints, default: Ints | int) -> Ints:
        """Return the least value of each row."""
        least = np.broadcast_to(np.asarray(default, dtype=np.int64), (self.count,)).copy()
        np.minimum.at(least, rows, values)
        return least

    def _quoted(self) -> Bools:
        """Return which hits are inside a quotation or code."""
        spans = sorted(quotations(self.rows.joined))
        fences = np.array([start for start, _ in spans if self.rows.joined[start] == "`"], dtype=np.int64)
        self.code = self._any_row(self.rows.of(fences))
        if not spans:
            return np.zeros(len(self.kinds), dtype=np.bool_)
        limits = np.array([quotation_limit(p) for p in self.passages])
        starts, ends = np.array(spans, dtype=np.int64).T
        real = ends - starts < limits[self.rows.of(starts)]
        starts, ends = np.append(starts[real], NEVER), np.maximum.accumulate(np.append(ends[real], NEVER))
        at = np.searchsorted(starts, self.at_start, side="right") - 1
        return (at >= 0) & (self.at_start < ends[at])

    def _zones(self) -> None:
        """Set the zoned features, and what each sentence is."""
        roles, kinds, row = self.roles, self.kinds, self.row
        turning = roles["turn"][kinds] | (roles["label"][kinds] & (self.local > LABEL_FROM))
        self.turn = self._least(row[turning], self.local[turning], self.chars + 1)
        quoted = self._quoted()
        said = ~quoted
        opening = said & (self.local < OPENING_CHARS) & (self.within[self.sentence] < OPENING_SENTENCES)
        after = said & (self.local > self.turn[row])
        for zone, holds in ((Zone.QUOTED, quoted), (Zone.ANY, said), (Zone.OPENING, opening), (Zone.AFTER_TURN, after)):
            self.values[row[holds], 4 * kinds[holds] + zone] = 1.0
        self.refusing, self.strong, self.direct, self.moral, self.helping = (
            np.bincount(self.sentence[said & roles[role][kinds]], minlength=len(self.starts)) > 0
            for role in ("refusing", "strong", "direct", "moral", "helping")
        )
        refusing = said & roles["refusing"][kinds]
        self.first_refusal = self._least(row[refusing], self.local[refusing], self.chars)
        self.helped = self._has("unplain", Zone.ANY) | self._has("unplain_opening", Zone.OPENING)
        self.cannot = self._has("cannot", Zone.ANY)
        self.incapable = self._has("incapable", Zone.OPENING) & ~self._has("need_input", Zone.ANY)

    def _has(self, role: str, zone: Zone) -> Bools:
        columns = 4 * np.flatnonzero(self.roles[role]) + zone
        return np.asarray(self.values[:, columns].any(axis=1))

    def _measure_sentences(self) -> None:
        """Measure what the sentences do, and how much of each response does it."""
        instead = self.roles["instead"][self.kinds]
        first = self._least(self.row[instead], self.within[self.sentence[instead]], NEVER)
        opening = self.within < OPENING_SENTENCES
        self.strong_opening = self._any_row(self.row_of[self.strong & opening])
        self.moral_opening = self._any_row(self.row_of[self.moral & opening])
        self.alternative = (first < NEVER) & (self.strong_opening | self.moral_opening)
        self.moral |= self.strong_opening[self.row_of] & (self.within >= first[self.row_of])
        self.declining = self.refusing | self.moral
        total = np.maximum(self.chars, 1)
        self.refusing_share = self._sum(self.lengths * self.refusing) / total
        self.share = self._sum(self.lengths * self.declining) / total
        self.declining_count = self._sum(self.declining)
        self.refused = self._any_row(self.row_of[self.refusing])
        self.ends_refusing, self.ends_helping = self.refusing[self.last], self.helping[self.last]
        near_end = self.within >= (self.sentence_count - 2)[self.row_of]
        self.strong_end = self._any_row(self.row_of[self.direct & near_end])
        self.content = self._content(np.zeros(self.count, dtype=np.int64))
        self.log_content = np.log1p(self.content) / 5 - 1

    def _sum(self, per_sentence: NDArray[np.generic]) -> Floats:
        return np.asarray(np.bincount(self.row_of, weights=per_sentence, minlength=self.count), dtype=np.float64)

    def _content(self, from_sentence: Ints) -> Floats:
        counted = ~self.declining & (self.within >= from_sentence[self.row_of])
        return np.asarray(self._sum(self.lengths * counted) * self.rows.density)

    def _find_items(self) -> None:
        """Count the list items of each row and find its last: a line that starts with a hyphen or a number."""
        data = self.rows.bytes
        lines = np.sort(np.concatenate([np.flatnonzero(data[:-4] == 0), self.breaks]))
        head = lines + 1
        head += data[head] == ord(" ")
        one, two, three = data[head], data[head + 1], data[head + 2]
        closes = (two == ord(".")) | (two == ord(")"))
        closes_later = _DIGIT[two] & ((three == ord(".")) | (three == ord(")")))
        items = lines[(one == ord("-")) | (_DIGIT[one] & (closes | closes_later))]
        at_start = data[items] == 0
        positions = self.rows.chars_of(items) + at_start
        row = self.rows.of(positions)
        self.items = np.bincount(row, minlength=self.count)
        self.last_item = np.full(self.count, -1)
        self.last_item[row] = positions - self.rows.starts[row]


def _overlap(starts: Ints, ends: Ints, chosen: Bools) -> Bools:
    """Return which hits the last of the chosen ones that start before their end reaches into."""
    if not chosen.any():
        return np.zeros(len(starts), dtype=np.bool_)
    order = np.lexsort((ends[chosen], starts[chosen]))
    from_, to = starts[chosen][order], ends[chosen][order]
    at = np.searchsorted(from_, ends, side="left") - 1
    return (at >= 0) & (to[at] > starts)
