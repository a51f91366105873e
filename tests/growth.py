"""How a test sees that time grows with the input and not with its square: by a smaller input in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

# The limit is `ratio` to this power: as far, by factors, from the line as from the square.
_HALFWAY = 1.5
_ROUNDS = 5
# Below this the clock and what any call costs are as large as the work.
_LEAST_S = 0.002


def assert_linear(work: Callable[[T], object], few: T, many: T, *, ratio: float) -> None:
    """Fail unless `many`, which is `ratio` times as long as `few`, takes about `ratio` times its processor time.

    Processor time, since the turns of other processes do not count in it; the least of several rounds, since the
    caches that they empty and our own garbage collection do. It is repeated only where it looks too long.
    """
    few_s = min(_cpu_s(work, few) for _ in range(3))
    many_s = _cpu_s(work, many)
    for _ in range(_ROUNDS):
        if many_s <= ratio**_HALFWAY * max(few_s, _LEAST_S):
            return
        few_s = min(few_s, _cpu_s(work, few))
        many_s = min(many_s, _cpu_s(work, many))
    pytest.fail(f"{ratio:g} times the input took {many_s / few_s:.1f} times as long ({few_s:.4f} s, {many_s:.4f} s)")


def _cpu_s(work: Callable[[T], object], given: T) -> float:
    start_s = time.process_time()
    work(given)
    return time.process_time() - start_s
