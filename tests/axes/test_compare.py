"""All axes of the same pairs, measured or absent, adjusted together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.axes.paired_exchanges import exchange, pair
from tests.report.comparisons import increase, no_refusals

from demur.axes import compare
from demur.axes.compare import AxesSettings, axes_asked, axes_named, axis_gate, compare_axes, compare_with_axes
from demur.axes.rules.files import parse_rules
from demur.errors import EmptyInputError, UsageError
from demur.measure.decision import holm
from demur.model.axes import AxesReport, AxisFlag, AxisName, AxisResult, AxisUnit
from demur.model.comparison import PairedExchange
from demur.model.estimate import Direction, Flag, Interval, Severity


def named(report: AxesReport, name: str) -> AxisResult:
    return next(result for result in report.results if result.name == name)


def only(*axes: AxisName, **more: object) -> AxesSettings:
    return AxesSettings(axes=axes, **more)  # type: ignore[arg-type]  # the test's own settings


def lookups(dropped: int, n: int = 20) -> list[PairedExchange]:
    """Pairs that look an order up and refund it; in the first ones the candidate does not look."""
    before = exchange("Done.", calls=("lookup", "refund"))
    after = exchange("Done.", calls=("refund",))
    return [pair(f"q{i:02}", before, after if i < dropped else before) for i in range(n)]


def test_every_axis_is_there_or_says_why_not() -> None:
    """What was asked for is in the results or among the absent, in the order of the axes."""
    report = compare_axes([pair(f"q{i}", "It is so.", "It is not so.") for i in range(6)])
    assert [r.name for r in report.results] == ["safety", "fingerprint", "length", "length/mean"]
    assert [a.axis for a in report.absent] == ["trajectory", "judge", "rules", "latency", "cost"]
    assert "Holm" in report.multiplicity


def test_a_dropped_tool_is_named() -> None:
    """Nine of twenty pairs lost a call: the share, the distance, the tool and the pairs, where the median sees none."""
    found = named(compare_axes(lookups(9), only(AxisName.TRAJECTORY)), "trajectory")
    assert (found.difference, found.severity, found.p) == (0.45, Severity.SEVERE, None)
    assert AxisFlag.NO_TEST in found.flags
    details = {d.label: d.value for d in found.details}
    assert (details["median distance"], details["mean distance"], details["dropped `lookup`"]) == (0.0, 0.225, 9.0)
    assert [e.key for e in found.evidence] == [f"q{i:02}" for i in range(9)]
    assert found.evidence[0].sentence == "dropped `lookup`"
    [lookup, refund] = found.parts
    assert (lookup.difference, refund.difference) == (-0.45, 0.0)
    assert lookup.p_adjusted is not None
    assert lookup.p_adjusted < 0.01


def test_the_floor_is_what_chance_changes_anyway() -> None:
    """Changes up to the known share between runs of one model are none."""
    found = named(compare_axes(lookups(2), only(AxisName.TRAJECTORY, trajectory_floor=0.1)), "trajectory")
    assert (found.difference, found.severity) == (0.0, Severity.NONE)


def test_trajectories_of_sessions() -> None:
    """By session the calls of all its turns are one sequence, so a call that moved to the next turn is no change."""
    first, second = exchange("", calls=("a", "b")), exchange("", calls=("c",))
    earlier, later = exchange("", calls=("a",)), exchange("", calls=("b", "c"))
    pairs = [pair("t1", first, earlier, session="s"), pair("t2", second, later, session="s")]
    assert named(compare_axes(pairs, only(AxisName.TRAJECTORY)), "trajectory").difference == 1.0
    whole = named(compare_axes(pairs, only(AxisName.TRAJECTORY, trajectory_by_session=True)), "trajectory")
    assert (whole.n, whole.difference) == (1, 0.0)


def test_values_have_medians_units_and_evidence() -> None:
    """Longer, slower and dearer answers are told in their units, the largest rise first."""
    sides = [(exchange("a", tokens=100 + i), exchange("a", tokens=150 + 2 * i)) for i in range(9)]
    same: dict[str, Any] = {"baseline_latency_ms": 10.0, "candidate_latency_ms": 12.0, "candidate_cost": 0.5}
    pairs = [pair(f"q{i}", *side, baseline_cost=0.5 if i else None, **same) for i, side in enumerate(sides)]
    report = compare_axes(pairs)
    length, latency, cost = (named(report, name) for name in ("length", "latency", "cost"))
    assert (length.unit, length.severity) == (AxisUnit.TOKENS, Severity.SEVERE)
    assert (length.baseline, length.candidate) == (104, 158)
    assert (length.evidence[0].key, length.evidence[0].sentence) == ("q8", "108 → 166 tokens")
    assert latency.difference == pytest.approx(0.2)
    assert (latency.severity, latency.relative) == (Severity.MODERATE, True)
    assert (cost.n, cost.missing, cost.severity, cost.p) == (8, 1, Severity.NONE, 1.0)
    assert AxisFlag.MISSING in cost.flags


def test_p_are_adjusted_across_axes() -> None:
    """Each p is held against all that were tested, none against what was not; what is worse one way alone is held at half its p."""
    longer = exchange("much longer than that", calls=("lookup",))
    report = compare_axes([pair(f"q{i}", exchange("short", calls=("lookup",)), longer) for i in range(12)])
    tested = [r.p / (1 if r.worse is Direction.BOTH else 2) for r in report.results if r.p is not None]
    held = [r.p_adjusted for r in report.results if r.p is not None]
    own = [r.p for r in report.results if r.p is not None]
    assert held == [max(p, q or 0.0) for p, q in zip(own, holm(tested), strict=True)]
    assert len(own) == 4
    assert named(report, "trajectory").p_adjusted is None


def test_failed_sides_are_missing_and_tear_their_session() -> None:
    """A pair with an error is counted out, and a rule over its session does not blame the gap."""
    whole = "{name: bye, must_include_text: bye}"
    rules = parse_rules(f"rules: [{whole}, {{name: each, must_include_text: bye, scope: exchange}}]")
    pairs = [
        pair("a1", "hello", "hello", session="a"),
        pair("a2", exchange("bye"), exchange(None), session="a"),
        pair("b1", "hello", "hello", session="b"),
        pair("b2", "bye", "hello", session="b"),
    ]
    report = compare_axes(pairs, AxesSettings(rules=rules))
    safety, bye, each = (named(report, name) for name in ("safety", "rules/bye", "rules/each"))
    assert (safety.n, safety.missing) == (3, 1)
    assert (bye.n, bye.baseline, bye.candidate, bye.missing) == (1, 0.0, 1.0, 1)
    assert bye.evidence[0].sentence == "candidate breaks `bye` in b2: nowhere says `bye`"
    assert each.n == 3
    assert each.difference == pytest.approx(1 / 3)
    assert Flag.CLUSTERED in each.flags


def test_a_rule_that_applies_to_one_side_is_kept_by_the_other() -> None:
    """Where the candidate no longer calls the tool, it has not broken what holds after the call."""
    [rule] = parse_rules("rules: [{name: receipt, must_include_text: receipt, when: {called: refund}}]")
    called, silent = exchange("no", calls=("refund",)), exchange("no")
    report = compare_axes([pair("q", called, silent), pair("r", silent, silent)], AxesSettings(rules=(rule,)))
    found = named(report, "rules/receipt")
    assert (found.n, found.baseline, found.candidate) == (1, 1.0, 0.0)
    never = compare_axes([pair("r", silent, silent)], only(AxisName.RULES, rules=(rule,)))
    assert never.absent[0].why == "the rule applies to no pair"


def test_evidence_is_bounded() -> None:
    """No more pairs are shown than asked for."""
    report = compare_axes(lookups(20), AxesSettings(show=3))
    assert all(len(result.evidence) <= 3 for result in report.results)
    assert len(named(report, "trajectory").evidence) == 3


def test_the_same_input_gives_the_same_report() -> None:
    """Nothing but the seed is chance."""
    pairs = [pair(f"q{i}", "x" * i, "x" * (i * 7 % 5)) for i in range(12)]
    assert compare_axes(pairs, AxesSettings(seed=4)) == compare_axes(iter(pairs), AxesSettings(seed=4))


def test_no_pairs_are_an_error() -> None:
    """Nothing compared is never a pass."""
    for pairs in ([], [pair("q", exchange(None), exchange("x"))]):
        with pytest.raises(EmptyInputError, match="no pair was answered"):
            compare_axes(pairs)


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan"), -1.0, 1e300])
def test_figures_that_cannot_be_are_not_known(odd: float) -> None:
    """A latency or a cost that is negative, endless or no number leaves its pair out, on every axis."""
    pairs = [
        pair(f"q{i}", "a", "a", baseline_latency_ms=odd if i < 2 else 5.0, candidate_latency_ms=5.0, baseline_cost=odd)
        for i in range(9)
    ]
    report = compare_axes(pairs, only(AxisName.LATENCY, AxisName.COST, AxisName.FINGERPRINT))
    latency, fingerprint = named(report, "latency"), named(report, "fingerprint")
    assert (latency.n, latency.missing, latency.severity) == (7, 2, Severity.NONE)
    assert (fingerprint.severity, fingerprint.p) == (Severity.NONE, 1.0)
    assert [a.axis for a in report.absent] == ["cost"]


def test_features_that_no_pair_has_are_no_zeros() -> None:
    """A feature without a value on both sides of any pair is not among the parts; one with some says how many pairs it rests on."""
    pairs = [
        pair(f"q{i}", "a", "a", baseline_latency_ms=5.0 if i < 4 else None, candidate_latency_ms=9.0) for i in range(9)
    ]
    parts = {part.name: part for part in named(compare_axes(pairs, only(AxisName.FINGERPRINT)), "fingerprint").parts}
    assert "fingerprint/output_len_log" not in parts
    latency, refusal = parts["fingerprint/latency_log"], parts["fingerprint/refusal_flag"]
    assert [(part.n, part.missing) for part in (latency, refusal)] == [(4, 5), (9, 0)]


def test_evidence_of_a_value_is_of_the_way_it_went() -> None:
    """Where answers became shorter, the pairs shown are those that did."""
    pairs = [pair(f"q{i}", "a" * 100, "a" * (200 if i == 8 else 50 + i)) for i in range(9)]
    length = named(compare_axes(pairs, only(AxisName.LENGTH)), "length")
    assert length.difference < 0
    assert [e.key for e in length.evidence] == [f"q{i}" for i in range(8)]
    assert length.evidence[0].sentence == "100 → 50 characters"


_MEDIANS = (100.0, 140.0, 40.0, Interval(20, 60, "m"), 0.01, Severity.SEVERE, 50)
LONGER = AxisResult(AxisName.LENGTH, "length", AxisUnit.TOKENS, *_MEDIANS, p_adjusted=0.04, worse=Direction.INCREASE)
CALLS = replace(LONGER, name="trajectory", difference=0.3, p=None, p_adjusted=None)


@pytest.mark.parametrize(
    ("result", "fail_on", "failed"),
    [
        (LONGER, Severity.MODERATE, True),
        (LONGER, Severity.NONE, False),
        (replace(LONGER, p_adjusted=0.06), Severity.MODERATE, False),
        (replace(LONGER, severity=Severity.MINOR), Severity.MODERATE, False),
        (replace(LONGER, difference=-40.0), Severity.MODERATE, False),
        (replace(LONGER, difference=-40.0, worse=Direction.BOTH), Severity.MODERATE, True),
        (replace(CALLS, interval=Interval(0.06, 0.5, "wilson")), Severity.MODERATE, True),
        (replace(CALLS, interval=Interval(0.06, 0.5, "wilson")), Severity.SEVERE, False),
        (replace(CALLS, interval=Interval(0.04, 0.5, "wilson")), Severity.MODERATE, False),
    ],
)
def test_the_gate(result: AxisResult, fail_on: Severity, failed: bool) -> None:  # noqa: FBT001 - a table
    """Without a test the low end of the interval is the proof; every answer names the axis."""
    found = axis_gate(result, fail_on=fail_on)
    assert found.failed is failed
    assert found.why.startswith(f"{result.name}: ")


def test_what_was_mostly_not_measured_is_not_passed() -> None:
    """With more pairs missing than measured nothing is passed; a failure stays one, and a gate that is off stays off."""
    lost = replace(LONGER, severity=Severity.NONE, difference=0.0, n=3, missing=4)
    gate = axis_gate(lost)
    assert (gate.failed, gate.unsettled) == (False, True)
    assert gate.why == "length: none, below moderate, but 4 of 7 were not measured"
    assert not axis_gate(replace(lost, missing=3)).unsettled
    assert not axis_gate(lost, fail_on=Severity.NONE).unsettled
    failing = axis_gate(replace(LONGER, missing=400))
    assert (failing.failed, failing.unsettled) == (True, False)


RULES = parse_rules("rules: [{name: kind, must_include_text: thanks, scope: exchange}]")
ABSENT = parse_rules("rules: [{name: kind, must_include_text: thanks, when: {prompt: never}}]")


def pairs(count: int = 20) -> list[PairedExchange]:
    return [pair(f"q{i}", exchange("Thanks for asking."), exchange("Well.")) for i in range(count)]


def test_safety_is_the_comparisons_own() -> None:
    """It has the figures of all pairs, whatever the pairs that were read say; all p are held together."""
    whole = increase()
    settings = AxesSettings(axes=(AxisName.SAFETY, AxisName.RULES, AxisName.LENGTH), rules=RULES)
    found = compare_with_axes(whole, pairs(), settings, total=200, read=20)
    assert found.axes is not None
    safety, *others = found.axes.report.results
    assert (safety.name, safety.n, safety.p) == ("safety", 200, whole.difference.p)
    of_all = (whole.difference.value, whole.difference.interval, whole.severity)
    assert (safety.difference, safety.interval, safety.severity) == of_all
    assert len(safety.evidence) == 20
    assert all(one.p is not None and one.p_adjusted is not None for one in (safety, *others))
    assert all((one.p_adjusted or 0) >= (one.p or 0) for one in (safety, *others))
    assert (found.axes.sampled, found.gate) == (True, whole.gate)


@pytest.mark.parametrize(
    ("gated", "failed", "unsettled", "says"),
    [
        (("safety",), False, False, "severity none"),
        (("safety", "rules"), True, False, "rules/kind: severe, p ="),
        (("latency",), False, True, "latency is absent, no pair has its latency on both sides"),
        (("latency", "rules"), True, False, "rules/kind: severe"),
        (("trajectory",), False, True, "trajectory is absent, no response of either run calls a tool"),
    ],
)
def test_the_gate_is_that_of_the_axes_that_may_fail_it(
    gated: tuple[str, ...], *, failed: bool, unsettled: bool, says: str
) -> None:
    """A severe axis fails it only where it may; an absent one leaves it unsettled, never passed."""
    settings = AxesSettings(rules=RULES)
    found = compare_with_axes(no_refusals(), pairs(), settings, gated=axes_named(gated), total=20, read=20)
    assert (found.gate.failed, found.gate.unsettled) == (failed, unsettled)
    assert says in found.gate.why


def test_refusals_fail_nothing_where_they_may_not() -> None:
    """Where safety is not among the axes that may fail the gate, an increase is only reported."""
    assert increase().gate.failed
    settings = AxesSettings(axes=(AxisName.TRAJECTORY,))
    found = compare_with_axes(increase(), pairs(), settings, gated=(AxisName.TRAJECTORY,), total=20, read=20)
    assert not found.gate.failed


def test_a_rule_that_applies_nowhere_passes_nothing() -> None:
    """It is absent, and where it may fail the gate the gate is unsettled."""
    settings = AxesSettings(axes=(AxisName.RULES,), rules=ABSENT)
    found = compare_with_axes(no_refusals(), pairs(), settings, gated=(AxisName.RULES,), total=20, read=20)
    assert found.gate.unsettled
    assert "rules/kind is absent, the rule applies to no pair" in found.gate.why


def test_names_become_axes() -> None:
    """In the order of a report, each once; safety alone is no further axis; `all` is every one."""
    assert axes_named(["cost", "safety", "cost"]) == (AxisName.SAFETY, AxisName.COST)
    assert axes_asked(["safety"]) is None
    assert axes_asked([]) is None
    found = axes_asked(["all"])
    assert found is not None
    assert found.axes == tuple(AxisName)
    assert axes_asked(found) is found


@pytest.mark.parametrize(
    ("axes", "gated", "says"),
    [
        (["tone"], ["safety"], "no axis `tone`"),
        (["rules"], ["tone"], "no axis `tone`"),
        ("rules", ["safety"], "axes are a list of names"),
        (["length"], ["cost"], "`cost` may fail the gate and is not measured"),
        (None, ["cost"], "`cost` may fail the gate and is not measured"),
        (["rules"], ["rules"], "`rules` may fail the gate, and there is no rule"),
        (["judge"], ["judge"], "`judge` may fail the gate, and none is configured"),
        (["length"], [], "no axis may fail the gate"),
    ],
)
def test_what_cannot_be_gated_on_is_refused(axes: list[str] | str | None, gated: list[str], says: str) -> None:
    """An axis that is unknown, not measured, or lacks what only the caller can give is an error before anything is read."""
    with pytest.raises(UsageError, match=says):
        compare.gated_axes(gated, axes_asked(axes))
