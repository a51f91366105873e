"""A report as values, the same for every renderer: terminal, Markdown, HTML and JUnit.

Shares and differences are fractions of one (`Unit` says how they are read), and a text that was not kept is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from demur.model.evaluation import Bin
    from demur.model.verdict import Span

__all__ = [
    "Block",
    "Column",
    "Excerpt",
    "Fact",
    "Facts",
    "Flips",
    "Heading",
    "Headline",
    "IntervalPlot",
    "Note",
    "NoteKind",
    "PlotRow",
    "Plots",
    "Reliability",
    "SideBySide",
    "Table",
    "Tone",
    "Unit",
    "View",
]


class Tone(StrEnum):
    """How a reader should take a word: the colour of a badge."""

    GOOD = "good"
    BAD = "bad"
    NEUTRAL = "neutral"
    UNSURE = "unsure"


class NoteKind(StrEnum):
    """What a note is: a property of the data, advice, or something that may make a number wrong."""

    FLAG = "flag"
    HINT = "hint"
    WARNING = "warning"


class Unit(StrEnum):
    """How a number between -1 and 1 is read; a fraction is shown as it is, without a unit."""

    PERCENT = "%"
    POINTS = "points"
    FRACTION = ""


# Every text below is plain, never markup: each renderer knows alone what its own output needs to have escaped.
@dataclass(frozen=True, slots=True)
class Headline:
    """One word, the sentence that says the same with its numbers, and what follows from it."""

    word: str
    sentence: str
    tone: Tone
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A name, what is known under it, and a remark."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what is known under them."""

    title: str
    rows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; numbers are aligned right. A `spare` column is left out on a terminal of 80 columns."""

    name: str
    number: bool = True
    # The view decides what can be spared, not the renderer: it knows which numbers the rest of the row repeats.
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as many as there are columns; a renderer may stop after some rows if it says so.

    A `spare` table is for pages alone, where it can be folded away.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    spare: bool = False


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A number with its interval (None where a count needs none); `second` has the candidate's colour.

    `reference` is what the value should be, where that is known.
    """

    label: str
    # Not a `Rate`: a plot may show a rate, a difference or a score, and a share of a count has no interval.
    value: float | None
    low: float | None
    high: float | None
    n: int
    second: bool = False
    # Coloured only where the change is beyond chance, so that noise does not catch the eye.
    strong: bool = False
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Numbers along one axis: bars from zero for shares, dots about a zero line for differences.

    `table` holds the same numbers with more beside them; a renderer that cannot draw shows it in place of the plot. Where it
    is None the view's own `figures` say the same.
    """

    title: str
    unit: Unit
    rows: tuple[PlotRow, ...]
    axis: str
    note: str = ""
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Plots:
    """Several plots of the same rows, and the table with all of their numbers; `spare` ones are for pages alone."""

    title: str
    plots: tuple[IntervalPlot, ...]
    table: Table
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Reliability:
    """Scores in bins against what labels say; `spare` ones are for pages alone."""

    title: str
    bins: tuple[Bin, ...]
    table: Table
    note: str = ""
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Flips:
    """The paired two-by-two table."""

    title: str
    both: int
    baseline_only: int
    candidate_only: int
    neither: int
    note: str = ""

    @property
    def total(self) -> int:
        """Pairs."""
        return self.both + self.baseline_only + self.candidate_only + self.neither


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A judged text: what it is, its outcome in a word, the facts behind it, and the text with the spans to mark."""

    name: str
    word: str
    tone: Tone
    facts: str
    where: str
    text: str | None
    spans: tuple[Span, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A flipped exchange: the prompt, and both responses."""

    title: str
    key: str
    prompt: str | None
    baseline: Excerpt
    candidate: Excerpt
    # Pairs, not a mapping: a value that is frozen must not hold something that can be changed.
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """Begins a part of a view; the titles of the blocks below it are one level deeper."""

    title: str
    text: str = ""
    level: int = 2


@dataclass(frozen=True, slots=True)
class Note:
    """A remark with its name."""

    kind: NoteKind
    name: str
    text: str


# Closed on purpose: every renderer matches all of these to `assert_never`, so that a new kind cannot be forgotten in one of them.
Block: TypeAlias = Facts | Table | IntervalPlot | Plots | Reliability | Flips | SideBySide | Excerpt | Heading | Note


@dataclass(frozen=True, slots=True)
class View:
    """A report: title, what is said first, whether the gate passed, the headline's numbers one by one, and the rest.

    `figures` repeat the sentence of the headline for renderers with room for tiles.
    """

    title: str
    subtitle: str
    headline: Headline | None
    gate: Headline | None
    figures: tuple[Fact, ...]
    blocks: tuple[Block, ...]

    @property
    def headlines(self) -> tuple[Headline, ...]:
        """The headline and the gate, those there are."""
        return tuple(head for head in (self.headline, self.gate) if head is not None)
