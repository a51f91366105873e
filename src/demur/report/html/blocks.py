"""The parts that every page of figures is made of: the banner, the tiles, facts, tables, notes.

Laws: one look for one thing, in a report and on the dashboard; every word is escaped; the first column of a table names its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demur.report.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.report.view import Fact, Headline, Note, Table

__all__ = ["cells_table", "facts_table", "figure_tiles", "note_item", "said_banner", "scrolled"]


def said_banner(*heads: Headline) -> str:
    """Return what is said first, in the tone of the last: a gate stands after what it judges."""
    said = "".join(map(_headline, heads))
    return f'<section class="banner {heads[-1].tone}" aria-label="Result">{said}</section>'


def _headline(head: Headline) -> str:
    more = "".join(f'<p class="more">{escaped(text)}</p>' for text in head.more)
    badge = f'<span class="badge {head.tone}">{escaped(head.word)}</span>'
    return f'<div class="said">{badge}<div><p class="sentence">{escaped(head.sentence)}</p>{more}</div></div>'


def figure_tiles(figures: Sequence[Fact]) -> str:
    """Return the leading figures, a tile each; nothing where there are none."""
    tiles = "".join(map(_tile, figures))
    return f'<dl class="tiles">{tiles}</dl>' if tiles else ""


def _tile(fact: Fact) -> str:
    note = f'<dd class="soft">{escaped(fact.note)}</dd>' if fact.note else ""
    return f'<div><dt>{escaped(fact.label)}</dt><dd class="figure">{escaped(fact.value)}</dd>{note}</div>'


def scrolled(name: str, table: str) -> str:
    """Return a table that scrolls by itself where it is wider than the screen, by keyboard too; `name` is what a reader hears."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(name)}">{table}</div>'


def facts_table(facts: Sequence[Fact]) -> str:
    """Return facts a row each, with what is to be known about them."""
    rows = "".join(
        f'<tr><th scope="row">{escaped(fact.label)}</th><td>{escaped(fact.value)}</td><td class="soft">{escaped(fact.note)}</td></tr>'
        for fact in facts
    )
    return f'<div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'


def cells_table(table: Table) -> str:
    """Return a table with its note."""
    kinds = ["" if column.number else ' class="words"' for column in table.columns]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(column.name)}</th>' for kind, column in zip(kinds, table.columns, strict=True)
    )
    body = "\n".join(
        f'<tr><th scope="row">{escaped(name)}</th>'
        + "".join(f"<td{kind}>{escaped(cell)}</td>" for kind, cell in zip(kinds[1:], cells, strict=True))
        + "</tr>"
        for name, *cells in table.rows
    )
    note = f'<p class="note">{escaped(table.note)}</p>' if table.note else ""
    return scrolled(table.title, f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>") + note


def note_item(note: Note) -> str:
    """Return a note as an item of a list."""
    return f'<li class="{note.kind}"><b>{escaped(note.name.replace("_", " "))}</b> {escaped(note.text)}</li>'
