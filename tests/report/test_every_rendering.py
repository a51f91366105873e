"""One view, five renderings: each says what was found, and no text can break any of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from tests.report.axes_reports import hostile_axes
from tests.report.comparisons import ALL, hostile, increase, unpaired
from tests.report.scans import typical
from tests.report.tags import parsed

from demur.model.comparison import Comparison
from demur.report.diff_view import diff_view
from demur.report.diff_words import shown_rates
from demur.report.html import html
from demur.report.json import comparison_object
from demur.report.junit import junit
from demur.report.markdown import markdown
from demur.report.numbers import chance_is, percent, points, points_range
from demur.report.scan_view import scan_view
from demur.report.terminal import terminal_lines

RENDERINGS: dict[str, Callable[[Comparison], str]] = {
    "terminal": lambda c: "\n".join(terminal_lines(diff_view(c))),
    "markdown": lambda c: parsed(_as_html(markdown(diff_view(c)))).text,
    "html": lambda c: parsed(html(diff_view(c))).text,
    "junit": lambda c: "".join(ET.fromstring(junit(c)).itertext()),  # noqa: S314 - our own output
    "json": lambda c: json.dumps(comparison_object(c), ensure_ascii=False),
}


def _as_html(text: str) -> str:
    return str(MarkdownIt("commonmark", {"html": True}).enable("table").render(text)).replace("\u200b", "")


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_every_rendering_says_what_was_found(make: Callable[[], Comparison], rendering: str) -> None:
    """The decision, both rates, the difference with its interval, p and n are in each of them."""
    comparison = make()
    text = " ".join(RENDERINGS[rendering](comparison).split())
    difference = comparison.difference
    before, after = shown_rates(comparison)
    sides = f"{percent(before.value)} % → {percent(after.value)} %"
    ends = points_range(difference.interval.low, difference.interval.high)
    found = f"{sides}, {points(difference.value)} points (95 % {ends}), {chance_is('p', difference.p)}, "
    assert found in text
    size = "120 and 140 answers" if make is unpaired else f"{difference.n:,} pair"
    assert found + size in text
    assert str(comparison.decision.conclusion) in text.lower().replace("_", " ")


@pytest.mark.parametrize("rendering", ["terminal", "markdown", "html", "json"])
def test_every_rendering_says_whether_the_gate_failed(rendering: str) -> None:
    """The word of the gate is there, with its reason."""
    text = " ".join(RENDERINGS[rendering](increase()).split())
    assert re.search('FAIL|"failed": true', text)
    assert "severity moderate and p" in text


@pytest.mark.parametrize("make", [hostile, hostile_axes])
@pytest.mark.parametrize("rendering", RENDERINGS)
def test_nothing_that_could_control_a_reader_gets_through(make: Callable[[], Comparison], rendering: str) -> None:
    """No escape, no bell, no sign that turns the direction of a text, no half of a pair."""
    text = RENDERINGS[rendering](make())
    text.encode("utf-8")
    if rendering != "json":
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe]", text)
    else:
        assert not re.search("[\x00-\x1f]", text)


def test_same_comparison_same_bytes() -> None:
    """No date and no chance is in any rendering."""
    for rendering in RENDERINGS.values():
        assert rendering(hostile()) == rendering(hostile())


def test_a_scan_says_its_rate_everywhere() -> None:
    """The rate, its interval and n are on the terminal, in the comment and on the page."""
    view = scan_view(typical())
    texts = ["\n".join(terminal_lines(view)), parsed(_as_html(markdown(view, marker="demur-scan"))).text, html(view)]
    for text in texts:
        assert "110 of 1,612 judged answers refused or filtered: 6.8 % (95 % 5.7 to 8.2)" in " ".join(text.split())
