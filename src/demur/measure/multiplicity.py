"""p-values adjusted for multiple tests: Holm's method across axes, false discovery within one.

Adjusted p >= p, their order is kept, and one test alone is unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HOLM", "false_discovery", "holm"]

HOLM = "p held against all tested axes by Holm's method: the chance of even one false alarm stays below alpha"


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return each p adjusted by Holm's step-down method, in their order; None for None."""
    # Holm (1979, Scandinavian Journal of Statistics 6:65) bounds the chance of even one false alarm by alpha, whatever the
    # dependence between the tests. Chosen over false discovery because a gate fails on any single axis, and because axes of the
    # same pairs depend on each other in no known way. A missing p costs the others nothing.
    tested = sorted((value, index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, index) in enumerate(tested):
        least = max(least, min(1.0, value * (len(tested) - rank)))
        adjusted[index] = least
    return tuple(adjusted)


def false_discovery(p: Sequence[float]) -> tuple[float, ...]:
    """Return the q value of each p, in their order; holds for independent tests and for those that rise together."""
    # For lists that are read and not gated on: there the share of false alarms matters, not a single one.
    many = len(p)
    q = [1.0] * many
    least = 1.0
    for rank, index in zip(range(many, 0, -1), sorted(range(many), key=lambda i: -p[i]), strict=True):
        least = min(least, p[index] * (many / rank))
        q[index] = least
    return tuple(q)
