"""Folding: what becomes what, and the way back."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.growth import assert_linear
from tests.text import derive_tables

from demur.model.verdict import Span
from demur.text.normalise import GROWTH, confusables, fold, normalise, pattern, replacements, table

LETTERS = "aAeEiІоОрЯяλΣςßﬁǰ1 \n\t\u00a0\u3000’“”«»「—…´ıİʀⓗｈ한각가ก็ाේ👍"
CONTROLS = "\u200b\u200d\ufe0f\u00ad\u202e\0\ud800\udc00"
MARKS = "\u0301\u0327\u0316\u0338\u0345\u3099\uff9e\u0f73\u05b0\u05c1\u00a8\u2017\ufdfa\ufc5e\u1100\u1161\u11a8\uffc2"
TRICKY = st.sampled_from(LETTERS + CONTROLS + MARKS)
ANY = st.text(TRICKY | st.characters(codec=None), max_size=40)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello", "hello"),
        ("I can’t", "i can't"),
        ("I can´t", "i can't"),
        ("“no” „no“ «no» 「no」 ‹no›", '"no" "no" "no" "no" \'no\''),
        ("a — b – c ‑ d − e", "a - b - c - d - e"),
        ("wait…", "wait..."),
        ("a\u00a0b\u3000c\u2003d", "a b c d"),
        ("a  b\n\n\tc", "a b c"),
        ("  a \n", " a "),
        ("i\u200bg\u200dn\u2060o\ufeffr\u00ade", "ignore"),
        ("\u202eabc\u202c", "abc"),
        ("❤\ufe0f", "❤"),
        ("1\ufe0f\u20e3", "1"),
        ("ｉｇｎｏｒｅ", "ignore"),
        ("𝐢𝓰𝕟ⓞ🅁🅴", "ignore"),
        ("ɪɢɴᴏʀᴇ", "ignore"),
        ("ﬁne Straße İ ı", "fine strasse i i"),
        ("e\u0301", "é"),
        ("k\u0332i\u0332l\u0332l\u0332", "kill"),
        ("h" + "\u0301\u0316" * 40 + "i", "hi"),
        ("hоw tо make", "how to make"),
        ("Сlick раypal", "click paypal"),
        ("Привет, мир", "привет, мир"),
        ("SMSками", "smsками"),
        ("Ελληνικά ΟΔΟΣ", "ελληνικά οδοσ"),
        ("5 μm Δx", "5 μm δx"),
        ("\u1112\u1161\u11ab", "한"),
        ("がぎ か\u3099", "がぎ が"),
        ("हिन्दी में", "हिन्दी में"),
        ("a\0b\x1bc", "abc"),
        ("\ud800x\udfff", "\ufffdx\ufffd"),
        ("x \u0301 y", "x y"),
        ("", ""),
        ("\u200b", ""),
        (" \n ", " "),
    ],
)
def test_folds_to(text: str, folded: str) -> None:
    """Each way of typing folds to the same plain characters, with and without a map."""
    assert normalise(text).text == folded
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "part", "span"),
    [
        ("i\u200bgnore", "ignore", Span(0, 7)),
        ("say ﬁne", "fine", Span(4, 7)),
        ("a…b", "b", Span(2, 3)),
        ("a…b", "...", Span(1, 2)),
        ("no\n\n  way", "no way", Span(0, 9)),
        ("no\n\n  way", "way", Span(6, 9)),
        ("cafe\u0301 no", "é", Span(3, 5)),
        ("cafe\u0301 no", "no", Span(6, 8)),
        ("“I can’t”", "i can't", Span(1, 8)),
        ("x\u0301\u0301\u0301 hоw", "how", Span(5, 8)),
    ],
)
def test_maps_back_to(text: str, part: str, span: Span) -> None:
    """A folded stretch leads to the original characters that produced it."""
    normal = normalise(text)
    at = normal.text.index(part)
    assert normal.span(at, at + len(part)) == span


@pytest.mark.parametrize("text", ["plain", "with\nlines and\ttabs", "I can’t", "ｗｉｄｅ", "hоw"])
def test_needs_no_map_where_nothing_moves(text: str) -> None:
    """Replacing one character by one keeps every offset, so there is no map."""
    normal = normalise(text)
    assert normal.starts is None
    assert normal.ends is None


@pytest.mark.heavy
@settings(max_examples=400)
@given(ANY)
def test_fold_is_normalise_without_the_map(text: str) -> None:
    """Both doors give the same characters, which are encodable, collapsed, and fold to themselves."""
    normal = normalise(text)
    assert fold(text) == normal.text
    assert fold(normal.text) == normal.text
    assert normal.original == text
    assert len(normal.text) <= GROWTH * len(text)
    assert "  " not in normal.text
    normal.text.encode()


@settings(max_examples=400)
@given(ANY)
def test_map_is_monotone_and_within_bounds(text: str) -> None:
    """Starts and ends climb together inside the original, and each character has at least one behind it."""
    normal = normalise(text)
    if normal.starts is None or normal.ends is None:
        assert len(normal.text) == len(text)
        return
    starts, ends = list(normal.starts), list(normal.ends)
    assert len(starts) == len(ends) == len(normal.text)
    assert all(0 <= start < end <= len(text) for start, end in zip(starts, ends, strict=True))
    assert starts == sorted(starts)
    assert ends == sorted(ends)


def without_lookalikes(text: str) -> str:
    """Return the text with every look-alike in Latin, whatever its word."""
    return "".join(confusables().get(char, char) for char in text)


@pytest.mark.heavy
@settings(max_examples=400)
@given(ANY, st.data())
def test_original_stretch_folds_to_the_folded_stretch(text: str, data: st.DataObject) -> None:
    """Folding the original of a stretch that cuts no replacement gives the stretch, look-alikes aside."""
    normal = normalise(text)
    spans = [normal.span(at, at + 1) for at in range(len(normal.text))]
    clean = [at for at in range(1, len(spans)) if spans[at].start >= spans[at - 1].end]
    cuts = [0, *clean, len(spans)]
    low, high = sorted(data.draw(st.tuples(st.sampled_from(cuts), st.sampled_from(cuts))))
    original = normal.span(low, high).of(text) if low < high else ""
    assert without_lookalikes(fold(original)) == without_lookalikes(normal.text[low:high])


@given(ANY)
def test_lines_can_be_kept(text: str) -> None:
    """With `lines`, both doors still agree, and the text differs from the usual fold in its line feeds alone."""
    kept = normalise(text, lines=True)
    assert fold(text, lines=True) == kept.text
    assert fold(kept.text) == fold(text) or "\uf8ff" in text


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_lower_case_with_single_spaces(text: str) -> None:
    """ASCII text folds to what lower case and a collapse of white space make of it."""
    visible = "".join(char for char in text if char.isprintable() or char.isspace()).lower()
    words = " ".join(visible.split())
    assert fold(text).strip(" ") == words


@pytest.mark.parametrize("text", ["Tiếng Việt", "Ελληνικά", "Ёлка й", "한국어", "が"])
def test_accents_fold_alike_however_they_are_stored(text: str) -> None:
    """Composed and decomposed spellings of a word fold to the same characters."""
    forms = [unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    assert len({fold(form) for form in forms}) == 1


@pytest.mark.heavy
def test_no_code_point_is_unstable() -> None:
    """Every single character folds to something that folds to itself."""
    unstable = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        # What folds to itself is stable by definition, and that is nearly all of them: no need to fold it again.
        if (once := fold(char)) != char and fold(once) != once
    ]
    assert unstable == []


HOSTILE = (
    "\u200b",
    "\u0301",
    "\u0301\u0316",
    "\u05b0\u05c1",
    "\uff9e\u0334",
    "a\u0301",
    "a\u200b",
    " \n",
    "“",
    "оa",
    "\u0f73",
    "\ud800",
)


@pytest.mark.heavy
@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear(unit: str) -> None:
    """A repeated hostile text takes time in proportion to its length."""
    few, many = (unit * (size // len(unit)) for size in (25_000, 200_000))
    assert len(normalise(many).text) <= len(many)
    assert_linear(normalise, few, many, ratio=8)


def test_survives_pickling() -> None:
    """A normal text travels between processes with its map."""
    normal = normalise("a…b")
    assert pickle.loads(pickle.dumps(normal)) == normal  # noqa: S301 - our own bytes
    assert hash(normal) == hash(normalise("a…b"))


def test_imports_no_numpy() -> None:
    """Folding any text leaves numpy unimported, since its import costs more than a thousand texts."""
    code = "import sys; from demur.text.normalise import fold; fold('é…'); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own interpreter


SHIPPED = json.loads((derive_tables.PACKAGE / "tables.json").read_text(encoding="utf-8"))


@pytest.mark.heavy
@pytest.mark.skipif(unicodedata.unidata_version != SHIPPED["unicode"], reason="tables are of another Unicode version")
def test_tables_are_what_their_laws_derive() -> None:
    """The shipped tables are exactly those that the predicates derive."""
    assert derive_tables.derive() == SHIPPED


def test_plain_characters_fold_one_to_one() -> None:
    """Whatever the running Python knows, a character outside the irregular ones folds to one stable character."""
    irregular = pattern("[<irregular>]")
    for code in range(0x10000):
        char = chr(code)
        if not irregular.match(char):
            folded = char.casefold()
            assert len(folded) == 1
            assert unicodedata.normalize("NFKC", char) == char
            assert unicodedata.normalize("NFKC", folded) == folded


def test_confusables_are_folded_letters() -> None:
    """A look-alike is stable under folding and becomes one Latin letter."""
    assert confusables()
    for char, latin in confusables().items():
        assert unicodedata.normalize("NFKC", char).casefold() == char
        assert re.fullmatch("[a-z]", latin)


def test_replacements_are_ascii_or_the_replacement_character() -> None:
    """What replaces a character is never replaced in turn."""
    assert all(
        new is None or new == "\ufffd" or ord(new) not in replacements() or new == " "
        for new in replacements().values()
    )
    assert table("space").startswith("\\U00000009")
    assert sys.maxunicode not in replacements()
