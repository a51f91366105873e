"""A run that was read and judged, and what executes the queries about it.

The table of a run has one row for each exchange: its verdict, what can pair it, its session and its fields, never its texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from demur.errors import UnreadableRowsError
from demur.model.columns import NO_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.errors import InputError
    from demur.model.columns import Columns
    from demur.runs.sql import Dialect

__all__ = ["CountingEngine", "JudgedRun", "OutcomeCount"]


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """How many rows have an outcome, a reason and a cause, and in how many of them each field has a value."""

    outcome: str
    reason: str | None
    cause: str | None
    rows: int
    fields: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run that was read and judged: the table of its verdicts, what they count up to, and what could not be read.

    The table has the columns `rowid`, `id`, `prompt` (a hash), `session`, `outcome`, `score`, `reason`, `cause` and one for each field.
    """

    table: str
    name: str
    format: str
    fields: tuple[str, ...]
    counted: tuple[OutcomeCount, ...]
    skipped: tuple[tuple[str, int], ...]
    errors: tuple[InputError, ...]
    unreadable: int
    named: bool = False
    """Whether the user named the format, so that it alone reads the rows."""
    columns: Columns = NO_COLUMNS
    """The columns that the user named."""

    @property
    def rows(self) -> int:
        """How many rows were judged."""
        return sum(each.rows for each in self.counted)

    @property
    def filled(self) -> tuple[str, ...]:
        """The fields that some row has."""
        return tuple(n for i, n in enumerate(self.fields) if any(each.fields[i] for each in self.counted))

    def check_readable(self, *, skip_bad: bool) -> None:
        """Raise where rows could not be read, unless they are to be left out and there are others."""
        if self.errors and (not skip_bad or not self.rows):
            hint = "mend them, or pass --skip-bad to leave them out and count them"
            raise UnreadableRowsError(
                self.errors, self.unreadable, hint=hint if self.rows else "no row of the run can be read"
            )


class CountingEngine(Protocol):
    """What executes the queries: DuckDB on this machine, or Spark."""

    dialect: Dialect
    max_links: int | None
    """How many groups of sessions the driver may hold at once, None where that is only a matter of this machine's memory."""

    def table(self, name: str) -> str:
        """Return what a working table of ours is called in SQL."""

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def define(self, name: str, query: str, *, keep: bool = False) -> None:
        """Make the rows of a query a working table; `keep` says that it is read often."""

    def fill(self, name: str, rows: Sequence[tuple[str, str]], columns: tuple[str, str]) -> None:
        """Make a working table of pairs of texts."""

    def place_of(self, run: Any, rowid: Any) -> tuple[str, int | None, int]:  # noqa: ANN401 — each engine has runs and ids of its own
        """Return the source of a row, its line where it has one, and its number among the rows of the source."""
