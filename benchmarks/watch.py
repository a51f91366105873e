"""How often does `demur watch` alarm falsely, how soon does it see a change, and does it date it well?

    python benchmarks/watch.py

False alarms and delays are those of a vectorised copy of the process, which has to agree with `watch_rows` on every stream that both are
given. The rival of the delays is the Shiryaev-Roberts mixture alone: the same alternatives, all starts alike, alarm at rows/alpha. Dates are
those of `watch_rows` itself. Seeded, on one core, in about three minutes.

Exits with 1 where a share of false alarms exceeds alpha by more than two standard errors, a late change is seen later than 1.1 times the
rival's delay, or an early one later than the 544 rows that cumulative sums needed.
"""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.watching import STEPS, WEIGHTS, Band, WatchState, close_sessions, factors, unspent, watch_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]

ALPHA, ROWS = 0.05, 1_000_000
NULLS = (
    (0.01, 0.01, 0.01),
    (0.05, 0.05, 0.05),
    (0.2, 0.2, 0.2),
    (0.5, 0.5, 0.5),
    (0.03, 0.08, 0.03),
    (0.03, 0.08, 0.05),
    (0.03, 0.08, 0.08),
)
"""The ends of the band, and the rate."""
CHANGES = ((0.01, 0.03, 2000, 6000), (0.05, 0.1, 2000, 4000), (0.05, 0.15, 2000, 2000), (0.01, 0.02, 5000, 15_000))
EARLY = (0.01, 0.03, 50, 5000)
"""The rate before, after, the rows before, and at most after."""
SESSIONS = ((0.05, 0.1), (0.05, 0.3), (0.05, 0.7), (0.2, 0.3))
"""The rate, and the intraclass correlation of the ten rows of a session."""
TURNS, EARLY_GOAL, LATE_GOAL = 10, 544, 1.1


def main() -> int:
    """Print the tables, and return 1 where a figure is missed."""
    parts = (check_copy, false_alarms, session_alarms, delays, dates)
    missed = [part(np.random.default_rng((20261117, n))) for n, part in enumerate(parts)]
    return int(any(missed))


def alarms(drawn: Ints, band: Band, rows: int, *, rival: bool = False) -> Ints:
    """Return the session (from 1) at which each stream alarms, 0 where it never does.

    Each row of `drawn` is a stream, each number a session: its bits are its rows, the lowest first, 1 where it was refused.
    """
    streams, length = drawn.shape
    table = np.array(
        [
            factors(band.high, bits(drawn, rows), rows) + factors(1 - band.low, bits(~drawn, rows), rows)
            for drawn in range(1 << rows)
        ]
    )
    weights = np.array(WEIGHTS + WEIGHTS) / 2
    bets, found = np.zeros((streams, 2 * len(STEPS))), np.zeros(streams, dtype=np.int64)
    left = [0.0] * (length + 1) if rival else [unspent(seen, band.rows) for seen in range(length + 1)]
    for seen, (before, after) in enumerate(pairwise(left)):
        bets += (1 / band.rows if rival else before - after) * weights
        bets *= table[drawn[:, seen]]
        found[(found == 0) & (bets.sum(axis=1) + after >= 1 / band.alpha)] = seen + 1
        if found.all():
            break
    return found


def bits(drawn: int, rows: int) -> tuple[int, ...]:
    """Return the rows (from 1) whose bit is set."""
    return tuple(row + 1 for row in range(rows) if drawn >> row & 1)


def check_copy(rng: np.random.Generator) -> bool:
    """Return whether the copy disagrees with `watch_rows` anywhere."""
    wrong = 0
    for rows, before, after in ((1, 0.05, 0.15), (TURNS, 0.05, 0.3), (1, 0.2, 0.05)):
        band = Band(before, before, ROWS)
        rates = np.repeat([before, after], [900, 300])
        hits = rng.random((10, len(rates), rows)) < rates[None, :, None]
        for stream, alarm in zip(hits, alarms(hits @ (1 << np.arange(rows)), band, rows), strict=True):
            sessions = enumerate(stream.tolist())
            given = [(hit, key if rows > 1 else None) for key, session in sessions for hit in session]
            state = close_sessions(watch_rows(WatchState(), band, given), band)
            wrong += (state.history.sums.sessions if state.alarm else 0) != alarm
    print(f"the copy disagrees with `watch_rows` on {wrong} of 30 streams\n")
    return wrong > 0


def false_alarms(rng: np.random.Generator) -> bool:
    """Print how often streams that stay in their band alarm."""
    print("| band, rate | rows | streams | false alarms |\n|---|---|---|---|")
    missed = False
    cases = [(*case, 10_000, 2000) for case in NULLS] + [(0.05, 0.05, 0.05, 100_000, 300)]
    for low, high, rate, length, streams in cases:
        counts = (rng.random((streams, length), dtype=np.float32) < rate).astype(np.int8)
        share = float((alarms(counts, Band(low, high, ROWS, ALPHA), 1) > 0).mean())
        missed |= share > bound(streams)
        ends = f"{low:.0%}" if low == high else f"{low:.0%} to {high:.0%}"
        print(f"| {ends}, {rate:.0%} | {length:,} | {streams:,} | {share:.3f} |", flush=True)
    return missed


