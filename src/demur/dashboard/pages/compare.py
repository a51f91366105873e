"""Two periods or models beside each other, with the words and statistics of `demur diff`.

Laws: the exchanges are different ones, so nothing is paired; too little to compare is said, never shown as no change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.dashboard.pages.frame import panel, select
from demur.report.diff_view import diff_view
from demur.report.html.blocks import facts_table, figure_tiles, note_item, said_banner
from demur.report.html.plots import interval_plot
from demur.report.markup import escaped
from demur.report.view import Facts, IntervalPlot, Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demur.dashboard.pages.frame import PageFrame
    from demur.dashboard.pages.values import ComparedSide, ComparePage
    from demur.model.comparison import Comparison

__all__ = ["MEASURES", "compare_page"]

MEASURES = {"refused": "model refused", "filtered": "provider filtered", "denied": "gateway denied"}


def compare_page(frame: PageFrame, shown: ComparePage) -> str:
    """Return the page."""
    lead = "the same statistics as demur diff, for exchanges that are not paired"
    return frame.page("Compare", _compare_parts(frame, shown), current="compare", lead=lead)


def _compare_parts(frame: PageFrame, shown: ComparePage) -> Iterator[str]:
    yield _compare_form(frame, shown)
    if shown.comparison is None:
        yield f'<section class="empty"><h2>Nothing to compare</h2><p>{escaped(shown.why[:1].upper() + shown.why[1:])}.</p></section>'
        return
    yield from _compared_panels(shown.comparison)


def _compare_form(frame: PageFrame, shown: ComparePage) -> str:
    sides = _side_fields("a", "Baseline", shown.baseline, shown) + _side_fields(
        "b", "Candidate", shown.candidate, shown
    )
    measure = select("measure", "Compare how often", MEASURES.items(), chosen=shown.measure)
    return (
        f'<form action="{escaped(frame.base)}compare"><div class="sides">{sides}</div>'
        f'<div class="filters">{measure}<button>Compare</button></div></form>'
    )


def _side_fields(letter: str, title: str, side: ComparedSide, shown: ComparePage) -> str:
    models = [("", "all models"), *((name, name) for name in shown.models)]
    times = "".join(
        f'<label>{word}<input type="date" name="{letter}_{name}" value="{escaped(value)}"></label>'
        for name, word, value in (("since", "From", side.since), ("until", "To", side.until))
    )
    return f"<fieldset><legend>{title}</legend>{select(f'{letter}_model', 'Model', models, chosen=side.model)}{times}</fieldset>"


def _compared_panels(comparison: Comparison) -> Iterator[str]:
    view = diff_view(comparison)
    yield said_banner(view.headline)
    yield figure_tiles(view.figures)
    yield '<div class="panels">'
    for block in view.blocks:
        match block:
            case IntervalPlot():
                figure = f"<figure>{interval_plot(block, block.rows)}</figure>"
                yield panel(block.title, figure, kind="half", lead=block.note)
            case Facts():
                yield panel(block.title, facts_table(block.rows), kind="half")
            case _:
                pass
    notes = "".join(note_item(block) for block in view.blocks if isinstance(block, Note))
    yield panel("Notes", f'<ul class="notes">{notes}</ul>')
    yield "</div>"
