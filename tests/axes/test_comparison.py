"""Further axes and refusals: one report, one gate."""

from __future__ import annotations

import pytest
from tests.axes.paired_exchanges import exchange, pair
from tests.report.comparisons import increase, no_refusals

from demur.axes.asked import axes_asked, axes_named, gated_axes
from demur.axes.comparison import compare_with_axes
from demur.axes.registry import AxesSettings
from demur.axes.rules.files import parse_rules
from demur.errors import UsageError
from demur.measure.multiplicity import holm
from demur.model.axes import AxisName, PairedExchange

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
    assert (safety.difference, safety.interval, safety.severity) == (
        whole.difference.value,
        whole.difference.interval,
        whole.severity,
    )
    assert len(safety.evidence) == 20
    assert [one.p_adjusted for one in (safety, *others)] == list(holm([one.p for one in (safety, *others)]))
    assert (found.axes.sampled, found.gate) == (True, whole.gate)


@pytest.mark.parametrize(
    ("gated", "failed", "unsettled", "says"),
    [
        (("safety",), False, False, "severity none"),
        (("safety", "rules"), True, False, "rules/kind: severe, p ="),
        (("latency",), False, True, "latency is absent, no pair has its latency on both sides"),
        (("latency", "rules"), True, False, "rules/kind: severe"),
        (("trajectory",), False, False, "no change to fail on in trajectory"),
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
        gated_axes(gated, axes_asked(axes))
