"""What a reader sees, whichever way it is drawn.

Laws: a view holds plain text and numbers, never markup, so every rendering escapes for itself and none can be forgotten; shares and
differences are fractions of one (`Unit` says how they are read); a text that was not kept is None; a view never depends on
where it will be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from demur.model.text import Span

__all__ = [
    "Block",
    "Column",
    "Fact",
    "Facts",
    "Flips",
    "Headline",
    "IntervalPlot",
    "Note",
    "NoteKind",
    "PlotRow",
    "Shown",
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
    """Why a note stands there: a property of the data, advice, or something that may make a figure wrong."""

    FLAG = "flag"
    HINT = "hint"
    WARNING = "warning"


class Unit(StrEnum):
    """How a number between -1 and 1 is read."""

    PERCENT = "%"
    POINTS = "points"


@dataclass(frozen=True, slots=True)
class Headline:
    """One word, the sentence that says the same with its figures, and what follows from it."""

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
    """The head of a column; numbers stand at the right. A `spare` column is left out where there are but 80 columns."""

    name: str
    number: bool = True
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, as many as there are columns; a rendering may stop after some rows if it says so."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class PlotRow:
    """A figure with its interval (None where a count needs none); `second` marks the candidate's colour."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    second: bool = False
    strong: bool = False


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Figures along one axis: bars from zero for shares, dots about a zero line for differences.

    `table` holds the same figures with more beside them; a rendering that cannot draw shows it in place of the plot. Where it
    is None the view's own `figures` say the same.
    """

    title: str
    unit: Unit
    rows: tuple[PlotRow, ...]
    axis: str
    note: str = ""
    table: Table | None = None


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
class Shown:
    """One side of a flipped exchange: its outcome in a word, the facts behind it, the text with the spans to mark."""

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
    """A flipped exchange: what was asked, and both answers."""

    title: str
    key: str
    prompt: str | None
    baseline: Shown
    candidate: Shown
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A remark with its name."""

    kind: NoteKind
    name: str
    text: str


Block: TypeAlias = Facts | Table | IntervalPlot | Flips | SideBySide | Note


@dataclass(frozen=True, slots=True)
class View:
    """A page: title, what is said first, whether the gate passed, the headline's figures one by one, and the rest.

    `figures` repeat the sentence of the headline for renderings with room for tiles.
    """

    title: str
    subtitle: str
    headline: Headline
    gate: Headline | None
    figures: tuple[Fact, ...]
    blocks: tuple[Block, ...]
