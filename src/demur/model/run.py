"""A run as traces hold it, and what a scan of one or more runs counts.

A row of a trace that is no exchange (a tool's span, a multiple-choice row) is a `Skipped` with its reason, never silently
dropped. An exchange whose response is missing or an error counts as neither refusal nor answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.estimate import Difference, Rate
    from demur.model.exchange import Exchange
    from demur.model.labels import RateCorrection
    from demur.model.sessions import SessionSums

__all__ = [
    "Group",
    "GroupDifference",
    "GroupTally",
    "PhraseCount",
    "RunSummary",
    "Scan",
    "ScanTally",
    "Skipped",
    "Traced",
    "UnreadExample",
]


@dataclass(frozen=True, slots=True)
class Traced:
    """One exchange of a trace.

    `exchange.id` is the pair key that the format itself has (None where only the prompt can pair it), `exchange.session` what
    groups correlated rows. `fields` are the scalars of the row that a run can be cut by, as text, names joined by dots
    (`metadata.category`); `model`, `day` (ISO), `category` and `language` stand under these names where the format
    has them at all.
    """

    exchange: Exchange
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that is no exchange, and why, as in `a tool span`."""

    why: str


@dataclass(frozen=True, slots=True)
class UnreadExample:
    """A response that could not be read: where it is, and what is there."""

    source: str
    line: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What one run held: its name, the format it was read as, how many rows, and what came out, most frequent first.

    `unread` are examples of the responses that could not be read.
    """

    name: str
    format: str
    rows: int
    outcomes: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, int], ...] = ()
    causes: tuple[tuple[str, int], ...] = ()
    models: tuple[str, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    unreadable: int = 0
    unread: tuple[UnreadExample, ...] = ()

    def share(self, outcome: str) -> float:
        """Return the share of all rows that ended so."""
        return dict(self.outcomes).get(outcome, 0) / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True)
class GroupTally:
    """The rows whose `field` has `value`: how many, and what came out of them.

    `sums` are over the sessions of these rows, `rest` over those of all other rows with the field; None where each row stands alone.
    """

    field: str
    value: str
    outcomes: tuple[tuple[str, int], ...]
    sums: SessionSums | None = None
    rest: SessionSums | None = None


@dataclass(frozen=True, slots=True)
class PhraseCount:
    """A rule of the detector (or a signal of a provider), its category, and in how many of the refusals read it stood."""

    phrase: str
    category: str
    count: int


@dataclass(frozen=True, slots=True)
class ScanTally:
    """All that an engine counts for a scan; `read_for_phrases` refusals were read again for their evidence.

    `counted` are the outcomes that count as abstentions. `clustered_by` is what rows come in, `session` or `question`, with the sums over
    all of them and over those of each run; None where each row stands alone.
    """

    runs: tuple[RunSummary, ...]
    groups: tuple[GroupTally, ...] = ()
    phrases: tuple[PhraseCount, ...] = ()
    read_for_phrases: int = 0
    counted: tuple[str, ...] = ("refused", "filtered")
    clustered_by: str | None = None
    sums: SessionSums | None = None
    run_sums: tuple[SessionSums, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """One value of a field with its abstention rate."""

    field: str
    value: str
    rate: Rate
    outcomes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One group against another, or against the rest where a field has more than two values; unpaired, with its q."""

    field: str
    value: str
    against: str
    difference: Difference
    q: float


@dataclass(frozen=True, slots=True)
class Scan:
    """Runs scanned: the rate of the whole, of each run and of each group, and which groups differ; `correction` is what people's labels say."""

    tally: ScanTally
    rate: Rate
    runs: tuple[Rate, ...]
    groups: tuple[Group, ...]
    differences: tuple[GroupDifference, ...]
    correction: RateCorrection | None = None
