"""Do the intervals hold what they promise, and how often does the gate cry wolf?

    python benchmarks/coverage.py

Coverage of the nominal 95 % interval of a paired difference: Tango's (ours), the seed's percentile bootstrap (the rival) and
Newcombe's (the floor), by the pairs n, the share of pairs that flip ψ, and the true difference Δ. Tango's and the seed's depend on
the flips alone and are summed over every table of more than 1e-7 of the mass; Newcombe's needs all four cells and is simulated, as are
clusters. False alarms are those of the gates at Δ = 0. Seeded, on one core, in about a minute.

Exits with 1 where Tango covers less than 0.94, or the default gate, told to watch both directions, fails more than 0.055; a simulated
cell is given two standard errors.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from demur.measure.clusters import clustered_difference
from demur.measure.decision import gate_of, rate_severity
from demur.measure.paired import paired_difference, percentile_interval
from demur.measure.special import normal_critical
from demur.model.comparison import ClusterSum, DiffSettings, GateMode, PairCounts
from demur.model.estimate import Direction

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

SIZES = (10, 30, 100, 300, 1000)
CELLS = (
    (0.02, 0.0),
    (0.05, 0.0),
    (0.1, 0.0),
    (0.2, 0.0),
    (0.4, 0.0),
    (0.05, 0.02),
    (0.05, 0.05),
    (0.1, 0.05),
    (0.2, 0.1),
    (0.2, 0.15),
    (0.4, 0.15),
    (0.4, 0.33),
)
CLUSTERED = (
    (10, 20, 0.3, 0.0),
    (30, 20, 0.3, 0.0),
    (30, 20, 0.3, 0.1),
    (30, 20, 0.01, 0.0),
    (100, 5, 0.1, 0.05),
    (100, 5, 0.3, 0.0),
)
"""Sessions, turns in each, intraclass correlation of each run, true difference."""
LEAST_COVERAGE, MOST_ALARMS = 0.94, 0.055
LIGHT = 1e-7
DRAWS, CLUSTER_DRAWS = 20_000, 2000
GATES = (DiffSettings(gate_on=Direction.BOTH), DiffSettings(), DiffSettings(gate=GateMode.SEED))
Z = normal_critical(0.05)


class Said(NamedTuple):
    """What a table of flips gives: both intervals, and whether each of `GATES` fails."""

    tango: tuple[float, float]
    seed: tuple[float, float]
    fails: tuple[bool, ...]


@cache
def said(b: int, c: int, n: int) -> Said:
    """Return what the code under test makes of b and c flips in n pairs."""
    found = paired_difference(PairCounts(0, b, c, n - b - c))
    seed = percentile_interval(b, c, n)
    severity = rate_severity(found.value, *seed)
    fails = tuple(gate_of(found, severity, settings).failed for settings in GATES)
    return Said((found.interval.low, found.interval.high), seed, fails)


def tables(n: int, share: float, delta: float) -> Iterator[tuple[int, int, float]]:
    """Yield each (b, c) with its chance, the lightest left out."""
    up, down, same = (share + delta) / 2, (share - delta) / 2, 1 - share
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    for c in range(n + 1):
        b = np.arange(n - c + 1) if down > 0 else np.array([0])
        weight = b * math.log(down) if down > 0 else 0.0
        log = logs[n] - logs[c] - logs[b] - logs[n - c - b] + c * math.log(up) + weight + (n - c - b) * math.log(same)
        for one in np.flatnonzero(log > math.log(LIGHT)):
            yield int(b[one]), c, math.exp(log[one])


def exact(n: int, share: float, delta: float) -> tuple[float, float, list[float]]:
    """Return the coverage of Tango's and of the seed's interval, and how often each gate fails."""
    total = tango = seed = 0.0
    fails = [0.0] * len(GATES)
    for b, c, chance in tables(n, share, delta):
        result = said(b, c, n)
        total += chance
        tango += chance * holds(result.tango, delta)
        seed += chance * holds(result.seed, delta)
        fails = [f + chance * failed for f, failed in zip(fails, result.fails, strict=True)]
    return tango / total, seed / total, [f / total for f in fails]


def holds(interval: tuple[float, float], delta: float) -> bool:
    """Return whether an interval holds the truth; rounding at its very end is forgiven."""
    return interval[0] - 1e-9 <= delta <= interval[1] + 1e-9


def wilson_ends(share: Floats, n: int) -> tuple[Floats, Floats]:
    """Return Wilson's interval of many shares."""
    centre, scale = share + Z * Z / (2 * n), 1 + Z * Z / n
    reach = Z * np.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return (centre - reach) / scale, (centre + reach) / scale


