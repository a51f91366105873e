"""Longer, slower, dearer: what a value axis says of pairs, and when it fails a gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.axes.paired_exchanges import exchange, pair

from demur.axes.compare import AxesSettings, axis_gate, compare_axes
from demur.axes.values import ratio_severity
from demur.model.axes import AxesReport, AxisFlag, AxisName, AxisResult
from demur.model.comparison import PairedExchange
from demur.model.estimate import Interval, Severity
from demur.model.exchange import Choice, Exchange, ProviderError, Response, Signal, SignalKind

ANSWER = exchange("At the desk.")
TIMED_OUT = Exchange(None, Response("", (Choice(0, ()),), (Signal(SignalKind.ERROR, "error", "Request timed out."),)))


def values(axis: str, before: Sequence[float], after: Sequence[float], *, sessions: int = 0) -> AxesReport:
    """The axis of some pairs, in so many sessions where they come in any."""
    name = "cost" if axis == "cost" else "latency_ms"
    pairs = [
        pair(
            f"q{i:03}",
            ANSWER,
            ANSWER,
            session=f"s{i % sessions}" if sessions else None,
            **{f"baseline_{name}": float(b), f"candidate_{name}": float(a)},
        )
        for i, (b, a) in enumerate(zip(before, after, strict=True))
    ]
    return compare_axes(pairs, AxesSettings(axes=(AxisName(axis),)))


def by_name(report: AxesReport) -> dict[str, AxisResult]:
    return {result.name: result for result in report.results}


def failing(report: AxesReport) -> set[str]:
    return {result.name for result in report.results if axis_gate(result).failed}


def test_most_answers_slower_fail() -> None:
    """Audit 7: 85 of 100 answers 40 % slower fail, although the median of the candidate by itself is lower."""
    before = np.r_[np.full(45, 100.0), np.full(55, 300.0)]
    after = np.r_[before[:85] * 1.4, np.full(15, 20.0)]
    found = values("latency", before.tolist(), after.tolist())
    latency = by_name(found)["latency"]
    assert (latency.baseline, latency.candidate) == (300, 140)
    assert latency.difference == pytest.approx(0.4)
    assert latency.relative
    assert AxisFlag.SIDES_DISAGREE in latency.flags
    assert "latency" in failing(found)


def test_most_answers_faster_do_not_fail() -> None:
    """Audit 7: where 80 of 100 are faster and the median by itself is higher, the typical pair is faster, and so it says."""
    before = np.r_[np.full(45, 100.0), np.full(55, 201.0)]
    after = np.r_[np.full(45, 95.0), np.full(35, 200.0), np.full(20, 400.0)]
    latency = by_name(values("latency", before.tolist(), after.tolist()))["latency"]
    assert latency.difference < 0
    assert not axis_gate(latency).failed


def test_a_few_dear_answers_fail() -> None:
    """Audit 8: one answer in ten at fifty times the cost is a total of almost six times, and fails by the mean."""
    rng = np.random.default_rng(5)
    before = rng.lognormal(-5, 0.5, 200)
    after = before * rng.lognormal(0, 0.05, 200)
    after[:20] = before[:20] * 50
    found = values("cost", before.tolist(), after.tolist())
    mean = by_name(found)["cost/mean"]
    assert {detail.label: detail.value for detail in mean.details}["total, candidate"] == pytest.approx(after.sum())
    assert mean.difference == pytest.approx(after.sum() / before.sum() - 1)
    assert mean.interval is not None
    assert mean.interval.low > 1
    assert failing(found) == {"cost/mean"}
    slow = failing(values("latency", (before * 1e5).tolist(), (after * 1e5).tolist()))
    assert slow == {"latency/mean", "latency/p95"}


def test_the_tail_waits_for_a_hundred_pairs() -> None:
    """Below that no 95th percentile is told."""
    for n, told in ((99, False), (100, True)):
        sides = np.linspace(1, 2, n).tolist()
        assert ("latency/p95" in by_name(values("latency", sides, sides[::-1]))) is told


def unanswered(count: int, *, n: int = 100, side: Exchange = TIMED_OUT, waited: float | None = None) -> AxesReport:
    pairs: list[PairedExchange] = []
    for i in range(n):
        lost = i < count
        more: dict[str, Any] = {"baseline_latency_ms": 500.0 + i, "candidate_latency_ms": waited if lost else 500.0 + i}
        pairs.append(pair(f"q{i:03}", ANSWER, side if lost else ANSWER, **more))
    return compare_axes(pairs, AxesSettings(axes=(AxisName.LATENCY,)))


@pytest.mark.parametrize("n", [50, 100])
def test_time_outs_are_slow(n: int) -> None:
    """Audit 16: where two in five time out, their share is told and fails, and so does the tail."""
    report = unanswered(n * 2 // 5, n=n)
    share = by_name(report)["latency/unanswered"]
    assert (share.baseline, share.candidate, share.severity) == (0.0, 0.4, Severity.SEVERE)
    assert share.evidence[0].sentence == "no response in the candidate"
    expected = {"latency/unanswered"} | ({"latency/p95"} if n >= 100 else set())
    assert failing(report) == expected
    assert by_name(report)["latency/mean"].missing == n * 2 // 5


def test_more_than_half_without_a_response_is_endless() -> None:
    """The typical pair then has no response: the median ratio is infinite, and the evidence says so."""
    latency = by_name(unanswered(60))["latency"]
    assert (latency.difference, latency.severity) == (math.inf, Severity.SEVERE)
    assert latency.evidence[0].sentence.endswith("→ no response ms")


@pytest.mark.parametrize(
    ("side", "waited", "counts"),
    [
        (TIMED_OUT, None, True),
        (Exchange(None, Response("", error=ProviderError("upstream", "504"))), None, True),
        (Exchange(None, Response("", error=ProviderError("Deadline Exceeded"))), None, True),
        (Exchange(None, Response("", error=ProviderError("no such model", "404"))), None, False),
        (Exchange(None, Response("", error=ProviderError("no such model", "404"))), 30.0, True),
        (Exchange(None, None), None, False),
    ],
    ids=["timed-out", "504", "deadline", "other", "other-after-a-time", "nothing"],
)
def test_which_failures_took_time(side: Exchange, waited: float | None, *, counts: bool) -> None:
    """A time-out, and a failure after a known time, are requests that no response came for; other failures are only missing."""
    report = unanswered(10, side=side, waited=waited)
    assert ("latency/unanswered" in by_name(report)) is counts
    assert by_name(report)["latency"].missing == (0 if counts else 10)


@pytest.mark.parametrize("axis", ["latency", "cost"])
def test_few_sessions_decide_nothing(axis: str) -> None:
    """Audit 18: up to four sessions say that they cannot support a test, and neither fail nor pass."""
    report = values(axis, [300.0 + i for i in range(40)], [500.0 + 2 * i for i in range(40)], sessions=4)
    for result in report.results:
        gate = axis_gate(result)
        assert (gate.failed, gate.unsettled) == (False, True)
        assert gate.why.endswith("4 sessions cannot support a test at 5 %")
        assert result.interval is not None
        assert math.isinf(result.interval.high)
    five = values(axis, [300.0 + i for i in range(40)], [500.0 + 2 * i for i in range(40)], sessions=5)
    assert failing(five) == set(by_name(five))


def test_a_baseline_of_zero_can_fail() -> None:
    """Audit 32: from 0 ms to 50 ms is a rise, and fails."""
    report = values("latency", [0.0] * 30, [50.0] * 30)
    assert failing(report) == {"latency", "latency/mean"}
    assert AxisFlag.ZERO_BASELINE in by_name(report)["latency"].flags


def test_what_is_not_excluded_is_undecided_where_asked() -> None:
    """With `fail_inconclusive` a wide interval is no pass; a narrow one about 1 is."""
    rng = np.random.default_rng(7)
    before = np.full(12, 100.0)
    after = [60, 70, 80, 90, 95, 99, 101, 105, 120, 130, 150, 160]
    latency = by_name(values("latency", before.tolist(), after))["latency"]
    assert not axis_gate(latency).unsettled
    wide = axis_gate(latency, fail_inconclusive=True)
    assert (wide.failed, wide.unsettled) == (False, True)
    assert "moderate is not excluded" in wide.why
    many = rng.lognormal(6, 0.1, 400)
    near = by_name(values("latency", many.tolist(), (many * rng.lognormal(0, 0.1, 400)).tolist()))["latency"]
    assert not axis_gate(near, fail_inconclusive=True).unsettled


@pytest.mark.parametrize(
    ("ratio", "ends", "label"),
    [
        (1.0, (0.9, 1.1), "none"),
        (1.099, (1.01, 1.2), "minor"),
        (1.1, (1.01, 1.2), "moderate"),
        (0.701, (0.6, 0.8), "moderate"),
        (1.3, (1.01, 1.6), "severe"),
        (0.7, (0.4, 0.99), "severe"),
        (1.5, (0.99, 2.0), "minor"),
        (1.5, None, "severe"),
        (math.inf, (2.0, math.inf), "severe"),
        (math.inf, (0.0, math.inf), "minor"),
        (math.nan, None, "none"),
    ],
)
def test_severity_is_relative(ratio: float, ends: tuple[float, float] | None, label: str) -> None:
    """Ten and thirty per cent of the baseline part the labels; an interval that holds 1 caps them."""
    assert ratio_severity(ratio, None if ends is None else Interval(*ends, "m")) == label


@pytest.mark.heavy
def test_the_gate_has_the_power_of_its_test() -> None:
    """Audit 20: 1.2 times the latency at 50 pairs fails as often as the sign test sees it, seven times in ten, not one in four."""
    rng = np.random.default_rng(20)
    times, failed = 150, 0
    for _ in range(times):
        asked = rng.lognormal(6, 1, 50)
        before, after = asked * rng.lognormal(0, 0.29, 50), 1.2 * asked * rng.lognormal(0, 0.29, 50)
        failed += bool(failing(values("latency", before.tolist(), after.tolist())))
    # 0.71 by the audit; three standard errors of 150 runs are 0.11.
    assert failed / times >= 0.60


@pytest.mark.heavy
def test_one_line_never_goes_two_ways() -> None:
    """Audit 7: one answer in ten four times as slow and the rest 2 % faster fails by the tail or the mean alone, never by a typical pair."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        before = rng.lognormal(6, 0.5, 100)
        after = before * rng.lognormal(0, 0.02, 100) * np.where(rng.random(100) < 0.1, 4.0, 0.98)
        latency = by_name(values("latency", before.tolist(), after.tolist()))["latency"]
        assert not axis_gate(latency).failed
        assert latency.p is not None
        assert latency.p > 0.05 or latency.difference < 0


@pytest.mark.heavy
def test_no_change_seldom_fails_any_axis() -> None:
    """Of 250 comparisons without a change at most one in twenty fails by any of seven figures."""
    rng = np.random.default_rng(11)
    times, failed = 250, 0
    for _ in range(times):
        asked = rng.lognormal(0, 1, 100)
        sides = [asked * rng.lognormal(0, 0.3, 100) for _ in range(2)]
        words = [np.maximum(1, side * 30).astype(int) for side in sides]
        pairs = [
            pair(
                f"q{i:03}",
                exchange("a" * words[0][i]),
                exchange("a" * words[1][i]),
                baseline_latency_ms=sides[0][i] * 100,
                candidate_latency_ms=rng.permutation(sides[1])[0] * 100,
                baseline_cost=sides[0][i],
                candidate_cost=sides[1][i],
            )
            for i in range(100)
        ]
        axes = AxisName.LENGTH, AxisName.LATENCY, AxisName.COST
        failed += bool(failing(compare_axes(pairs, AxesSettings(axes=axes))))
    # Three standard errors of 250 runs are 0.041.
    assert failed / times <= 0.05 + 0.041
