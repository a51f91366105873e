"""Which parts of a text open it, are its sentences, quote somebody, are code, or are a list?

- `CODE`: fenced blocks (an unclosed fence runs to the end, as in CommonMark) and spans between equal runs of backticks. An
  indented block is no code: prose is indented as often, and a refusal must not hide there.
- `QUOTATION`: paired marks of all kinds and runs of `>` lines. A mark without its partner quotes nothing: no pair
  crosses a blank line or is longer than `QUOTATION_LIMIT`, and straight marks stay on their line.
- `LIST`: two or more bulleted or numbered items with what is indented under them.
- `SENTENCE`: what lies between enders of any script, outside fenced blocks; every line end ends one; markers of items,
  headings and block quotes are not part of it.
- `OPENING`: the first two sentences that hold a word, at most `OPENING_LIMIT` characters, without tags, emoji and marks before it.

Laws: spans count the original text, are never empty, and come sorted by start, then end, then kind; time is linear.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

from demur.model.text import Segment, SegmentKind, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OPENING_LIMIT", "QUOTATION_LIMIT", "segment"]

OPENING_LIMIT = 300
QUOTATION_LIMIT = 1000
_INLINE_LIMIT = 500
_OPENING_SENTENCES = 2
_LONGEST_ABBREVIATION = 12

Stretch = tuple[int, int]

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n]*)", re.MULTILINE)
_TICKS = re.compile("`+")
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,3}>[^\n]*(?:\n[ \t]{0,3}>[^\n]*)*", re.MULTILINE)
_BULLET = r"(?:[-*+•‣◦▪●–—·](?=[ \t])|\(?(?:\d{1,3}|[A-Za-z])[.)](?=[ \t])|\d{1,3}[、．]|[①-⑳])"
_FIRST_ITEM = re.compile(rf"[ \t]*+{_BULLET}")
_ITEM = re.compile(rf"\n[ \t]*+{_BULLET}")
_UNDER_ITEM = re.compile(r"[^\n]*+(?:\n[ \t]*+(?=\n)|\n(?:  |\t)[^\n]*+)*+")
_LINE_MARKERS = re.compile(rf"[\s>#]*+(?:{_BULLET}[\s>#]*+)?+")
_GAP = re.compile(r"[^\S\n]*+")
_ARTEFACTS = re.compile(r"(?:<[^<>\s]{1,24}>|\[/?[A-Z][A-Z_ /]{0,20}\]|[\W_])*+")
_MARKS = ".!?…。！？｡؟۔।॥։።"
_BREAKS = re.compile(rf"[\n{_MARKS}](?:(?<!\n)[{_MARKS}]*+[\"'”’»)\]」』*_]*+)?+")
_UNSPACED = frozenset("。！？｡")
_WRAPPERS = "([{\"'“‘«*_"
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\w+",
        """
    approx bzw ca cf dept dr dra ed eds esp est etc evtl fig figs inc jr ltd messrs
    mr mrs ms no nos op pp prof rev sr sra st sta usw vgl vol vs
