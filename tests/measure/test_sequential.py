"""A comparison that is looked at after every pair: its error holds at every look at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betaln

from demur.measure import sequential
from demur.measure.decision import gate_of
from demur.measure.paired import tango_interval
from demur.measure.watching import paired_evidence
from demur.model.comparison import Change, DiffSettings, PairCounts
from demur.model.estimate import Difference, Direction, Interval, Severity

ALPHA = 0.05


@pytest.mark.heavy
@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_false_alarms_when_looking_after_every_pair(share: float) -> None:
    """Without a change, evidence of 1/alpha is ever reached in at most 5 % of 2,000 streams of 2,000 pairs (plus two standard errors)."""
    rng = np.random.default_rng(18)
    flips = rng.random((2000, 2000)) < share
    ups = flips & (rng.random((2000, 2000)) < 0.5)
    up, all_flips = ups.cumsum(axis=1), flips.cumsum(axis=1)
    log_e = all_flips * math.log(2) + betaln(0.5 + up, 0.5 + all_flips - up) - math.log(math.pi)
    false_alarms = float((log_e.max(axis=1) >= math.log(1 / ALPHA)).mean())
    assert false_alarms <= ALPHA + 2 * math.sqrt(ALPHA * (1 - ALPHA) / 2000)
    # The formula above is the one that a run is judged by.
    one = [(int(i) + 1, bool(ups[0, i])) for i in np.flatnonzero(flips[0])]
    found = sequential.flip_evidence(one, 2000)
    assert found.now == pytest.approx(math.exp(log_e[0, -1]), rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize(("p_down", "p_up"), [(0.01, 0.01), (0.05, 0.08), (0.0, 0.3), (0.4, 0.5)])
def test_the_interval_covers_at_the_worst_moment(p_down: float, p_up: float) -> None:
    """The true difference is in the interval at the moment, known only afterwards, when it looks least likely: in at least 95 % of streams."""
    rng = np.random.default_rng(19)
    streams, n = 300, 600
    drawn = rng.random((streams, n))
    up, down = (drawn < p_up).cumsum(axis=1), (drawn > 1 - p_down).cumsum(axis=1)
    pairs, truth = np.arange(1, n + 1), p_up - p_down
    spread = np.sqrt((p_up + p_down - truth**2) / pairs)
    worst = (np.abs((up - down) / pairs - truth) / spread).argmax(axis=1)
    covered = 0
    for stream, at in enumerate(worst):
        low, high = sequential.difference_sequence(int(down[stream, at]), int(up[stream, at]), int(at) + 1)
        covered += low <= truth <= high
    assert covered / streams >= 1 - ALPHA - 2 * math.sqrt(ALPHA * (1 - ALPHA) / streams)


@pytest.mark.parametrize(("b", "c", "n"), [(0, 0, 100), (1, 7, 42), (20, 60, 1000), (0, 10, 10), (30, 30, 300)])
def test_the_interval_mirrors_and_is_wider_than_for_one_look(b: int, c: int, n: int) -> None:
    """Swapping the runs mirrors it, it holds the estimate, and looking often costs width."""
    low, high = sequential.difference_sequence(b, c, n)
    assert (low, high) == tuple(-end for end in reversed(sequential.difference_sequence(c, b, n)))
    assert low <= (c - b) / n <= high
    once = tango_interval(b, c, n, critical=1.959964)
    assert high - low > once[1] - once[0]


def test_the_interval_at_the_edges() -> None:
    """No pairs: [-1, 1]; all pairs flipped one way: that end is 1; it shrinks as pairs come."""
    assert sequential.difference_sequence(0, 0, 0) == (-1.0, 1.0)
    assert sequential.difference_sequence(0, 10, 10)[1] == 1.0
    assert sequential.difference_sequence(10, 0, 10)[0] == -1.0
    assert sequential.difference_sequence(0, 0, 1000)[1] < sequential.difference_sequence(0, 0, 100)[1] < 0.05


def test_the_highest_evidence_counts_and_says_when() -> None:
    """Seven flips one way are proof at the seventh, also where a flip the other way follows; none are no evidence."""
    flips = [(10 * i, True) for i in range(1, 8)]
    found = sequential.flip_evidence(flips, 100)
    assert (found.proven_at, found.now) == (70, paired_evidence(0, 7))
    later = sequential.flip_evidence([*flips, (90, False)], 100)
    assert (later.proven_at, later.highest) == (70, found.highest)
    assert later.now < found.now
    none = sequential.flip_evidence([], 100)
    assert none.now == pytest.approx(1.0)
    assert (none.highest, none.proven_at) == (1.0, None)


def test_evidence_for_the_other_direction_does_not_count() -> None:
    """Where flips lean another way than when the evidence was high, only what was found this way counts."""
    turned = [(i, False) for i in range(1, 8)] + [(i, True) for i in range(8, 16)]
    found = sequential.flip_evidence(turned, 20)
    assert found.proven_at is None
    assert found.highest < 1 / ALPHA


def test_the_interval_and_p_agree_about_zero() -> None:
    """0 is in the interval exactly where p is above alpha."""
    for b, c in [(0, 6), (0, 7), (3, 15), (3, 16), (20, 40), (20, 45)]:
        found = sequential.anytime_difference(PairCounts(5, b, c, 200), paired_evidence(b, c))
        assert (found.p <= ALPHA) is not (found.interval.low <= 0 <= found.interval.high)


@pytest.mark.parametrize(
    ("low", "high", "value", "way", "margin", "word"),
    [
        (0.02, 0.30, 0.15, Direction.INCREASE, None, "FAIL"),
        (-0.30, -0.02, -0.15, Direction.INCREASE, None, "PASS"),
        (-0.30, -0.02, -0.15, Direction.DECREASE, None, "FAIL"),
        (-0.04, 0.04, 0.0, Direction.BOTH, None, "PASS"),
        (-0.10, 0.04, 0.0, Direction.BOTH, None, "UNDECIDED"),
        (-0.10, 0.04, 0.0, Direction.INCREASE, None, "PASS"),
        (-0.10, 0.10, 0.0, Direction.INCREASE, None, "UNDECIDED"),
        (-0.01, 0.04, 0.0, Direction.INCREASE, 0.02, "UNDECIDED"),
        (-0.01, 0.01, 0.0, Direction.INCREASE, 0.02, "PASS"),
        (0.03, 0.09, 0.05, Direction.INCREASE, 0.02, "FAIL"),
    ],
)
def test_when_to_stop(low: float, high: float, value: float, way: Direction, margin: float | None, word: str) -> None:
    """Stop where a change is proven or excluded, go on where neither is."""
    difference = Difference(value, Interval(low, high, "confidence sequence"), 0.01 if low * high > 0 else 1.0, 400)
    settings = DiffSettings(gate_on=way, prove_no_increase=margin)
    usual = gate_of(difference, Severity.SEVERE, settings, decision=Change.INCONCLUSIVE)
    found = sequential.sequential_gate(difference, usual, settings)
    assert found.word == word
    assert found.why.startswith("go on" if word == "UNDECIDED" else "stop: proven")
    assert found.unsettled is (word == "UNDECIDED")
