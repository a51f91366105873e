"""What a caller may say about runs: how they are read and judged, what is counted of them, and who is told how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from demur.errors import UsageError
from demur.model.columns import NO_COLUMNS, columns_of
from demur.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demur.detect.check import TextJudge
    from demur.model.columns import ColumnNames, Columns

__all__ = ["CountOptions", "Progress", "ReadOptions", "reading_of"]

# Fields that many logs have; those without several values are not shown.
_SLICED_BY_DEFAULT = ("category", "language", "model", "task", "tool")
# Words for `key` and `cluster` that are no fields of a row.
_KEYS, _CLUSTERS = ("id", "prompt", "position"), ("session", "key", "none")


class Progress(Protocol):
    """Is told how far the reading is."""

    def start(self, name: str, size_bytes: int) -> None:
        """Begin with another run."""

    def read(self, size_bytes: int) -> None:
        """Add bytes that were read."""

    def rows(self, count: int) -> None:
        """Add rows that were judged."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How runs are read and judged.

    `format` names the trace format (None: sniffed), `requests` the inputs of a batch, `judge` another way to judge texts,
    `counted` the outcomes that are abstentions, `jobs` the processes (None: as many as the input is worth), `columns` which column of
    a flat row is what.
    """

    format: str | None = None
    requests: tuple[str, ...] = ()
    judge: TextJudge | None = None
    counted: tuple[Outcome, ...] = (Outcome.REFUSED, Outcome.FILTERED)
    skip_bad: bool = False
    verify: bool = False
    jobs: int | None = 1
    columns: Columns = NO_COLUMNS
    progress: Progress | None = field(default=None, compare=False)

    @property
    def counted_words(self) -> tuple[str, ...]:
        """The outcomes that are abstentions, as tallies name them."""
        return tuple(map(str, self.counted))


def reading_of(reading: ReadOptions | None, columns: ColumnNames) -> ReadOptions:
    """Return how runs are to be read, with the columns that a caller named."""
    options = reading or ReadOptions()
    return replace(options, columns=columns_of(columns, options.columns)) if columns else options


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What is counted of runs, whichever engine does it: the fields to cut `by`, and what pairs and groups rows."""

    by: Sequence[str] | None = None
    key: str | None = None
    cluster: str | None = None

    @property
    def slices(self) -> tuple[str, ...]:
        """The fields to cut by: those asked for, or those that people often have."""
        return tuple(dict.fromkeys(self.by if self.by is not None else _SLICED_BY_DEFAULT))

    @property
    def named(self) -> tuple[str, ...]:
        """The fields that the caller named, each of which some row must have."""
        fields = [
            word
            for word, known in ((self.key, _KEYS), (self.cluster, _CLUSTERS))
            if word is not None and word not in known
        ]
        return tuple(dict.fromkeys([*(self.by or ()), *fields]))

    @property
    def kept(self) -> tuple[str, ...]:
        """The fields that rows are kept with: those named, and the model."""
        fields = [*self.slices, *self.named]
        kept = dict.fromkeys([*fields, *(["model"] if "model" not in map(str.lower, fields) else [])])
        for name in kept:
            # Both engines take names of columns that differ in case for the same.
            twin = next((other for other in kept if other != name and other.lower() == name.lower()), None)
            if twin is not None:
                raise UsageError(f"the fields `{name}` and `{twin}` differ in case alone", hint="name one of them")
        return tuple(kept)
