"""A comment on a pull request: found again, short enough, and deaf to what stands in it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.report.comparisons import HOSTILE, hostile, increase, many_slices
from tests.report.scans import hostile_scan
from tests.report.tags import parsed

from demur.report.diff_view import diff_view
from demur.report.markdown import markdown
from demur.report.scan_view import scan_view
from demur.report.view import Fact, Facts, Headline, Note, NoteKind, SideBySide, Tone, View

OURS = {"h2", "h3", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "b", "code"}
OURS |= {"ins", "em"}
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def said(text: str) -> View:
    """A view that is made of one text."""
    head = Headline(text, text, Tone.GOOD, (text,))
    blocks = (Facts(text, (Fact(text, text, text),)), Note(NoteKind.FLAG, text, text))
    return View(text, text, head, head, (Fact(text, text, text),), blocks)


def linkable(text: str) -> str:
    """What GitHub would look for links in: everything outside code."""
    return re.sub(r"<code>.*?</code>", "", text, flags=re.DOTALL)


def test_the_marker_stands_first() -> None:
    """A comment is found again by its first line, whatever the marker's name."""
    assert markdown(diff_view(increase())).startswith("<!-- demur-diff -->\n\n## Refusal diff: ")
    assert markdown(diff_view(increase()), marker="x --> y").startswith("<!-- x-----y -->\n")


def test_hostile_texts_add_nothing() -> None:
    """A text can open no tag, no link, no picture, no list, no heading, and mentions nobody."""
    for text in (markdown(diff_view(hostile(), show=50)), markdown(scan_view(hostile_scan()))):
        page = READER.render(text)
        tags = parsed(page)
        assert set(tags.seen) <= OURS
        assert {name for name, _ in tags.attributes} <= {"colspan", "width", "valign", "style"}
        assert not re.search(r"@\w", page)
        assert not re.search(r"#\d|\bGH-\d|://|\bwww\.|\b[0-9a-f]{7,}\b|:tada:", linkable(page))


def test_tables_keep_their_shape() -> None:
    """Every row of a table has the cells of its head, whatever stands in them."""
    for text in (markdown(diff_view(hostile())), markdown(diff_view(many_slices()))):
        page = READER.render(text)
        for table in re.findall(r"<table>\n<thead>.*?</table>", page, re.DOTALL):
            heads = table.count("<th>") + table.count("<th ")
            rows = re.findall(r"<tr>\n<td.*?</tr>", table, re.DOTALL)
            assert rows
            assert all(row.count("<td") == heads for row in rows)


@given(st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(HOSTILE).flatmap(st.just))
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever is said, the same tags come out as for a plain word, and the words can be read."""
    shown = parsed(READER.render(markdown(said(f"a{text}z"))))
    plain = parsed(READER.render(markdown(said("word"))))
    assert shown.seen == plain.seen


@given(st.text(st.sampled_from("@#:/w.GH-1ab <>&[]()!*_`~|\\$\n"), max_size=40))
def test_signs_of_markup_stay_signs(text: str) -> None:
    """What a reader sees is the text itself, its white space and our invisible spaces aside."""
    shown = parsed(READER.render(markdown(said(f"a{text}z")))).text.replace("\u200b", "")
    assert " ".join(f"a{text}z".split()) in " ".join(shown.split())


def test_evidence_is_underlined() -> None:
    """The words that made a verdict are marked in the answer."""
    assert "but <ins>I can&#x27;t help</ins> with that" in markdown(diff_view(increase()))


def test_it_is_short_enough_and_says_what_is_left_out() -> None:
    """Flips are cut until the comment fits, and their number is said; the figures stay."""
    view = diff_view(increase(), show=26)
    flips = [b for b in view.blocks if isinstance(b, SideBySide)]
    long = replace(view, blocks=(*view.blocks, *(flips * 10)))
    text = markdown(long)
    assert 50_000 < len(text) <= 60_000
    told = re.search(r"Left out to keep this comment short: (\d+) flipped exchanges", text)
    assert told
    assert text.count("<details>") + int(told[1]) == len(flips) * 11
    assert "Left out" not in markdown(view)


@pytest.mark.heavy
def test_even_endless_tables_fit() -> None:
    """A view of hundreds of notes and tables is cut, and says so."""
    view = said("&" * 5000)
    text = markdown(replace(view, blocks=view.blocks * 200))
    assert len(text) <= 60_000
    assert re.search(r"Left out to keep this comment short: [\d,]+ tables, [\d,]+ notes", text)
