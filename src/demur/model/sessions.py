"""What the rows of some sessions add up to: all that is needed to know what they are worth.

Sessions are independent of each other, and nothing is assumed within them; rows without a session are sessions of one row.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SessionSums"]

# A spread needs two.
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class SessionSums:
    """Sums over sessions: how many there are, their rows M, how many of these abstained K, and the sums of K², KM and M²."""

    sessions: int = 0
    rows: int = 0
    abstained: int = 0
    squares: int = 0
    products: int = 0
    sizes: int = 0

    @classmethod
    def of_rows(cls, abstained: int, rows: int) -> SessionSums:
        """Return the sums of rows of which each stands alone."""
        return cls(rows, rows, abstained, abstained, abstained, rows)

    def less(self, part: SessionSums) -> SessionSums:
        """Return the sums without a part of them, whose `sessions` are those that it holds whole."""
        return SessionSums(
            self.sessions - part.sessions,
            self.rows - part.rows,
            self.abstained - part.abstained,
            self.squares - part.squares,
            self.products - part.products,
            self.sizes - part.sizes,
        )

    @property
    def is_grouped(self) -> bool:
        """Whether some session has several rows."""
        return self.sessions < self.rows

    @property
    def design_effect(self) -> float:
        """The variance of the rate between sessions (CR1) over that of as many independent rows, at least 1.

        Single rows, and none at all: 1. None or all abstained, or one session: nothing shows how far rows move together, so that
        each session counts as one row.
        """
        if self.sessions == self.rows:
            return 1.0
        share = self.abstained / self.rows
        if share in (0, 1) or self.sessions < _FEWEST:
            return self.rows / self.sessions
        apart = self.squares - 2 * share * self.products + share * share * self.sizes
        small = self.sessions / (self.sessions - 1)
        return max(1.0, apart * small / (self.rows * share * (1 - share)))
