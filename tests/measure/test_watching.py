"""A stream that keeps its rate is left alone, one that changes is found, and looking often costs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.measure import watching
from demur.measure.watching import Band, WatchState, close_sessions, factors, rate_evidence, unspent, watch_rows
from demur.model.estimate import Direction

Rows = list[tuple[bool, int | None]]
ROWS = st.lists(st.tuples(st.booleans(), st.none() | st.integers(0, 5)), max_size=200)


def alone(hits: Iterable[bool]) -> Rows:
    """Return rows without a session."""
    return [(bool(hit), None) for hit in hits]


def sessions(rng: np.random.Generator, rate: float, icc: float, count: int, *, first: int = 0) -> Rows:
    """Return sessions of ten rows whose rates are drawn from a beta distribution, one after the other."""
    scale = (1 - icc) / icc
    rates = rng.beta(rate * scale, (1 - rate) * scale, size=count)
    hits = rng.random((count, 10)) < rates[:, None]
    return [(bool(hit), first + key) for key, row in enumerate(hits) for hit in row]


@given(ROWS, ROWS)
def test_pieces_are_the_whole(first: Rows, second: Rows) -> None:
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
    # Deterministic: 400 streams of 500 rows; 0.2 of 400 is 80.
    rng = np.random.default_rng(20261116)
    band = Band(0.05, 0.1, rows=500, alpha=0.2)
    streams = rng.random((400, 500)) < 0.1
    alarms = sum(watch_rows(WatchState(), band, alone(row)).alarm is not None for row in streams)
    assert 0 < alarms <= 80


@pytest.mark.heavy
@pytest.mark.parametrize("icc", [0.3, 0.7])
def test_quiet_sessions_stay_quiet(icc: float) -> None:
    """Of streams whose sessions of ten rows move together (audit 6: .62 at ICC .3), at most alpha alarm."""
    # 60 streams of 300 sessions: 0.05 of them is 3, and two standard errors more is 6.4; single rows alarm in more than half.
    rng = np.random.default_rng(18)
    band = Band(0.05, 0.05)
    streams = [sessions(rng, 0.05, icc, 300) for _ in range(60)]
    alarms = [close_sessions(watch_rows(WatchState(), band, rows), band).alarm for rows in streams]
    assert sum(alarm is not None for alarm in alarms) <= 6
    counted_alone = [watch_rows(WatchState(), band, alone(hit for hit, _ in rows)).alarm for rows in streams[:20]]
    assert sum(alarm is not None for alarm in counted_alone) >= 5


def test_a_change_in_sessions_is_found() -> None:
    """Sessions that begin to refuse alarm, and the change is dated among rows."""
    rng = np.random.default_rng(7)
    rows = sessions(rng, 0.05, 0.3, 100) + sessions(rng, 0.3, 0.3, 100, first=100)
    alarm = watch_rows(WatchState(), Band(0.05, 0.05), rows).alarm
    assert alarm is not None
    assert 1000 < alarm.row < 1700
    assert alarm.change.earliest <= 1001 <= alarm.change.latest


def test_interleaved_sessions_are_the_same_sessions() -> None:
    """Rows of ten conversations that go on at the same time count as ten conversations, whatever their order."""
    band = Band(0.2, 0.4)
    rows: Rows = [(key < 3, key) for key in range(10) for _ in range(6)]
    woven = [rows[6 * key + turn] for turn in range(6) for key in range(10)]
    one, other = (close_sessions(watch_rows(WatchState(), band, each), band) for each in (rows, woven))
    assert one.history.sums == other.history.sums
    assert one.history.sums.sessions == 10
    assert one.evidence(band) == pytest.approx(other.evidence(band), rel=1e-9)


def test_a_session_that_comes_back_is_not_a_new_one() -> None:
    """Rows that come after their session was closed are counted, and left out of the test."""
    band = Band(0.5, 0.5)
    state = watch_rows(WatchState(), band, [(True, 1), *alone([True, False] * 40)])
    assert (state.sessions.open, state.sessions.closed) == ((), ((1, 1),))
    state = watch_rows(state, band, [(True, 1)] * 10)
    assert (state.seen, state.history.sums.rows, state.sessions.late, state.sessions.gap) == (91, 81, 10, 50)


def test_long_pauses_widen_the_gap() -> None:
    """Where sessions pause for longer than the gap that closes them, it doubles until they do not."""
    band = Band(0.05, 0.95)
    # A hundred conversations in turn: each pauses for a hundred rows.
    state = watch_rows(WatchState(), band, [(row % 2 == 0, row % 100) for row in range(400)])
    late = state.sessions.late
    assert (state.sessions.gap, late > 100) == (100, True)
    state = watch_rows(state, band, [(row % 2 == 0, 1000 + row % 100) for row in range(400)])
    assert (state.sessions.gap, state.sessions.late, len(state.sessions.open)) == (100, late, 100)


def test_open_sessions_wait() -> None:
    """A session enters when it ended, or was closed with the log, or has a thousand rows."""
    band = Band(0.2, 0.6)
    state = watch_rows(WatchState(), band, [(True, 1)] * 30)
    assert (state.history.sums.sessions, state.evidence(band)) == (0, 1.0)
    assert close_sessions(state, band).history.sums.rows == 30
    assert watch_rows(state, band, [(False, 1)] * 1000).history.sums.rows == 1000


@given(st.floats(0.001, 0.999))
def test_a_row_is_a_fair_bet(edge: float) -> None:
    """At the edge of the band a single row leaves every bet, on average, where it is."""
    for yes, no in zip(factors(edge, (1,), 1), factors(edge, (), 1), strict=True):
        assert edge * yes + (1 - edge) * no == pytest.approx(1, rel=1e-9)


@given(st.floats(0.001, 0.999), st.integers(1, 40))
def test_a_session_is_a_fair_bet(edge: float, rows: int) -> None:
    """Sessions whose rows are all alike, refused or not, are as fair a bet, and cost no more than a single row or half of it."""
    for all_refused, none, single in zip(
        factors(edge, tuple(range(1, rows + 1)), rows), factors(edge, (), rows), factors(edge, (), 1), strict=True
    ):
        assert edge * all_refused + (1 - edge) * none == pytest.approx(1, rel=1e-6)
        assert none >= min(0.5, single) - 1e-9


def test_a_session_that_ends_at_its_refusal_is_a_fair_bet() -> None:
    """Where users leave after the first refusal, sums stay fair (Wald), which means of sessions' rates would not."""
    edge = 0.05
    ends = [((m,), m, edge * (1 - edge) ** (m - 1)) for m in range(1, 31)] + [((), 30, (1 - edge) ** 30)]
    for j in range(len(watching.STEPS)):
        assert sum(chance * factors(edge, hits, m)[j] for hits, m, chance in ends) == pytest.approx(1, rel=1e-9)
    assert sum(chance * len(hits) / m for hits, m, chance in ends) > 2 * edge


