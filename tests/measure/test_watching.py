"""A stream that keeps its rate is left alone, one that changes is found, and looking often costs nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.measure import watching
from demur.measure.watching import Band, CusumRule, CusumState, WatchState, advance, rate_evidence, watch_rows
from demur.model.estimate import Direction

ROWS = st.lists(st.booleans(), max_size=80)


@given(ROWS, ROWS)
def test_pieces_are_the_whole(first: list[bool], second: list[bool]) -> None:
    """A stream taken in pieces ends in the state of the stream taken whole."""
    band = Band(0.2, 0.4, rows=1000)
    whole = watch_rows(WatchState(), band, first + second)
    assert watch_rows(watch_rows(WatchState(), band, first), band, second) == whole


def test_nothing_seen() -> None:
    """No rows are no evidence, no alarm, and any rate."""
    band = Band(0.05, 0.05)
    state = WatchState()
    assert (state.evidence(band), state.alarm) == (1.0, None)
    assert (state.interval(band).low, state.interval(band).high) == (0.0, 1.0)


@pytest.mark.heavy
def test_quiet_streams_stay_quiet() -> None:
    """Of streams at the edge of their band, looked at after every row, at most alpha alarm."""
    # Deterministic: 400 streams of 500 rows; with alpha = 0.2 the bound is loose by design, so 80 would be the limit.
    rng = np.random.default_rng(20261116)
    band = Band(0.05, 0.1, rows=500, alpha=0.2)
    streams = rng.random((400, 500)) < 0.1
    alarms = sum(watch_rows(WatchState(), band, row.tolist()).alarm is not None for row in streams)
    assert 0 < alarms <= 80


def test_a_sudden_rise_is_dated() -> None:
    """A rate that jumps after a long quiet time alarms soon, upwards, and says since when."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.random(5000) < 0.05, rng.random(400) < 0.25]).tolist()
    alarm = watch_rows(WatchState(), Band(0.05, 0.05, rows=10_000), rows).alarm
    assert alarm is not None
    assert alarm.direction is Direction.INCREASE
    assert 5000 < alarm.row < 5200
    assert alarm.since is not None
    assert 4950 < alarm.since < 5050


def test_a_slow_fall_is_found() -> None:
    """Refusals that are lost alarm as well, downwards."""
    rows = ([True] + [False] * 39) * 40
    alarm = watch_rows(WatchState(), Band(0.1, 0.2, rows=10_000), rows).alarm
    assert alarm is not None
    assert alarm.direction is Direction.DECREASE


@pytest.mark.parametrize(("edge", "hit", "way"), [(0.0, True, Direction.INCREASE), (1.0, False, Direction.DECREASE)])
def test_never_and_always(edge: float, hit: bool, way: Direction) -> None:  # noqa: FBT001 — a parameter of the case
    """Where the rate should be 0 or 1, the first row against it is proof."""
    band = Band(edge, edge)
    state = watch_rows(WatchState(), band, [not hit] * 50)
    assert state.alarm is None
    alarm = watch_rows(state, band, [hit]).alarm
    assert alarm is not None
    assert (alarm.row, alarm.direction) == (51, way)


def test_the_first_alarm_stays() -> None:
    """Rows after an alarm are counted and change nothing else."""
    band = Band(0.0, 0.0)
    state = watch_rows(WatchState(), band, [True])
    after = watch_rows(state, band, [False] * 100)
    assert (after.alarm, after.seen, after.abstained) == (state.alarm, 101, 1)


@pytest.mark.parametrize("asked", [{"low": 0.3}, {"low": -0.1}, {"alpha": 0.0}, {"step": 1.0}, {"rows": 0}])
def test_bands_that_are_none(asked: dict[str, float]) -> None:
    """A band has two ends in order, a step, an alpha and rows."""
    with pytest.raises(UsageError):
        Band(**{"low": 0.1, "high": 0.2, **asked})  # type: ignore[arg-type]  # rows among the floats on purpose


COUNTS = st.integers(0, 300)


@pytest.mark.parametrize(
    ("b", "c", "e"),
    [
        (0, 4, 4.375),
        (0, 7, 26.81249999999999),
        (0, 8, 50.27343749999999),
        (2, 9, 2.5898437500000004),
        (5, 20, 19.485280752182017),
        (5, 40, 630235.3732362526),
    ],
)
def test_paired_evidence(b: int, c: int, e: float) -> None:
    """The evidence of flips is 2^(b+c) B(½+c, ½+b) / B(½, ½)."""
    # By scipy.special.beta: its value at (.5 + c, .5 + b) over that at (.5, .5), times 2**(b + c).
    assert watching.paired_evidence(b, c) == pytest.approx(e, rel=1e-12)


