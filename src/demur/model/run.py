"""A run as traces hold it: exchanges with the fields that people cut a run by.

Laws: what stands in a trace and is no exchange (a tool's span, a multiple-choice row) is a `Skipped` with its reason, never
silently dropped; an exchange whose answer is missing has no response, or one with an error, and is neither refusal nor
answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.exchange import Exchange

__all__ = ["RunSummary", "Skipped", "Traced"]


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
class RunSummary:
    """What one run held: its name, the format it was read as, how many rows, and what came out, most frequent first."""

    name: str
    format: str
    rows: int
    outcomes: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, int], ...] = ()
    causes: tuple[tuple[str, int], ...] = ()
    models: tuple[str, ...] = ()
    skipped: tuple[tuple[str, int], ...] = ()
    unreadable: int = 0
