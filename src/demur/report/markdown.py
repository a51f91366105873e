"""A view as GitHub-flavoured Markdown: a comment on a pull request, or a job's summary.

Laws: the first line is a hidden marker, so that a comment can be found and replaced; at most 60,000 characters (GitHub takes
65,536), and what was left out for it is counted; a text of others can add no markup, no link, no mention, no reference
to an issue or a commit, and cannot leave its table cell or block.

Texts stand in blocks of HTML inside `<code>`, where no Markdown is read and GitHub links nothing; names and sentences are escaped sign by sign, and a
zero-width space stands where GitHub would otherwise find something to link, since its links are made after escapes are gone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from demur.report.columns import printable
from demur.report.markup import escaped, marked
from demur.report.view import Facts, Flips, IntervalPlot, Note, NoteKind, SideBySide, Table, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from demur.model.text import Span
    from demur.report.view import Block, Fact, Headline, Shown, View

__all__ = ["markdown"]

_MOST_CHARACTERS = 60_000
_RESERVED = 400
"""For the sentence that counts what was left out, and the end of the list of flips."""
_MOST_ROWS = 20
_MOST_CELL = 100
_MOST_SENTENCE = 800
_MOST_TEXT = 1_500
_MOST_FIELDS = 12
_ZERO_WIDTH_SPACE = "\u200b"
_BADGES = {Tone.GOOD: "🟢", Tone.BAD: "🔴", Tone.NEUTRAL: "🔵", Tone.UNSURE: "🟡"}
_KINDS = {NoteKind.FLAG: "⚑ ", NoteKind.HINT: "", NoteKind.WARNING: "⚠ "}
_SIGNS = re.compile(r"[\\`*_{}\[\]|~$!^=]")
_LINKED = re.compile(r"(@|#|:(?=//)|:(?=\w+:)|\bwww(?=\.)|\bGH(?=-)|[0-9a-f]{6}(?=[0-9a-f]))", re.IGNORECASE)
_LIST_START = re.compile(r"^(\s*)([-+]|\d+[.)])(?=\s|$)")
_NAMES = {
    Facts: "tables",
    Table: "tables",
    IntervalPlot: "tables",
    Flips: "tables",
    SideBySide: "flipped exchanges",
    Note: "notes",
}


def markdown(view: View, *, marker: str = "demur-diff") -> str:
    """Return the whole comment, the marker in its first line."""
    parts = [f"<!-- {re.sub('[^a-z0-9-]', '-', marker)} -->", *_opening(view)]
    size = sum(len(part) + 2 for part in parts)
    left_out: Counter[str] = Counter()
    flips = False
    for block in view.blocks:
        part = _block_text(block)
        if not part:
            continue
        opens = isinstance(block, SideBySide) and not flips
        part = f"### Flipped exchanges, worst first\n\n{part}" if opens else part
        if size + len(part) + 2 > _MOST_CHARACTERS - _RESERVED:
            left_out[_NAMES[type(block)]] += 1
            continue
        flips = flips or opens
        parts.append(part)
        size += len(part) + 2
    if left_out:
        told = ", ".join(f"{count:,} {name}" for name, count in left_out.items())
        parts.append(f"_Left out to keep this comment short: {told}. The JSON and the page hold all._")
    return "\n\n".join(parts) + "\n"


def _prose(text: str, *, most: int = _MOST_SENTENCE) -> str:
    """Return a text in one line that reads as it is and does nothing."""
    plain = " ".join(printable(" ".join(text.split()), most=most).split())
    quiet = _LINKED.sub(lambda found: f"{found[0]}{_ZERO_WIDTH_SPACE}", plain)
    quiet = quiet.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LIST_START.sub(r"\1\\\2", _SIGNS.sub(r"\\\g<0>", quiet).replace("#", r"\#"))


def _opening(view: View) -> Iterator[str]:
    yield f"## {_prose(view.title)}: {_prose(view.subtitle, most=160)}"
    if view.gate:
        yield _said(view.gate)
    yield _said(view.headline)
    yield from map(_prose, view.headline.more)
    if view.figures:
        yield _figures_row(view.figures)


def _said(head: Headline) -> str:
    return f"{_BADGES[head.tone]} **{_prose(head.word)}** {_prose(head.sentence)}"


def _figures_row(figures: Sequence[Fact]) -> str:
    cells = [f"**{_prose(fact.value)}**<br>{_prose(fact.note)}" for fact in figures]
    return _grid([_prose(fact.label) for fact in figures], [cells], [":--"] * len(cells))


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def _block_text(block: Block) -> str:
    match block:
        case Facts():
            cells = [[_prose(row.label), _prose(row.value), _prose(row.note)] for row in block.rows]
            return _titled(block.title, _grid(["", "", ""], cells, [":--", ":--", ":--"]))
        case Table():
            return _table_text(block)
        case IntervalPlot():
            return _table_text(block.table) if block.table else ""
        case Flips():
            return _flips_grid(block)
        case SideBySide():
            return _opened_flip(block)
        case Note():
            name = _prose(block.name.replace("_", " "))
            return f"{_KINDS[block.kind]}**{name}**: {_prose(block.text)}"


def _titled(title: str, *parts: str) -> str:
    return "\n\n".join([f"### {_prose(title, most=_MOST_CELL)}", *(part for part in parts if part)])


def _table_text(table: Table) -> str:
    heads = [_prose(column.name) for column in table.columns]
    rules = ["--:" if column.number else ":--" for column in table.columns]
    rows = [[_prose(cell, most=_MOST_CELL) for cell in row] for row in table.rows[:_MOST_ROWS]]
    more = len(table.rows) - _MOST_ROWS
    told = f"… and {more:,} more in the JSON and the page." if more > 0 else ""
    return _titled(table.title, _grid(heads, rows, rules), told, _prose(table.note))


def _flips_grid(flips: Flips) -> str:
    rows = [
        ["baseline refused", f"{flips.both:,}", f"{flips.baseline_only:,}"],
        ["baseline answered", f"{flips.candidate_only:,}", f"{flips.neither:,}"],
    ]
    grid = _grid(["", "candidate refused", "candidate answered"], rows, [":--", "--:", "--:"])
    return _titled(flips.title, grid, _prose(flips.note))


def _opened_flip(flip: SideBySide) -> str:
    """Return a part that can be opened: one block of HTML without a blank line, so that no Markdown is read in it."""
    facts = "".join(f"<br>{_code_text(name)} {_code_text(value)}" for name, value in flip.fields[:_MOST_FIELDS])
    asked = "not kept" if flip.prompt is None else _answer_text(flip.prompt, ())
    sides = (flip.baseline, flip.candidate)
    return "\n".join(
        [
            f"<details>\n<summary><b>{escaped(flip.title)}</b> {_code_text(flip.key)}</summary>",
            f'<table>\n<tr><td colspan="2"><b>prompt</b><br>{asked}{facts}</td></tr>',
            "<tr>" + "".join(f'<td width="50%" valign="top">{_verdict(side)}</td>' for side in sides) + "</tr>",
            "</table>\n</details>",
        ]
    )


def _verdict(side: Shown) -> str:
    text = "<em>text not kept</em>" if side.text is None else _answer_text(side.text, side.spans)
    evidence = "".join(f"<br>{_code_text(line)}" for line in side.evidence)
    head = f"{_BADGES[side.tone]} <b>{escaped(side.name)}: {escaped(side.word)}</b>, {escaped(side.facts)}"
    return f"{head}<br>{_code_text(side.where)}<br><br>{text}<br>{evidence}"


def _answer_text(text: str, spans: Sequence[Span]) -> str:
    shown = _unmentioned(marked(text, spans, most=_MOST_TEXT, tag="ins"))
    return f"<code>{'<br>'.join(shown.splitlines())}</code>" if text else "<em>empty</em>"


def _code_text(text: str) -> str:
    """Return a name inside a line of HTML, where GitHub makes no links."""
    return f"<code>{_unmentioned(escaped(printable(text, most=_MOST_CELL)))}</code>"


def _unmentioned(shown: str) -> str:
    return shown.replace("@", f"@{_ZERO_WIDTH_SPACE}")
