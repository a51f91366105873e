"""The values that the dashboard's pages show, for every kind of store.

A rate always has its interval and n, and a count over a part of the entries has a `Reach`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from demur.model.comparison import Comparison
    from demur.model.estimate import Rate
    from demur.model.passport import Passport
    from demur.model.verdict import Span, Verdict
    from demur.report.charts import DecisionBucket, Period, RateSeries

__all__ = [
    "AuditorHealth",
    "CheckLine",
    "CheckState",
    "ComparePage",
    "ComparedSide",
    "DisclosedText",
    "ExchangePage",
    "ExchangeRow",
    "FiredCount",
    "GapCount",
    "HealthPage",
    "Overview",
    "PoliciesPage",
    "Reach",
    "SessionFilter",
    "SessionPage",
    "SessionsPage",
    "ShadowCount",
    "Shares",
]


@dataclass(frozen=True, slots=True)
class Shares:
    """How often the model refused, the provider filtered and the gateway denied; `unanswered` failed or never left the gateway, `unjudged` are empty or unread."""

    name: str
    exchanges: int
    unanswered: int
    unjudged: int
    # Three rates, never one sum: refusals and filters are of the exchanges that a provider answered, denials of all.
    refused: Rate
    filtered: Rate
    denied: Rate


@dataclass(frozen=True, slots=True)
class GapCount:
    """How often enforcement did not hold, where and how."""

    what: str
    phase: str
    auditor: str | None
    n: int


@dataclass(frozen=True, slots=True)
class Reach:
    """How many of the records were read for what the hourly counts do not hold; the latest are read first."""

    counted: int
    total: int
    unreadable: int = 0

    @property
    def whole(self) -> bool:
        """Whether all were."""
        # The log may have shrunk to another one since the count.
        return self.counted >= self.total


@dataclass(frozen=True, slots=True)
class Overview:
    """All of the first page."""

    period: Period
    models: tuple[str, ...]
    model: str
    all: Shares
    by_model: tuple[Shares, ...]
    refused: tuple[RateSeries, ...]
    filtered: tuple[RateSeries, ...]
    denied: tuple[RateSeries, ...]
    decisions: tuple[DecisionBucket, ...]
    # From here on counted in memory, and so only as far as `reach` says; all above comes from the hourly counts of the log.
    attacks: tuple[tuple[str, int], ...]
    gaps: tuple[GapCount, ...]
    reach: Reach


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """One exchange in a list; `decision` is empty where the record cannot be read."""

    index: int
    at: str
    session: str
    seq: int
    # Defaults for an entry that cannot be read: it stays in the list, since leaving it out would hide it.
    model: str = ""
    decision: str = ""
    causes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """What a reader looks for; an empty field asks for nothing."""

    search: str = ""
    model: str = ""
    decision: str = ""
    cause: str = ""
    rule: str = ""
    since: str = ""
    until: str = ""
    gaps: bool = False

    @property
    def idle(self) -> bool:
        """Whether nothing is asked for."""
        return self == SessionFilter()


@dataclass(frozen=True, slots=True)
class SessionsPage:
    """Sessions, each at its newest exchange that is looked for; `following` is where the next page begins."""

    rows: tuple[tuple[ExchangeRow, int], ...]
    """The exchange, and how many its session has."""
    asked: SessionFilter
    models: tuple[str, ...]
    rules: tuple[str, ...]
    total: int
    # A place or a name, never a page number: entries added meanwhile would shift the pages.
    following: str | None = None
    searched_to: str | None = None
    """The time down to which was searched, where the search stopped before a page was full."""
    first: bool = True


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One session's exchanges, newest first."""

    session: str
    rows: tuple[ExchangeRow, ...]
    total: int
    following: int | None = None


class CheckState(StrEnum):
    """How a check came out."""

    HOLDS = "holds"
    FAILS = "fails"
    # Neither of the others: a missing key must not look like a broken signature, nor like a good one.
    OPEN = "not checked"


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check of a passport, and what it rests on."""

    name: str
    state: CheckState
    what: str


@dataclass(frozen=True, slots=True)
class DisclosedText:
    """A text behind a commitment, as a person reads it, with its evidence; `raw` where it is the body as it came."""

    name: str
    state: str
    size_bytes: int
    digest: str
    text: str | None = None
    spans: tuple[Span, ...] = ()
    evidence: tuple[str, ...] = ()
    verdict: Verdict | None = None
    raw: bool = False


@dataclass(frozen=True, slots=True)
class ExchangePage:
    """One exchange, its passport checked in place."""

    index: int
    passport: Passport
    leaf: str
    key_id: str | None
    checks: tuple[CheckLine, ...]
    texts: tuple[DisclosedText, ...]
    # No texts and texts that may not be shown are told apart on the page.
    texts_on: bool
    last_seq: int


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison, as the form has it."""

    model: str = ""
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class ComparePage:
    """Two periods or models; without a comparison `why` says what there is too little of."""

    measure: str
    baseline: ComparedSide
    candidate: ComparedSide
    models: tuple[str, ...]
    comparison: Comparison | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class FiredCount:
    """How often a rule fired, of all exchanges that were read, and the reason that its author gave."""

    rule: str
    effect: str
    phase: str
    n: int
    reason: str = ""
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShadowCount:
    """What the policy in force and the one in its shadow decided over the same exchanges."""

    phase: str
    live: str
    shadow: str
    n: int

    @property
    def agrees(self) -> bool:
        """Whether both decided the same."""
        return self.live == self.shadow


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """Which rules fired, and what a policy in the shadow would have done; None where none is known of."""

    period: Period
    exchanges: int
    rules: tuple[FiredCount, ...]
    errors: int
    policies: tuple[tuple[str, int], ...]
    reach: Reach
    # None and empty differ: no shadow policy here, or one that has decided nothing yet.
    shadow: tuple[ShadowCount, ...] | None = None


@dataclass(frozen=True, slots=True)
class AuditorHealth:
    """How an auditor did."""

    name: str
    calls: int
    statuses: Mapping[str, int] = field(default_factory=dict)
    mean_us: float = 0.0
    most_us: int = 0


@dataclass(frozen=True, slots=True)
class HealthPage:
    """How the store is."""

    origin: str
    place: str
    records: int
    root: str
    last_at: str | None
    checkpoint_size: int | None
    checkpoints: int
    keys: tuple[tuple[str, str, str], ...]
    texts: str
    auditors: tuple[AuditorHealth, ...]
    reach: Reach
