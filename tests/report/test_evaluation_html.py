"""The page: whole, self-contained, escaped, and the same every time."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tests.report.evaluations import biased, both_sides, nothing_positive

from demur.report.evaluation_html import evaluation_page

VOID = {"meta", "rect", "line", "circle"}


class Tags(HTMLParser):
    """Checks that every tag is closed in its order, and keeps names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag, and that it waits for its end."""
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag that is closed at once."""
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        """Refuse an end that does not fit."""
        assert self.open.pop() == tag


def parsed(page: str) -> Tags:
    """Return what a browser would see."""
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_the_page_stands_alone() -> None:
    """Nothing is loaded, nothing runs, and a text of the set cannot add a tag."""
    page = evaluation_page(both_sides())
    tags = parsed(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name in ("src", "href", "srcset") or name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    assert "&lt;script&gt;alert(" in page


def test_nothing_controls_the_reader() -> None:
    """Control characters of a text are replaced."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", evaluation_page(both_sides()))


def test_light_dark_and_print() -> None:
    """The page follows the reader's colours and has a form for paper."""
    page = evaluation_page(both_sides())
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_plots_have_whiskers_and_titles() -> None:
    """Every bar and every bin has its interval drawn and its numbers in a title."""
    page = evaluation_page(both_sides())
    marks = page.count('class="bar"') + page.count('class="dot"')
    assert marks > 50
    assert page.count('class="whisker"') == marks
    assert page.count("<g><title>") == marks
    assert page.count('class="reliability"') == 4 + 3


def test_no_plot_leaves_its_frame() -> None:
    """Widths and places are finite, never negative, and inside the drawing."""
    page = evaluation_page(both_sides())
    assert not re.search(r'="-?(nan|inf)', page)
    for svg in re.findall(r'<svg class="bars" viewBox="0 0 (\d+) \d+".*?</svg>', page):
        assert int(svg) == 680
    for at, width in re.findall(r'class="bar" x="([\d.]+)" y="[\d.]+" width="([-\d.]+)"', page):
        assert float(width) >= 0
        assert float(at) + float(width) <= 190 + 360 + 0.1


def test_tables_hold_every_slice() -> None:
    """All twenty categories and all models are there, with bias, and the confusion of each."""
    page = evaluation_page(both_sides())
    for number in range(20):
        assert f"<td>category {number}</td>" in page
    assert "Confusion by model" in page
    assert "bias, points" in page


def test_a_bias_is_marked() -> None:
    """A model whose rate is off has a star, and its plot the share by label as an upright line."""
    page = evaluation_page(biased())
    assert "<td>-50.0*</td>" in page
    assert "<td>+0.0</td>" in page
    assert page.count('<line class="label"') == 2


def test_mistakes_are_marked_and_shortened() -> None:
    """Evidence is marked in the text, and what stands far from it is left out visibly."""
    page = evaluation_page(both_sides())
    assert "<mark>" in page
    assert " […] " in page
    assert "the end" not in page


def test_remarks() -> None:
    """What was left out, not readable, or changed by a threshold is said, and only then."""
    page = evaluation_page(both_sides())
    assert "Left out: 42 labelled other." in page
    assert "Not readable: 3." in page
    assert "Threshold 0.7" in page
    bare = evaluation_page(nothing_positive())
    parsed(bare)
    assert "Left out" not in bare
    assert "Not readable" not in bare
    assert "Worst errors" not in bare


def test_same_evaluation_same_bytes() -> None:
    """The page has no date and no chance in it."""
    assert evaluation_page(both_sides()) == evaluation_page(both_sides())
