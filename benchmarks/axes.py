"""Does the drift test keep its level, does the median's interval cover, and how long does a large run take?

    python benchmarks/axes.py

The level of the fingerprint's T² at 10, 30 and 100 pairs without any change, beside that of the textbook F test on the same differences (the
rival); the coverage of the interval of a median's shift; the time of 1,000 resamples of 100,000 pairs beside drawing every pair
(the floor). Seeded, on one core, in about two minutes.

Exits with 1 where a level is outside 0.03 to 0.07, or the resamples take more than two seconds of processor time.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.fingerprint import DIMENSIONS, fingerprint_shift
from demur.measure.special import incomplete_beta
from demur.measure.value_axis import median_shift

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

SIZES = (10, 30, 100)
RUNS = 2000
MANY = len(DIMENSIONS)
FLAGS = [DIMENSIONS.index(name) for name in ("stop_end_turn", "stop_tool_use", "refusal_flag", "error_token_flag")]


def answers(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Return the features of two runs of one model: a question's own level in both, heavy-tailed chance on top, rare flags."""
    level = rng.normal(size=(n, MANY))
    sides = [level + rng.standard_t(4, size=(n, MANY)) for _ in range(2)]
    for side in sides:
        side[:, FLAGS] = rng.random((n, len(FLAGS))) < 0.1
    return sides[0], sides[1]


def textbook_p(moved: Floats) -> float:
    """Return the p of Hotelling's T² by the F distribution; 1 where the covariance cannot be inverted."""
    n, many = moved.shape
    spread = np.cov(moved, rowvar=False)
    if n <= many or np.linalg.matrix_rank(spread) < many:
        return 1.0
    mean = moved.mean(axis=0)
    f = n * float(mean @ np.linalg.solve(spread, mean)) * (n - many) / ((n - 1) * many)
    # The upper tail of F(many, n - many), by the incomplete beta function.
    return incomplete_beta((n - many) / (n - many + many * f), (n - many) / 2, many / 2)


def levels() -> bool:
    """Print the share of false alarms by size; return whether ours are as promised."""
    kept = True
    for n in SIZES:
        rng = np.random.default_rng(n)
        ours = theirs = 0
        for i in range(RUNS):
            before, after = answers(rng, n)
            ours += fingerprint_shift(before, after, seed=i).p <= 0.05
            theirs += textbook_p(after - before) <= 0.05
        kept &= 0.03 <= ours / RUNS <= 0.07
        print(f"false alarms at n = {n:3}: ours {ours / RUNS:.3f}, textbook F {theirs / RUNS:.3f}")
    return kept


def coverage() -> None:
    """Print how often the interval of a median's shift holds the truth."""
    for n in SIZES:
        rng = np.random.default_rng(n)
        held = 0
        for i in range(RUNS // 2):
            before = rng.lognormal(3, 1, n)
            after = before * rng.lognormal(np.log(1.2), 0.2, n)
            # The median of a product of independent lognormals is the product of their medians.
            truth = np.exp(3) * 0.2
            found = median_shift(before.tolist(), after.tolist(), seed=i).interval
            held += found.low <= truth <= found.high
        print(f"coverage of the median's interval at n = {n:3}: {held / (RUNS // 2):.3f}")


def speed() -> bool:
    """Print the time of a large run and that of plain resampling; return whether ours is within two seconds."""
    rng = np.random.default_rng(1)
    before = rng.lognormal(5, 1, 100_000)
    after = before * rng.lognormal(0.01, 0.3, 100_000)
    begun = time.process_time()
    median_shift(before.tolist(), after.tolist(), seed=1)
    ours = time.process_time() - begun
    begun = time.process_time()
    for _ in range(20):
        drawn = rng.integers(0, len(before), len(before))
        float(np.median(after[drawn]) - np.median(before[drawn]))
    plain = (time.process_time() - begun) * 50
    print(f"1,000 resamples of 100,000 pairs: ours {ours:.2f} s, drawing all {plain:.1f} s, ratio {plain / ours:.1f}")
    return ours <= 2


def main() -> int:
    """Run all; 0 where the promises hold."""
    return 0 if all([levels(), speed(), coverage() is None]) else 1


if __name__ == "__main__":
    sys.exit(main())
