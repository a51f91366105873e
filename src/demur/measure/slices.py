"""Which of many comparisons stand out? False-discovery q values (Benjamini and Hochberg 1995).

Laws: q >= p; the order of p is that of q; of those with q <= 0.05 about one in twenty is expected to be chance; no p, no q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["false_discovery"]


def false_discovery(p: Sequence[float]) -> tuple[float, ...]:
    """Return the q value of each p, in their order; holds for independent tests and for those that rise together."""
    many = len(p)
    q = [1.0] * many
    least = 1.0
    for rank, index in zip(range(many, 0, -1), sorted(range(many), key=lambda i: -p[i]), strict=True):
        least = min(least, p[index] * (many / rank))
        q[index] = least
    return tuple(q)