def test_known_rate() -> None:
    """Twelve in a hundred against 0.05: the worked evidence, and the worked confidence sequence."""
    # scipy.special.betaln and scipy.optimize.brentq on log e = log 20
    assert rate_evidence(12, 100, p0=0.05) == pytest.approx(3.4450691791026467, rel=1e-12)
    sequence = watching.confidence_sequence(12, 100)
    assert (sequence.low, sequence.high) == pytest.approx((0.03998781041700888, 0.2538546058597731), abs=1e-10)


@given(COUNTS, COUNTS)
def test_flips_are_a_fair_game(b: int, c: int) -> None:
    """While flips are as likely either way, evidence stays on average where it is, so looking often costs nothing."""
    assert (watching.paired_evidence(b + 1, c) + watching.paired_evidence(b, c + 1)) / 2 == pytest.approx(
        watching.paired_evidence(b, c), rel=1e-9
    )


@given(COUNTS, COUNTS, st.floats(0.01, 0.99))
def test_a_known_rate_is_a_fair_game(count: int, other: int, p0: float) -> None:
    """While the rate is p0, evidence stays on average where it is."""
    n = count + other
    after = p0 * rate_evidence(count + 1, n + 1, p0=p0) + (1 - p0) * rate_evidence(count, n + 1, p0=p0)
    assert after == pytest.approx(rate_evidence(count, n, p0=p0), rel=1e-9)


@given(COUNTS, COUNTS)
def test_the_sequence_is_the_rates_with_little_evidence(count: int, other: int) -> None:
    """The ends of the sequence have evidence 20, the share lies inside, and 0 and n end at the end."""
    n = count + other
    interval = watching.confidence_sequence(count, n)
    assert 0 <= interval.low <= (count / n if n else 0.5) <= interval.high <= 1
    for end in (interval.low, interval.high):
        assert end in (0, 1) or rate_evidence(count, n, p0=end) == pytest.approx(20, rel=1e-6)
    assert (interval.low == 0) == (count == 0)
    assert (interval.high == 1) == (other == 0)


def test_edges() -> None:
    """Nothing seen is evidence 1; an impossible row is endless evidence; what overflows is inf."""
    assert watching.paired_evidence(0, 0) == rate_evidence(0, 0, p0=0.3) == pytest.approx(1.0)
    assert rate_evidence(1, 9, p0=0.0) == rate_evidence(0, 9, p0=1.0) == math.inf
    assert 0 < rate_evidence(0, 9, p0=0.0) < 1
    assert watching.paired_evidence(0, 10_000) == math.inf


RULE = CusumRule(0.05, 0.15, rows=2000)


def test_cusum_says_since_when() -> None:
    """A stream whose rate trebles at row 1001 alarms soon after, and dates the change to within fifty rows."""
    rng = np.random.default_rng(3)
    stream = [*(rng.random(1000) < 0.05), *(rng.random(1000) < 0.15)]
    state = advance(CusumState(), RULE, stream)
    assert state.alarmed_at is not None
    assert 1000 < state.alarmed_at < 1400
    assert state.since == pytest.approx(1001, abs=50)
    assert state.seen == 2000


def test_cusum_falls_too() -> None:
    """A rule with the lower rate second watches for lost refusals."""
    rng = np.random.default_rng(4)
    state = advance(CusumState(), CusumRule(0.3, 0.1, rows=2000), rng.random(1000) < 0.1)
    assert state.alarmed_at is not None
    assert state.since is not None


def test_cusum_keeps_its_promise() -> None:
    """Of two hundred unchanged streams at most one in twenty alarms at all."""
    rng = np.random.default_rng(5)
    alarms = sum(advance(CusumState(), RULE, rng.random(2000) < 0.05).alarmed_at is not None for _ in range(200))
    assert alarms <= 10


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 60))
def test_cusum_in_pieces(stream: list[bool], cut: int) -> None:
    """A stream taken in two pieces ends where the whole does."""
    rule = CusumRule(0.1, 0.6, rows=60)
    whole = advance(CusumState(), rule, stream)
    assert advance(advance(CusumState(), rule, stream[:cut]), rule, stream[cut:]) == whole
    assert (whole.since is None) == (whole.total == 0)


@pytest.mark.parametrize(("p0", "p1"), [(0.1, 0.1), (0.0, 0.1), (0.1, 1.0)])
def test_a_rule_needs_two_rates(p0: float, p1: float) -> None:
    """Rates that no row can tell apart, or that one row decides, are refused."""
    with pytest.raises(UsageError, match="two different rates"):
        CusumRule(p0, p1, rows=10)
