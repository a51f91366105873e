"""The page of a view: whole, self-contained, escaped, readable by anyone."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.comparisons import ALL, hostile, increase, many_slices
from tests.report.scans import ALL_SCANS, hostile_scan
from tests.report.tags import parsed

from demur.report.diff_view import diff_view
from demur.report.html import environment, html
from demur.report.scan_view import scan_view
from demur.report.view import Fact, Headline, Note, NoteKind, Tone, View

VIEWS = [diff_view(make(), show=50) for make in ALL] + [scan_view(make()) for make in ALL_SCANS]


@pytest.mark.heavy
@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_the_page_stands_alone(view: View) -> None:
    """Nothing is loaded, nothing runs, every tag is closed in its order, and no text can add one."""
    tags = parsed(html(view))
    assert not {"script", "link", "img", "iframe", "object", "a", "form"} & set(tags.seen)
    assert not [n for n, _ in tags.attributes if n in ("src", "href", "srcset", "style") or n.startswith("on")]
    assert "url(" not in html(view)


def test_the_policy_lets_nothing_in() -> None:
    """The page forbids every source, and its one style is known by its digest."""
    page = html(diff_view(increase()))
    (style,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; " in page


def test_hostile_texts_are_shown_as_they_are() -> None:
    """Markup in a text is read, not obeyed."""
    for page in (html(diff_view(hostile(), show=50)), html(scan_view(hostile_scan()))):
        assert "</pre></code></td></table></details><script>alert('x')</script>" in parsed(page).text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]", page)


@pytest.mark.heavy
@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_no_text_adds_a_tag(text: str) -> None:
    """A page of any text has the tags of a page of a plain one."""
    view = scan_view(ALL_SCANS[0]())
    plain, shown = replace(view, title="t", subtitle="s"), replace(view, title=text, subtitle=text)
    assert parsed(html(shown)).seen == parsed(html(plain)).seen


def test_light_dark_print_and_telephone() -> None:
    """The page follows the reader's colours, has a form for paper and one for a narrow screen."""
    page = html(diff_view(increase()))
    for needed in ("prefers-color-scheme: dark", "@media print", "@media (max-width: 36rem)", 'name="viewport"'):
        assert needed in page


def test_plots_have_words() -> None:
    """Every plot has a text alternative with its numbers, an axis with its name, and ticks."""
    page = html(diff_view(increase()))
    tracks = re.findall(r'<svg class="track"[^>]*role="img" aria-label="([^"]+)"><title>([^<]+)</title>', page)
    assert ("candidate: 15.0 % (10.7 to 20.6), n 200",) * 2 in tracks
    assert all(label == title for label, title in tracks)
    assert len(tracks) == page.count('<svg class="track"') == 5
    assert ">refused or filtered, % of answers</text>" in page
    assert ">difference of refusal rates, points</text>" in page
    assert ">+10</text>" in page
    assert 'aria-label="7 refused by both, 3 no longer refused, 23 newly refused, 167 answered by both"' in page


@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_no_plot_leaves_its_frame(view: View) -> None:
    """Places are finite and lie on their axis."""
    page = html(view)
    assert not re.search(r'="-?(nan|inf)', page)
    places = re.findall(r' (?:x|x1|x2|cx|width)="([^"]+)%"', page)
    assert all(0 <= float(place) <= 100 for place in places)


def test_many_slices_are_folded_not_lost() -> None:
    """Fifteen of forty stand open, the others in a part that can be opened, all of them in the table."""
    page = html(diff_view(many_slices()))
    assert "<details><summary>25 more</summary>" in page
    assert all(f'<th scope="row">category number {at}</th>' in page for at in range(40))


def test_flips_can_be_opened_and_the_worst_is() -> None:
    """Each flip is a part of its own with the evidence marked; texts that were not kept are said."""
    page = html(diff_view(increase(), show=3))
    assert page.count('<details class="exchange">') == 5
    assert page.count('<details class="exchange" open>') == 1
    assert "but <mark>I can&#39;t help</mark> with that" in page
    assert html(diff_view(hostile(), show=50)).count("text not kept") == 2


def test_a_banner_takes_the_tone_of_its_gate() -> None:
    """The last headline sets the colour, and every word is escaped."""
    blocks = environment("demur.report").get_template("blocks.html").module
    found = str(blocks.banner([Headline("<b>", "a & b", Tone.GOOD), Headline("FAIL", "no", Tone.BAD)]))  # type: ignore[attr-defined]  # a macro
    assert found.strip().startswith('<section class="banner bad"')
    assert "&lt;b&gt;" in found
    assert "a &amp; b" in found


def test_words_of_others_cannot_leave_their_place() -> None:
    """Tiles, facts and notes escape label, value and note; without numbers there are no tiles."""
    view = replace(
        diff_view(increase()), figures=(Fact("<i>", "<u>", "<s>"),), blocks=(Note(NoteKind.FLAG, "<i>", "<u>"),)
    )
    page = html(view)
    assert not {"<i>", "<u>", "<s>"} & {page[at : at + 3] for at in range(len(page))}
    assert '<dl class="tiles">' in page
    assert '<dl class="tiles">' not in html(replace(view, figures=()))