def test_starts_add_up() -> None:
    """What is bet on a change at each row adds up to 1 over all rows, for ever."""
    left = [unspent(seen, 1000) for seen in range(5000)]
    assert left[0] == 1
    assert left == sorted(left, reverse=True)
    assert left[-1] > 0


def test_a_sudden_rise_is_dated() -> None:
    """A rate that jumps alarms soon, says since when, how sure that is, and what the rate has been since (audit 12)."""
    rng = np.random.default_rng(1)
    rows = alone(np.concatenate([rng.random(5000) < 0.05, rng.random(400) < 0.25]))
    alarm = watch_rows(WatchState(), Band(0.05, 0.05, rows=10_000), rows).alarm
    assert alarm is not None
    assert alarm.direction is Direction.INCREASE
    assert 5000 < alarm.row < 5150
    change = alarm.change
    assert 4950 < change.earliest <= change.since <= change.latest <= alarm.row
    assert change.earliest <= 5001 <= change.latest
    assert change.rows == alarm.row - change.since + 1
    assert change.interval.low < 0.25 < change.interval.high
    assert change.interval.low > 0.05


@pytest.mark.heavy
def test_delays_are_those_of_the_documentation() -> None:
    """After an early change the median delay is below that of cumulative sums (544), after a late one below 1.1 times SR's (200)."""
    rng = np.random.default_rng(44)
    for before, after, at, most in ((0.01, 0.03, 50, 544), (0.05, 0.15, 2000, 220)):
        late = []
        for _ in range(41):
            rows = alone(np.concatenate([rng.random(at) < before, rng.random(3000) < after]))
            alarm = watch_rows(WatchState(), Band(before, before), rows).alarm
            late.append(alarm.row - at if alarm else math.inf)
        assert np.median(late) <= most


def test_a_slow_fall_is_found() -> None:
    """Refusals that are lost alarm as well, downwards."""
    rows = alone(([True] + [False] * 39) * 40)
    alarm = watch_rows(WatchState(), Band(0.1, 0.2, rows=10_000), rows).alarm
    assert alarm is not None
    assert alarm.direction is Direction.DECREASE


@pytest.mark.parametrize(("edge", "hit", "way"), [(0.0, True, Direction.INCREASE), (1.0, False, Direction.DECREASE)])
def test_never_and_always(edge: float, hit: bool, way: Direction) -> None:  # noqa: FBT001 — a parameter of the case
    """Where the rate should be 0 or 1, the first row against it is proof."""
    band = Band(edge, edge)
    state = watch_rows(WatchState(), band, alone([not hit] * 50))
    assert state.alarm is None
    alarm = watch_rows(state, band, alone([hit])).alarm
    assert alarm is not None
    assert (alarm.row, alarm.direction, alarm.change.since) == (51, way, 51)


def test_a_band_of_all_rates() -> None:
    """Where every rate is right, nothing is evidence."""
    assert watch_rows(WatchState(), Band(0.0, 1.0), alone([True] * 100)).evidence(Band(0.0, 1.0)) == 1.0


def test_the_first_alarm_stays() -> None:
    """Rows after an alarm are counted and change nothing else."""
    band = Band(0.0, 0.0)
    state = watch_rows(WatchState(), band, alone([True]))
    after = watch_rows(state, band, alone([False] * 100))
    assert (after.alarm, after.seen, after.abstained) == (state.alarm, 101, 1)


@pytest.mark.parametrize("asked", [{"low": 0.3}, {"low": -0.1}, {"alpha": 0.0}, {"rows": 0}])
def test_bands_that_are_none(asked: dict[str, float]) -> None:
    """A band has two ends in order, an alpha and rows."""
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
