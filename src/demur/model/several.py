"""Several candidates compared with one baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from demur.model.comparison import Comparison

__all__ = ["ComparedCandidates"]


@dataclass(frozen=True, slots=True)
class ComparedCandidates:
    """One comparison for each candidate, adjusted for multiple comparisons over them, in the order in which they were named.

    `unadjusted` are their p-values before that.
    """

    comparisons: tuple[Comparison, ...]
    unadjusted: tuple[float, ...]

    @property
    def failed(self) -> bool:
        """Whether the gate fails for any candidate."""
        return any(one.gate.failed for one in self.comparisons)

    @property
    def unsettled(self) -> bool:
        """Whether no candidate fails the gate, and it is stopped at one of which nothing can be said."""
        return not self.failed and any(one.gate.unsettled for one in self.comparisons)

    @property
    def undecided(self) -> bool:
        """Whether no candidate fails the gate, and there is one of which nothing can be said."""
        return not self.failed and any(one.gate.undecided or one.gate.unsettled for one in self.comparisons)

    @property
    def word(self) -> str:
        """`FAIL`, `UNDECIDED` or `PASS`, of all candidates together."""
        return "FAIL" if self.failed else "UNDECIDED" if self.undecided else "PASS"
