"""A view on a terminal: it fits, it lines up, it controls nothing."""

from __future__ import annotations

import re
import unicodedata

import pytest
from tests.report.comparisons import ALL, hostile, increase, many_slices
from tests.report.scans import ALL_SCANS, typical

from demur.report.diff_view import diff_view
from demur.report.scan_view import scan_view
from demur.report.terminal import terminal_lines
from demur.report.view import View

VIEWS = [diff_view(make()) for make in ALL] + [scan_view(make()) for make in ALL_SCANS]


def wide(line: str) -> int:
    """How many columns a terminal gives a line: counted here anew."""
    marks = sum(1 for c in line if unicodedata.category(c) in ("Mn", "Me"))
    return len(line) - marks + sum(1 for c in line if unicodedata.east_asian_width(c) in ("W", "F"))


@pytest.mark.parametrize("width", [80, 64, 40])
@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_it_fits_and_controls_nothing(view: View, width: int) -> None:
    """No line is wider than asked, and no control or format character of any text gets through."""
    lines = terminal_lines(view, width=width)
    assert max(map(wide, lines)) <= width
    assert {unicodedata.category(c) for line in lines for c in line}.isdisjoint({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


@pytest.mark.parametrize("view", [diff_view(increase()), diff_view(hostile()), scan_view(typical())], ids=range(3))
def test_colours_change_nothing_but_colour(view: View) -> None:
    """Without our own colour codes the coloured lines are the plain ones."""
    coloured = terminal_lines(view, colour=True)
    assert any("\x1b[1;" in line for line in coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == terminal_lines(view)


def test_answers_stand_side_by_side() -> None:
    """Both verdicts share a line, and carets stand below the evidence."""
    lines = terminal_lines(diff_view(increase(), show=1))
    (at,) = [n for n, line in enumerate(lines) if "baseline: COMPLIED" in line]
    end = next(n for n, line in enumerate(lines) if "baseline: REFUSED" in line)
    assert "│ candidate: REFUSED" in lines[at]
    bars = {line.index("│") for line in lines[at : at + 6]}
    assert len(bars) == 1
    (marks,) = [n for n, line in enumerate(lines[:end]) if "^^^^" in line]
    start = lines[marks].index("^")
    assert lines[marks - 1][start : start + 5] == "sorry"
    narrow = terminal_lines(diff_view(increase(), show=1), width=50)
    assert not any("│ candidate" in line for line in narrow)


def test_numbers_are_never_cut() -> None:
    """Where a table is too wide, names give way and figures stay whole."""
    lines = terminal_lines(diff_view(hostile()))
    slices = [line for line in lines if "increased" in line and "→" in line and "+25.8" in line]
    assert len(slices) == 9
    assert all("+25.8 (+8.0 to +43.6)" in line for line in slices)


def test_long_tables_say_that_they_are_shortened() -> None:
    """Twelve of forty categories stand there, and where to find the others."""
    lines = terminal_lines(diff_view(many_slices()))
    assert "  … and 28 more (in the JSON and the page)" in lines
    assert sum(line.startswith("  categ") and "→" in line for line in lines) == 12


def test_figures_are_drawn() -> None:
    """An interval has its ends, its value and the zero line in their places."""
    (line,) = [line for line in terminal_lines(diff_view(increase())) if line.startswith("  candidate ")]
    assert re.search(r"│ +├─+●─+┤$", line)
    assert any(line.rstrip().endswith("██") for line in terminal_lines(scan_view(typical())))
