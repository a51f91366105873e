"""What was checked, what was not, and what was wrong? The count that a verification keeps while records stream past.

Laws: every check of every record ends as passed, failed or unchecked with a reason; faults beyond the limit are counted and
not listed, so a log that is broken from end to end does not fill the memory.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from demur.model.passport import Check, Fault, Tally, Verification

if TYPE_CHECKING:
    from demur.record.tree import Frontier

__all__ = ["Scorebook"]

_MAX_LISTED = 100


class Scorebook:
    """Collects outcomes and gives the result."""

    def __init__(self) -> None:
        self._passed: Counter[Check] = Counter()
        self._failed: Counter[Check] = Counter()
        self._unchecked: dict[Check, Counter[str]] = {}
        self._faults: list[Fault] = []

    def passed(self, check: Check, count: int = 1) -> None:
        """Count checks that held."""
        self._passed[check] += count

    def unchecked(self, check: Check, why: str, count: int = 1) -> None:
        """Count checks that could not be made."""
        if count:
            self._unchecked.setdefault(check, Counter())[why] += count

    def failed(self, check: Check, fault: Fault | None, count: int = 1) -> None:
        """Count checks that failed, and list the fault unless it is told already."""
        self._failed[check] += count
        if fault is not None and len(self._faults) < _MAX_LISTED:
            self._faults.append(fault)

    def settle(self, check: Check, fault: Fault | None) -> None:
        """Count one check as passed where there is no fault, as failed otherwise."""
        if fault is None:
            self.passed(check)
        else:
            self.failed(check, fault)

    def result(self, records: int, frontier: Frontier) -> Verification:
        """Return what was found."""
        tallies = (self._tally(check) for check in Check)
        seen = tuple(tally for tally in tallies if tally.passed or tally.failed or tally.unchecked)
        return Verification(records, seen, tuple(self._faults), frontier.root().hex())

    def _tally(self, check: Check) -> Tally:
        reasons = tuple(sorted(self._unchecked.get(check, Counter()).items()))
        return Tally(check, self._passed[check], self._failed[check], reasons)
