"""Drift of manner: the test keeps its level, and sees what is plain to see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.axes.fingerprint import fingerprint_shift
from demur.axes.steps import DIMENSIONS, Step, ToolCall, features_of

MANY = len(DIMENSIONS)
FLAGS = [DIMENSIONS.index(name) for name in ("stop_end_turn", "stop_tool_use", "refusal_flag", "error_token_flag")]


def step(text: str = "", *, calls: tuple[str, ...] = (), stop: str = "stop", refused: bool = False) -> Step:
    made = tuple(ToolCall(name, "{a: string}", 1) for name in calls)
    return Step("q", "", text, made, stop, stop, refused, 1, 3)


def feature(name: str, one: Step) -> float:
    return features_of(one)[DIMENSIONS.index(name)]


def answers(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Two runs of one model: a question's own level in both, chance on top, flags, a latency that nobody knows."""
    level = rng.normal(size=(n, MANY))
    sides = [level + rng.standard_t(4, size=(n, MANY)) for _ in range(2)]
    for side in sides:
        side[:, FLAGS] = rng.random((n, len(FLAGS))) < 0.3
        side[:, DIMENSIONS.index("latency_log")] = np.nan
    return sides[0], sides[1]


@pytest.mark.heavy
@pytest.mark.parametrize("n", [10, 30, 100])
def test_the_level_holds(n: int) -> None:
    """Where nothing changed the test rejects about one time in twenty, and so does the worst of its features."""
    rng = np.random.default_rng(n)
    found = [fingerprint_shift(*answers(rng, n), seed=i) for i in range(1000)]
    assert 0.03 <= np.mean([one.p <= 0.05 for one in found]) <= 0.07
    assert np.mean([min(d.p_adjusted for d in one.dimensions) <= 0.05 for one in found]) <= 0.07


@pytest.mark.heavy
def test_clusters_keep_the_level() -> None:
    """Turns that move together are flipped together, or chance would look like drift."""
    rng = np.random.default_rng(8)
    session = np.repeat(np.arange(20), 5)
    together = alone = 0
    for i in range(200):
        before = rng.normal(size=(100, MANY))
        after = before + rng.normal(size=(20, MANY))[session] + 0.1 * rng.normal(size=(100, MANY))
        together += fingerprint_shift(before, after, session, seed=i).p <= 0.05
        alone += fingerprint_shift(before, after, seed=i).p <= 0.05
    assert together / 200 <= 0.09
    assert alone / 200 > 0.5


def test_all_against_none_is_seen() -> None:
    """Fifty that never refuse against fifty that always do: as far apart as can be."""
    before, after = np.zeros((50, MANY)), np.zeros((50, MANY))
    after[:, DIMENSIONS.index("refusal_flag")] = 1
    found = fingerprint_shift(before, after)
    assert found.shift == pytest.approx(1)
    assert found.p == 1 / 2000
    assert [d.name for d in found.dimensions if d.p_adjusted <= 0.05] == ["refusal_flag"]


def test_a_flag_that_moves_in_some_pairs() -> None:
    """Of forty in fifty pairs a single flag moved: the shift is about their share."""
    before, after = np.zeros((50, MANY)), np.zeros((50, MANY))
    after[:40, 3] = 1
    found = fingerprint_shift(before, after)
    assert found.shift == pytest.approx(0.8, abs=0.01)
    assert found.dimensions[3].effect ** 2 == pytest.approx(0.8)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(2, 15))
def test_swapping_the_runs_and_changing_units_keep_p(seed: int, n: int) -> None:
    """T² and p know neither direction nor unit."""
    before, after = answers(np.random.default_rng(seed), n)
    unit = np.random.default_rng(seed + 1).uniform(0.1, 9, MANY)
    found = fingerprint_shift(before, after)
    for other in (fingerprint_shift(after, before), fingerprint_shift(before * unit, after * unit)):
        assert other.t_squared == pytest.approx(found.t_squared)
        assert other.p == pytest.approx(found.p, abs=0.002)


def test_nothing_moved_is_no_drift() -> None:
    """The same answers, and none at all, have p = 1."""
    same = np.ones((9, MANY))
    assert (fingerprint_shift(same, same).shift, fingerprint_shift(same, same).p) == (0.0, 1.0)
    assert fingerprint_shift(same[:0], same[:0]).p == 1.0


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("I cannot do that.", 1),
        ("I can’t do that.", 1),
        ("I won't.", 1),
        ("Sorry about the wait.", 1),
        ("I apologise for the delay", 1),
        ("The build failed", 1),
        ("no errors were found", 0),
        ("It ran without any errors.", 0),
        ("no errors, but it failed later", 1),
        ("A terror film; cannotation is no word", 0),
        ("All is well.", 0),
    ],
)
def test_words_of_trouble(text: str, flag: float) -> None:
    """Trouble and apology count on word boundaries and with any apostrophe, the absence of errors does not."""
    assert feature("error_token_flag", step(text)) == flag


def test_the_features_of_an_answer() -> None:
    """Each feature is what its name says."""
    one = step("Pay 20 % by 3 May", calls=("a", "a"), stop="tool", refused=True)
    assert feature("tool_call_rate", one) == 2
    assert feature("distinct_tool_frac", one) == 0.5
    assert (feature("stop_end_turn", one), feature("stop_tool_use", one), feature("stop_other", one)) == (0, 1, 0)
    assert feature("refusal_flag", one) == 1
    assert feature("numeric_token_density", one) == pytest.approx(2 / 6)
    assert feature("arg_keys_total_log", one) == pytest.approx(np.log(3))
    assert feature("output_len_log", one) == pytest.approx(np.log(4))
    assert np.isnan(features_of(one)[DIMENSIONS.index("latency_log")])
    assert features_of(one, 9.0)[DIMENSIONS.index("latency_log")] == pytest.approx(np.log(10))
    assert all(
        value == 0
        for name, value in zip(DIMENSIONS, features_of(step()), strict=True)
        if "log" not in name and name != "stop_end_turn"
    )


def test_a_stop_that_nobody_said_is_not_known() -> None:
    """A run in a format without stops has not stopped otherwise."""
    unsaid = features_of(step(stop="unknown"))
    assert all(np.isnan(unsaid[DIMENSIONS.index(name)]) for name in ("stop_end_turn", "stop_tool_use", "stop_other"))


def test_the_interval_of_a_mean_leaves_out_what_is_not_known() -> None:
    """Pairs without the feature do not widen it: where all others moved alike there is no spread, clusters of any size included."""
    before, after = np.zeros((30, len(DIMENSIONS))), np.ones((30, len(DIMENSIONS)))
    after[:10, 6] = np.nan
    for clusters in (None, np.repeat(np.arange(4), (3, 9, 6, 12))):
        one = fingerprint_shift(before, after, clusters).dimensions[6]
        assert one.n == 20
        assert [one.interval.low, one.interval.high] == pytest.approx([1.0, 1.0])
