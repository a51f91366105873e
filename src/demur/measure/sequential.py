"""Did refusals change, asked after every pair: a paid evaluation may stop as soon as the answer is known.

Notation: b pairs abstained in the baseline alone, c in the candidate alone, of n so far; Δ = P(c) - P(b). Pairs are taken as independent, and
each as likely as the next to flip either way. What is said holds at every n at once (Ville 1939): the chance that it is *ever* wrong is at most
alpha, however often one looks and for whatever reason one stops. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from demur.measure.paired import agreeing_interval
from demur.measure.special import boundary
from demur.measure.watching import paired_evidence
from demur.model.comparison import GateResult
from demur.model.estimate import Difference, Direction, Evidence, Interval

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demur.model.comparison import DiffSettings, PairCounts

__all__ = ["anytime_difference", "difference_sequence", "flip_evidence", "sequential_gate"]

# Bets between 0 and all of what there is, as the arcsine law spreads them (Jeffreys' prior of a share, as in `paired_evidence`).
_BETS = np.cos(np.pi * (2 * np.arange(1, 513) - 1) / 2048)


def flip_evidence(flips: Iterable[tuple[int, bool]], pairs: int, *, alpha: float = 0.05) -> Evidence:
    """Return the evidence after `pairs` pairs; `flips` are the numbers (from 1) of those that flipped, and whether to a refusal.

    The highest evidence counts, not the last: that is what Ville's inequality bounds. Of it only what was reached while flips leaned the way
    they lean now. No flips: 1.
    """
    up = down = 0
    highest, proven = {True: 1.0, False: 1.0}, dict[bool, int]()
    for number, is_rise in flips:
        up, down = up + is_rise, down + (not is_rise)
        found = paired_evidence(down, up)
        leans_up = up > down
        highest[leans_up] = max(highest[leans_up], found)
        if found >= 1 / alpha:
            proven.setdefault(leans_up, number)
    leans_up = up > down
    return Evidence(paired_evidence(down, up), highest[leans_up], proven.get(leans_up), pairs)


def anytime_difference(counts: PairCounts, evidence: float, *, alpha: float = 0.05) -> Difference:
    """Return Δ with a confidence sequence and p = 1/evidence, which agree about 0; no pairs: 0 in [-1, 1] at p = 1."""
    p = min(1.0, 1 / evidence)
    interval = difference_sequence(counts.baseline_only, counts.candidate_only, counts.n, alpha=alpha)
    low, high = agreeing_interval(interval, p=p, alpha=alpha, delta=counts.delta)
    return Difference(counts.delta, Interval(low, high, "confidence sequence", 1 - alpha), p, counts.n)


def difference_sequence(b: int, c: int, n: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """Return the differences m that no bet against them has disproved: an interval that holds at every n at once.

    A bet u wins or loses the share u(x - m)/(1 + m) of what there is, x = 1, 0 or -1 for each pair: while Δ is at most m that is no better
    than a fair game, and it can never lose more than all (Waudby-Smith and Ramdas 2024, JRSS B 86:1). Each side has half of alpha, and spreads
    it over bets fixed beforehand. n = 0: [-1, 1]; b = c = 0: symmetric about 0; every pair flipped one way: that end is 1.
    """
    if not n:
        return -1.0, 1.0
    return _lower_end(b, c, n, alpha=alpha), -_lower_end(c, b, n, alpha=alpha)


def _lower_end(b: int, c: int, n: int, *, alpha: float) -> float:
    most, delta = math.log(2 / alpha), (c - b) / n

    # The evidence falls as m grows, and at Δ's estimate it is at most 1: one boundary lies below.
    def kept(m: float) -> bool:
        win, tie = _BETS * (1 - m) / (1 + m), -_BETS * m / (1 + m)
        logs = c * np.log1p(win) + (n - b - c) * np.log1p(tie) + b * np.log1p(-_BETS)
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).mean())) < most

    return boundary(kept, delta, -1.0) if delta > -1 else -1.0


def sequential_gate(difference: Difference, gate: GateResult, settings: DiffSettings) -> GateResult:
    """Return whether to stop: failed where the change is proven and as large as the gate asks, passed where a change of the margin is excluded.

    Anything else is undecided: go on. `gate` is what the usual rule says of this difference.
    """
    low, high, margin = difference.interval.low, difference.interval.high, settings.prove_no_increase
    ends = f"{100 * low:+.1f} to {100 * high:+.1f} points at any time"
    bound = settings.margin if margin is None else margin
    size = f"{100 * bound:g} points"
    failed = gate.failed if margin is None else low > bound
    rise, fall = high < bound, low > -bound
    ways = {Direction.INCREASE: rise, Direction.DECREASE: fall, Direction.BOTH: rise and fall}
    passed = not failed and (rise if margin is not None else ways[settings.gate_on])
    if failed:
        why = (
            f"stop: proven, {gate.why}"
            if margin is None
            else f"stop: proven, refusals rose by more than {size} ({ends})"
        )
    elif passed:
        verbs = {Direction.INCREASE: "rise", Direction.DECREASE: "fall", Direction.BOTH: "change"}
        verb = "rise" if margin is not None else verbs[settings.gate_on]
        why = f"stop: proven, refusals did not {verb} by {size} or more ({ends})"
    else:
        why = f"go on: neither a change nor its absence is proven ({ends})"
    undecided = not (failed or passed)
    return GateResult(gate.mode, gate.direction, gate.fail_on, failed, why, unsettled=undecided, undecided=undecided)