def session_alarms(rng: np.random.Generator) -> bool:
    """Print how often streams of sessions that stay at their rate alarm, and how soon a change is seen."""
    print(
        "\n| sessions of ten | false alarms, 10,000 rows | delay to three times the rate: median, 90 % | to a quarter |"
    )
    print("|---|---|---|---|")
    missed = False
    for rate, icc in SESSIONS:
        band = Band(rate, rate, ROWS, ALPHA)
        share = float((alarms(sessions(rng, rate, icc, (1000, 1000)), band, TURNS) > 0).mean())
        missed |= share > bound(1000)
        shown = []
        for after in (3 * rate, rate / 4):
            parts = [sessions(rng, each, icc, (300, size)) for each, size in ((rate, 200), (after, 2500))]
            middle, most = late_by(alarms(np.concatenate(parts, axis=1), band, TURNS), 200)
            shown.append(f"{TURNS * middle:,.0f}, {TURNS * most:,.0f} rows")
        print(f"| {rate:.0%}, ICC {icc:g} | {share:.3f} | {shown[0]} | {shown[1]} |", flush=True)
    return missed


def sessions(rng: np.random.Generator, rate: float, icc: float, shape: tuple[int, int]) -> Ints:
    """Return sessions of ten rows, as bits, whose rates are drawn from a beta distribution."""
    scale = (1 - icc) / icc
    rates = rng.beta(rate * scale, (1 - rate) * scale, size=shape)
    drawn: Ints = (rng.random((*shape, TURNS), dtype=np.float32) < rates[..., None]) @ (1 << np.arange(TURNS))
    return drawn


def delays(rng: np.random.Generator) -> bool:
    """Print how many rows after a change it is seen, beside the rival."""
    print("\n| change | demur watch: median, 90 % | SR mixture alone | ratio of medians |\n|---|---|---|---|")
    missed = False
    for before, after, at, more in (*CHANGES, EARLY):
        rates = np.repeat([before, after], [at, more])
        counts = (rng.random((1000, at + more), dtype=np.float32) < rates).astype(np.int8)
        band = Band(before, before, ROWS, ALPHA)
        ours, theirs = (late_by(alarms(counts, band, 1, rival=rival), at) for rival in (False, True))
        ratio = ours[0] / theirs[0]
        missed |= ours[0] > EARLY_GOAL if at == EARLY[2] else ratio > LATE_GOAL
        name = f"{before:.0%} to {after:.0%} after {at:,} rows"
        print(
            f"| {name} | {ours[0]:,.0f}, {ours[1]:,.0f} | {theirs[0]:,.0f}, {theirs[1]:,.0f} | {ratio:.2f} |",
            flush=True,
        )
    return missed


def late_by(found: Ints, at: int) -> tuple[float, float]:
    """Return the median and the 90 % quantile of the delay; never is later than any row."""
    late = np.where(found == 0, np.inf, found - float(at))[(found == 0) | (found > at)]
    middle, most = np.quantile(late, (0.5, 0.9), method="inverted_cdf")
    return float(middle), float(most)


def dates(rng: np.random.Generator) -> bool:
    """Print how often the rows and the rates that an alarm states hold the truth."""
    print(
        "\n| change | row within its interval | its median error | rate since within its interval |\n|---|---|---|---|"
    )
    for before, after, at, more, icc in (
        (0.05, 0.15, 2000, 3000, 0),
        (0.01, 0.03, 2000, 6000, 0),
        (0.2, 0.5, 2000, 4000, 0.3),
    ):
        band, errors, dated, rated = Band(before, before, ROWS, ALPHA), [], 0, 0
        for _ in range(200):
            alarm = watch_rows(WatchState(), band, stream_of(rng, before, after, at=at, more=more, icc=icc)).alarm
            if alarm is None or alarm.row <= at:
                continue
            change = alarm.change
            errors.append(abs(change.since - at - 1))
            dated += change.earliest <= at + 1 <= change.latest
            rated += change.interval.low <= after <= change.interval.high
        name = f"{before:.0%} to {after:.0%} after {at:,}" + (f", ICC {icc:g}" if icc else "")
        print(
            f"| {name} | {dated / len(errors):.3f} | {np.median(errors):,.0f} rows | {rated / len(errors):.3f} |",
            flush=True,
        )
    return False


def stream_of(
    rng: np.random.Generator, before: float, after: float, *, at: int, more: int, icc: float
) -> list[tuple[bool, int | None]]:
    """Return rows whose rate changes, alone or in sessions of ten."""
    if not icc:
        rows: Bools = rng.random(at + more) < np.repeat([before, after], [at, more])
        return [(hit, None) for hit in rows.tolist()]
    parts = [sessions(rng, rate, icc, (1, size // TURNS))[0] for rate, size in ((before, at), (after, more))]
    drawn = np.concatenate(parts).tolist()
    return [(bool(session >> row & 1), key) for key, session in enumerate(drawn) for row in range(TURNS)]


def bound(streams: int) -> float:
    """Return alpha and two standard errors."""
    return ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / streams)


if __name__ == "__main__":
    sys.exit(main())
