"""What a reader of a scan is told, and in which order."""

from __future__ import annotations

from tests.report.scans import empty, typical

from demur.report.scan_view import scan_view
from demur.report.view import IntervalPlot, Note


def titles(view_blocks: object) -> list[str]:
    assert isinstance(view_blocks, tuple)
    return [block.title for block in view_blocks if not isinstance(block, Note)]


def test_the_whole_comes_first() -> None:
    """The rate of the whole, then outcomes, runs, groups, differences, reasons, evidence."""
    view = scan_view(typical())
    assert view.headlines[0].sentence == "110 of 1,612 judged answers refused or filtered: 6.8 % (95 % 5.7 to 8.2)."
    (more,) = view.headlines[0].more
    assert more == "1 group differs beyond chance, model gpt-y most clearly: +7.9 points against gpt-x."
    groups = ["By run", "By model", "By day", "Differences by model", "Differences by day"]
    reasons = ["Reasons of refusals", "Causes", "Most frequent evidence"]
    assert titles(view.blocks) == ["Outcomes", *groups, *reasons, "Runs"]


def test_outcomes_of_all_runs_add_up() -> None:
    """The shares of the outcomes are those of all rows, the most frequent first."""
    outcomes = scan_view(typical()).blocks[0]
    assert isinstance(outcomes, IntervalPlot)
    assert [row.n for row in outcomes.rows] == [1490, 90, 20, 12, 6]
    assert abs(sum(row.value or 0 for row in outcomes.rows) - 1) < 1e-12


def test_phrases_say_of_how_many() -> None:
    """The evidence is a share of the refusals that were read for it."""
    (plot,) = [b for b in scan_view(typical()).blocks if isinstance(b, IntervalPlot) and "evidence" in b.title]
    assert plot.note == "in 100 refusals read for it"
    assert plot.rows[0].value == 0.51


def test_an_empty_scan_knows_nothing() -> None:
    """No answer, no rate, and no table that repeats nothing."""
    view = scan_view(empty())
    assert view.headlines[0].sentence == "No answer could be judged, so no refusal rate is known (n = 0)."
    assert titles(view.blocks) == ["Runs"]


def test_what_was_not_read_is_told() -> None:
    """Skipped and unreadable rows have a note each."""
    notes = {b.name: b.text for b in scan_view(typical()).blocks if isinstance(b, Note)}
    assert notes["skipped"] == "Rows that are no exchange: 12 × a tool span."
    assert notes["not readable"] == "2 rows, in no figure."
