"""A view as GitHub-flavoured Markdown: a comment on a pull request, or a job's summary.

No text of others can add markup, a link, a mention or a reference, or leave its table cell or block. Texts are put into HTML blocks inside
`<code>`, where no Markdown is read and GitHub links nothing; names and sentences are escaped character by character.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, assert_never

from demur.report.columns import printable
from demur.report.markup import escaped, marked
from demur.report.view import (
    Excerpt,
    Facts,
    Flips,
    Heading,
    IntervalPlot,
    Note,
    NoteKind,
    Plots,
    Reliability,
    SideBySide,
    Table,
    Tone,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.model.verdict import Span
    from demur.report.view import Block, View

__all__ = ["markdown"]

# GitHub takes 65,536 characters a comment.
_MAX_CHARACTERS = 60_000
# For the sentence that counts what was left out, and the end of the list of flips.
_RESERVED = 400
_MAX_ROWS = 20
_MAX_CELL = 100
_MAX_SENTENCE = 800
_MAX_TITLE = 160
_MAX_TEXT = 1_500
_MAX_FIELDS = 12
_ZERO_WIDTH_SPACE = "\u200b"
_BADGES = {Tone.GOOD: "🟢", Tone.BAD: "🔴", Tone.NEUTRAL: "🔵", Tone.UNSURE: "🟡"}
_KINDS = {NoteKind.FLAG: "⚑ ", NoteKind.HINT: "", NoteKind.WARNING: "⚠ "}
_SIGNS = re.compile(r"[\\`*_{}\[\]|~$!^=]")
_LINKED = re.compile(r"(@|#|:(?=//)|:(?=\w+:)|\bwww(?=\.)|\bGH(?=-)|[0-9a-f]{6}(?=[0-9a-f]))", re.IGNORECASE)
_LIST_START = re.compile(r"^(\s*)([-+]|\d+[.)])(?=\s|$)")


def markdown(view: View, *, marker: str = "demur-diff") -> str:
    """Return the whole comment; the marker in its first line lets a later run find and replace it."""
    title = f"## {_prose(view.title)}: {_prose(view.subtitle, most=_MAX_TITLE)}"
    # The gate first: it is what a reviewer of the pull request looks for.
    said = reversed(view.headlines)
    heads = [f"{_BADGES[head.tone]} **{_prose(head.word)}** {_prose(head.sentence)}" for head in said]
    parts = [f"<!-- {re.sub('[^a-z0-9-]', '-', marker)} -->", title, *heads]
    parts += [_prose(text) for text in view.headline.more] if view.headline else []
    if view.figures:
        cells = [f"**{_prose(fact.value)}**<br>{_prose(fact.note)}" for fact in view.figures]
        parts.append(_grid([_prose(fact.label) for fact in view.figures], [cells], [":--"] * len(cells)))
    size = sum(len(part) + 2 for part in parts)
    left_out: Counter[str] = Counter()
    flips = False
    for block in view.blocks:
        part = _block_text(block)
        if not part:
            continue
        opens = isinstance(block, SideBySide) and not flips
        part = f"### Flipped exchanges, worst first\n\n{part}" if opens else part
        if size + len(part) + 2 > _MAX_CHARACTERS - _RESERVED:
            kinds = {SideBySide: "flipped exchanges", Note: "notes", Excerpt: "texts"}
            left_out[kinds.get(type(block), "tables")] += 1
            continue
        flips = flips or opens
        parts.append(part)
        size += len(part) + 2
    if left_out:
        counts = ", ".join(f"{count:,} {name}" for name, count in left_out.items())
        parts.append(f"_Left out to keep this comment short: {counts}. The JSON and the page hold all._")
    return "\n\n".join(parts) + "\n"


def _prose(text: str, *, most: int = _MAX_SENTENCE) -> str:
    """Return a text in one line that reads as it is and does nothing."""
    plain = " ".join(printable(" ".join(text.split()), most=most).split())
    # GitHub looks for links after escapes are gone, so a zero-width space keeps it from finding one.
    quiet = _LINKED.sub(lambda found: f"{found[0]}{_ZERO_WIDTH_SPACE}", plain)
    quiet = quiet.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LIST_START.sub(r"\1\\\2", _SIGNS.sub(r"\\\g<0>", quiet).replace("#", r"\#"))


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[str]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))


def _block_text(block: Block) -> str:  # noqa: PLR0911 - one for each kind of block
    match block:
        case Facts():
            cells = [[_prose(row.label), _prose(row.value), _prose(row.note)] for row in block.rows]
            return _titled(block.title, _grid(["", "", ""], cells, [":--", ":--", ":--"]))
        case Table():
            return _table_text(block)
        case IntervalPlot():
            return _table_text(block.table) if block.table else ""
        case Plots() | Reliability():
            return "" if block.spare else _table_text(block.table)
        case Flips():
            rows = [
                ["baseline refused", f"{block.both:,}", f"{block.baseline_only:,}"],
                ["baseline answered", f"{block.candidate_only:,}", f"{block.neither:,}"],
            ]
            grid = _grid(["", "candidate refused", "candidate answered"], rows, [":--", "--:", "--:"])
            return _titled(block.title, grid, _prose(block.note))
        case SideBySide():
            facts = "".join(f"<br>{_code_text(name)} {_code_text(value)}" for name, value in block.fields[:_MAX_FIELDS])
            prompt = "not kept" if block.prompt is None else _marked_text(block.prompt, ())
            sides = (_excerpt_text(side) for side in (block.baseline, block.candidate))
            # One block of HTML without a blank line: after one, Markdown would be read again (CommonMark 0.31, section 4.6).
            return "\n".join(
                [
                    f"<details>\n<summary><b>{escaped(block.title)}</b> {_code_text(block.key)}</summary>",
                    f'<table>\n<tr><td colspan="2"><b>prompt</b><br>{prompt}{facts}</td></tr>',
                    "<tr>" + "".join(f'<td width="50%" valign="top">{side}</td>' for side in sides) + "</tr>",
                    "</table>\n</details>",
                ]
            )
        case Excerpt():
            return f"<table>\n<tr><td>{_excerpt_text(block)}</td></tr>\n</table>"
        case Heading():
            return f"{'#' * block.level} {_prose(block.title, most=_MAX_CELL)}\n\n{_prose(block.text)}".rstrip()
        case Note():
            name = _prose(block.name.replace("_", " "))
            return f"{_KINDS[block.kind]}**{name}**: {_prose(block.text)}"
        case _:
            assert_never(block)


def _titled(title: str, *parts: str) -> str:
    return "\n\n".join([f"### {_prose(title, most=_MAX_CELL)}", *(part for part in parts if part)])


def _table_text(table: Table) -> str:
    if table.spare:
        return ""
    heads = [_prose(column.name) for column in table.columns]
    rules = ["--:" if column.number else ":--" for column in table.columns]
    rows = [[_prose(cell, most=_MAX_CELL) for cell in row] for row in table.rows[:_MAX_ROWS]]
    more = len(table.rows) - _MAX_ROWS
    rest = f"… and {more:,} more in the JSON and the page." if more > 0 else ""
    return _titled(table.title, _grid(heads, rows, rules), rest, _prose(table.note))


def _excerpt_text(side: Excerpt) -> str:
    text = "<em>text not kept</em>" if side.text is None else _marked_text(side.text, side.spans)
    evidence = "".join(f"<br>{_code_text(line)}" for line in side.evidence)
    head = f"{_BADGES[side.tone]} <b>{escaped(side.name)}: {escaped(side.word)}</b>, {escaped(side.facts)}"
    return f"{head}<br>{_code_text(side.where)}<br><br>{text}<br>{evidence}"


def _marked_text(text: str, spans: Sequence[Span]) -> str:
    pieces = marked(text, spans, limit=_MAX_TEXT)
    shown = "".join(f"<ins>{escaped(part)}</ins>" if is_evidence else escaped(part) for part, is_evidence in pieces)
    return f"<code>{'<br>'.join(_without_mentions(shown).splitlines())}</code>" if text else "<em>empty</em>"


def _code_text(text: str) -> str:
    """Return a name inside a line of HTML, where GitHub makes no links."""
    return f"<code>{_without_mentions(escaped(printable(text, most=_MAX_CELL)))}</code>"


def _without_mentions(shown: str) -> str:
    # A mention would notify somebody who has nothing to do with the comparison.
    return shown.replace("@", f"@{_ZERO_WIDTH_SPACE}")