""",
    )
)
_QUOTES = {
    opener: re.compile(source)
    for opener, source in {
        "“": f"“[^“”]{{1,{QUOTATION_LIMIT}}}”",
        "„": f"„[^„“”]{{1,{QUOTATION_LIMIT}}}[“”]",
        "«": f"«[^«»]{{1,{QUOTATION_LIMIT}}}»",
        "‹": f"‹[^‹›]{{1,{QUOTATION_LIMIT}}}›",
        "「": f"「[^「」]{{1,{QUOTATION_LIMIT}}}」",
        "『": f"『[^『』]{{1,{QUOTATION_LIMIT}}}』",
        '"': rf'"(?<!\w")(?=\S)[^"\n]{{1,{QUOTATION_LIMIT}}}"',
        "'": r"'(?<!\w')(?=\w)[^'\n]{0,200}(?:'(?=\w)[^'\n]{0,200}){0,5}'(?!\w)",
        "‘": r"‘(?=\S)[^‘’\n]{0,200}(?:’(?=\w)[^‘’\n]{0,200}){0,5}’(?!\w)",
    }.items()
}


def segment(text: str) -> tuple[Segment, ...]:
    """Return every part of the text with what it is."""
    fences = _fences(text)
    code = sorted([*fences, *_inline(text, fences)]) if "`" in text else fences
    sentences = _sentences(text, fences)
    lists = _lists(text, fences) if "\n" in text else []
    found = [(start, end, SegmentKind.SENTENCE) for start, end in sentences]
    found += [(start, end, SegmentKind.OPENING) for start, end in _opening(text, sentences)]
    found += [(start, end, SegmentKind.QUOTATION) for start, end in _quotations(text, code)]
    found += [(start, end, SegmentKind.CODE) for start, end in code]
    found += [(start, end, SegmentKind.LIST) for start, end in lists]
    found.sort()
    return tuple([Segment(kind, Span(start, end)) for start, end, kind in found])


def _fences(text: str) -> list[Stretch]:
    found: list[Stretch] = []
    if "```" not in text and "~~~" not in text:
        return found
    opened, fence = -1, ""
    for line in _FENCE.finditer(text):
        marks, rest = line[1], line[2]
        if opened < 0:
            # Backticks after backticks on one line are a code span: "```like this```".
            if marks[0] == "~" or "`" not in rest:
                opened, fence = line.start(), marks
        elif marks.startswith(fence) and not rest.strip():
            found.append((opened, line.end()))
            opened = -1
    if opened >= 0:
        found.append((opened, len(text)))
    return found


def _inline(text: str, fences: list[Stretch]) -> Iterator[Stretch]:
    runs = [run.span() for run in _TICKS.finditer(text) if not _within(run.start(), fences)]
    partner: list[int | None] = [None] * len(runs)
    seen: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        width = runs[index][1] - runs[index][0]
        partner[index] = seen.get(width)
        seen[width] = index
    index = 0
    while index < len(runs):
        closer = partner[index]
        if closer is not None and _is_span(text, runs[index][1], runs[closer][0]):
            yield runs[index][0], runs[closer][1]
            index = closer
        index += 1


def _is_span(text: str, start: int, end: int) -> bool:
    return end - start <= _INLINE_LIMIT and text.find("\n\n", start, end) < 0


def _within(position: int, stretches: list[Stretch]) -> bool:
    before = bisect_right(stretches, position, key=itemgetter(0)) - 1
    return before >= 0 and position < stretches[before][1]


def _quotations(text: str, code: list[Stretch]) -> Iterator[Stretch]:
    for opener, pair in _QUOTES.items():
        if opener in text:
            for quote in pair.finditer(text):
                start, end = quote.span()
                if text.find("\n\n", start, end) < 0 and not _within(start, code):
                    yield start, end
    if ">" in text:
        yield from (quote.span() for quote in _BLOCK_QUOTE.finditer(text) if not _within(quote.start(), code))


def _lists(text: str, fences: list[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    start = reach = items = 0
    first = _FIRST_ITEM.match(text)
    for item in itertools.chain([first] if first else [], _ITEM.finditer(text)):
        at = item.start()
        if fences and _within(at, fences):
            continue
        if at > reach:
            found += [(start, reach)] if items > 1 else []
            items = 0
        if not items:
            start = at + (text[at] == "\n")
        items += 1
        if at >= reach and (under := _UNDER_ITEM.match(text, item.end())):
            reach = under.end()
    found += [(start, reach)] if items > 1 else []
    return [(start, start + len(text[start:end].rstrip())) for start, end in found]


def _sentences(text: str, fences: list[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    start = 0
    for opened, closed in fences:
        _add_sentences(found, text, start=start, end=opened)
        start = closed
    _add_sentences(found, text, start=start, end=len(text))
    return found


def _add_sentences(found: list[Stretch], text: str, *, start: int, end: int) -> None:
    """Append the sentences of one stretch, which begins and ends with a line."""
    begin = _end_of(_LINE_MARKERS.match(text, start, end))
    for mark in _BREAKS.finditer(text, start, end):
        stop = mark.end()
        if stop <= begin:
            continue
        if text[stop - 1] == "\n":
            last, skip = begin + len(text[begin:stop].rstrip()), _LINE_MARKERS
        elif _ends(text, mark, start=begin, end=end):
            last, skip = stop, _GAP
        else:
            continue
        if begin < last:
            found.append((begin, last))
        begin = _end_of(skip.match(text, stop, end))
    last = begin + len(text[begin:end].rstrip())
    if begin < last:
        found.append((begin, last))


def _end_of(found: re.Match[str] | None) -> int:
    return found.end() if found else 0


def _ends(text: str, mark: re.Match[str], *, start: int, end: int) -> bool:
    """Return whether a sentence that began at `start` ends with these marks, in a stretch that ends at `end`."""
    first, stop = mark.span()
    if stop < end and not text[stop].isspace():
        return not _UNSPACED.isdisjoint(mark[0])
    if mark[0] != "." or stop == end or text[stop] == "\n":
        return True
    word = text[max(start, first - _LONGEST_ABBREVIATION) : first].rpartition(" ")[2].lstrip(_WRAPPERS)
    if "." in word:
        return any(len(letter) != 1 for letter in word.split("."))
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not (is_initial or word.lower() in _ABBREVIATIONS)


def _opening(text: str, sentences: list[Stretch]) -> Iterator[Stretch]:
    """Yield the opening, if there is a word at all."""
    begin = stop = taken = 0
    for start, end in sentences:
        words = _ARTEFACTS.match(text, start, end)
        at = words.end() if words else start
        if at >= end:
            continue
        begin = begin if taken else at
        if taken and end - begin > OPENING_LIMIT:
            break
        stop = min(end, begin + OPENING_LIMIT)
        taken += 1
        if taken == _OPENING_SENTENCES:
            break
    if taken:
        yield begin, stop
