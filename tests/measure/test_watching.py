"""A stream that keeps its rate is left alone, one that changes is found, and looking often costs nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import UsageError
from demur.measure.watching import Band, WatchState, watch_rows
from demur.model.comparison import Direction

ROWS = st.lists(st.booleans(), max_size=80)


@given(ROWS, ROWS)
def test_pieces_are_the_whole(first: list[bool], second: list[bool]) -> None:
    """A stream taken in pieces ends in the state of the stream taken whole."""
    band = Band(0.2, 0.4, rows=1000)
    assert watch_rows(watch_rows(WatchState(), band, first), band, second) == watch_rows(
        WatchState(), band, first + second
    )


def test_nothing_seen() -> None:
    """No rows are no evidence, no alarm, and any rate."""
    band = Band(0.05, 0.05)
    state = WatchState()
    assert (state.evidence(band), state.alarm) == (1.0, None)
    assert (state.interval(band).low, state.interval(band).high) == (0.0, 1.0)


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


@pytest.mark.parametrize(
    "asked",
    [
        {"low": 0.3, "high": 0.2},
        {"low": -0.1, "high": 0.2},
        {"low": 0.1, "high": 0.2, "alpha": 0.0},
        {"low": 0.1, "high": 0.2, "step": 1.0},
        {"low": 0.1, "high": 0.2, "rows": 0},
    ],
)
def test_bands_that_are_none(asked: dict[str, float]) -> None:
    """A band has two ends in order, a step, an alpha and rows."""
    with pytest.raises(UsageError):
        Band(**asked)  # type: ignore[arg-type]  # rows among the floats on purpose
