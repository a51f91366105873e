"""Cutting a text into its parts."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.model.text import SegmentKind
from demur.text.segment import OPENING_LIMIT, QUOTATION_LIMIT, segment

OPENING, SENTENCE, QUOTATION = SegmentKind.OPENING, SegmentKind.SENTENCE, SegmentKind.QUOTATION
CODE, LIST = SegmentKind.CODE, SegmentKind.LIST


def parts(text: str, kind: SegmentKind) -> list[str]:
    """Return the stretches of one kind."""
    return [part.span.of(text) for part in segment(text) if part.kind is kind]


CASES = [
    (SENTENCE, "One. Two! Three?", ["One.", "Two!", "Three?"]),
    (SENTENCE, "Use e.g. this, i.e. that. Dr. Who vs. J. Doe.", ["Use e.g. this, i.e. that.", "Dr. Who vs. J. Doe."]),
    (SENTENCE, "So do I. It is 3.14 now.", ["So do I.", "It is 3.14 now."]),
    (SENTENCE, 'He said "no." Then left.', ['He said "no."', "Then left."]),
    (SENTENCE, "Wait... what?! Yes", ["Wait...", "what?!", "Yes"]),
    (SENTENCE, "不行。再见！好", ["不行。", "再见！", "好"]),
    (SENTENCE, "لا أستطيع؟ نعم", ["لا أستطيع؟", "نعم"]),
    (SENTENCE, "मैं नहीं। हाँ", ["मैं नहीं।", "हाँ"]),
    (SENTENCE, "## Title\n\n1. first\n- second\n> third", ["Title", "first", "second", "third"]),
    (SENTENCE, "before\n```\ncode. here.\n```\nafter", ["before", "after"]),
    (SENTENCE, " \n ", []),
    (OPENING, "I'm sorry. I can't. Third.", ["I'm sorry. I can't."]),
    (OPENING, "<s> [CLASSIC] 🔒 **I'm sorry.**", ["I'm sorry.**"]),
    (OPENING, "[CLASSIC]\n\nI'm sorry.", ["I'm sorry."]),
    (OPENING, "¿Qué?", ["Qué?"]),
    (OPENING, "a" * 400, ["a" * OPENING_LIMIT]),
    (OPENING, "Sorry. " + "a" * 400, ["Sorry."]),
    (OPENING, "😀 !!", []),
    (OPENING, "```\nx\n```", []),
    (QUOTATION, 'say "no way" now', ['"no way"']),
    (QUOTATION, "“a” „b“ «c» 「d」 『e』 ‹f› ‘g’ 'h'", ["“a”", "„b“", "«c»", "「d」", "『e』", "‹f›", "‘g’", "'h'"]),
    (QUOTATION, "I can't and won't, don't you", []),
    (QUOTATION, "he said 'I can't do it' today", ["'I can't do it'"]),
    (QUOTATION, "he said ‘I can’t do it’ today", ["‘I can’t do it’"]),
    (QUOTATION, 'an unpaired " mark\nand "another', []),
    (QUOTATION, 'a 6" pipe and "this"', ['"this"']),
    (QUOTATION, "“open\n\nI refuse”", []),
    (QUOTATION, "“" + "a" * (QUOTATION_LIMIT + 1) + "”", []),
    (QUOTATION, "x\n> one\n> two\ny", ["> one\n> two"]),
    (QUOTATION, '`"code"` and "text"', ['"text"']),
    (CODE, "a `b` c ``d ` e`` f", ["`b`", "``d ` e``"]),
    (CODE, "x\n```py\n1\n```\ny", ["```py\n1\n```"]),
    (CODE, "~~~\na\n```\n~~~\nb", ["~~~\na\n```\n~~~"]),
    (CODE, "```\ncut off", ["```\ncut off"]),
    (CODE, "```one line``` after", ["```one line```"]),
    (CODE, "a ` b\n\nc ` d", []),
    (CODE, "    indented prose", []),
    (LIST, "So:\n- a\n- b\nend", ["- a\n- b"]),
    (LIST, "1. a\n\n2. b\n   more\n", ["1. a\n\n2. b\n   more"]),
    (LIST, "- a\n  - b\n  - c\n", ["- a\n  - b\n  - c"]),
    (LIST, "1、一\n2、二", ["1、一\n2、二"]),
    (LIST, "- a\ntext\n- b", []),
    (LIST, "- a\n- b\nx\n* c\n* d", ["- a\n- b", "* c\n* d"]),
    (LIST, "```\n- a\n- b\n```", []),
    (LIST, "- only", []),
]


@pytest.mark.parametrize(("kind", "text", "expected"), CASES)
def test_finds(kind: SegmentKind, text: str, expected: list[str]) -> None:
    """Each part is found where a reader would see it."""
    assert parts(text, kind) == expected


MARKUP = st.text(st.sampled_from("ab.!?。\"'“”‘’«»`~>-*#1 \n\t()\ud800") | st.characters(codec=None), max_size=80)


@settings(max_examples=400)
@given(MARKUP)
def test_spans_are_sorted_and_within_the_text(text: str) -> None:
    """Whatever the text, parts are sorted, not empty, inside it, and sentences do not overlap."""
    found = segment(text)
    spans = [part.span for part in found]
    assert spans == sorted(spans)
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
    sentences = [part.span for part in found if part.kind is SENTENCE]
    assert all(left.end <= right.start for left, right in pairwise(sentences))
    assert sum(part.kind is OPENING for part in found) <= 1


HOSTILE = [
    '"',
    "'",
    "`",
    "“",
    ".",
    "\n",
    ">",
    "'a ",
    "‘a ",
    '"a\n',
    "`a``b",
    "```\n",
    "- a\n",
    "  - a\n",
    "<",
    "(a.b.",
    " ",
    "> \n",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear(unit: str) -> None:
    """A million hostile characters take about ten times what a hundred thousand take, or next to nothing."""
    times = []
    for size in (100_000, 1_000_000):
        text = unit * (size // len(unit))
        begin = perf_counter()
        segment(text)
        times.append(perf_counter() - begin)
    assert times[1] < max(2, 40 * times[0])
