"""A view as one page.

Laws: one file that loads nothing and runs nothing; light or dark as the reader's machine asks, fit for a telephone and to print; every
word of others is escaped; the same view gives the same bytes; beyond a screenful rows are folded away, never left out.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from demur.report.html.blocks import cells_table, facts_table, figure_tiles, note_item, said_banner, scrolled
from demur.report.html.document import document
from demur.report.html.plots import flips_bar, interval_plot
from demur.report.markup import escaped, marked
from demur.report.view import Facts, Flips, IntervalPlot, Note, SideBySide, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.report.view import Block, Shown, View

__all__ = ["html"]

_MOST_ROWS = 15
_SUMMARY_SHOWN = 160
_SIDE_SHOWN = 4_000


def html(view: View) -> str:
    """Return the whole page."""
    parts = [
        f'<header><p class="soft kicker">{escaped(view.title)}</p><h1>{escaped(view.subtitle)}</h1></header>',
        said_banner(*([view.headline] if view.gate is None else [view.headline, view.gate])),
        figure_tiles(view.figures),
        *(part for kind, run in groupby(view.blocks, key=type) for part in _section(kind, list(run))),
    ]
    return document(f"{view.title}: {view.subtitle}", parts)


def _section(kind: type[Block], blocks: Sequence[Block]) -> Iterator[str]:
    """Yield neighbours of one kind, with what stands around them all."""
    if kind is SideBySide:
        yield '<h2>Flipped exchanges</h2>\n<p class="note">worst first; evidence is marked</p>'
    if kind is Note:
        yield '<ul class="notes">'
    for number, block in enumerate(blocks):
        yield _html_block(block, first=number == 0)
    if kind is Note:
        yield "</ul>"


def _html_block(block: Block, *, first: bool) -> str:
    match block:
        case Facts():
            return f"<h2>{escaped(block.title)}</h2>\n{facts_table(block.rows)}"
        case Table():
            return f"<h2>{escaped(block.title)}</h2>\n{cells_table(block)}"
        case IntervalPlot():
            return _plot_section(block)
        case Flips():
            return _flips_section(block)
        case SideBySide():
            return _exchange(block, opened=first)
        case Note():
            return note_item(block)


def _plot_section(plot: IntervalPlot) -> str:
    """Return the plot, its first rows in sight, and its table to open: the text alternative, with every figure."""
    shown, folded = plot.rows[:_MOST_ROWS], plot.rows[_MOST_ROWS:]
    parts = [f"<h2>{escaped(plot.title)}</h2>"]
    parts += [f'<p class="note">{escaped(plot.note)}</p>'] if plot.note else []
    parts.append(f"<figure>{interval_plot(plot, shown)}</figure>")
    if folded:
        parts.append(
            f"<details><summary>{len(folded):,} more</summary><figure>{interval_plot(plot, folded)}</figure></details>"
        )
    if plot.table:
        parts.append(f"<details><summary>As a table</summary>{cells_table(plot.table)}</details>")
    return "\n".join(parts)


def _flips_section(flips: Flips) -> str:
    rows = (
        ("Baseline refused", flips.both, flips.baseline_only),
        ("Baseline answered", flips.candidate_only, flips.neither),
    )
    kinds = (("both", "lost"), ("gained", "neither"))
    body = "".join(
        f'<tr><th scope="row">{name}</th><td class="{kind[0]}">{left:,}</td><td class="{kind[1]}">{right:,}</td></tr>'
        for (name, left, right), kind in zip(rows, kinds, strict=True)
    )
    head = '<tr><td></td><th scope="col">Candidate refused</th><th scope="col">Candidate answered</th></tr>'
    table = scrolled(flips.title, f'<table class="square"><thead>{head}</thead><tbody>{body}</tbody></table>')
    note = f'<p class="note">{escaped(flips.note)}</p>'
    return f'<h2>{escaped(flips.title)}</h2>\n{note}<div class="flips">{table}<figure>{flips_bar(flips)}</figure></div>'


def _exchange(flip: SideBySide, *, opened: bool) -> str:
    asked = "" if flip.prompt is None else f' <span class="asked">{escaped(_line(flip.prompt))}</span>'
    badge = f'<span class="badge {flip.candidate.tone}">{escaped(flip.title)}</span>'
    fields = "".join(f"<li><b>{escaped(name)}</b> {escaped(value)}</li>" for name, value in flip.fields)
    prompt = '<p class="soft">prompt not kept</p>' if flip.prompt is None else f"<pre>{marked(flip.prompt, ())}</pre>"
    listed = f'<ul class="fields">{fields}</ul>' if fields else ""
    sides = "".join(map(_answer_column, (flip.baseline, flip.candidate)))
    summary = f"<summary>{badge} <code>{escaped(_line(flip.key))}</code>{asked}</summary>"
    return (
        f'<details class="exchange"{" open" if opened else ""}>{summary}{listed}<h3>prompt</h3>{prompt}'
        f'<div class="sides">{sides}</div></details>'
    )


def _line(text: str) -> str:
    """Return the beginning of a text in one line."""
    flat = " ".join(text[: 2 * _SUMMARY_SHOWN].split())
    return flat if len(flat) <= _SUMMARY_SHOWN and len(text) <= 2 * _SUMMARY_SHOWN else flat[:_SUMMARY_SHOWN] + "…"


def _answer_column(side: Shown) -> str:
    text = '<p class="soft">text not kept</p>'
    if side.text is not None:
        text = (
            f"<pre>{marked(side.text, side.spans, most=_SIDE_SHOWN)}</pre>"
            if side.text
            else '<p class="soft">empty</p>'
        )
    rules = "".join(f"<li>{escaped(line)}</li>" for line in side.evidence)
    evidence = f'<ul class="evidence">{rules}</ul>' if rules else ""
    badge = f'<span class="badge {side.tone}">{escaped(side.word)}</span>'
    head = f'<h3>{escaped(side.name)} {badge}</h3><p class="soft">{escaped(side.facts)}<br>{escaped(side.where)}</p>'
    return f"<div>{head}{text}{evidence}</div>"