def newcombe(n: int, share: float, delta: float, *, rng: np.random.Generator) -> float:
    """Return the simulated coverage of Newcombe's paired interval (1998, method 10); a twentieth of the rest refuses twice."""
    same = 1 - share
    cells = rng.multinomial(n, [same / 20, (share - delta) / 2, (share + delta) / 2, same * 19 / 20], size=DRAWS)
    both, b, c, neither = cells.T.astype(float)
    before, after = (both + b) / n, (both + c) / n
    (low1, high1), (low2, high2) = wilson_ends(after, n), wilson_ends(before, n)
    # With the continuity correction of the paper where the correlation is positive.
    shared = both * neither - b * c
    shared = np.where(shared > 0, np.maximum(shared - n / 2, 0), shared)
    spread = np.sqrt((both + b) * (c + neither) * (both + c) * (b + neither))
    phi = np.divide(shared, spread, out=np.zeros(DRAWS), where=spread > 0)
    down, up = after - low1, high2 - before
    low = after - before - np.sqrt(np.maximum(0, down**2 - 2 * phi * down * up + up**2))
    up, down = high1 - after, before - low2
    high = after - before + np.sqrt(np.maximum(0, up**2 - 2 * phi * up * down + down**2))
    return float(np.mean((low <= delta) & (delta <= high)))


def clustered(sessions: int, turns: int, icc: float, *, delta: float, rng: np.random.Generator) -> list[float]:
    """Return the coverage, then the rejections of no change, each by clusters and as if pairs stood alone."""
    hits = np.zeros(4)
    for _ in range(CLUSTER_DRAWS):
        before, after = (refusals(rate, sessions, turns, icc=icc, rng=rng) for rate in (0.2, 0.2 + delta))
        b, c = (before & ~after).sum(axis=1), (after & ~before).sum(axis=1)
        counts = PairCounts(int((before & after).sum()), int(b.sum()), int(c.sum()), int((~before & ~after).sum()))
        sums = [ClusterSum(net, turns, many) for net, many in Counter((c - b).tolist()).items()]
        ours, naive = clustered_difference(counts, sums)[0], paired_difference(counts)
        covers = [holds((found.interval.low, found.interval.high), delta) for found in (ours, naive)]
        hits += [*covers, ours.p <= 0.05, naive.p <= 0.05]
    return [float(share) for share in hits / CLUSTER_DRAWS]


def refusals(rate: float, sessions: int, turns: int, *, icc: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return which turns of which session refuse, where sessions differ in their own rate."""
    own = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), size=(sessions, 1))
    return rng.random((sessions, turns)) < own


def print_pairs(rng: np.random.Generator) -> list[str]:
    """Print the table of independent pairs, and return what missed."""
    missed = []
    print(f"{'n':>5} {'ψ':>5} {'Δ':>5}   tango  newcombe  seed    false alarms: both ways  default  seed's")
    for n in SIZES:
        for share, delta in CELLS:
            tango, seed, (both, default, rival) = exact(n, share, delta)
            floor = newcombe(n, share, delta, rng=rng)
            alarms = "" if delta else f"{both:24.4f} {default:8.4f} {rival:7.4f}"
            print(f"{n:5} {share:5.2f} {delta:5.2f}   {tango:.4f}  {floor:.4f}   {seed:.4f}  {alarms}")
            if tango < LEAST_COVERAGE:
                missed.append(f"tango covers {tango:.4f} at n = {n}, ψ = {share}, Δ = {delta}")
            if not delta and both > MOST_ALARMS:
                missed.append(f"the gate fails {both:.4f} at n = {n}, ψ = {share}")
        said.cache_clear()
    return missed


def print_clusters(rng: np.random.Generator) -> list[str]:
    """Print the table of clusters, and return what missed."""
    missed = []
    print(f"\n{'G':>5} {'turns':>5} {'icc':>5} {'Δ':>5}   coverage: clusters  pairs    p <= 0.05: clusters  pairs")
    for sessions, turns, icc, delta in CLUSTERED:
        ours, naive, rejects, naively = clustered(sessions, turns, icc, delta=delta, rng=rng)
        print(
            f"{sessions:5} {turns:5} {icc:5.2f} {delta:5.2f}   {ours:18.4f} {naive:6.4f} {rejects:22.4f} {naively:6.4f}"
        )
        doubt = 2 * math.sqrt(0.05 * 0.95 / CLUSTER_DRAWS)
        if ours < LEAST_COVERAGE - doubt:
            missed.append(f"tango by clusters covers {ours:.4f} at G = {sessions}, icc = {icc}, Δ = {delta}")
        if not delta and rejects > MOST_ALARMS + doubt:
            missed.append(f"the sign-flip test rejects {rejects:.4f} at G = {sessions}, icc = {icc}")
    return missed


def main() -> int:
    """Print both tables; 1 where a cell missed."""
    start, rng = time.perf_counter(), np.random.default_rng(20260101)
    missed = print_pairs(rng) + print_clusters(rng)
    print(f"\n{time.perf_counter() - start:.0f} s; {len(missed)} cells missed")
    for line in missed:
        print(line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
