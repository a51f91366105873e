"""How often does a model say no? What a scan of one or more runs counts.

Laws: a rate counts judged rows (failed ones are neither refusal nor answer); groups of a field add up to the rows that have
it; phrases are those of a stated number of refusals read for their evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.estimate import Difference, Rate
    from demur.model.run import RunSummary

__all__ = ["Group", "GroupDifference", "GroupTally", "PhraseCount", "Scan", "ScanTally"]


@dataclass(frozen=True, slots=True)
class GroupTally:
    """The rows whose `field` has `value`: how many, and what came out of them."""

    field: str
    value: str
    outcomes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PhraseCount:
    """A rule of the detector (or a signal of a provider), its category, and in how many of the refusals read it stood."""

    phrase: str
    category: str
    count: int


@dataclass(frozen=True, slots=True)
class ScanTally:
    """All that an engine counts for a scan; `read_for_phrases` refusals were read again for their evidence.

    `counted` are the outcomes that count as abstentions.
    """

    runs: tuple[RunSummary, ...]
    groups: tuple[GroupTally, ...] = ()
    phrases: tuple[PhraseCount, ...] = ()
    read_for_phrases: int = 0
    counted: tuple[str, ...] = ("refused", "filtered")


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
    """Runs scanned: the rate of the whole, of each run and of each group, and which groups differ."""

    tally: ScanTally
    rate: Rate
    runs: tuple[Rate, ...]
    groups: tuple[Group, ...]
    differences: tuple[GroupDifference, ...]
